//! Messages of the base protocol: a header with `Content-Length`, an empty line, JSON.
//!
//! Own, since a reader that gives up at the first malformed message (as the usual crates do) would take the editor's support
//! with it. Here whatever comes in is a message, or a fault that is answered, or the end; at most [`MAX_MESSAGE`] bytes
//! are held at once.

use serde_json::{Value, json};
use std::io::{self, BufRead, Read as _, Write};

/// Largest message that is read, in bytes; a longer one is passed over and answered.
pub const MAX_MESSAGE: u64 = 64 << 20;
/// Longest header line, in bytes.
const MAX_LINE: u64 = 4096;

/// What came in.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// A JSON value.
    Message(Value),
    /// Bytes that are no message, and why.
    Malformed(String),
    /// The end of the stream.
    End,
}

/// Reads until there is a message, a fault or the end.
pub fn read(stream: &mut impl BufRead) -> Incoming {
    let length = match header(stream) {
        Ok(Header::Length(length)) => length,
        Ok(Header::Strange(line)) => {
            return Incoming::Malformed(format!(
                "`{line}` is no header line; `Content-Length: …` is expected"
            ));
        }
        Ok(Header::End) | Err(_) => return Incoming::End,
    };
    if length > MAX_MESSAGE {
        let passed = io::copy(&mut stream.by_ref().take(length), &mut io::sink());
        return match passed {
            Ok(passed) if passed == length => {
                Incoming::Malformed(format!("a message of {length} bytes; at most {MAX_MESSAGE} are read"))
            }
            _ => Incoming::End,
        };
    }
    let mut body = Vec::new();
    match stream.by_ref().take(length).read_to_end(&mut body) {
        Ok(read) if read as u64 == length => {}
        _ => return Incoming::End,
    }
    match serde_json::from_slice(&body) {
        Ok(value) => Incoming::Message(value),
        Err(error) => Incoming::Malformed(format!("the message is no JSON: {error}")),
    }
}

enum Header {
    Length(u64),
    Strange(String),
    End,
}

/// Reads a header up to its empty line. A line that is no header field is handed back at once, so that reading resumes
/// behind it.
fn header(stream: &mut impl BufRead) -> io::Result<Header> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        if stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(Header::End);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.is_empty() {
            match length {
                Some(length) => return Ok(Header::Length(length)),
                // Empty lines between messages are passed over.
                None => continue,
            }
        }
        let clipped: String = text.chars().take(60).collect();
        match text.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                match value.trim().parse::<u64>() {
                    Ok(value) => length = Some(value),
                    Err(_) => return Ok(Header::Strange(clipped)),
                }
            }
            Some((name, _)) if name.eq_ignore_ascii_case("content-type") => {}
            // A body whose header was unreadable stands right before the next header.
            _ => match late_length(text) {
                Some(value) => length = Some(value),
                None => return Ok(Header::Strange(clipped)),
            },
        }
    }
}

/// The length that a header field behind other text gives.
fn late_length(text: &str) -> Option<u64> {
    let at = text.to_ascii_lowercase().rfind("content-length:")?;
    text.get(at + "content-length:".len()..)?.trim().parse().ok()
}

/// Writes a message.
///
/// # Errors
/// The stream's error; the client is gone then.
pub fn write(stream: &mut impl Write, message: &Value) -> io::Result<()> {
    let body = message.to_string();
    write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    stream.flush()
}

/// The answer to a request.
pub fn answer(id: &Value, result: Result<Value, (i64, String)>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    }
}

/// A notification.
pub fn notification(method: &str, parameters: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Incoming> {
        let mut stream = io::Cursor::new(bytes);
        let mut found = Vec::new();
        loop {
            let next = read(&mut stream);
            if next == Incoming::End {
                return found;
            }
            found.push(next);
        }
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let mut bytes = Vec::new();
        write(&mut bytes, &json!({ "a": "é" })).expect("memory");
        assert_eq!(bytes, "Content-Length: 10\r\n\r\n{\"a\":\"é\"}".as_bytes());
        write(&mut bytes, &json!(1)).expect("memory");
        assert_eq!(all(&bytes), [Incoming::Message(json!({ "a": "é" })), Incoming::Message(json!(1))]);
    }

    #[test]
    fn reading_goes_on_behind_what_is_no_message() {
        let good = "content-length: 2\r\nContent-Type: x\r\n\r\n{}";
        for bad in [
            "Content-Length: 1\r\n\r\n{",
            "rubbish\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 3\n\n\u{0}ab",
        ] {
            let found = all(format!("{bad}{good}").as_bytes());
            assert!(
                matches!(found.as_slice(), [Incoming::Malformed(_), Incoming::Message(_)]),
                "{bad:?} {found:?}"
            );
        }
        let found = all(format!("Content-Length: x\r\n\r\n{{}}{good}").as_bytes());
        assert!(matches!(found.as_slice(), [Incoming::Malformed(_), Incoming::Message(_)]), "{found:?}");
        // A length that no memory holds asks for none.
        assert_eq!(all(b"Content-Length: 18446744073709551615\r\n\r\n{}"), []);
        assert_eq!(all(b"Content-Length: 5\r\n\r\n{}"), []);
    }
}
