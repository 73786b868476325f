//! Losses, and the seed of the backward pass.

use super::norm::{by_rows, int};
use super::{Arithmetic, Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::loss::CrossEntropy;
use crate::exec::reference::reduce::BLOCK;
use crate::graph::Op;

/// Threads of a block that sums one block of a long vector, and that counts labels.
const THREADS: u32 = 256;
/// Labels that each thread looks at.
const LABELS: usize = 16;
/// Classes that a thread block of the gradient takes; where a row has fewer than a quarter, each element is on its own.
const CLASSES: usize = 2048;
/// Classes of the rows that the near kernels are for.
const NEAR: usize = 512;

/// The launches of a node of this family; false where there is no kernel yet.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match call.op {
        Op::CrossEntropy { label_smoothing, ignore_index } => {
            cross_entropy(call, &rule(&call.inputs[0], *label_smoothing, *ignore_index), launches)
        }
        Op::CrossEntropyBackward { label_smoothing, ignore_index } => {
            cross_entropy_backward(call, &rule(&call.inputs[1], *label_smoothing, *ignore_index), launches)
        }
        Op::MeanSquaredError => {
            let elements = call.inputs[0].elements();
            let blocks = elements.div_ceil(BLOCK);
            let sums = launches.scratch(blocks * 4);
            let arguments = Arguments::new().tensor(call.input(0)).tensor(call.input(1));
            let arguments = arguments.size(elements).address(sums);
            launches.kernel("squared_difference_blocks", [blocks, 1, 1], THREADS, arguments);
            let to = [call.output(0), Tensor::NONE];
            divided_sum(sums, blocks, elements as f32, 0, to, launches);
            true
        }
        Op::MeanSquaredErrorBackward => {
            let elements = call.outputs[0].elements();
            let arguments =
                Arguments::new().tensor(call.input(0)).tensor(call.input(1)).tensor(call.input(2));
            let arguments = arguments.tensor(call.output(0)).size(elements);
            launches.each("mean_squared_error_gradient", elements, arguments);
            true
        }
        Op::LossGradient { accumulate } => {
            let arguments = Arguments::new().tensor(call.input(0)).float(*accumulate as f32);
            launches.kernel("loss_gradient", [1, 1, 1], 32, arguments.tensor(call.output(0)));
            true
        }
        _ => false,
    }
}

/// Labels that never occur stand for "no label is ignored".
fn rule(logits: &Operand<'_>, smoothing: f32, ignore: Option<i32>) -> CrossEntropy {
    let (_, classes) = logits.rows_and_columns();
    CrossEntropy { classes, smoothing, ignore: ignore.unwrap_or(i32::MIN) }
}

/// Whether exp may be near instead of right to the last place, and rows are long enough for a block of threads each.
fn is_near(call: &Call<'_>, rule: &CrossEntropy) -> bool {
    call.arithmetic == Arithmetic::Device && rule.classes >= NEAR
}

/// mean = the sum of a vector of f32, divided by `divisor`, or by the count at an address that is not 0, which becomes the second
/// result.
fn divided_sum(
    mut address: u64,
    mut elements: usize,
    divisor: f32,
    count: u64,
    [mean, counted]: [Tensor; 2],
    launches: &mut Launches,
) {
    while elements > BLOCK {
        let blocks = elements.div_ceil(BLOCK);
        let sums = launches.scratch(blocks * 4);
        let arguments = Arguments::new().address(address).size(elements).address(sums);
        launches.kernel("sum_blocks", [blocks, 1, 1], THREADS, arguments);
        (address, elements) = (sums, blocks);
    }
    let arguments = Arguments::new().address(address).int(elements as i32).float(divisor).address(count);
    launches.kernel("divided_sum", [1, 1, 1], THREADS, arguments.tensor(mean).tensor(counted));
}

fn cross_entropy(call: &Call<'_>, rule: &CrossEntropy, launches: &mut Launches) -> bool {
    let [logits, labels] = [call.input(0), call.input(1)];
    let rows = call.inputs[1].elements();
    let Some(classes) = int(rule.classes) else { return false };
    let losses = launches.scratch(rows * 4);
    let count = launches.scratch(4);
    let arguments = Arguments::new().tensor(logits).tensor(labels).tensor(call.output(1)).address(losses);
    let arguments = arguments.size(call.inputs[0].pitch);
    let arguments = arguments.size(rows).int(classes).float(rule.kept()).float(rule.spread());
    let arguments = arguments.int(i32::from(rule.smoothing != 0.0)).int(rule.ignore);
    if is_near(call, rule) {
        launches.kernel("near_cross_entropy", [rows, 1, 1], THREADS, arguments);
    } else {
        by_rows(["cross_entropy_short", "cross_entropy_long"], rows, rule.classes, arguments, launches);
    }
    launches.clear(count, 4);
    let arguments = Arguments::new().tensor(labels).size(rows).int(rule.ignore).address(count);
    launches.kernel("count_labels", [rows.div_ceil(THREADS as usize * LABELS), 1, 1], THREADS, arguments);
    divided_sum(losses, rows, 1.0, count, [call.output(0), call.output(2)], launches);
    true
}

fn cross_entropy_backward(call: &Call<'_>, rule: &CrossEntropy, launches: &mut Launches) -> bool {
    let rows = call.inputs[2].elements();
    let Some(classes) = int(rule.classes) else { return false };
    let arguments = (0..5).fold(Arguments::new(), |arguments, index| arguments.tensor(call.input(index)));
    let arguments = arguments.tensor(call.output(0));
    let arguments = arguments.size(call.inputs[1].pitch).size(call.outputs[0].pitch);
    let finish = |arguments: Arguments| {
        arguments.int(classes).float(rule.kept()).float(rule.spread()).int(rule.ignore)
    };
    if is_near(call, rule) {
        launches.kernel("near_cross_entropy_gradient", [rows, 1, 1], THREADS, finish(arguments));
    } else if rule.classes < CLASSES / 4 {
        let arguments = finish(arguments.size(rows));
        launches.each("cross_entropy_gradient_short", rows * call.outputs[0].pitch, arguments);
    } else {
        let parts = call.outputs[0].pitch.div_ceil(CLASSES);
        launches.kernel("cross_entropy_gradient_long", [rows, parts, 1], THREADS, finish(arguments));
    }
    true
}
