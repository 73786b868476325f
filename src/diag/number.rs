//! Numbers for people.

/// Bytes in binary units with three significant digits: `57523` is `56.2 KiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 1023.5 would be written as 1024.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// A count with its thousands apart: `1234567` is `1,234,567`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Floating-point operations in decimal units with three significant digits: `1.23e9` is `1.23 GFLOP`.
pub fn flops(count: f64) -> String {
    const UNITS: [&str; 6] = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"];
    let (mut value, mut unit) = (count.max(0.0), 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// Things with their number: `1 file`, `12 files`, `1,234 batches`. The noun is that of one thing.
pub fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let noun = if number == 1 { noun.to_owned() } else { plural(noun) };
    format!("{} {noun}", count(number))
}

/// Several of a noun, by the rules of spelling.
pub fn plural(noun: &str) -> String {
    let vowel = |letter: char| "aeiou".contains(letter);
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(vowel) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// A time in seconds: `0.0123` is `12.3 ms`, `75` is `1 min 15 s`. What is no time is written as it is.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return format!("{seconds} s");
    }
    if seconds < 59.95 {
        for (unit, factor) in [("s", 1.0), ("ms", 1e3), ("µs", 1e6)] {
            if seconds * factor >= 0.9995 {
                return format!("{} {unit}", three_digits(seconds * factor));
            }
        }
        return if seconds == 0.0 { "0 s".to_owned() } else { format!("{} ns", three_digits(seconds * 1e9)) };
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{} h {minutes} min", count(hours)),
    }
}

/// Three significant digits of a number below 1024, without an exponent.
fn three_digits(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Every digest in a text cut to its first 12 digits, for people.
pub fn short_digests(text: &str) -> String {
    const PREFIX: &str = "sha256:";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let digits = at + PREFIX.len();
        let length = rest[digits..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let kept = if length == 64 { digits + 12 } else { digits + length };
        out.push_str(&rest[..kept]);
        rest = &rest[digits + length..];
    }
    out.push_str(rest);
    out
}
