//! How large the numbers of a tensor are: a count for each power of two. It says which scale fits f16, and which layers need f32.

use crate::graph::DType;

/// Smallest exponent that is counted by itself: below are f32's own subnormals, which f16 and most uses flush.
pub const LOWEST: i32 = -150;
/// Largest exponent of an f32.
pub const HIGHEST: i32 = 127;

/// The exponents of one value of a step: of an activation, or of a gradient as it is computed, multiplied by the loss scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponents {
    /// The value's name in the step graph.
    pub name: String,
    /// The op that made it.
    pub op: &'static str,
    /// The op's layer.
    pub layer: String,
    /// Whether it belongs to the backward pass.
    pub backward: bool,
    /// Its format.
    pub format: DType,
    /// Zeros.
    pub zeros: u64,
    /// Values that are not finite.
    pub not_finite: u64,
    /// counts\[e - LOWEST\] values x with 2^e ≤ |x| < 2^(e+1).
    pub counts: Vec<u64>,
}

impl Exponents {
    /// Of nothing yet.
    pub fn new(name: &str, op: &'static str, layer: &str, backward: bool, format: DType) -> Self {
        Self {
            name: name.to_owned(),
            op,
            layer: layer.to_owned(),
            backward,
            format,
            zeros: 0,
            not_finite: 0,
            counts: vec![0; (HIGHEST - LOWEST + 1) as usize],
        }
    }

    /// Counts values.
    pub fn add(&mut self, values: &[f32]) {
        for value in values {
            match exponent(*value) {
                _ if !value.is_finite() => self.not_finite += 1,
                None => self.zeros += 1,
                Some(exponent) => self.counts[(exponent - LOWEST) as usize] += 1,
            }
        }
    }

    /// Values that are finite and not 0.
    pub fn counted(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The exponent below which a share of the counted values lies; `None` where nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<i32> {
        let counted = self.counted();
        let wanted = ((counted as f64 * share) as u64).min(counted.saturating_sub(1));
        let mut below = 0;
        (counted > 0).then(|| {
            let place = self.counts.iter().position(|count| {
                below += count;
                below > wanted
            });
            LOWEST + place.unwrap_or(0) as i32
        })
    }

    /// The largest exponent.
    pub fn largest(&self) -> Option<i32> {
        self.counts.iter().rposition(|count| *count > 0).map(|place| LOWEST + place as i32)
    }

    /// The share of the counted values that f16 rounds to 0 when they are multiplied by 2^`shift`: those below 2^-25.
    pub fn lost_in_f16(&self, shift: i32) -> f64 {
        let end = (-25 - shift - LOWEST).clamp(0, self.counts.len() as i32) as usize;
        let lost: u64 = self.counts[..end].iter().sum();
        lost as f64 / self.counted().max(1) as f64
    }
}

/// floor(log2 |x|); `None` for 0 and for what is not finite.
pub fn exponent(x: f32) -> Option<i32> {
    let bits = x.to_bits() & 0x7fff_ffff;
    match bits >> 23 {
        0 if bits == 0 => None,
        0 => Some(-118 - bits.leading_zeros() as i32),
        255 => None,
        biased => Some(biased as i32 - 127),
    }
}

/// 2^exponent, from -126 to 127.
pub fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent.clamp(-126, 127) + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::{Exponents, exponent, power_of_two};
    use crate::graph::DType;

    #[test]
    fn exponents_are_those_of_the_powers_of_two() {
        for (x, expected) in [
            (1.0, 0),
            (1.5, 0),
            (-2.0, 1),
            (0.99, -1),
            (f32::MAX, 127),
            (f32::MIN_POSITIVE, -126),
            (f32::from_bits(1), -149),
            (f32::from_bits(3), -148),
            (f32::from_bits(0x0040_0000), -127),
        ] {
            assert_eq!(exponent(x), Some(expected), "{x}");
        }
        assert_eq!([0.0, -0.0, f32::NAN, f32::INFINITY].map(exponent), [None; 4]);
    }

    #[test]
    fn counts_quantiles_and_what_f16_loses() {
        let mut of = Exponents::new("a", "linear", "layer", true, DType::F32);
        of.add(&[0.0, f32::NAN, 1.0, 2.0, 4.0, power_of_two(-26)]);
        assert_eq!((of.zeros, of.not_finite, of.counted()), (1, 1, 4));
        assert_eq!((of.quantile(0.0), of.quantile(0.5), of.largest()), (Some(-26), Some(1), Some(2)));
        assert_eq!((of.lost_in_f16(0), of.lost_in_f16(1), of.lost_in_f16(27)), (0.25, 0.0, 0.0));
    }
}
