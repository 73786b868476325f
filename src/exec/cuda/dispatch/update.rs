//! The update: unscale and check, norm, clip, optimizer, commits, scaler. All of it writes persistent values in place.
//!
//! What concerns all gradients is one launch over a table of them, not one for each.

use super::pointwise::eights;
use super::{Call, Operand};
use crate::arithmetic::half::Format;
use crate::arithmetic::philox::Stream;
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::reduce::BLOCK;
use crate::exec::reference::scaler::TORCH;
use crate::exec::schedule::decimal;
use crate::graph::{Op, Stored};
use crate::plan::Optimizer;

/// Elements that a block of the unscaling kernel takes.
const UNSCALED: usize = 8192;
/// Threads of a block, and the elements of each at a time.
const THREADS: usize = 256;
const EACH: usize = 8;
/// Blocks of an optimizer's launch; what is beyond is taken in turn, so that the numbers of a step are computed a few times only.
const BLOCKS: usize = 2048;

/// The launches of a node of this family; false where there is no kernel.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    let y = call.output(0);
    let Some(elements) = call.outputs.first().map(Operand::elements) else { return false };
    match call.op {
        Op::Accumulate => {
            let arguments = Arguments::new().tensor(call.input(0)).tensor(y).size(elements);
            eights(launches, "accumulate", elements, arguments);
        }
        Op::StageBuffer => {
            let arguments = Arguments::new().tensor(call.input(0)).tensor(y).size(elements);
            eights(launches, "cast", elements, arguments);
        }
        Op::Clear => launches.clear(y.address, elements * y.format.bytes()),
        Op::Unscale { after } => unscale(call, *after, launches),
        Op::GlobalNorm => global_norm(call, launches),
        Op::ClipCoefficient { max_norm } => {
            let arguments = Arguments::new().tensor(call.input(0)).float(*max_norm).tensor(y);
            launches.each("clip_coefficient", 1, arguments);
        }
        Op::Update { rule, found, clipped, stored } => {
            update(call, rule, *found, *clipped, launches);
            if let Some(Stored { format, stream }) = stored {
                // The step is counted on by a later node, so both launches see one count.
                let key = stream.map_or(0, |stream| Stream::new(call.seed, stream).key());
                let how = if stream.is_some() { 2 } else { i32::from(*format == Format::Bf16) };
                let arguments = Arguments::new().tensor(y).address(call.input(3).address);
                let arguments = arguments.tensor(optional(call, *found, 4)).address(key).int(how);
                eights(launches, "store_parameter", elements, arguments.size(elements));
            }
        }
        Op::CommitBuffer { found } => {
            let found = optional(call, *found, 3);
            let arguments = Arguments::new().tensor(call.input(0)).tensor(y).tensor(call.output(1));
            launches.each("commit_buffer", elements, arguments.tensor(found).size(elements));
        }
        Op::AdvanceStep { found } => {
            let arguments = Arguments::new().address(y.address).tensor(optional(call, *found, 1));
            launches.each("advance_step", 1, arguments);
        }
        Op::ScalerUpdate { growth, backoff, interval, guard } => {
            let arguments = Arguments::new().tensor(y).address(call.output(1).address).tensor(call.input(2));
            let arguments = arguments.double(*growth).double(*backoff);
            let arguments = arguments.int(i32::try_from(*interval).unwrap_or(i32::MAX));
            let counts = [2, 3].map(|index| guard.map_or(0, |_| call.output(index).address));
            let guard = guard.unwrap_or(TORCH);
            let hysteresis = i32::try_from(guard.hysteresis).unwrap_or(i32::MAX);
            let arguments = counts.into_iter().fold(arguments, Arguments::address).int(hysteresis);
            let arguments = arguments.int(i32::from(guard.refill_on_good)).int(i32::from(guard.late));
            launches.each("scaler_update", 1, arguments.float(guard.floor).float(guard.ceiling));
        }
        _ => return false,
    }
    true
}

