//! The rule against PyTorch's own class, and against the classes of DeepSpeed and Megatron.

use super::{ScaleRule, ScaleState, TORCH, update};
use crate::diag::number::counted;
use crate::graph::ScaleGuard;

/// The states after each letter: `g` a finite step, `i` a non-finite one.
fn run(scale: f32, interval: i32, steps: &str) -> Vec<(f32, i32)> {
    run_with(ScaleRule::torch(2.0, 0.5, interval), scale, steps)
}

fn run_with(rule: ScaleRule, scale: f32, steps: &str) -> Vec<(f32, i32)> {
    states(rule, scale, steps).into_iter().map(|state| (state.scale, state.tracker)).collect()
}

fn states(rule: ScaleRule, scale: f32, steps: &str) -> Vec<ScaleState> {
    let mut state = ScaleState { scale, ..ScaleState::default() };
    let step = |letter: char| {
        state = update(&rule, state, letter == 'i');
        state
    };
    steps.chars().map(step).collect()
}

// The expected states of the next tests were produced by running torch 2.15.0's own scaler.

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
    let rule = ScaleRule::torch(1.1, 0.5, 1);
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

/// Every number of 200 runs of PyTorch's own `GradScaler`, with random factors, intervals, first scales and overflows.
#[test]
fn follows_torch_through_200_random_runs() {
    let text = include_str!("../testdata/grad_scaler.txt");
    let mut runs = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [init, growth, backoff, interval, steps, expected @ ..] = words.as_slice() else {
            panic!("a line of the file: {line}");
        };
        let bits = |text: &str| u32::from_str_radix(text, 16).expect("bits of an f32");
        let factor = |text: &str| f64::from_bits(u64::from_str_radix(text, 16).expect("bits of an f64"));
        let rule = ScaleRule::torch(factor(growth), factor(backoff), interval.parse().expect("an interval"));
        let found = run_with(rule, f32::from_bits(bits(init)), steps);
        assert_eq!(found.len(), expected.len(), "{line}");
        for ((scale, tracker), expected) in found.into_iter().zip(expected) {
            assert_eq!(format!("{:x}:{tracker}", scale.to_bits()), *expected, "{line}");
        }
        runs += 1;
    }
    assert_eq!(runs, 200);
}

/// The pattern that all of the classes were run with, from scale 64 and window 3, with a floor of 1.
const PATTERN: &str = "gggigggigiigggggii";

fn guarded(guard: ScaleGuard) -> Vec<f32> {
    let rule = ScaleRule { guard: Some(guard), ..ScaleRule::torch(2.0, 0.5, 3) };
    states(rule, 64.0, PATTERN).into_iter().map(|state| state.scale).collect()
}

// What megatron_core 0.16.1's DynamicGradScaler and DeepSpeed 0.19.8's DynamicLossScaler gave.

#[test]
fn follows_megatron() {
    let torch = [64, 64, 128, 64, 64, 64, 128, 64, 64, 32, 16, 16, 16, 32, 32, 32, 16, 8];
    assert_eq!(guarded(ScaleGuard { floor: 1.0, ..TORCH }), torch.map(|scale| scale as f32));
    let two = [64, 64, 128, 128, 128, 128, 256, 256, 256, 128, 64, 64, 64, 128, 128, 128, 128, 64];
    assert_eq!(guarded(ScaleGuard { hysteresis: 2, floor: 1.0, ..TORCH }), two.map(|scale| scale as f32));
}

#[test]
fn follows_deepspeed() {
    let late = ScaleGuard { late: true, floor: 1.0, ..TORCH };
    let one = [64, 64, 64, 32, 32, 32, 32, 16, 16, 8, 4, 4, 4, 4, 8, 8, 4, 2];
    assert_eq!(guarded(late), one.map(|scale| scale as f32));
    let two = [64, 64, 64, 64, 64, 64, 64, 32, 32, 16, 8, 8, 8, 8, 16, 16, 16, 8];
    assert_eq!(guarded(ScaleGuard { hysteresis: 2, ..late }), two.map(|scale| scale as f32));
    let in_row = [64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 32, 32, 32, 32, 64, 64, 64, 32];
    let guard = ScaleGuard { hysteresis: 2, refill_on_good: true, ..late };
    assert_eq!(guarded(guard), in_row.map(|scale| scale as f32));
    let rule = ScaleRule { guard: Some(late), ..ScaleRule::torch(2.0, 0.5, 3) };
    let good: Vec<f32> = states(rule, 64.0, "gggggggg").into_iter().map(|state| state.scale).collect();
    assert_eq!(good, [64.0, 64.0, 64.0, 128.0, 128.0, 128.0, 256.0, 256.0]);
}

#[test]
fn megatrons_count_of_tolerated_steps() {
    // Its tracker counts down from 2 and goes on below 0: 2 2 2 1 1 1 2 1 1 0 -1 -1 -1 2 2 2 1 0.
    let rule = ScaleRule {
        guard: Some(ScaleGuard { hysteresis: 2, floor: 1.0, ..TORCH }),
        ..ScaleRule::torch(2.0, 0.5, 3)
    };
    let tolerated: Vec<i32> = states(rule, 64.0, PATTERN).into_iter().map(|state| state.tolerated).collect();
    let trackers = [2, 2, 2, 1, 1, 1, 2, 1, 1, 0, -1, -1, -1, 2, 2, 2, 1, 0];
    assert_eq!(tolerated, trackers.map(|tracker: i32| 2 - tracker.max(1)));
}

#[test]
fn a_scale_stays_between_floor_and_ceiling() {
    let guard = ScaleGuard { floor: 3.0, ceiling: 40.0, ..TORCH };
    let rule = ScaleRule { guard: Some(guard), ..ScaleRule::torch(2.0, 0.5, 1) };
    let scales: Vec<f32> = states(rule, 10.0, "iiggggi").into_iter().map(|state| state.scale).collect();
    assert_eq!(scales, [5.0, 3.0, 6.0, 12.0, 24.0, 40.0, 20.0]);
}

#[test]
fn skipped_steps_in_a_row_are_counted() {
    let rule = ScaleRule { guard: Some(TORCH), ..ScaleRule::torch(2.0, 0.5, 2000) };
    let skips: Vec<i32> = states(rule, 64.0, "giigiii").into_iter().map(|state| state.skips).collect();
    assert_eq!(skips, [0, 1, 2, 0, 1, 2, 3]);
}

#[test]
fn a_guard_that_guards_nothing_is_pytorchs_rule() {
    for interval in [1, 2, 3, i32::MAX] {
        let rule = ScaleRule::torch(1.7, 0.3, interval);
        let with = ScaleRule { guard: Some(TORCH), ..rule };
        assert_eq!(run_with(rule, 65536.0, PATTERN), run_with(with, 65536.0, PATTERN));
    }
}
