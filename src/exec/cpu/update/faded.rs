//! Moments that faded away. Where a gradient stays zero, a moment is multiplied by β step after step until it is a subnormal number,
//! k·2⁻¹⁴⁹, and rests at the k whose product rounds to itself. A multiplication, division or root of such numbers costs a core of a
//! common make 150 cycles, however many lanes it has, so that their whole numbers k are reckoned with instead: each product
//! is rounded once, to the nearest even k, as f32 would.
//!
//! **Invariant: every lane has the bits of the reference's rule.** Which lanes go this way is said by [`Bounds`], and all others, in the
//! same run too, go by the rule itself; the tests hold both against the reference.

use super::lanes::{Lanes, Number, SIGN, is_subnormal};
use super::rule::{RUN, Rule, each};
use super::{Adam, Sgd};

/// The bits of k.
const WHOLE: u32 = 0x007f_ffff;
/// Half of the exponent of a subnormal number's unit, for roots: √(k·2⁻¹⁴⁹) = √(2k)·2⁻⁷⁵.
const ROOT_UNIT: f32 = 1.0 / (1_u128 << 75) as f32;

/// Where a subnormal moment m moves no parameter. A parameter of at least 2⁻⁵⁰ in absolute value moves by nothing of less than 2⁻⁷⁵, half
/// of the least distance to a neighbour (a quarter of its unit in the last place, where it is a power of 2). A rate of at most 2¹⁰ times
/// |m| < 2⁻¹²⁶, divided by a root of at least 2⁻⁴⁰, rounded twice, is at most 2⁻⁷⁶.
struct Bounds;

impl Bounds {
    const PARAMETER: f32 = 1.0 / (1_u64 << 50) as f32;
    const RATE: f32 = 1024.0;
    const ROOT: f32 = 1.0 / (1_u64 << 40) as f32;
}

/// AdamW's or Adam's rule with the coefficient that gradients are clipped by.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    adam: Adam,
    clip: f32,
    /// Whether no decay is added to the gradient, and the first moment is a sum that begins with itself.
    is_usual: bool,
    /// Whether the numbers of this step are those that the other way was proved for.
    fades: bool,
}

impl AdamStep {
    /// The rule of a step.
    pub fn new(adam: &Adam, clip: f32) -> Self {
        // With a decay that is added to the gradient no gradient is zero.
        let is_usual = adam.coupled_decay == 0.0 && adam.weight_1 < 0.5;
        let fades = is_usual
            && adam.weight_1 >= 0.0
            && (0.0..=1.0).contains(&adam.weight_2)
            && (0.0..=1.0).contains(&adam.beta_2)
            && adam.step_size.abs() <= Bounds::RATE;
        Self { adam: *adam, clip, is_usual, fades }
    }

    /// [`Adam::step`] for such numbers, without arithmetic on subnormal moments where the gradient is zero.
    #[inline(always)]
    fn faded<const FUSED: bool>(&self, [p, m, v]: [f32; 3], g: f32) -> [f32; 3] {
        let rule = &self.adam;
        let g = g * self.clip;
        let p = p * rule.shrink;
        // v' = v·β₂ + 0; a negative v has no root, and goes by the rule.
        let v_is_faded = is_subnormal(v) & (v.to_bits() < SIGN) & (g == 0.0);
        let v_whole = times_whole::<FUSED>(rule.beta_2, v.to_bits() & WHOLE);
        let v_plain = if v_is_faded { 0.0 } else { v };
        let v_plain = v_plain * rule.beta_2 + (rule.weight_2 * g) * g;
        let under = if v_is_faded { (2 * v_whole) as i32 as f32 } else { v_plain };
        let unit = if v_is_faded { ROOT_UNIT } else { 1.0 };
        let root = under.sqrt() * unit / rule.correction + rule.epsilon;
        let v = if v_is_faded { f32::from_bits(v_whole) } else { v_plain };
        // m' = m + weight_1·(0 - m), of m's sign, since weight_1·k < k/2.
        let stays = (p.abs() >= Bounds::PARAMETER) & (root >= Bounds::ROOT);
        let m_is_faded = is_subnormal(m) & (g == 0.0) & stays;
        let m_whole =
            (m.to_bits() & WHOLE).wrapping_sub(times_whole::<FUSED>(rule.weight_1, m.to_bits() & WHOLE));
        let m_plain = if m_is_faded { 0.0 } else { m };
        let m_plain = m_plain + rule.weight_1 * (g - m_plain);
        let m_faded = f32::from_bits(m.to_bits() & SIGN | m_whole);
        // Of a faded moment the plain one is zero, and leaves the parameter as it is.
        let p = p - (rule.step_size * m_plain) / root;
        [p, if m_is_faded { m_faded } else { m_plain }, v]
    }
}

impl Rule<3> for AdamStep {
    #[inline(always)]
    fn step<V: Number>(self, [p, m, v]: [V; 3], g: V) -> [V; 3] {
        let rule = &self.adam;
        let g = g * V::of(self.clip);
        let p = p * V::of(rule.shrink);
        let m = m + V::of(rule.weight_1) * (g - m);
        let v = v * V::of(rule.beta_2) + (V::of(rule.weight_2) * g) * g;
        let root = v.square_root() / V::of(rule.correction) + V::of(rule.epsilon);
        [p - (V::of(rule.step_size) * m) / root, m, v]
    }

