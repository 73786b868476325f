//! From scaled gradients to new parameters, vectorised; equal to `exec::reference::update` bit for bit. The optimizers'
//! rules are the reference's own functions of one element, compiled here for each instruction set.

use super::fingerprint::{BLOCK, BYTES, HALF, Keys, Sums, last_block};
use super::reduce::map_sum;
use super::threads::Threads;
use super::vector::{CHEAP, COSTLY, TILE, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
use crate::arithmetic::philox::Stream;
pub use crate::exec::reference::scaler::{ScaleRule, ScaleState, update as update_scale};
pub use crate::exec::reference::update::{Adam, Sgd, clip_coefficient, stochastic_bf16};
use std::sync::atomic::{AtomicBool, Ordering};

for_each_isa! {
    /// Multiplies in place; true if any value was not finite before.
    fn unscale(gradients: &mut [f32], factor: f32) -> bool {
        const EXPONENT: u32 = 0x7f80_0000;
        let mut found = 0_u32;
        for gradient in gradients {
            // All exponent bits set is infinity or NaN.
            found |= u32::from(gradient.to_bits() & EXPONENT == EXPONENT);
            *gradient *= factor;
        }
        found != 0
    }

    /// Multiplies in place; true if any product is not finite.
    fn unscale_then_check(gradients: &mut [f32], factor: f32) -> bool {
        const EXPONENT: u32 = 0x7f80_0000;
        let mut found = 0_u32;
        for gradient in gradients {
            *gradient *= factor;
            found |= u32::from(gradient.to_bits() & EXPONENT == EXPONENT);
        }
        found != 0
    }

    /// One SGD step with momentum.
    fn sgd_momentum(op: &Sgd, parameters: &mut [f32], buffers: &mut [f32], gradients: &[f32], clip: f32) {
        let length = parameters.len();
        let (op, buffers, gradients) = (*op, &mut buffers[..length], &gradients[..length]);
        for index in 0..length {
            (parameters[index], buffers[index]) =
                op.step(parameters[index], buffers[index], gradients[index], clip);
        }
    }

    /// One SGD step without momentum.
    fn sgd_without(op: &Sgd, parameters: &mut [f32], gradients: &[f32], clip: f32) {
        let op = *op;
        for (p, g) in parameters.iter_mut().zip(gradients) {
            *p = op.step(*p, 0.0, *g, clip).0;
        }
    }

    /// One Adam step.
    fn adam_step(
        op: &Adam, parameters: &mut [f32], first: &mut [f32], second: &mut [f32], gradients: &[f32], clip: f32,
    ) {
        let length = parameters.len();
        let (first, second, gradients) = (&mut first[..length], &mut second[..length], &gradients[..length]);
        let op = *op;
        for index in 0..length {
            (parameters[index], first[index], second[index]) =
                op.step(parameters[index], first[index], second[index], gradients[index], clip);
        }
    }

    /// One Adam step over whole blocks of a fingerprint, and the sums of what it leaves. Divisions and roots keep the divider busy for
    /// most of the time, and the sums' multiplications are done meanwhile; so strips of W elements of a block's halves take turns.
    fn adam_and_sums<const W: usize>(
        op: &Adam, values: [&mut [f32]; 3], gradients: &[f32], clip: f32, keys: &Keys, out: &mut [u8],
    ) {
        let op = *op;
        let [mut parameters, mut first, mut second] = values.map(|values| values.as_chunks_mut::<BLOCK>().0.iter_mut());
        for (gradients, bytes) in gradients.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<BYTES>().0) {
            let (Some(p), Some(m), Some(v)) = (parameters.next(), first.next(), second.next()) else { return };
            let mut sums = Sums::<W>::new();
            for from in (0..HALF).step_by(W) {
                let mut words = [[0.0; W]; 2];
                for (half, words) in words.iter_mut().enumerate() {
                    let at = from + half * HALF;
                    let [mut moments, mut squares] = [[0.0; W]; 2];
                    for lane in 0..W {
                        let index = at + lane;
                        (words[lane], moments[lane], squares[lane]) =
                            op.step(p[index], m[index], v[index], gradients[index], clip);
                    }
                    p[at..at + W].copy_from_slice(words);
                    m[at..at + W].copy_from_slice(&moments);
                    v[at..at + W].copy_from_slice(&squares);
                }
                sums.add(keys, from, &words[0], &words[1]);
            }
            sums.write(bytes);
        }
    }
}

