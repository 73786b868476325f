//! Changing features before the run: division, scaling, constants, standardising.
//!
//! Each is a declared sequence of IEEE operations: sums in f64, one example after the other; the result rounded to f32
//! once; then f32 operations on each element by itself. So the bits are those of any machine. Invariant: statistics
//! come from the training split alone, and every result is finite.

use super::spec::{Normalise, Over};
use super::{DataFault, Table, codes};
use crate::diag::number::counted;

/// Means and deviations that standardising found, one for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Which step of the list found them, counted from 0.
    pub step: usize,
    /// Means, f32.
    pub mean: Vec<f32>,
    /// Population standard deviations, f32; 1 where all values are equal.
    pub deviation: Vec<f32>,
}

/// Applies all steps to all splits, of which the one at `training` gives the statistics.
///
/// # Errors
/// Code 0736 for constants that cannot be used, or a result that is not finite.
pub fn normalise(
    steps: &[Normalise],
    splits: &mut [(String, Table)],
    training: usize,
) -> Result<Vec<Statistics>, DataFault> {
    let mut found = Vec::new();
    for (step, rule) in steps.iter().enumerate() {
        match rule {
            Normalise::Divide { by } => each(splits, |value| value / by),
            Normalise::Scale { multiply, add } => each(splits, |value| value * multiply + add),
            Normalise::Constants { mean, deviation } => shift(splits, Over::Channel, mean, deviation),
            Normalise::Standardise { over } => {
                let (mean, deviation) = statistics(&splits[training].1, *over);
                shift(splits, *over, &mean, &deviation);
                found.push(Statistics { step, mean, deviation });
            }
        }
        if let Some((name, example)) = first_not_finite(splits) {
            return Err(DataFault::new(
                codes::NORMALISE,
                format!(
                    "found a feature that is not finite in example {example} of split `{name}` after normalising \
                     step {}, expected finite numbers",
                    step + 1
                ),
            )
            .help("choose constants that keep the features within the range of f32"));
        }
    }
    Ok(found)
}

/// Checks the constants of all steps against the shape of an example.
///
/// # Errors
/// Code 0736.
pub fn check(steps: &[Normalise], shape: &[usize]) -> Result<(), DataFault> {
    let refuse = |message: String| Err(DataFault::new(codes::NORMALISE, message));
    let channels = shape.first().copied().unwrap_or(1);
    for rule in steps {
        match rule {
            Normalise::Divide { by } if *by == 0.0 || !by.is_finite() => {
                return refuse(format!("found a division by {by}, expected a finite number that is not 0"));
            }
            Normalise::Scale { multiply, add } if !multiply.is_finite() || !add.is_finite() => {
                return refuse(format!("found a scale of {multiply} and {add}, expected finite numbers"));
            }
            Normalise::Constants { mean, deviation } => {
                if mean.len() != channels || deviation.len() != channels {
                    return refuse(format!(
                        "found {} and {}, expected {channels} of each for examples of shape {shape:?}",
                        counted(mean.len(), "mean"),
                        counted(deviation.len(), "deviation")
                    ));
                }
                let usable = mean.iter().all(|mean| mean.is_finite())
                    && deviation.iter().all(|deviation| deviation.is_finite() && *deviation > 0.0);
                if !usable {
                    return refuse(format!(
                        "found means {mean:?} and deviations {deviation:?}, expected finite means and deviations above 0"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// How many numbers share a group in a row, and how many groups an example has.
fn grouping(table: &Table, over: Over) -> (usize, usize) {
    let width = table.width();
    match over {
        Over::Feature => (1, width),
        Over::Channel => {
            let channels = table.shape.first().copied().unwrap_or(1).max(1);
            (width / channels, channels)
        }
        Over::All => (width, 1),
    }
}

/// Mean and population deviation of each group, in two passes of sequential f64 sums.
fn statistics(table: &Table, over: Over) -> (Vec<f32>, Vec<f32>) {
    let (run, groups) = grouping(table, over);
    let count = (table.length * run) as f64;
    let mean: Vec<f64> = sums(table, run, groups, |_, value| value).iter().map(|sum| sum / count).collect();
    let squares = sums(table, run, groups, |group, value| {
        let distance = value - mean[group];
        distance * distance
    });
    let deviation = squares.iter().map(|sum| {
        let deviation = (sum / count).sqrt() as f32;
        // A feature that never changes becomes 0, not 0/0.
        if deviation > 0.0 { deviation } else { 1.0 }
    });
    (mean.iter().map(|mean| *mean as f32).collect(), deviation.collect())
}

/// For each group the sum of `term` over all examples, in the order in which they lie.
fn sums(table: &Table, run: usize, groups: usize, term: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    let mut sums = vec![0.0; groups];
    for example in table.features.chunks_exact(run * groups) {
        for (group, (sum, values)) in sums.iter_mut().zip(example.chunks_exact(run)).enumerate() {
            for value in values {
                *sum += term(group, f64::from(*value));
            }
        }
    }
    sums
}

/// `(x - mean) / deviation` for each group of each example.
fn shift(splits: &mut [(String, Table)], over: Over, mean: &[f32], deviation: &[f32]) {
    for (_, table) in splits {
        let (run, groups) = grouping(table, over);
        for example in table.features.chunks_exact_mut(run * groups) {
            for ((values, mean), deviation) in example.chunks_exact_mut(run).zip(mean).zip(deviation) {
                for value in values {
                    *value = (*value - mean) / deviation;
                }
            }
        }
    }
}

fn each(splits: &mut [(String, Table)], change: impl Fn(f32) -> f32) {
    for value in splits.iter_mut().flat_map(|(_, table)| &mut table.features) {
        *value = change(*value);
    }
}

/// The split and the example, counted from 0, of the first feature that is infinite or NaN.
fn first_not_finite(splits: &[(String, Table)]) -> Option<(&str, usize)> {
    splits.iter().find_map(|(name, table)| {
        let position = table.features.iter().position(|value| !value.is_finite())?;
        Some((name.as_str(), position / table.width()))
    })
}
