//! First values of parameters, from the counter-based generator.
//!
//! The stream is named by the parameter, so adding a layer never changes how another one begins.

use crate::arithmetic::Isa;
use crate::arithmetic::half::round_slice;
use crate::arithmetic::philox::Stream;
use crate::digest::Digest;
use crate::graph::{Parameter, StepGraph};
use crate::plan::Initialiser;
use rayon::prelude::*;

/// The number of the random stream with this name: the first eight bytes of its digest, little endian.
pub fn stream_number(name: &str) -> u64 {
    let digest = Digest::of_bytes(name.as_bytes());
    digest.0[..8].iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// The first values of a parameter: its initialiser's, rounded to the format that it is kept in, and +0 in the row that an
/// embedding has for padding.
pub fn parameter(parameter: &Parameter, step: &StepGraph, seed: u64, target: &mut [f32]) {
    let value = step.value(parameter.value);
    let (fan_in, fan_out) = (parameter.fan_in, parameter.fan_out);
    fill(parameter.initialiser, seed, &value.name, fan_in, fan_out, target);
    if let (Some(row), [_, columns]) = (parameter.zero_row, value.shape.as_slice()) {
        target[row * columns..(row + 1) * columns].fill(0.0);
    }
    round_slice(Isa::detect(), step.stored_format(&value.name), target);
}

/// Fills a parameter in row-major order: element i takes draw i of step 0 of the stream `init:NAME`.
///
/// Bounds and deviations are computed in f32: 1/sqrt(fan-in), sqrt(6/(fan-in + fan-out)), sqrt(6/fan-in), sqrt(2/fan-in),
/// sqrt(2/(fan-in + fan-out)); a uniform draw u in [0, 1)
/// becomes (2u - 1)·bound, each operation rounded.
pub fn fill(
    initialiser: Initialiser,
    seed: u64,
    name: &str,
    fan_in: usize,
    fan_out: usize,
    values: &mut [f32],
) {
    let stream = Stream::new(seed, stream_number(&format!("init:{name}")));
    // Element i depends on i alone, so that pieces are drawn wherever a worker is free.
    let draw = |values: &mut [f32], piece: &(dyn Fn(u64, &mut [f32]) + Sync)| {
        let pieces = values.par_chunks_mut(PIECE).enumerate();
        pieces.for_each(|(index, values)| piece((index * PIECE) as u64, values));
    };
    let uniform = |values: &mut [f32], bound: f32| {
        draw(values, &|first, values| {
            stream.fill_uniform(0, first, values);
            values.iter_mut().for_each(|value| *value = (2.0 * *value - 1.0) * bound);
        });
    };
    let normal = |values: &mut [f32], std: f32| {
        draw(values, &|first, values| {
            stream.fill_normal(0, first, values);
            values.iter_mut().for_each(|value| *value *= std);
        });
    };
    let (fan_in, fan_out) = (fan_in.max(1) as f32, fan_out.max(1) as f32);
    match initialiser {
        Initialiser::Constant(constant) => values.fill(constant),
        Initialiser::FanInUniform => uniform(values, 1.0 / fan_in.sqrt()),
        Initialiser::XavierUniform => uniform(values, (6.0 / (fan_in + fan_out)).sqrt()),
        Initialiser::KaimingUniform => uniform(values, (6.0 / fan_in).sqrt()),
        Initialiser::XavierNormal => normal(values, (2.0 / (fan_in + fan_out)).sqrt()),
        Initialiser::TruncatedNormal { std } => draw(values, &|first, values| {
            stream.fill_normal(0, first, values);
            for (index, value) in (first..).zip(values) {
                *value = within_two(&stream, index, *value) * std;
            }
        }),
        Initialiser::KaimingNormal => normal(values, (2.0 / fan_in).sqrt()),
        Initialiser::KaimingNormalFanOut => normal(values, (2.0 / fan_out).sqrt()),
        Initialiser::Normal { std } => normal(values, std),
    }
}

/// Elements that a worker draws at a time; whole blocks of the generator.
const PIECE: usize = 1 << 14;

/// Draws of one element that are tried before the last one is taken as a bound; 64 fail with a probability of 0.0455^64.
const ATTEMPTS: u64 = 64;

/// A standard normal draw within ±2: the first of the draws of steps 0, 1, 2 … of the stream that lies there, the one of step 0 being
/// given. So an element's value depends on its own draws alone.
fn within_two(stream: &Stream, index: u64, first: f32) -> f32 {
    let draws = std::iter::once(first).chain((1..ATTEMPTS).map(|attempt| stream.normal(attempt, index)));
    draws.into_iter().find(|draw| draw.abs() <= 2.0).unwrap_or(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_begins_alike_whatever_else_there_is() {
        let (mut first, mut second) = ([0.0; 8], [0.0; 100]);
        fill(Initialiser::FanInUniform, 1, "head.weight", 4, 2, &mut first);
        fill(Initialiser::FanInUniform, 1, "head.weight", 4, 2, &mut second);
        assert_eq!(first, second[..8]);
        fill(Initialiser::FanInUniform, 1, "head.bias", 4, 2, &mut second);
        assert_ne!(first, second[..8]);
    }

    #[test]
    fn pieces_and_vectors_draw_what_the_definition_says() {
        let elements = 2 * PIECE + 77;
        let stream = Stream::new(3, stream_number("init:w"));
        let mut values = vec![0.0; elements];
        fill(Initialiser::KaimingUniform, 3, "w", 6, 1, &mut values);
        let uniform = |index: usize| 2.0 * stream.uniform(0, index as u64) - 1.0;
        assert!(values.iter().enumerate().all(|(index, value)| value.to_bits() == uniform(index).to_bits()));
        fill(Initialiser::Normal { std: 0.02 }, 3, "w", 6, 1, &mut values);
        let normal = |index: usize| stream.normal(0, index as u64) * 0.02;
        assert!(values.iter().enumerate().all(|(index, value)| value.to_bits() == normal(index).to_bits()));
        fill(Initialiser::TruncatedNormal { std: 0.02 }, 3, "w", 6, 1, &mut values);
        let cut = |index: usize| {
            let mut draws = (0..64).map(|attempt| stream.normal(attempt, index as u64));
            draws.find(|draw| draw.abs() <= 2.0).map_or(2.0, |draw| draw) * 0.02
        };
        assert!(values.iter().enumerate().all(|(index, value)| value.to_bits() == cut(index).to_bits()));
    }

    #[test]
    fn uniform_draws_stay_inside_and_fill_the_bound() {
        let mut values = vec![0.0; 20_000];
        fill(Initialiser::FanInUniform, 7, "weight", 16, 1, &mut values);
        let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        assert!(largest <= 0.25 && largest > 0.2499, "{largest}");
        // The mean of 20,000 draws of variance 0.25²/3 has a standard deviation of 0.00102.
        let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.005, "{mean}");
    }

    #[test]
    fn truncated_draws_stay_within_two_deviations_and_narrow_the_normal() {
        let mut values = vec![0.0; 40_000];
        fill(Initialiser::TruncatedNormal { std: 0.5 }, 7, "weight", 8, 1, &mut values);
        let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        assert!(largest <= 1.0 && largest > 0.99, "{largest}");
        // Var of a standard normal cut at ±2 is 1 - 4φ(2)/(2Φ(2) - 1) = 1 - 0.2159639/0.9544997 = 0.7737413; times 0.25.
        let variance =
            values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>() / 40_000.0;
        assert!((variance - 0.193_435).abs() < 0.005, "{variance}");
    }

    #[test]
    fn uniform_and_normal_forms_follow_their_fans() {
        let largest = |initialiser| {
            let mut values = vec![0.0; 20_000];
            fill(initialiser, 7, "weight", 24, 8, &mut values);
            values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()))
        };
        // sqrt(6/24) = 0.5.
        let kaiming = largest(Initialiser::KaimingUniform);
        assert!(kaiming <= 0.5 && kaiming > 0.499, "{kaiming}");
        let mut values = vec![0.0; 40_000];
        fill(Initialiser::XavierNormal, 7, "weight", 24, 8, &mut values);
        let variance =
            values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>() / 40_000.0;
        // 2/(24 + 8) = 0.0625; the estimate's standard deviation is 0.0625·sqrt(2/40000) = 0.00044.
        assert!((variance - 0.0625).abs() < 0.0023, "{variance}");
    }

    #[test]
    fn normal_draws_have_the_declared_deviation() {
        let mut values = vec![0.0; 40_000];
        fill(Initialiser::KaimingNormal, 7, "weight", 8, 1, &mut values);
        let variance =
            values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>() / 40_000.0;
        // Variance 0.25; the estimate's standard deviation is 0.25·sqrt(2/40000) = 0.0018.
        assert!((variance - 0.25).abs() < 0.009, "{variance}");
    }
}
