//! Values of arguments: what a text has to be to be one, and what it may have been meant to be.

use crate::world::{Disk, World as _};
use camino::Utf8PathBuf;

/// A path: any text but an empty one, which would stand for the working folder here and for nothing there.
pub(super) fn path(text: &str) -> Result<Utf8PathBuf, String> {
    if text.is_empty() {
        return Err(
            "found an empty path, expected the name of a file or folder; for the default, leave it out"
                .to_owned(),
        );
    }
    Ok(text.into())
}

/// A file to write, whose name has to say the form: what would be written under another name is not what that name says.
fn written(text: &str, endings: &[&str]) -> Result<Utf8PathBuf, String> {
    let file = path(text)?;
    match file.extension() {
        Some(ending) if endings.contains(&ending) => Ok(file),
        _ => {
            let endings: Vec<String> = endings.iter().map(|ending| format!(".{ending}")).collect();
            let endings = match endings.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, others)) => format!("{} or {last}", others.join(", ")),
                None => String::new(),
            };
            let near = file.with_extension(endings.rsplit('.').next().unwrap_or_default());
            Err(format!("found `{text}`, expected a name that ends with {endings}, such as `{near}`"))
        }
    }
}

/// A folder to write into, which is made where it is not there.
pub(super) fn folder(text: &str) -> Result<Utf8PathBuf, String> {
    let folder = path(text)?;
    match Disk.stamp(&folder) {
        Some(_) => Err(format!("found a file at `{text}`, expected a folder, or a name that is free")),
        None => Ok(folder),
    }
}

/// A file for an answer.
pub(super) fn answer_file(text: &str) -> Result<Utf8PathBuf, String> {
    written(text, &["json", "xml", "sarif"])
}

/// A file for a badge.
pub(super) fn badge_file(text: &str) -> Result<Utf8PathBuf, String> {
    written(text, &["json", "svg"])
}

/// A file for a page.
pub(super) fn page_file(text: &str) -> Result<Utf8PathBuf, String> {
    written(text, &["htm", "html"])
}

/// A file for tensors.
pub(super) fn tensor_file(text: &str) -> Result<Utf8PathBuf, String> {
    written(text, &["safetensors"])
}

/// A file for a program in Python.
pub(super) fn script_file(text: &str) -> Result<Utf8PathBuf, String> {
    written(text, &["py"])
}

/// A URI: a scheme, a colon, and something without blanks after it.
pub(super) fn uri(text: &str) -> Result<String, String> {
    let scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    match text.split_once(':') {
        Some((head, rest))
            if scheme(head) && !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(format!("found `{text}`, expected a URI such as https://example.com/team/trainer")),
    }
}

/// A count of threads or workers. How many are too many is the machine's or the plan's to say.
pub(super) fn threads(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) => Err("found 0, expected at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("found `{text}`, expected a whole number, at least 1")),
    }
}

/// A size of memory: a number and a unit.
pub(super) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 7] = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1000),
        ("B", 1),
    ];
    let expected = || {
        let near = near_size(text).map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("found `{text}`, expected a size such as 24GiB, 80GB or 512MiB{near}")
    };
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|number| (number.trim(), *unit)))
        .ok_or_else(expected)?;
    let number: f64 = number.parse().map_err(|_| expected())?;
    // 2^63 bytes are more than there is anywhere.
    match number * unit as f64 {
        bytes if (1.0..9.2e18).contains(&bytes) => Ok(bytes as u64),
        _ => Err(expected()),
    }
}

/// What a size without its unit, or with one of another spelling, may stand for.
fn near_size(text: &str) -> Option<String> {
    let digits = text.trim_start().trim_end_matches(|last: char| !last.is_ascii_digit());
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)?;
    let unit = text.trim_start()[digits.len()..].trim().to_ascii_lowercase();
    let near = match unit.as_str() {
        // So few bytes are meant in a larger unit, as other programs take them.
        "" if number < 1024.0 => format!("`{digits}GiB`"),
        "" => format!("`{digits}B` or `{digits}MiB`"),
        "t" | "tb" | "tib" => format!("`{}GiB`", number * 1024.0),
        "g" | "m" => {
            let unit = unit.to_ascii_uppercase();
            format!("`{digits}{unit}iB` or `{digits}{unit}B`")
        }
        "k" => format!("`{digits}KiB` or `{digits}kB`"),
        "gib" | "gi" => format!("`{digits}GiB`"),
        "mib" | "mi" => format!("`{digits}MiB`"),
        "kib" | "ki" => format!("`{digits}KiB`"),
        "gb" => format!("`{digits}GB`"),
        "mb" => format!("`{digits}MB`"),
        "kb" => format!("`{digits}kB`"),
        "b" | "byte" | "bytes" => format!("`{digits}B`"),
        _ => return None,
    };
    Some(near)
}

#[cfg(test)]
mod tests {
    use super::{badge_file, size, tensor_file};

    #[test]
    fn sizes_of_other_spellings_lead_to_one_that_is_read() {
        assert_eq!((size("24GiB"), size("8 GB"), size("1B")), (Ok(24 << 30), Ok(8_000_000_000), Ok(1)));
        let near = |text: &str| {
            let fault = size(text).expect_err("refused");
            fault.split_once("; did you mean ").map(|(_, near)| near.to_owned())
        };
        let told = [
            ("8G", "`8GiB` or `8GB`?"),
            ("1.5g", "`1.5GiB` or `1.5GB`?"),
            ("512m", "`512MiB` or `512MB`?"),
            ("64k", "`64KiB` or `64kB`?"),
            ("8gb", "`8GB`?"),
            ("8gib", "`8GiB`?"),
            ("2T", "`2048GiB`?"),
            ("8", "`8GiB`?"),
            ("8192", "`8192B` or `8192MiB`?"),
        ];
        for (text, wanted) in told {
            assert_eq!(near(text).as_deref(), Some(wanted), "{text}");
            for part in wanted.trim_end_matches('?').split(" or ") {
                assert!(size(part.trim_matches('`')).is_ok(), "{part}");
            }
        }
        assert_eq!((near("large"), near("8 apples"), near("-3GiB")), (None, None, None));
    }

    #[test]
    fn a_file_is_named_by_its_form() {
        assert!(badge_file("b.svg").is_ok() && badge_file("b.json").is_ok());
        assert_eq!(
            badge_file("out/b.png").expect_err("refused"),
            "found `out/b.png`, expected a name that ends with .json or .svg, such as `out/b.svg`"
        );
        assert_eq!(
            tensor_file("p").expect_err("refused"),
            "found `p`, expected a name that ends with .safetensors, such as `p.safetensors`"
        );
    }
}
