//! From scaled gradients to new parameters: unscale and check, norm and clip, and the optimizers' updates. Every product
//! and sum is rounded by itself, in the order written.

use super::reduce::sum;
use crate::arithmetic::half::round_bf16;

/// Multiplies every gradient by the inverse of the loss scale; true if any was not finite before that, or is not `after` it.
pub fn unscale_and_check(gradients: &mut [f32], inverse_scale: f32, after: bool) -> bool {
    let before = gradients.iter().any(|gradient| !gradient.is_finite());
    for gradient in gradients.iter_mut() {
        *gradient *= inverse_scale;
    }
    if after { gradients.iter().any(|gradient| !gradient.is_finite()) } else { before }
}

/// A bf16 neighbour of a number: of the two that it lies between, the one away from 0 with a probability that is the number's
/// distance from the other, in 65536ths of theirs. The upper half of a random word decides. What bf16 holds stays; so do
/// infinities, and NaN as in rounding to nearest.
#[inline(always)]
pub fn stochastic_bf16(x: f32, word: u32) -> f32 {
    let bits = x.to_bits();
    if bits & 0x7f80_0000 == 0x7f80_0000 {
        return round_bf16(x);
    }
    f32::from_bits(bits.wrapping_add(word >> 16) & 0xffff_0000)
}

/// Σ x², each square rounded before it is added.
pub fn sum_of_squares(x: &[f32]) -> f32 {
    let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
    sum(&squares)
}

/// What gradients are multiplied by so that their norm is at most `max`: min(1, max / (norm + 1e-6)), as in
/// `torch.nn.utils.clip_grad_norm_`; NaN for a NaN norm.
pub fn clip_coefficient(norm: f32, max: f32) -> f32 {
    let coefficient = max / (norm + 1e-6);
    if coefficient > 1.0 { 1.0 } else { coefficient }
}

/// Stochastic gradient descent as `torch.optim.SGD` with dampening 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub rate: f32,
    /// Momentum; 0 for none.
    pub momentum: f32,
    /// Whether the momentum is Nesterov's.
    pub nesterov: bool,
    /// Weight decay, added to the gradient.
    pub decay: f32,
}

impl Sgd {
    /// One element: the new parameter and momentum buffer. With a buffer that begins at 0 the first step sets it to the
    /// gradient, as PyTorch does. Without momentum the buffer is left as it is.
    ///
    /// g' = g·clip; g' = g' + decay·p where decay ≠ 0; b' = b·momentum + g'; step = g' + momentum·b' with Nesterov's momentum,
    /// else b'; p' = p - rate·step.
    #[inline(always)]
    pub fn step(&self, p: f32, b: f32, g: f32, clip: f32) -> (f32, f32) {
        let mut g = g * clip;
        if self.decay != 0.0 {
            g += self.decay * p;
        }
        if self.momentum == 0.0 {
            return (p - self.rate * g, b);
        }
        let b = b * self.momentum + g;
        let step = if self.nesterov { g + self.momentum * b } else { b };
        (p - self.rate * step, b)
    }
}

/// One step of Adam or AdamW as `torch.optim.Adam` and `torch.optim.AdamW` without amsgrad. All numbers are f32, rounded
/// from f64 by [`Adam::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// What parameters are multiplied by first: 1 - rate·decay for AdamW, 1 for Adam.
    pub shrink: f32,
    /// Weight decay that is added to the gradient: 0 for AdamW.
    pub coupled_decay: f32,
    /// 1 - β₁.
    pub weight_1: f32,
    /// β₁.
    pub beta_1: f32,
    /// β₂.
    pub beta_2: f32,
    /// 1 - β₂.
    pub weight_2: f32,
    /// rate / (1 - β₁ᵗ).
    pub step_size: f32,
    /// √(1 - β₂ᵗ).
    pub correction: f32,
    /// ε, added to the root.
    pub epsilon: f32,
}

impl Adam {
    /// The numbers of step t ≥ 1: `powers` are (β₁ᵗ, β₂ᵗ), from `arithmetic::functions::power`. `decoupled` is AdamW.
    pub fn new(
        rate: f64,
        betas: (f64, f64),
        epsilon: f64,
        decay: f64,
        decoupled: bool,
        powers: (f64, f64),
    ) -> Self {
        Self {
            shrink: if decoupled { (1.0 - rate * decay) as f32 } else { 1.0 },
            coupled_decay: if decoupled { 0.0 } else { decay as f32 },
            weight_1: (1.0 - betas.0) as f32,
            beta_1: betas.0 as f32,
            beta_2: betas.1 as f32,
            weight_2: (1.0 - betas.1) as f32,
            step_size: (rate / (1.0 - powers.0)) as f32,
            correction: (1.0 - powers.1).sqrt() as f32,
            epsilon: epsilon as f32,
        }
    }

    /// One element: the new parameter, first moment and second moment.
    ///
    /// g' = g·clip; p' = p·shrink; g' = g' + coupled_decay·p where that is not 0;
    /// m' = m + weight_1·(g' - m) if weight_1 < 1/2, else g' - (g' - m)·β₁ (PyTorch's `lerp`);
    /// v' = v·β₂ + (weight_2·g')·g'; p' = p' - (step_size·m') / (√v' / correction + ε).
    #[inline(always)]
    pub fn step(&self, p: f32, m: f32, v: f32, g: f32, clip: f32) -> (f32, f32, f32) {
        let mut g = g * clip;
        if self.coupled_decay != 0.0 {
            g += self.coupled_decay * p;
        }
        let p = p * self.shrink;
        let m = if self.weight_1 < 0.5 { m + self.weight_1 * (g - m) } else { g - (g - m) * self.beta_1 };
        let v = v * self.beta_2 + (self.weight_2 * g) * g;
        let root = v.sqrt() / self.correction + self.epsilon;
        (p - (self.step_size * m) / root, m, v)
    }
}

/// One SGD step over a tensor: parameters and momentum buffers in place.
pub fn sgd(op: &Sgd, parameters: &mut [f32], buffers: &mut [f32], gradients: &[f32], clip: f32) {
    for ((p, b), g) in parameters.iter_mut().zip(buffers).zip(gradients) {
        (*p, *b) = op.step(*p, *b, *g, clip);
    }
}

/// One SGD step without momentum, which has no buffers.
pub fn sgd_plain(op: &Sgd, parameters: &mut [f32], gradients: &[f32], clip: f32) {
    for (p, g) in parameters.iter_mut().zip(gradients) {
        *p = op.step(*p, 0.0, *g, clip).0;
    }
}

/// One Adam or AdamW step over a tensor: parameters and both moments in place.
pub fn adam(
    op: &Adam,
    parameters: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradients: &[f32],
    clip: f32,
) {
    for (((p, m), v), g) in parameters.iter_mut().zip(first).zip(second).zip(gradients) {
        (*p, *m, *v) = op.step(*p, *m, *v, *g, clip);
    }
}
