//! Activation functions and their derivatives, vectorised; equal to `exec::reference::activation` bit for bit.
//!
//! A tile is carried through the vectorised `exp`, `tanh` and `erf` in the cache, with plain loops before and after.

use super::threads::Threads;
use super::vector::{self, CHEAP, COSTLY, TILE, change_tile, map_tile};
use crate::arithmetic::Isa;
use crate::arithmetic::functions::{erf_slice, exp_slice, tanh_slice};
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::activation::Activation;
use crate::exec::reference::activation::{CUBIC, DENSITY_AT_0, SQRT_2_OVER_PI, THREE_CUBIC};
use std::f32::consts::FRAC_1_SQRT_2;

/// How many elements are worth a hand-over.
fn grain(activation: Activation, backward: bool) -> usize {
    match activation {
        Activation::Relu => CHEAP,
        _ if backward && activation.saves_output() => CHEAP,
        _ => COSTLY,
    }
}

/// out = round(f(x)).
pub fn forward(
    isa: Isa,
    threads: &Threads,
    activation: Activation,
    x: &[f32],
    out: &mut [f32],
    format: Format,
) {
    vector::tiles(threads, grain(activation, false), [x], out, |[x], out| {
        forward_tile(isa, activation, x, out);
        round_slice(isa, format, out);
    });
}

/// f of one tile.
fn forward_tile(isa: Isa, activation: Activation, x: &[f32], out: &mut [f32]) {
    match activation {
        Activation::Relu => map_tile(isa, [x], out, |[x]| if x <= 0.0 { 0.0 } else { x }),
        Activation::GeluErf => {
            map_tile(isa, [x], out, |[x]| x * FRAC_1_SQRT_2);
            erf_slice(isa, out);
            change_tile(isa, out, [x], |erf, [x]| (0.5 * x) * (1.0 + erf));
        }
        Activation::GeluTanh => {
            map_tile(isa, [x], out, |[x]| SQRT_2_OVER_PI * (x + CUBIC * ((x * x) * x)));
            tanh_slice(isa, out);
            change_tile(isa, out, [x], |tanh, [x]| (0.5 * x) * (1.0 + tanh));
        }
        Activation::Silu => {
            map_tile(isa, [x], out, |[x]| -x);
            exp_slice(isa, out);
            change_tile(isa, out, [x], |exp, [x]| x * (1.0 / (1.0 + exp)));
        }
        Activation::Tanh => {
            out.copy_from_slice(x);
            tanh_slice(isa, out);
        }
        Activation::Sigmoid => {
            map_tile(isa, [x], out, |[x]| -x);
            exp_slice(isa, out);
            change_tile(isa, out, [], |exp, []| 1.0 / (1.0 + exp));
        }
    }
}

/// dx = round(dy · f'), from `saved`: x, or y where [`Activation::saves_output`].
pub fn backward(
    isa: Isa,
    threads: &Threads,
    activation: Activation,
    saved: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    format: Format,
) {
    vector::tiles(threads, grain(activation, true), [saved, dy], dx, |[saved, dy], dx| {
        backward_tile(isa, activation, saved, dy, dx);
        round_slice(isa, format, dx);
    });
}

/// dy · f' of one tile.
fn backward_tile(isa: Isa, activation: Activation, saved: &[f32], dy: &[f32], dx: &mut [f32]) {
    match activation {
        Activation::Relu => map_tile(isa, [saved, dy], dx, |[x, dy]| if x <= 0.0 { 0.0 } else { dy }),
        Activation::GeluErf => {
            let mut buffer = [0.0; TILE];
            let erf = &mut buffer[..dx.len()];
            map_tile(isa, [saved], erf, |[x]| x * FRAC_1_SQRT_2);
            erf_slice(isa, erf);
            map_tile(isa, [saved], dx, |[x]| (x * x) * -0.5);
            exp_slice(isa, dx);
            change_tile(isa, dx, [saved, dy, erf], |exp, [x, dy, erf]| {
                dy * (0.5 * (1.0 + erf) + x * (exp * DENSITY_AT_0))
            });
        }
        Activation::GeluTanh => {
            map_tile(isa, [saved], dx, |[x]| SQRT_2_OVER_PI * (x + CUBIC * ((x * x) * x)));
            tanh_slice(isa, dx);
            change_tile(isa, dx, [saved, dy], |t, [x, dy]| {
                let slope = SQRT_2_OVER_PI * (1.0 + THREE_CUBIC * (x * x));
                dy * (0.5 * (1.0 + t) + ((0.5 * x) * (1.0 - t * t)) * slope)
            });
        }
        Activation::Silu => {
            map_tile(isa, [saved], dx, |[x]| -x);
            exp_slice(isa, dx);
            change_tile(isa, dx, [saved, dy], |exp, [x, dy]| {
                let s = 1.0 / (1.0 + exp);
                (dy * s) * (1.0 + x * (1.0 - s))
            });
        }
        Activation::Tanh => map_tile(isa, [saved, dy], dx, |[y, dy]| dy * (1.0 - y * y)),
        Activation::Sigmoid => map_tile(isa, [saved, dy], dx, |[y, dy]| (dy * (1.0 - y)) * y),
    }
}
