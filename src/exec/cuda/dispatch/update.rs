//! The update: unscale and check, norm, clip, optimizer, commits, scaler. All of it writes persistent values in place.
//!
//! What concerns all gradients is one launch over a table of them, not one for each.

use super::pointwise::eights;
use super::{Call, Operand};
use crate::arithmetic::half::Format;
use crate::arithmetic::philox::Stream;
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::fingerprint;
use crate::exec::reference::reduce::BLOCK;
use crate::exec::reference::scaler::TORCH;
use crate::exec::schedule::decimal;
use crate::graph::{Op, Stored};
use crate::plan::Optimizer;

/// Elements that a block of the unscaling kernel takes.
const UNSCALED: usize = 8192;
/// Threads of a block.
const THREADS: usize = 256;
/// Elements that a block of threads updates, commits or casts.
const UPDATED: usize = 4096;
/// Blocks of a fingerprint that a block of threads takes; see `fingerprint` in `update.cu`.
const FINGERPRINTED: usize = 32;

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
        Op::Update { .. } => return updates(std::slice::from_ref(call), launches),
        Op::CommitBuffer { .. } => return commits(std::slice::from_ref(call), launches),
        Op::AdvanceStep { found } => {
            let arguments = Arguments::new().address(y.address).tensor(optional(call, *found, 1));
            launches.each("advance_step", 1, arguments);
        }
        Op::CountSkips { found } => {
            let arguments = Arguments::new().address(y.address).address(call.output(1).address);
            launches.each("count_skips", 1, arguments.tensor(optional(call, *found, 2)));
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
    let gradients = &call.inputs[1..];
    // Where nothing is written, those who read gradients unscale them.
    let writes = call.outputs.len() > 1;
    let (bytes, blocks) = table(gradients, UNSCALED);
    let entries = launches.constant(&bytes);
    launches.each("unscale_begin", 1, Arguments::new().address(call.culprit));
    let arguments = Arguments::new().tensor(call.input(0)).address(entries).int(gradients.len() as i32);
    let arguments = arguments.int(i32::from(after)).int(i32::from(writes));
    launches.kernel("unscale", [blocks, 1, 1], THREADS as u32, arguments.address(call.culprit));
    launches.each("unscale_end", 1, Arguments::new().address(call.culprit).tensor(call.output(0)));
}

fn global_norm(call: &Call<'_>, launches: &mut Launches) {
    let count = call.inputs.len();
    let (bytes, blocks) = table(call.inputs, BLOCK);
    let entries = launches.constant(&bytes);
    let sums = launches.scratch(blocks * 4);
    let squares = launches.scratch(count * 4);
    let arguments = Arguments::new().address(entries).int(count as i32).size(blocks);
    let arguments = arguments.tensor(scale_of(&call.inputs[..count.min(1)])).address(sums);
    launches.kernel("norm_blocks", [blocks.div_ceil(THREADS / 16), 1, 1], THREADS as u32, arguments);
    let arguments = Arguments::new().address(entries).address(sums).address(squares);
    launches.kernel("norm_tensors", [count, 1, 1], THREADS as u32, arguments);
    let arguments = Arguments::new().address(squares).size(count).tensor(call.output(0));
    launches.kernel("norm_end", [1, 1, 1], THREADS as u32, arguments);
}

