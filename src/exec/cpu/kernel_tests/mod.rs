//! Tests of the kernels: each fast one against its reference bit for bit, for every instruction set and several thread
//! counts; each backward against finite differences in f64; and all against PyTorch's numbers.

mod attention;
mod attention_gradients;
mod attention_torch;
mod candle;
mod elementwise;
mod faded;
mod gradients;
mod layouts;
mod norms;
mod pools;
mod reductions;
mod scaled;
mod sequences;
mod torch;
mod updates;
mod upsampling;

use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;

/// The formats that an op can round to.
pub const FORMATS: [Format; 3] = [Format::F32, Format::F16, Format::Bf16];

/// Lengths around the widths, tiles and blocks of the kernels, and one that is shared out.
pub const LENGTHS: [usize; 10] = [0, 1, 7, 16, 33, 1000, 2049, 4096, 12_289, 300_007];

/// Calls `check` with every instruction set of this machine and 1, 2 and 4 threads.
pub fn every_setting(check: impl Fn(Isa, &Threads)) {
    for count in [1, 2, 4] {
        let threads = Threads::new(count).expect("workers start");
        for isa in Isa::available() {
            check(isa, &threads);
        }
    }
}

/// A small generator (SplitMix64), so that every run tests the same numbers.
pub struct Numbers(pub u64);

impl Numbers {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer in 0..bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// Numbers in [-4, 4).
    pub fn plain(&mut self, length: usize) -> Vec<f32> {
        (0..length).map(|_| ((self.bits() >> 40) as f32 / (1_u64 << 21) as f32) - 4.0).collect()
    }

    /// Numbers in [-4, 4), a twentieth of them replaced by zeros, subnormals, infinities, NaN and numbers near overflow.
    pub fn hostile(&mut self, length: usize) -> Vec<f32> {
        let special = [
            0.0,
            -0.0,
            1e-40,
            -3e-45,
            f32::MIN_POSITIVE,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            3e38,
            -65_519.9,
        ];
        let mut values = self.plain(length);
        for value in &mut values {
            if self.below(20) == 0 {
                *value = special[self.below(special.len())];
            }
        }
        values
    }
}

/// Asserts equal bits, all NaN counting as one.
pub fn assert_same(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    let bits = |value: f32| if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
    let differs = found.iter().zip(expected).position(|(a, b)| bits(*a) != bits(*b));
    if let Some(index) = differs {
        panic!("{what}: element {index} is {:e}, the reference has {:e}", found[index], expected[index]);
    }
}

/// Asserts equality up to the rounding of f32 arithmetic: 2^-20 (eight units in the last place) of the largest element.
pub fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    let largest = expected.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    assert!(largest > 0.0 && largest.is_finite(), "{what}: nothing to compare with");
    let tolerance = largest / f64::from(1 << 20);
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs();
        assert!(difference <= tolerance, "{what}: element {index} is {found}, not {expected}");
    }
}
