//! Numbers that tests are made of.

use crate::arithmetic::philox::Stream;

/// Normal numbers with, every few elements, one that is special: zeros of both signs, subnormals, large, infinite, NaN.
pub fn mixed(stream: u64, elements: usize, special: bool) -> Vec<f32> {
    const ODD: [f32; 10] =
        [0.0, -0.0, 1e-40, -1e-45, 6e-8, 65_504.0, 3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let numbers = Stream::new(7, stream);
    (0..elements as u64)
        .map(|element| match numbers.word(1, element) % 16 {
            0 if special => ODD[(numbers.word(2, element) % 10) as usize],
            _ => numbers.normal(0, element),
        })
        .collect()
}

/// Integers in 0..range.
pub fn below(stream: u64, elements: usize, range: u32) -> Vec<i32> {
    let numbers = Stream::new(8, stream);
    (0..elements as u64).map(|element| (numbers.word(0, element) % range.max(1)) as i32).collect()
}
