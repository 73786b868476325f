//! Activation functions and their derivatives, each as one declared sequence of IEEE operations.

use crate::arithmetic::functions::{erf, exp, tanh};
use crate::arithmetic::half::{Format, round};
use crate::graph::Unary;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0); NaN stays NaN.
    Relu,
    /// x·Φ(x) with the error function.
    GeluErf,
    /// x·Φ(x) with the tanh approximation (Hendrycks and Gimpel, 2016).
    GeluTanh,
    /// x·sigmoid(x).
    Silu,
    /// tanh(x).
    Tanh,
    /// 1 / (1 + e^-x).
    Sigmoid,
}

impl From<Unary> for Activation {
    fn from(kind: Unary) -> Self {
        match kind {
            Unary::Relu => Self::Relu,
            Unary::Gelu => Self::GeluErf,
            Unary::GeluTanh => Self::GeluTanh,
            Unary::Silu => Self::Silu,
            Unary::Tanh => Self::Tanh,
            Unary::Sigmoid => Self::Sigmoid,
        }
    }
}

/// √(2/π), the slope inside the tanh form of gelu.
pub const SQRT_2_OVER_PI: f32 = 0.797_884_6;
/// The cubic's coefficient in the tanh form of gelu.
pub const CUBIC: f32 = 0.044_715;
/// 3 · [`CUBIC`], from its derivative.
pub const THREE_CUBIC: f32 = 0.134_145;
/// 1/√(2π), the height of the normal density.
pub const DENSITY_AT_0: f32 = 0.398_942_3;

impl Activation {
    /// Whether [`backward`] takes the output y (tanh, sigmoid) in place of the input x (all others).
    pub fn saves_output(self) -> bool {
        matches!(self, Self::Tanh | Self::Sigmoid)
    }

    /// The function at x.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::GeluErf => (0.5 * x) * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => {
                let u = SQRT_2_OVER_PI * (x + CUBIC * ((x * x) * x));
                (0.5 * x) * (1.0 + tanh(u))
            }
            Self::Silu => x * sigmoid(x),
            Self::Tanh => tanh(x),
            Self::Sigmoid => sigmoid(x),
        }
    }

    /// dy times the derivative, which is given the input x, or the output y where [`Self::saves_output`]. As in PyTorch,
    /// relu'(0) = 0.
    pub fn chain(self, saved: f32, dy: f32) -> f32 {
        match self {
            Self::Relu => {
                if saved <= 0.0 {
                    0.0
                } else {
                    dy
                }
            }
            Self::GeluErf => {
                let x = saved;
                let distribution = 0.5 * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2));
                let density = exp((x * x) * -0.5) * DENSITY_AT_0;
                dy * (distribution + x * density)
            }
            Self::GeluTanh => {
                let x = saved;
                let square = x * x;
                let t = tanh(SQRT_2_OVER_PI * (x + CUBIC * (square * x)));
                let slope = SQRT_2_OVER_PI * (1.0 + THREE_CUBIC * square);
                dy * (0.5 * (1.0 + t) + ((0.5 * x) * (1.0 - t * t)) * slope)
            }
            Self::Silu => {
                let x = saved;
                let s = sigmoid(x);
                (dy * s) * (1.0 + x * (1.0 - s))
            }
            Self::Tanh => dy * (1.0 - saved * saved),
            Self::Sigmoid => (dy * (1.0 - saved)) * saved,
        }
    }
}

/// 1 / (1 + e^-x).
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// out = round(f(x)).
pub fn forward(activation: Activation, x: &[f32], out: &mut [f32], format: Format) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = round(format, activation.apply(*x));
    }
}

/// dx = round(dy · f'), from `saved`: x, or y where [`Activation::saves_output`].
pub fn backward(activation: Activation, saved: &[f32], dy: &[f32], dx: &mut [f32], format: Format) {
    for ((dx, saved), dy) in dx.iter_mut().zip(saved).zip(dy) {
        *dx = round(format, activation.chain(*saved, *dy));
    }
}
