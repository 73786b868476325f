//! The loss scale's rule: PyTorch's `_amp_update_scale_`, operation for operation, and the guards that other libraries put
//! around it. A few numbers a step, so this is the only CPU implementation.

use crate::graph::ScaleGuard;

/// How a dynamic loss scale moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleRule {
    /// Factor after `interval` finite steps in a row.
    pub growth: f64,
    /// Factor after a step with a non-finite gradient.
    pub backoff: f64,
    /// Finite steps before the scale grows.
    pub interval: i32,
    /// What is beyond PyTorch's rule.
    pub guard: Option<ScaleGuard>,
}

/// The guard that changes nothing.
pub const TORCH: ScaleGuard =
    ScaleGuard { hysteresis: 1, refill_on_good: false, late: false, floor: 0.0, ceiling: f32::INFINITY };

impl ScaleRule {
    /// PyTorch's rule.
    pub fn torch(growth: f64, backoff: f64, interval: i32) -> Self {
        Self { growth, backoff, interval, guard: None }
    }
}

/// What the rule keeps from step to step. Begins at 0, but for the scale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScaleState {
    /// The loss scale.
    pub scale: f32,
    /// Finite steps since the scale moved or a gradient was not finite.
    pub tracker: i32,
    /// Non-finite steps since the last refill that left the scale.
    pub tolerated: i32,
    /// Skipped steps in a row.
    pub skips: i32,
}

/// The state after a step in which a non-finite gradient was `found` or not. The factors are f64 and the product is rounded
/// to f32 once; a growth to infinity is refused, but resets the tracker; the interval is compared by equality, as PyTorch
/// does. With a guard, the scale stays for `hysteresis - 1` non-finite steps between two refills, growth can be one good
/// step late, and the scale stays between floor and ceiling.
pub fn update(rule: &ScaleRule, state: ScaleState, found: bool) -> ScaleState {
    let guard = rule.guard.unwrap_or(TORCH);
    let ScaleState { mut scale, tracker, mut tolerated, skips } = state;
    if found {
        if i64::from(tolerated) < i64::from(guard.hysteresis) - 1 {
            tolerated += 1;
        } else {
            let lowered = (f64::from(scale) * rule.backoff) as f32;
            scale = if lowered < guard.floor { guard.floor } else { lowered };
        }
        return ScaleState { scale, tracker: 0, tolerated, skips: skips.saturating_add(1) };
    }
    if guard.refill_on_good {
        tolerated = 0;
    }
    let successful = tracker.wrapping_add(1);
    if successful != rule.interval.saturating_add(i32::from(guard.late)) {
        return ScaleState { scale, tracker: successful, tolerated, skips: 0 };
    }
    let grown = (f64::from(scale) * rule.growth) as f32;
    let grown = if grown > guard.ceiling { guard.ceiling } else { grown };
    let scale = if grown.is_finite() { grown } else { scale };
    ScaleState { scale, tracker: i32::from(guard.late), tolerated: 0, skips: 0 }
}

#[cfg(test)]
mod tests;
