//! What a byte of a picture is worth: all normalising of bytes is one number for each of 256 values and each channel.
//!
//! So pictures are kept as bytes, and another normalisation prepares nothing anew. Sums are over the histogram of the training
//! split, value by value from 0 to 255, channel by channel, in f64; the rest is as in [`normalise`](mod@crate::data::normalise).
//! Invariant: every level is finite.

use crate::data::spec::{Normalise, Over};
use crate::data::{DataFault, codes, normalise};

/// Values of a byte.
pub const VALUES: usize = 256;

/// How often each value of each channel occurs in the training split.
pub type Histogram = Vec<[u64; VALUES]>;

/// The number for each value of each channel, \[channels, 256\].
///
/// # Errors
/// Code 0736 for constants that cannot be used, a mean for each pixel, and a result that is not finite.
pub fn levels(steps: &[Normalise], histogram: &Histogram) -> Result<Vec<f32>, DataFault> {
    normalise::check(steps, &[histogram.len()])?;
    let byte = |value: usize| value as f32;
    let mut levels: Vec<f32> = (0..histogram.len()).flat_map(|_| (0..VALUES).map(byte)).collect();
    for (step, rule) in steps.iter().enumerate() {
        match rule {
            Normalise::Divide { by } => levels.iter_mut().for_each(|level| *level /= by),
            Normalise::Scale { multiply, add } => {
                levels.iter_mut().for_each(|level| *level = *level * multiply + add);
            }
            Normalise::Constants { mean, deviation } => shift(&mut levels, mean, deviation),
            Normalise::Standardise { over: Over::Channel } => {
                let found: Vec<(f32, f32)> = histogram
                    .iter()
                    .zip(levels.chunks_exact(VALUES))
                    .map(|(counts, levels)| statistics(std::slice::from_ref(counts), levels))
                    .collect();
                let (mean, deviation): (Vec<f32>, Vec<f32>) = found.into_iter().unzip();
                shift(&mut levels, &mean, &deviation);
            }
            Normalise::Standardise { over: Over::All } => {
                let (mean, deviation) = statistics(histogram, &levels);
                shift(&mut levels, &vec![mean; histogram.len()], &vec![deviation; histogram.len()]);
            }
            Normalise::Standardise { over: Over::Feature } => {
                let message =
                    "found a mean for each pixel, expected one for each channel of a picture, or one for all";
                return Err(DataFault::new(codes::NORMALISE, message).help("write `over=\"channel\"`"));
            }
        }
        if let Some(found) = levels.iter().position(|level| !level.is_finite()) {
            let message = format!(
                "found a level that is not finite for the byte {} after normalising step {}, expected finite numbers",
                found % VALUES,
                step + 1
            );
            return Err(DataFault::new(codes::NORMALISE, message)
                .help("choose constants that keep the features within the range of f32"));
        }
    }
    Ok(levels)
}

/// Mean and population deviation of the levels of these channels.
fn statistics(counts: &[[u64; VALUES]], levels: &[f32]) -> (f32, f32) {
    let counts = counts.as_flattened();
    let count = counts.iter().sum::<u64>() as f64;
    let sum = |term: &dyn Fn(f64) -> f64| {
        let terms = counts.iter().zip(levels).filter(|(count, _)| **count > 0);
        terms.fold(0.0, |sum, (count, level)| sum + *count as f64 * term(f64::from(*level)))
    };
    let mean = sum(&|level| level) / count;
    let deviation = (sum(&|level| (level - mean) * (level - mean)) / count).sqrt() as f32;
    // Pictures of one colour become 0, not 0/0.
    (mean as f32, if deviation > 0.0 { deviation } else { 1.0 })
}

fn shift(levels: &mut [f32], mean: &[f32], deviation: &[f32]) {
    for ((levels, mean), deviation) in levels.chunks_exact_mut(VALUES).zip(mean).zip(deviation) {
        levels.iter_mut().for_each(|level| *level = (*level - mean) / deviation);
    }
}