/// Multiplies every gradient by the inverse of the loss scale; true if any was not finite before that, or is not `after` it.
pub fn unscale_and_check(
    isa: Isa,
    threads: &Threads,
    gradients: &mut [f32],
    inverse_scale: f32,
    after: bool,
) -> bool {
    let found = AtomicBool::new(false);
    let length = gradients.len();
    parallel(threads, length, CHEAP, Units::new(gradients, 1), |_, share| {
        let kernel = if after { unscale_then_check } else { unscale };
        if kernel(isa, share.slice, inverse_scale) {
            found.store(true, Ordering::Relaxed);
        }
    });
    found.into_inner()
}

/// Rounds a parameter to its format: to the nearest, or with a stream by chance; element i takes word i of the step's.
pub fn store(
    isa: Isa,
    threads: &Threads,
    format: Format,
    stream: Option<Stream>,
    step: u64,
    parameters: &mut [f32],
) {
    parallel(threads, parameters.len(), COSTLY, Units::new(parameters, 1), |range, share| match stream {
        None => round_slice(isa, format, share.slice),
        Some(stream) => {
            let mut words = [0; TILE];
            for (index, tile) in share.slice.chunks_mut(TILE).enumerate() {
                let words = &mut words[..tile.len()];
                stream.fill_words_on(isa, step, (range.start + index * TILE) as u64, words);
                for (parameter, word) in tile.iter_mut().zip(words) {
                    *parameter = stochastic_bf16(*parameter, *word);
                }
            }
        }
    });
}

/// Σ x², each square rounded before it is added in the order of `reduce::sum`.
pub fn sum_of_squares(isa: Isa, threads: &Threads, x: &[f32]) -> f32 {
    map_sum(isa, threads, [x], |[x]| x * x)
}

/// One SGD step over a tensor: parameters and momentum buffers in place. Gradients are multiplied by `clip` first.
pub fn sgd(
    isa: Isa,
    threads: &Threads,
    op: &Sgd,
    parameters: &mut [f32],
    buffers: &mut [f32],
    gradients: &[f32],
    clip: f32,
) {
    let length = parameters.len();
    let outputs = (Units::new(parameters, 1), Units::new(buffers, 1));
    parallel(threads, length, CHEAP, outputs, |range, (p, b)| {
        sgd_momentum(isa, op, p.slice, b.slice, &gradients[range], clip);
    });
}

/// One SGD step without momentum, which has no buffers.
pub fn sgd_plain(
    isa: Isa,
    threads: &Threads,
    op: &Sgd,
    parameters: &mut [f32],
    gradients: &[f32],
    clip: f32,
) {
    let length = parameters.len();
    parallel(threads, length, CHEAP, Units::new(parameters, 1), |range, p| {
        sgd_without(isa, op, p.slice, &gradients[range], clip);
    });
}

/// One Adam or AdamW step over a tensor: parameters and both moments in place. Gradients are multiplied by `clip` first.
pub fn adam(
    isa: Isa,
    threads: &Threads,
    op: &Adam,
    parameters: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradients: &[f32],
    clip: f32,
) {
    let length = parameters.len();
    let outputs = (Units::new(parameters, 1), Units::new(first, 1), Units::new(second, 1));
    parallel(threads, length, CHEAP, outputs, |range, (p, m, v)| {
        adam_step(isa, op, p.slice, m.slice, v.slice, &gradients[range], clip);
    });
}

/// [`adam`], and the fingerprint of the new parameters in `out`, which is what `fingerprint` would find.
pub fn adam_and_fingerprint(
    (isa, threads): (Isa, &Threads),
    op: &Adam,
    [parameters, first, second]: [&mut [f32]; 3],
    gradients: &[f32],
    clip: f32,
    keys: &Keys,
    out: &mut Vec<u8>,
) {
    let whole = gradients.len() / BLOCK;
    out.clear();
    out.resize(gradients.len().div_ceil(BLOCK) * BYTES, 0);
    let (bytes, last) = out.split_at_mut(whole * BYTES);
    let (parameters, rest) = parameters.split_at_mut(whole * BLOCK);
    let (first, rest_first) = first.split_at_mut(whole * BLOCK);
    let (second, rest_second) = second.split_at_mut(whole * BLOCK);
    let moments = (Units::new(first, BLOCK), Units::new(second, BLOCK));
    let outputs = ((Units::new(parameters, BLOCK), Units::new(bytes, BYTES)), moments);
    // The widths at which the strips were fastest.
    let kernel = if matches!(isa, Isa::Avx512) { adam_and_sums::<32> } else { adam_and_sums::<16> };
    parallel(threads, whole, grain(CHEAP, BLOCK), outputs, |range, ((p, bytes), (m, v))| {
        let gradients = &gradients[range.start * BLOCK..range.end * BLOCK];
        kernel(isa, op, [p.slice, m.slice, v.slice], gradients, clip, keys, bytes.slice);
    });
    adam_step(isa, op, rest, rest_first, rest_second, &gradients[whole * BLOCK..], clip);
    last_block(isa, keys, rest, last);
}
