//! From scaled gradients to new parameters, vectorised; equal to `exec::reference::update` bit for bit. The optimizers'
//! rules are the reference's own functions of one element, compiled here for each instruction set.

use super::reduce::map_sum;
use super::threads::Threads;
use super::vector::{CHEAP, COSTLY, TILE, Units, for_each_isa, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
use crate::arithmetic::philox::Stream;
pub use crate::exec::reference::scaler::{ScaleRule, ScaleState, update as update_scale};
pub use crate::exec::reference::update::{Adam, Sgd, clip_coefficient, stochastic_bf16};
use std::sync::atomic::{AtomicBool, Ordering};

mod alone;
mod beside;
mod faded;
mod lanes;
mod rule;

use alone::update_by;
pub use beside::update_and_fingerprint;
pub use faded::{AdamStep, MomentumStep, PlainStep};
pub use rule::{Rounded, Rule};

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
        update_by(isa, MomentumStep::new(op, clip), [p.slice, b.slice], &gradients[range]);
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
        update_by(isa, PlainStep::new(op, clip), [p.slice], &gradients[range]);
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
        update_by(isa, AdamStep::new(op, clip), [p.slice, m.slice, v.slice], &gradients[range]);
    });
}
