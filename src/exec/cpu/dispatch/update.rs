//! The update: unscale and check, norm, clip, optimizer, commits, scaler. All of it writes persistent values in place.

use super::Call;
use crate::arithmetic::functions::power;
use crate::arithmetic::half::{Format, round_bf16, round_f16};
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::fingerprint::{Keys, fingerprint};
use crate::exec::cpu::update::{
    Adam, AdamStep, MomentumStep, PlainStep, Rounded, Rule, ScaleRule, ScaleState, Sgd, adam,
    clip_coefficient, sgd, sgd_plain, store, sum_of_squares, unscale_and_check, update_and_fingerprint,
    update_scale,
};
use crate::exec::cpu::{elementwise, reduce};
use crate::exec::schedule::decimal;
use crate::graph::{Op, Stored};
use crate::plan::Optimizer;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    match call.op {
        Op::Accumulate => {
            let gradient = call.inputs[0].floats();
            elementwise::add_into(call.isa, call.threads, call.out(outputs, 0), gradient, Format::F32);
        }
        Op::StageBuffer => call.out(outputs, 0).copy_from_slice(call.inputs[0].floats()),
        Op::Clear => call.out(outputs, 0).fill(0.0),
        Op::Unscale { after } => unscale(call, *after, outputs),
        Op::GlobalNorm => {
            let squares: Vec<f32> = call
                .inputs
                .iter()
                .map(|gradient| sum_of_squares(call.isa, call.threads, gradient.floats()))
                .collect();
            call.out(outputs, 0)[0] = reduce::sum(call.isa, call.threads, &squares).sqrt();
        }
        Op::ClipCoefficient { max_norm } => {
            call.out(outputs, 0)[0] = clip_coefficient(call.inputs[0].scalar(), *max_norm);
        }
        Op::Update { .. } => update(call, outputs, None),
        Op::CommitBuffer { found } => commit(call, *found, outputs),
        Op::AdvanceStep { found } => {
            if !(*found && call.inputs[1].scalar() != 0.0)
                && let Some(step) = outputs[0].integers_mut(1).first_mut()
            {
                *step = step.saturating_add(1);
            }
        }
        Op::CountSkips { found } => {
            let skipped = *found && call.inputs[2].scalar() != 0.0;
            let [row, longest] = [0, 1].map(|index| outputs[index].integers(1).first().copied().unwrap_or(0));
            let row = if skipped { row.saturating_add(1) } else { 0 };
            outputs[0].integers_mut(1).fill(row);
            outputs[1].integers_mut(1).fill(longest.max(row));
        }
        Op::ScalerUpdate { growth, backoff, interval, guard } => {
            let interval = i32::try_from(*interval).unwrap_or(i32::MAX);
            let rule = ScaleRule { guard: *guard, ..ScaleRule::torch(*growth, *backoff, interval) };
            let found = call.inputs[2].scalar() != 0.0;
            let count = |outputs: &[Buffer], index: usize| {
                let buffer = outputs.get(index);
                buffer.and_then(|buffer| buffer.integers(1).first().copied()).unwrap_or(0)
            };
            let [tracker, tolerated, skips] = [1, 2, 3].map(|index| count(outputs, index));
            let state = ScaleState { scale: call.out(outputs, 0)[0], tracker, tolerated, skips };
            let state = update_scale(&rule, state, found);
            call.out(outputs, 0)[0] = state.scale;
            let counts = [state.tracker, state.tolerated, state.skips];
            for (buffer, count) in outputs[1..].iter_mut().zip(counts) {
                buffer.integers_mut(1).fill(count);
            }
        }
        _ => {}
    }
}

/// g *= f32(1 / f64(scale)) for every gradient; found = 1 if any element was not finite before, or is not `after`.
fn unscale(call: &Call<'_>, after: bool, outputs: &mut [Buffer]) {
    let inverse = (1.0 / f64::from(call.inputs[0].scalar())) as f32;
    let mut found = false;
    for index in 1..outputs.len() {
        found |= unscale_and_check(call.isa, call.threads, call.out(outputs, index), inverse, after);
    }
    call.out(outputs, 0)[0] = if found { 1.0 } else { 0.0 };
}

/// Where the fingerprint of a parameter goes: the keys, and the bytes that it replaces.
pub type Seal<'a> = (&'a Keys, &'a mut Vec<u8>);

/// Runs an update and leaves the fingerprint of the new parameter in `seal`; false for any other node, which does not run.
pub fn run_and_seal(call: &Call<'_>, outputs: &mut [Buffer], seal: Seal<'_>) -> bool {
    let is_update = matches!(call.op, Op::Update { .. });
    if is_update {
        update(call, outputs, Some(seal));
    }
    is_update
}

