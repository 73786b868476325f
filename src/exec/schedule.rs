//! The learning rate of each step, in portable arithmetic.

use crate::arithmetic::functions;
use crate::plan::{Schedule, ScheduleKind};

/// The learning rate of optimizer step `step` (from 0) out of `total`.
///
/// Warm-up rises linearly: factor (step + 1) / (warmup + 1). After it, progress goes from 0 at the first step without
/// warm-up to 1 at the last step. The factor is computed in f32, one operation at a time; cosine is
/// final + (1 - final)·(1 + cos(π·progress))/2 (Loshchilov and Hutter 2017, without restarts).
pub fn learning_rate(schedule: &Schedule, base: f32, step: u64, total: u64) -> f32 {
    if step < schedule.warmup {
        return base * ((step + 1) as f32 / (schedule.warmup + 1) as f32);
    }
    let length = total.saturating_sub(schedule.warmup).saturating_sub(1);
    let progress = if length == 0 { 0.0 } else { ((step - schedule.warmup) as f32 / length as f32).min(1.0) };
    let factor = match schedule.kind {
        ScheduleKind::Constant => 1.0,
        ScheduleKind::Linear { final_factor } => 1.0 - (1.0 - final_factor) * progress,
        ScheduleKind::Cosine { final_factor } => {
            let half_wave = 0.5 * (1.0 + functions::cos(std::f32::consts::PI * progress));
            final_factor + (1.0 - final_factor) * half_wave
        }
    };
    base * factor
}

/// The f64 that is nearest to the shortest decimal form of an f32: the number that a person wrote, not its neighbour.
pub fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: ScheduleKind, warmup: u64) -> Schedule {
        Schedule { kind, warmup }
    }

    #[test]
    fn warm_up_rises_in_equal_steps_and_never_starts_at_zero() {
        let constant = schedule(ScheduleKind::Constant, 3);
        let rates: Vec<f32> = (0..5).map(|step| learning_rate(&constant, 1.0, step, 10)).collect();
        assert_eq!(rates, [0.25, 0.5, 0.75, 1.0, 1.0]);
    }

    #[test]
    fn linear_ends_at_its_final_factor() {
        let linear = schedule(ScheduleKind::Linear { final_factor: 0.5 }, 0);
        let rates: Vec<f32> = (0..5).map(|step| learning_rate(&linear, 2.0, step, 5)).collect();
        assert_eq!(rates, [2.0, 1.75, 1.5, 1.25, 1.0]);
    }

    #[test]
    fn cosine_has_its_three_known_points() {
        let cosine = schedule(ScheduleKind::Cosine { final_factor: 0.0 }, 0);
        let rates: Vec<f32> = (0..3).map(|step| learning_rate(&cosine, 1.0, step, 3)).collect();
        assert_eq!(rates[0], 1.0);
        assert!((rates[1] - 0.5).abs() < 1e-6, "{}", rates[1]);
        assert_eq!(rates[2], 0.0);
    }

    #[test]
    fn steps_past_the_end_and_runs_of_one_step_are_defined() {
        let cosine = schedule(ScheduleKind::Cosine { final_factor: 0.25 }, 0);
        assert_eq!(learning_rate(&cosine, 1.0, 0, 1), 1.0);
        assert_eq!(learning_rate(&cosine, 1.0, 99, 10), 0.25);
        assert_eq!(learning_rate(&schedule(ScheduleKind::Constant, 50), 1.0, 2, 3), 3.0 / 51.0);
    }
}
