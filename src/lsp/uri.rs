//! Paths ⇄ `file:` URIs.

use camino::{Utf8Path, Utf8PathBuf};
use lsp_types::Uri;
use std::str::FromStr as _;

/// The path of a document. A document that is no file (an editor's unsaved buffer) has a path that holds nothing else.
pub fn path_of(uri: &str) -> Utf8PathBuf {
    match uri.strip_prefix("file://") {
        Some(rest) => {
            let path = decode(&rest[rest.find('/').unwrap_or(rest.len())..]);
            let bytes = path.as_bytes();
            let drive =
                bytes.len() > 2 && bytes[0] == b'/' && bytes[1].is_ascii_alphabetic() && bytes[2] == b':';
            Utf8PathBuf::from(if drive { &path[1..] } else { &path })
        }
        None => {
            let name = uri.rsplit(['/', ':']).next().unwrap_or_default();
            Utf8Path::new("/untitled").join(decode(name).replace('/', "_"))
        }
    }
}

/// The URI of an absolute path.
pub fn uri_of(path: &Utf8Path) -> Option<Uri> {
    let mut text = String::from("file://");
    if !path.as_str().starts_with('/') {
        text.push('/');
    }
    for byte in path.as_str().bytes() {
        match byte {
            b'\\' => text.push('/'),
            b'/' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Uri::from_str(&text).ok()
}

/// Percent signs decoded; what is no UTF-8 then is replaced.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) if *first == b'%' => {
                bytes.push(code);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_the_way_there_and_back() {
        for path in ["/a/b.kdl", "/with blank/ä%#?.kdl", "/"] {
            let uri = uri_of(Utf8Path::new(path)).expect("a URI");
            assert_eq!(path_of(uri.as_str()), path, "{}", uri.as_str());
        }
        assert_eq!(path_of("file:///a%20b/c"), "/a b/c");
        assert_eq!(path_of("file://host/c%3a/x"), "c:/x");
        assert_eq!(path_of("file:///C%3A/x"), "C:/x");
        assert_eq!(path_of("untitled:Untitled-1"), "/untitled/Untitled-1");
        assert_eq!(path_of("file:///%zz%"), "/%zz%");
        assert_eq!(path_of("file://"), "");
    }
}
