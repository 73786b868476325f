//! Losses, and the seed of the backward pass.

use super::norm::{by_rows, int};
use super::{Arithmetic, Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::loss::CrossEntropy;
use crate::exec::reference::reduce::BLOCK;
use crate::graph::Op;

/// Threads of a block that sums one block of a long vector, and that counts labels.
const THREADS: u32 = 256;
/// Threads of a block of the near kernels, which has a row.
const ROW_THREADS: u32 = 1024;
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
    let rows = call.inputs[1].elements();
    let losses = launches.scratch(rows * 4);
    let count = count_labels(call, rule, launches);
    let Some(arguments) = of_rows(call, rule, call.output(1), losses) else { return false };
    if is_near(call, rule) {
        launches.kernel("near_cross_entropy", [rows, 1, 1], ROW_THREADS, arguments);
    } else {
        by_rows(["cross_entropy_short", "cross_entropy_long"], rows, rule.classes, arguments, launches);
    }
    divided_sum(losses, rows, 1.0, count, [call.output(0), call.output(2)], launches);
    true
}

/// The loss and the gradient of its logits: in one pass over them where the near kernel takes both. What stands between the two nodes
/// has no memory of its own.
pub(super) fn with_gradient(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let [forward, backward] = calls else { return false };
    let Op::CrossEntropy { label_smoothing, ignore_index } = forward.op else { return false };
    let rule = rule(&forward.inputs[0], *label_smoothing, *ignore_index);
    if !is_near(forward, &rule) {
        return one_by_one(forward, backward, launches);
    }
    let rows = forward.inputs[1].elements();
    let losses = launches.scratch(rows * 4);
    let count = count_labels(forward, &rule, launches);
    let Some(arguments) = of_rows(forward, &rule, Tensor::NONE, losses) else { return false };
    let dx = &backward.outputs[0];
    let arguments = arguments.tensor(backward.input(0)).address(count).tensor(dx.tensor).size(dx.pitch);
    launches.kernel("near_cross_entropy_with_gradient", [rows, 1, 1], ROW_THREADS, arguments);
    divided_sum(losses, rows, 1.0, count, [forward.output(0), Tensor::NONE], launches);
    true
}

/// Both nodes, with scratch for what stands between them.
fn one_by_one(forward: &Call<'_>, backward: &Call<'_>, launches: &mut Launches) -> bool {
    let (mut outputs, mut inputs) = (forward.outputs.to_vec(), backward.inputs.to_vec());
    for (output, input) in [(1, 3), (2, 4)] {
        outputs[output].tensor = Tensor::f32(launches.scratch(outputs[output].elements() * 4));
        inputs[input] = outputs[output];
    }
    run(&Call { outputs: &outputs, ..*forward }, launches)
        && run(&Call { inputs: &inputs, ..*backward }, launches)
}

/// The arguments that kernels of the loss of rows begin with.
fn of_rows(call: &Call<'_>, rule: &CrossEntropy, lse: Tensor, losses: u64) -> Option<Arguments> {
    let arguments = Arguments::new().tensor(call.input(0)).tensor(call.input(1)).tensor(lse).address(losses);
    let rows = call.inputs[1].elements();
    let arguments = arguments.size(call.inputs[0].pitch).size(rows).int(int(rule.classes)?);
    let arguments = arguments.float(rule.kept()).float(rule.spread());
    Some(arguments.int(i32::from(rule.smoothing != 0.0)).int(rule.ignore))
}

/// Where the count of labels that are not ignored is, an `int`.
fn count_labels(call: &Call<'_>, rule: &CrossEntropy, launches: &mut Launches) -> u64 {
    let rows = call.inputs[1].elements();
    let count = launches.scratch(4);
    launches.clear(count, 4);
    let arguments = Arguments::new().tensor(call.input(1)).size(rows).int(rule.ignore).address(count);
    launches.kernel("count_labels", [rows.div_ceil(THREADS as usize * LABELS), 1, 1], THREADS, arguments);
    count
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
        launches.kernel("near_cross_entropy_gradient", [rows, 1, 1], ROW_THREADS, finish(arguments));
    } else if rule.classes < CLASSES / 4 {
        let arguments = finish(arguments.size(rows));
        launches.each("cross_entropy_gradient_short", rows * call.outputs[0].pitch, arguments);
    } else {
        let parts = call.outputs[0].pitch.div_ceil(CLASSES);
        launches.kernel("cross_entropy_gradient_long", [rows, parts, 1], THREADS, finish(arguments));
    }
    true
}
