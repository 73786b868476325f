//! The loss scale's rule: PyTorch's `_amp_update_scale_`, operation for operation. One number a step, so this is the
//! only CPU implementation.

/// How a dynamic loss scale moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleRule {
    /// Factor after `interval` finite steps in a row.
    pub growth: f64,
    /// Factor after a step with a non-finite gradient.
    pub backoff: f64,
    /// Finite steps before the scale grows.
    pub interval: i32,
}

/// The next (scale, tracker) after a step in which a non-finite gradient was `found` or not. The factors are f64 and the
/// product is rounded to f32 once; a growth to infinity is refused, but resets the tracker; the interval is compared by
/// equality, as PyTorch does.
pub fn update(rule: &ScaleRule, scale: f32, tracker: i32, found: bool) -> (f32, i32) {
    if found {
        return ((f64::from(scale) * rule.backoff) as f32, 0);
    }
    let successful = tracker.wrapping_add(1);
    if successful != rule.interval {
        return (scale, successful);
    }
    let grown = (f64::from(scale) * rule.growth) as f32;
    (if grown.is_finite() { grown } else { scale }, 0)
}

#[cfg(test)]
mod tests {
    use super::{ScaleRule, update};

    /// The states after each letter: `g` a finite step, `i` a non-finite one.
    fn run(scale: f32, interval: i32, steps: &str) -> Vec<(f32, i32)> {
        run_with(ScaleRule { growth: 2.0, backoff: 0.5, interval }, scale, steps)
    }

    fn run_with(rule: ScaleRule, scale: f32, steps: &str) -> Vec<(f32, i32)> {
        let mut state = (scale, 0);
        let step = |letter: char| {
            state = update(&rule, state.0, state.1, letter == 'i');
            state
        };
        steps.chars().map(step).collect()
    }

    // The expected states of these tests were produced by running torch 2.15.0's own scaler.

    #[test]
    fn follows_torch_for_interval_three() {
        let expected = [
            (65536.0, 1),
            (65536.0, 2),
            (131072.0, 0),
            (65536.0, 0),
            (65536.0, 1),
            (65536.0, 2),
            (131072.0, 0),
            (65536.0, 0),
            (65536.0, 1),
            (65536.0, 2),
        ];
        assert_eq!(run(65536.0, 3, "gggigggigg"), expected);
    }

    #[test]
    fn grows_every_step_with_interval_one() {
        let expected = [(131072.0, 0), (262144.0, 0), (524288.0, 0), (262144.0, 0)];
        assert_eq!(run(65536.0, 1, "gggi"), expected);
    }

    #[test]
    fn refuses_to_grow_to_infinity() {
        let top = f32::from_bits(0x7f00_0000);
        assert_eq!(run(top, 1, "ggg"), [(top, 0); 3]);
    }

    #[test]
    fn follows_torch_through_mixed_steps() {
        let scales: Vec<f32> = run(64.0, 3, "gggigggigiigggggii").into_iter().map(|state| state.0).collect();
        let expected = [64, 64, 128, 64, 64, 64, 128, 64, 64, 32, 16, 16, 16, 32, 32, 32, 16, 8];
        assert_eq!(scales, expected.map(|scale| scale as f32));
    }

    #[test]
    fn rounds_the_f64_product_once() {
        let rule = ScaleRule { growth: 1.1, backoff: 0.5, interval: 1 };
        let scales: Vec<f32> = run_with(rule, 65536.0, "gg").into_iter().map(|state| state.0).collect();
        assert_eq!(scales, [72_089.6, 79_298.56]);
    }

    #[test]
    fn a_scale_halves_to_zero_after_166_bad_steps() {
        let states = run(65536.0, 2000, &"i".repeat(166));
        assert_eq!(states[15].0, 1.0);
        assert_eq!(states[164].0.to_bits(), 1);
        assert_eq!(states[165].0, 0.0);
    }

    #[test]
    fn interval_zero_never_grows() {
        assert_eq!(run(64.0, 0, "ggg"), [(64.0, 1), (64.0, 2), (64.0, 3)]);
    }
}