/// What gradients are divided by as they are read: one scale for all of a step.
fn scale_of(gradients: &[Operand<'_>]) -> Tensor {
    gradients.first().map_or(Tensor::NONE, |gradient| gradient.scale)
}

/// Updates of parameters by one rule; nothing happens when the step was found non-finite.
pub(super) fn updates(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let Some(call) = calls.first() else { return true };
    let Op::Update { rule, found, clipped, .. } = call.op else { return false };
    let found_at = optional(call, *found, 4);
    let clip_at = optional(call, *clipped, 4 + usize::from(*found));
    let rate = call.input(2);
    let rows = calls.iter().map(|call| {
        let of = |operand: Tensor| operand.address;
        let states = [call.output(0), call.output(1), call.output(2)].map(of);
        (
            call.outputs[0].elements(),
            [states[0], states[1], states[2], call.input(1).address, format_of(call.input(1))],
        )
    });
    let (bytes, blocks) = wide_table(rows, UPDATED);
    let entries = launches.constant(&bytes);
    let scale = scale_of(&call.inputs[1..2]);
    match rule {
        Optimizer::Sgd { momentum, nesterov, weight_decay, .. } => {
            let arguments = Arguments::new().address(entries).int(calls.len() as i32).tensor(rate);
            let arguments = arguments.tensor(found_at).tensor(scale).tensor(clip_at);
            let arguments = arguments.float(*momentum).int(i32::from(*nesterov)).float(*weight_decay);
            launches.kernel("update_sgd", [blocks, 1, 1], THREADS as u32, arguments);
        }
        Optimizer::AdamW { beta1, beta2, eps, weight_decay, .. } => {
            let numbers = launches.scratch(3 * 4);
            // The decimal numbers that a person wrote, as on the CPU.
            let [beta1, beta2, eps, weight_decay] = [*beta1, *beta2, *eps, *weight_decay].map(decimal);
            let of_step = Arguments::new().tensor(rate).address(call.input(3).address);
            let of_step = of_step.double(beta1).double(beta2).double(weight_decay).address(numbers);
            launches.each("adamw_numbers", 1, of_step);
            let arguments = Arguments::new().address(entries).int(calls.len() as i32).address(numbers);
            let arguments = arguments.tensor(found_at).tensor(scale).tensor(clip_at);
            let arguments = arguments.double(beta1).double(beta2).double(eps);
            launches.kernel("update_adamw", [blocks, 1, 1], THREADS as u32, arguments);
        }
    }
    calls.iter().for_each(|call| store(call, launches));
    true
}

/// Rounds a parameter to the format that it is kept in, where that is not f32. The step is counted on by a later node.
fn store(call: &Call<'_>, launches: &mut Launches) {
    let Op::Update { found, stored: Some(Stored { format, stream }), .. } = call.op else { return };
    let key = stream.map_or(0, |stream| Stream::new(call.seed, stream).key());
    let how = if stream.is_some() { 2 } else { i32::from(*format == Format::Bf16) };
    let arguments = Arguments::new().tensor(call.output(0)).address(call.input(3).address);
    let arguments = arguments.tensor(optional(call, *found, 4)).address(key).int(how);
    let elements = call.outputs[0].elements();
    eights(launches, "store_parameter", elements, arguments.size(elements));
}

/// Casts of many values.
pub(super) fn casts(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let rows = calls.iter().map(|call| {
        let (x, y) = (call.input(0), call.output(0));
        (call.outputs[0].elements(), [x.address, y.address, format_of(x), format_of(y), 0])
    });
    let (bytes, blocks) = wide_table(rows, UPDATED);
    let entries = launches.constant(&bytes);
    let arguments = Arguments::new().address(entries).int(calls.len() as i32);
    launches.kernel("casts", [blocks, 1, 1], THREADS as u32, arguments);
    true
}

/// Commits of many buffers.
pub(super) fn commits(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let Some(call) = calls.first() else { return true };
    let Op::CommitBuffer { found } = call.op else { return false };
    let rows = calls.iter().map(|call| {
        let (from, buffer, pending) = (call.input(0), call.output(0), call.output(1));
        (
            call.outputs[0].elements(),
            [from.address, buffer.address, pending.address, format_of(from), format_of(pending)],
        )
    });
    let (bytes, blocks) = wide_table(rows, UPDATED);
    let entries = launches.constant(&bytes);
    let arguments =
        Arguments::new().address(entries).int(calls.len() as i32).tensor(optional(call, *found, 3));
    launches.kernel("commit_buffers", [blocks, 1, 1], THREADS as u32, arguments);
    true
}

/// The fingerprint of tensors of f32, each an address and a size: 16 bytes for each block of 1024 elements, from `out` on.
pub fn fingerprint(tensors: &[(u64, usize)], keys: u64, out: u64, launches: &mut Launches) {
    let rows = tensors.iter().map(|(address, elements)| (*elements, [*address, 0, 0, 0, 0]));
    let (bytes, blocks) = wide_table(rows, fingerprint::BLOCK);
    let entries = launches.constant(&bytes);
    let arguments = Arguments::new().address(entries).int(tensors.len() as i32).size(blocks);
    let grid = [blocks.div_ceil(FINGERPRINTED), 1, 1];
    launches.kernel("fingerprint", grid, THREADS as u32, arguments.address(keys).address(out));
}

fn format_of(tensor: Tensor) -> u64 {
    crate::exec::cuda::launch::number(tensor.format) as u64
}

/// Rows of a table as kernels read them (`struct Row` in `update.cu`), `size` elements to a block of threads; and how many blocks.
fn wide_table(rows: impl Iterator<Item = (usize, [u64; 5])>, size: usize) -> (Vec<u8>, usize) {
    let (mut bytes, mut blocks) = (Vec::new(), 0);
    for (elements, words) in rows {
        let ends = [elements as u64, blocks as u64];
        bytes.extend(words.into_iter().chain(ends).flat_map(u64::to_le_bytes));
        blocks += elements.div_ceil(size);
    }
    (bytes, blocks)
}
