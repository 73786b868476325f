//! f32 in records: hashed by bits, written as bits and as the shortest decimal.
//!
//! All NaNs are one value here, since which NaN an operation gives is the machine's choice (IEEE 754 §6.2.3 leaves the
//! payload open); -0.0 and +0.0 stay two.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// The bits that a digest takes: those of the value, and `0x7fc00000` for every NaN.
#[inline(always)]
pub fn canonical_bits(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}

/// How far apart two numbers are, in units in the last place: steps along the line of all floats, on which -0.0 and
/// +0.0 are one step apart. `None` when one is NaN and the other is not.
pub fn ulps(left: f32, right: f32) -> Option<u64> {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Some(0),
        (false, false) => Some(place(left).abs_diff(place(right))),
        _ => None,
    }
}

/// Position on the line of all floats: negative numbers count down from -1 (-0.0), others up from 0 (+0.0).
fn place(value: f32) -> i64 {
    let bits = value.to_bits();
    if bits >> 31 == 0 { i64::from(bits) } else { -1 - i64::from(bits & 0x7fff_ffff) }
}

/// A number on paper. `value` is for people and tools without bit patterns, and null when JSON has no such number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    #[serde(borrow)]
    bits: Cow<'a, str>,
    value: Option<f64>,
}

/// Writes bits and shortest decimal. For `#[serde(with = "float")]`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Borrowed {
        bits: String,
        value: Option<f32>,
    }
    let finite = value.is_finite().then_some(*value);
    Borrowed { bits: format!("0x{:08x}", canonical_bits(*value)), value: finite }.serialize(serializer)
}

/// Reads bits, and refuses a decimal that says another number.
///
/// # Errors
/// Bits that are not `0x` and eight digits, and a decimal of other bits.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    let Written { bits, value } = Written::deserialize(deserializer)?;
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = bits.strip_prefix("0x").filter(|digits| digits.len() == 8 && digits.bytes().all(digit));
    let Some(parsed) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
        return Err(D::Error::custom(format!(
            "found bits `{bits}`, expected `0x` and eight hexadecimal digits"
        )));
    };
    let number = f32::from_bits(parsed);
    // The bits rule. A decimal that went through f64 may be rounded twice, so one place off is not another number.
    let agrees = match value {
        Some(value) => number.is_finite() && ulps(value as f32, number).is_some_and(|distance| distance <= 1),
        None => !number.is_finite(),
    };
    if !agrees {
        return Err(D::Error::custom(format!("found bits `{bits}` beside a value of other bits")));
    }
    Ok(number)
}

/// A map of metrics, each as [`serialize`] writes it. For `#[serde(with = "float::map")]`.
pub mod map {
    use super::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Number(#[serde(with = "super")] f32);

    /// Writes the map in the order of its names.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        values: &BTreeMap<String, f32>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().map(|(name, value)| (name, Number(*value))))
    }

    /// Reads the map.
    ///
    /// # Errors
    /// Those of [`super::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, f32>, D::Error> {
        let map = BTreeMap::<String, Number>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(name, number)| (name, number.0)).collect())
    }
}
