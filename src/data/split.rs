//! Dealing out examples to splits.
//!
//! Fractions are taken as the decimal numbers that they print as and multiplied exactly, so that 0.29 of 100 is 29 on
//! paper and here. Counts are rounded down; what is left goes to the first part. Invariant: no example is in two parts.

use super::spec::Part;
use super::{DataFault, codes};
use crate::arithmetic::philox::Stream;

/// The number of the random stream that deals out examples: the letters `split`.
pub const SPLIT_STREAM: u64 = u64::from_le_bytes(*b"split\0\0\0");

/// Fractions are counted in units of 10^-18.
const WHOLE: u128 = 1_000_000_000_000_000_000;
/// Sums this near to 1 mean 1: three times 0.3333333333 leaves no example out.
const NEAR: u128 = 1_000_000_000;

/// The examples of each part: indices into the source, parts in declared order.
///
/// # Errors
/// Code 0730 for parts that cannot be, or a part that would be empty.
pub fn split(parts: &[Part], shuffle: Option<u64>, length: usize) -> Result<Vec<Vec<u32>>, DataFault> {
    let counts = counts(parts, length)?;
    let order: Vec<u32> = match shuffle {
        Some(seed) => Stream::new(seed, SPLIT_STREAM).permutation(0, length),
        None => (0..length as u32).collect(),
    };
    let mut rest = order.as_slice();
    let mut splits = Vec::with_capacity(parts.len());
    for count in counts {
        let (chosen, after) = rest.split_at(count);
        splits.push(chosen.to_vec());
        rest = after;
    }
    Ok(splits)
}

/// How many examples each part has.
///
/// # Errors
/// As [`split`].
pub fn counts(parts: &[Part], length: usize) -> Result<Vec<usize>, DataFault> {
    let units = units(parts)?;
    let sum: u128 = units.iter().sum();
    let of = |units: u128| (units * length as u128 / WHOLE) as usize;
    let total = if WHOLE - sum < NEAR { length } else { of(sum) };
    let mut counts: Vec<usize> = units.iter().map(|units| of(*units)).collect();
    let dealt: usize = counts.iter().sum();
    if let Some(first) = counts.first_mut() {
        *first += total - dealt;
    }
    match counts.iter().position(|count| *count == 0) {
        Some(empty) => Err(DataFault::new(
            codes::SPLIT,
            format!(
                "found no example for the part `{}` ({} of {length}), expected at least one",
                parts[empty].name, parts[empty].fraction
            ),
        )
        .help("give it a larger fraction, or leave it out")),
        None => Ok(counts),
    }
}

/// Checks names and fractions without knowing how many examples there are.
///
/// # Errors
/// Code 0730.
pub fn check(parts: &[Part]) -> Result<(), DataFault> {
    units(parts).map(|_| ())
}

fn units(parts: &[Part]) -> Result<Vec<u128>, DataFault> {
    let refuse = |message: String, help: &str| Err(DataFault::new(codes::SPLIT, message).help(help));
    for (index, part) in parts.iter().enumerate() {
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        if part.name.is_empty() || !part.name.bytes().all(plain) {
            return refuse(
                format!("found a part called `{}`", part.name.escape_debug()),
                "use small letters, digits, `-` and `_`",
            );
        }
        if parts[..index].iter().any(|earlier| earlier.name == part.name) {
            return refuse(
                format!("found two parts called `{}`", part.name),
                "give each part a name of its own",
            );
        }
    }
    if !parts.iter().any(|part| part.name == "train") {
        return refuse(
            "found no part called `train`".to_owned(),
            "write, for example, `split train=0.8 test=0.2`",
        );
    }
    let mut units = Vec::with_capacity(parts.len());
    for part in parts {
        match decimal(part.fraction) {
            Some(fraction) => units.push(fraction),
            None => {
                return refuse(
                    format!(
                        "found the fraction {} for `{}`, expected a number above 0 and at most 1 with at most 18 decimals",
                        part.fraction, part.name
                    ),
                    "write, for example, `split train=0.8 test=0.2`",
                );
            }
        }
    }
    let sum: u128 = units.iter().sum();
    if sum > WHOLE {
        return refuse(
            format!("found fractions that sum to {}, expected at most 1", written(sum)),
            "an example can be in one part only",
        );
    }
    Ok(units)
}

/// A fraction in units of 10^-18, from its shortest decimal form; `None` outside (0, 1] or with more decimals.
fn decimal(fraction: f64) -> Option<u128> {
    if !(fraction > 0.0 && fraction <= 1.0) {
        return None;
    }
    let text = fraction.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    if decimals.len() > 18 {
        return None;
    }
    format!("{whole}{decimals:0<18}").parse().ok()
}

/// Units of 10^-18 as a decimal number.
fn written(units: u128) -> String {
    let text = format!("{}.{:018}", units / WHOLE, units % WHOLE);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