/// One parameter's update, its rounding and its fingerprint; nothing moves when the step was found non-finite.
fn update(call: &Call<'_>, outputs: &mut [Buffer], mut seal: Option<Seal<'_>>) {
    let Op::Update { rule, found, clipped, stored } = call.op else { return };
    let (isa, threads) = (call.isa, call.threads);
    let mut sealed = false;
    if !(*found && call.inputs[4].scalar() != 0.0) {
        let beside = seal.as_mut().map(|(keys, sums)| (*keys, &mut **sums));
        sealed = optimize(call, rule, (*found, *clipped), outputs, beside.zip(format_beside(*stored)));
        // What was sealed was rounded before.
        if let (Some(stored), false) = (stored, sealed) {
            let applied = u64::try_from(call.inputs[3].integers().first().copied().unwrap_or(0)).unwrap_or(0);
            let stream = stored.stream.map(|stream| Stream::new(call.seed, stream));
            store(isa, threads, stored.format, stream, applied, call.out(outputs, 0));
        }
    }
    if let (Some((keys, sums)), false) = (seal, sealed) {
        sums.clear();
        fingerprint(isa, threads, keys, call.out(outputs, 0), sums);
    }
}

/// The format that a parameter is rounded to, where the fingerprint can be taken beside the update: not where a random word decides.
fn format_beside(stored: Option<Stored>) -> Option<Format> {
    match stored {
        None => Some(Format::F32),
        Some(Stored { format: format @ (Format::F32 | Format::F16 | Format::Bf16), stream: None }) => {
            Some(format)
        }
        Some(_) => None,
    }
}

/// The optimizer's rule; with a seal the fingerprint is taken beside it, of parameters that are rounded to a format, and it is true.
fn optimize(
    call: &Call<'_>,
    rule: &Optimizer,
    (found, clipped): (bool, bool),
    outputs: &mut [Buffer],
    seal: Option<(Seal<'_>, Format)>,
) -> bool {
    let [_, gradient, rate, step, rest @ ..] = call.inputs else { return false };
    let clip = if clipped { rest[usize::from(found)].scalar() } else { 1.0 };
    let (isa, threads, gradient, sealed) = (call.isa, call.threads, gradient.floats(), seal.is_some());
    match rule {
        Optimizer::Sgd { momentum, nesterov, weight_decay, .. } => {
            let rule =
                Sgd { rate: rate.scalar(), momentum: *momentum, nesterov: *nesterov, decay: *weight_decay };
            match (*momentum == 0.0, seal) {
                (true, Some(seal)) => {
                    let step = PlainStep::new(&rule, clip);
                    update_and_seal(call, call.outs(outputs), gradient, seal, step);
                }
                (true, None) => sgd_plain(isa, threads, &rule, call.out(outputs, 0), gradient, clip),
                (false, Some(seal)) => {
                    let step = MomentumStep::new(&rule, clip);
                    update_and_seal(call, call.outs(outputs), gradient, seal, step);
                }
                (false, None) => {
                    let [parameters, velocity] = call.outs(outputs);
                    sgd(isa, threads, &rule, parameters, velocity, gradient, clip);
                }
            }
        }
        Optimizer::AdamW { beta1, beta2, eps, weight_decay, .. } => {
            // The decimal numbers that a person wrote, not their f32 neighbours: as PyTorch, which keeps Python floats.
            let [rate, beta1, beta2, eps, decay] =
                [rate.scalar(), *beta1, *beta2, *eps, *weight_decay].map(decimal);
            let count = u64::try_from(step.integers().first().copied().unwrap_or(0)).unwrap_or(0) + 1;
            let powers = (power(beta1, count), power(beta2, count));
            let rule = Adam::new(rate, (beta1, beta2), eps, decay, true, powers);
            let values @ [_, _, _] = call.outs(outputs);
            if let Some(seal) = seal {
                update_and_seal(call, values, gradient, seal, AdamStep::new(&rule, clip));
            } else {
                let [parameters, first, second] = values;
                adam(isa, threads, &rule, parameters, first, second, gradient, clip);
            }
        }
    }
    sealed
}

/// Updates by a rule, rounds the parameters to a format, and takes their fingerprint, all at once.
fn update_and_seal<const N: usize>(
    call: &Call<'_>,
    values: [&mut [f32]; N],
    gradient: &[f32],
    ((keys, sums), format): (Seal<'_>, Format),
    rule: impl Rule<N>,
) {
    let on = (call.isa, call.threads);
    match format {
        Format::F16 => update_and_fingerprint(on, values, gradient, (keys, sums), Rounded(rule, round_f16)),
        Format::Bf16 => update_and_fingerprint(on, values, gradient, (keys, sums), Rounded(rule, round_bf16)),
        _ => update_and_fingerprint(on, values, gradient, (keys, sums), rule),
    }
}

/// Running statistics take their candidate, or stay, both copies alike.
fn commit(call: &Call<'_>, found: bool, outputs: &mut [Buffer]) {
    let skipped = found && call.inputs[3].scalar() != 0.0;
    let candidate = call.inputs[0].floats();
    let [buffer, pending] = call.outs(outputs);
    if !skipped {
        // An empty candidate is the pending copy itself, written in place during the micro-batches.
        if candidate.is_empty() { buffer.copy_from_slice(pending) } else { buffer.copy_from_slice(candidate) }
    }
    pending.copy_from_slice(buffer);
}
