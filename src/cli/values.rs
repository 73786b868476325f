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
    let such = "such as 24GiB, 80GB or 512MiB";
    let too_large = || format!("found `{text}`, expected less than 8 EiB (2^63 bytes), {such}");
    match bytes(text) {
        Some(bytes) if is_size(bytes) => return Ok(bytes as u64),
        Some(bytes) if bytes >= TOO_LARGE => return Err(too_large()),
        _ => {}
    }
    let near = near_sizes(text);
    let within: Vec<String> =
        near.iter().filter(|near| bytes(near).is_some_and(is_size)).map(|near| format!("`{near}`")).collect();
    match (within.is_empty(), near.is_empty()) {
        (false, _) => {
            let near = within.join(" or ");
            Err(format!("found `{text}`, expected a size {such}; did you mean {near}?"))
        }
        // Of what is too large in every unit that may be meant no neighbour helps.
        (true, false) => Err(too_large()),
        (true, true) => Err(format!("found `{text}`, expected a size {such}")),
    }
}

/// Bytes that are more than there is anywhere.
const TOO_LARGE: f64 = (1_u64 << 63) as f64;

fn is_size(bytes: f64) -> bool {
    (1.0..TOO_LARGE).contains(&bytes)
}

/// The bytes of a number with a unit.
fn bytes(text: &str) -> Option<f64> {
    const UNITS: [(&str, u64); 7] = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1000),
        ("B", 1),
    ];
    let split = |(name, unit): &(&str, u64)| Some((text.strip_suffix(name)?.trim(), *unit));
    let (number, unit) = UNITS.iter().find_map(split)?;
    Some(number.parse::<f64>().ok()? * unit as f64)
}

/// What a size without its unit, or with one of another spelling, may stand for.
fn near_sizes(text: &str) -> Vec<String> {
    let digits = text.trim_start().trim_end_matches(|last: char| !last.is_ascii_digit());
    let number = digits.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    let Some(number) = number else { return Vec::new() };
    let unit = text.trim_start()[digits.len()..].trim().to_ascii_lowercase();
    let with = |unit: &str| format!("{digits}{unit}");
    match unit.as_str() {
        // So few bytes are meant in a larger unit, as other programs take them.
        "" if number < 1024.0 => vec![with("GiB")],
        "" => vec![with("B"), with("MiB")],
        "t" | "tb" | "tib" => vec![format!("{}GiB", number * 1024.0)],
        "g" => vec![with("GiB"), with("GB")],
        "m" => vec![with("MiB"), with("MB")],
        "k" => vec![with("KiB"), with("kB")],
        "gib" | "gi" => vec![with("GiB")],
        "mib" | "mi" => vec![with("MiB")],
        "kib" | "ki" => vec![with("KiB")],
        "gb" => vec![with("GB")],
        "mb" => vec![with("MB")],
        "kb" => vec![with("kB")],
        "b" | "byte" | "bytes" => vec![with("B")],
        _ => Vec::new(),
    }
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
    fn a_size_that_is_nowhere_is_refused_without_a_larger_one() {
        let told = |text: &str| {
            format!("found `{text}`, expected less than 8 EiB (2^63 bytes), such as 24GiB, 80GB or 512MiB")
        };
        // 2^33 GiB are 2^63 bytes.
        assert_eq!(size("8589934591GiB"), Ok(8_589_934_591 << 30));
        for text in [
            "8589934592GiB",
            "9223372036854775808B",
            "99999999999999999999TiB",
            "8388608T",
            "99999999999999999999",
            "infGiB",
        ] {
            assert_eq!(size(text), Err(told(text)));
        }
        // What is too large in one of two units is meant in the other.
        let fault = size("9000000000000").expect_err("no unit");
        assert!(fault.ends_with("; did you mean `9000000000000B`?"), "{fault}");
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