/// The operand, if it is there.
fn optional(call: &Call<'_>, there: bool, index: usize) -> Tensor {
    if there { call.input(index) } else { Tensor::NONE }
}

/// The tensors as kernels read them (`struct Entry` in `update.cu`), with `size` elements to a block; and how many blocks.
fn table(tensors: &[Operand<'_>], size: usize) -> (Vec<u8>, usize) {
    let (mut bytes, mut blocks) = (Vec::new(), 0);
    for operand in tensors {
        let format = crate::exec::cuda::launch::number(operand.tensor.format) as u64;
        let entry = [operand.tensor.address, format, operand.elements() as u64, blocks as u64];
        bytes.extend(entry.into_iter().flat_map(u64::to_le_bytes));
        blocks += operand.elements().div_ceil(size);
    }
    (bytes, blocks)
}

fn unscale(call: &Call<'_>, after: bool, launches: &mut Launches) {
    let gradients = &call.outputs[1..];
    let (bytes, blocks) = table(gradients, UNSCALED);
    let entries = launches.constant(&bytes);
    launches.each("unscale_begin", 1, Arguments::new().address(call.culprit));
    let arguments = Arguments::new().tensor(call.input(0)).address(entries).int(gradients.len() as i32);
    let arguments = arguments.int(i32::from(after));
    launches.kernel("unscale", [blocks, 1, 1], THREADS as u32, arguments.address(call.culprit));
    launches.each("unscale_end", 1, Arguments::new().address(call.culprit).tensor(call.output(0)));
}

fn global_norm(call: &Call<'_>, launches: &mut Launches) {
    let count = call.inputs.len();
    let (bytes, blocks) = table(call.inputs, BLOCK);
    let entries = launches.constant(&bytes);
    let sums = launches.scratch(blocks * 4);
    let squares = launches.scratch(count * 4);
    let arguments = Arguments::new().address(entries).int(count as i32).size(blocks).address(sums);
    launches.kernel("norm_blocks", [blocks.div_ceil(THREADS / 16), 1, 1], THREADS as u32, arguments);
    let arguments = Arguments::new().address(entries).address(sums).address(squares);
    launches.kernel("norm_tensors", [count, 1, 1], THREADS as u32, arguments);
    let arguments = Arguments::new().address(squares).size(count).tensor(call.output(0));
    launches.kernel("norm_end", [1, 1, 1], THREADS as u32, arguments);
}

/// One parameter's update; nothing happens when the step was found non-finite.
fn update(call: &Call<'_>, rule: &Optimizer, found: bool, clipped: bool, launches: &mut Launches) {
    let elements = call.outputs[0].elements();
    let found_at = optional(call, found, 4);
    let clip_at = optional(call, clipped, 4 + usize::from(found));
    let (gradient, rate) = (call.input(1), call.input(2));
    match rule {
        Optimizer::Sgd { momentum, nesterov, weight_decay, .. } => {
            let arguments = Arguments::new().tensor(call.output(0)).tensor(call.output(1));
            let arguments = arguments.tensor(gradient).tensor(rate).tensor(found_at).tensor(clip_at);
            let arguments = arguments.float(*momentum).int(i32::from(*nesterov)).float(*weight_decay);
            eights(launches, "update_sgd", elements, arguments.size(elements));
        }
        Optimizer::AdamW { beta1, beta2, eps, weight_decay, .. } => {
            let moments = Arguments::new().tensor(call.output(0)).tensor(call.output(1));
            let arguments = moments.tensor(call.output(2)).tensor(gradient).tensor(rate);
            let arguments = arguments.address(call.input(3).address).tensor(found_at).tensor(clip_at);
            // The decimal numbers that a person wrote, as on the CPU.
            let numbers = [*beta1, *beta2, *eps, *weight_decay].map(decimal);
            let arguments = numbers.into_iter().fold(arguments, Arguments::double).size(elements);
            let blocks = elements.div_ceil(THREADS * EACH).min(BLOCKS);
            launches.kernel("update_adamw", [blocks, 1, 1], THREADS as u32, arguments);
        }
    }
}