    #[inline(always)]
    fn is_usual<V: Lanes>(self, [_, m, v]: &[&mut [f32; RUN]; 3]) -> bool {
        self.is_usual && !(self.fades && V::hold_subnormal(m, [v]))
    }

    #[inline(always)]
    fn otherwise<const FUSED: bool>(self, run: &mut [&mut [f32; RUN]; 3], gradients: &[f32; RUN]) {
        if self.fades {
            each(run, gradients, |values, gradient| self.faded::<FUSED>(values, gradient));
        } else {
            each(run, gradients, |[p, m, v], gradient| self.adam.step(p, m, v, gradient, self.clip).into());
        }
    }
}

/// Momentum's rule with the coefficient that gradients are clipped by.
#[derive(Clone, Copy, Debug)]
pub struct MomentumStep {
    sgd: Sgd,
    clip: f32,
    decays: bool,
    has_momentum: bool,
    fades: bool,
}

impl MomentumStep {
    /// The rule of a step.
    pub fn new(sgd: &Sgd, clip: f32) -> Self {
        let fades = sgd.decay == 0.0 && (0.0..=1.0).contains(&sgd.momentum) && sgd.rate.abs() <= Bounds::RATE;
        Self { sgd: *sgd, clip, decays: sgd.decay != 0.0, has_momentum: sgd.momentum != 0.0, fades }
    }

    /// [`Sgd::step`] for such numbers, without arithmetic on subnormal buffers where the gradient is zero.
    #[inline(always)]
    fn faded<const FUSED: bool>(&self, [p, b]: [f32; 2], g: f32) -> [f32; 2] {
        let rule = &self.sgd;
        let g = g * self.clip;
        let whole = times_whole::<FUSED>(rule.momentum, b.to_bits() & WHOLE);
        // A buffer that fades to zero has the sign of a sum of zeros.
        let is_faded = is_subnormal(b) & (g == 0.0) & (p.abs() >= Bounds::PARAMETER) & (whole != 0);
        let plain = if is_faded { 0.0 } else { b };
        let plain = plain * rule.momentum + g;
        let step = if rule.nesterov { g + rule.momentum * plain } else { plain };
        let faded = f32::from_bits(b.to_bits() & SIGN | whole);
        [p - rule.rate * step, if is_faded { faded } else { plain }]
    }
}

impl Rule<2> for MomentumStep {
    #[inline(always)]
    fn step<V: Number>(self, [p, b]: [V; 2], g: V) -> [V; 2] {
        let rule = &self.sgd;
        let g = g * V::of(self.clip);
        let g = if self.decays { g + V::of(rule.decay) * p } else { g };
        let b = b * V::of(rule.momentum) + g;
        let step = if rule.nesterov { g + V::of(rule.momentum) * b } else { b };
        [p - V::of(rule.rate) * step, b]
    }

    #[inline(always)]
    fn is_usual<V: Lanes>(self, [_, b]: &[&mut [f32; RUN]; 2]) -> bool {
        self.has_momentum && !(self.fades && V::hold_subnormal(b, []))
    }

    #[inline(always)]
    fn otherwise<const FUSED: bool>(self, run: &mut [&mut [f32; RUN]; 2], gradients: &[f32; RUN]) {
        if self.fades && self.has_momentum {
            each(run, gradients, |values, gradient| self.faded::<FUSED>(values, gradient));
        } else {
            each(run, gradients, |[p, b], gradient| self.sgd.step(p, b, gradient, self.clip).into());
        }
    }
}

/// The rule of SGD without momentum, with the coefficient that gradients are clipped by.
#[derive(Clone, Copy, Debug)]
pub struct PlainStep {
    sgd: Sgd,
    clip: f32,
    decays: bool,
}

impl PlainStep {
    /// The rule of a step.
    pub fn new(sgd: &Sgd, clip: f32) -> Self {
        Self { sgd: *sgd, clip, decays: sgd.decay != 0.0 }
    }
}

impl Rule<1> for PlainStep {
    #[inline(always)]
    fn step<V: Number>(self, [p]: [V; 1], g: V) -> [V; 1] {
        let g = g * V::of(self.clip);
        let g = if self.decays { g + V::of(self.sgd.decay) * p } else { g };
        [p - V::of(self.sgd.rate) * g]
    }
}

/// factor·k for a factor from 0 to 1 and k < 2²³, rounded to the nearest even whole number; with one instruction where multiply-adds are
/// `FUSED`.
#[inline(always)]
fn times_whole<const FUSED: bool>(factor: f32, k: u32) -> u32 {
    if FUSED {
        // From 2²³ on the unit of f32 is 1, and the lowest bits of a sum that is rounded once are the whole number.
        const UNIT: f32 = (1_u32 << 23) as f32;
        (k as i32 as f32).mul_add(factor, UNIT).to_bits() & WHOLE
    } else {
        // The product has 47 bits, and is exact; the unit of f64 is 1 from 2⁵² on.
        const UNIT: f64 = (1_u64 << 52) as f64;
        (f64::from(factor) * f64::from(k as i32) + UNIT).to_bits() as u32
    }
}
