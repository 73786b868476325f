//! Metrics over the splits that are not trained on.

use super::backend::Backend;
use super::cpu::buffer::Buffer;
use super::cpu::loss::{CrossEntropy, argmax, cross_entropy, mean_squared_error};
use super::fault::ExecFault;
use super::session::gather;
use crate::data::{Draw, EVALUATION_EPOCH, Prepared, SplitView};
use crate::plan::{Loss, Plan};
use crate::record::Evaluation;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;

/// Evaluates every split but `train`, in the order of their names.
///
/// # Errors
/// The device's own.
pub fn all_splits(
    plan: &Plan,
    prepared: &Prepared,
    engine: &mut dyn Backend,
    step: u64,
) -> Result<Vec<Evaluation>, ExecFault> {
    let names: Vec<String> = prepared.names().filter(|name| *name != "train").map(str::to_owned).collect();
    let mut found = Vec::new();
    for name in names {
        if let Some(split) = prepared.split(&name) {
            let metrics = metrics(plan, &split, engine)?;
            found.push(Evaluation { step, split: name, examples: split.length as u64, metrics });
        }
    }
    Ok(found)
}

/// Runs the evaluation form over a split in order; a last batch that is not full is filled up with its first example, and
/// what is said of the filling is left out. Batches have the examples of a shard.
///
/// `accuracy` is the share of labels with the largest logit of their row; `loss` the mean over labels: batch means times
/// their counts, summed in order, divided by the number of labels. An example has one label or one at each position; labels
/// that are ignored count for neither. Of numbers to be predicted, `loss` is the mean over examples.
fn metrics(
    plan: &Plan,
    split: &SplitView<'_>,
    engine: &mut dyn Backend,
) -> Result<BTreeMap<String, f32>, ExecFault> {
    let batch = plan.train.shard_of(plan.data.batch);
    let (mut correct, mut total_loss, mut all) = (0_u64, 0.0_f32, 0_u64);
    for start in (0..split.length).step_by(batch) {
        let count = batch.min(split.length - start);
        let filled: Vec<u32> =
            (0..batch).map(|index| (if index < count { start + index } else { start }) as u32).collect();
        let examples = gather(split, &filled, Draw { seed: plan.run.seed, epoch: EVALUATION_EPOCH });
        let prediction = engine.predict(&examples)?;
        let width = prediction.len() / batch;
        let prediction = &prediction[..count * width];
        match (&plan.loss, &examples.labels) {
            (Loss::CrossEntropy { label_smoothing, ignore_index }, Buffer::Integer(labels)) => {
                let rows = count * split.label_width();
                let labels = &labels[..rows];
                let classes = width / split.label_width().max(1);
                let mut best = vec![0; rows];
                argmax(engine.isa(), engine.threads(), classes, prediction, &mut best);
                let ignore = ignore_index.unwrap_or(i32::MIN);
                let right = |(best, label): &(&i32, &i32)| best == label && **label != ignore;
                correct += best.iter().zip(labels).filter(right).count() as u64;
                let rule = CrossEntropy { classes, smoothing: *label_smoothing, ignore };
                let mut lse = vec![0.0; rows];
                let (mean, counted) =
                    cross_entropy(engine.isa(), engine.threads(), &rule, prediction, labels, &mut lse);
                all += counted as u64;
                if counted > 0 {
                    total_loss += mean * counted as f32;
                }
            }
            (_, Buffer::Float(targets)) => {
                all += count as u64;
                let targets = &targets[..prediction.len().min(targets.len())];
                total_loss +=
                    mean_squared_error(engine.isa(), engine.threads(), prediction, targets) * count as f32;
            }
            _ => {}
        }
    }
    let all = all as f32;
    let known = [("accuracy", correct as f32 / all), ("loss", total_loss / all)];
    let metrics = known
        .into_iter()
        .filter(|(name, _)| plan.evaluate.metrics.iter().any(|metric| metric == name))
        .map(|(name, value)| (name.to_owned(), value));
    Ok(metrics.collect())
}

/// What the model answers to every example of a split, in order, in evaluation form: the shape, examples first, and the
/// numbers. A last batch that is not full is filled up as in an evaluation.
///
/// # Errors
/// The device's own.
pub fn predictions(
    plan: &Plan,
    split: &SplitView<'_>,
    engine: &mut dyn Backend,
) -> Result<(Vec<usize>, Vec<f32>), ExecFault> {
    let batch = plan.train.shard_of(plan.data.batch);
    let mut shape = engine
        .step_graph(0)
        .map(|step| step.values[step.evaluation_prediction.index()].shape.clone())
        .unwrap_or_default();
    if let Some(first) = shape.first_mut() {
        *first = split.length;
    }
    let mut found = Vec::with_capacity(shape.iter().product());
    for start in (0..split.length).step_by(batch) {
        let count = batch.min(split.length - start);
        let filled: Vec<u32> =
            (0..batch).map(|index| (if index < count { start + index } else { start }) as u32).collect();
        let examples = gather(split, &filled, Draw { seed: plan.run.seed, epoch: EVALUATION_EPOCH });
        let prediction = engine.predict(&examples)?;
        found.extend_from_slice(&prediction[..count * (prediction.len() / batch)]);
    }
    Ok((shape, found))
}

/// Predictions as a safetensors file of one tensor.
///
/// # Errors
/// Code 0707 when they cannot be put into the format.
pub fn predictions_file(shape: &[usize], values: &[f32]) -> Result<Vec<u8>, ExecFault> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, shape.to_vec(), &bytes).map_err(ExecFault::record)?;
    safetensors::serialize([("predictions", view)], None).map_err(ExecFault::record)
}
