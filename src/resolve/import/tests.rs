//! Each library's rule, written down again from its documentation, beside the node that was read: the scales are the same after
//! every step of random patterns.

use super::{Imported, scaler};
use crate::plan::{AtFloor, Refill, ScaleKnobs, Scaler, SkipRules};
use crate::resolve::tests::{compose, resolved};

/// A generator for tests: numbers that look random and are the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pattern(&mut self) -> Vec<bool> {
        let share = [2, 5, 10, 40][self.below(4) as usize];
        (0..60).map(|_| self.below(share) == 0).collect()
    }
}

fn read(text: &str) -> Imported {
    scaler(text, None).unwrap_or_else(|message| panic!("{text}: {message}"))
}

/// The scale after each step by amp's rule, up to the step that ends the run.
fn by_amp(scaler: &Scaler, pattern: &[bool]) -> Vec<f32> {
    let Scaler::Dynamic { init, growth, backoff, interval, floor, knobs, .. } = scaler else {
        panic!("{scaler:?} does not move");
    };
    let mut state = (*init, 0_u32, 0_u32);
    let mut scales = Vec::new();
    for found in pattern {
        let (scale, tracker, tolerated) = state;
        let lowered = (f64::from(scale) * backoff) as f32;
        let due = interval + u32::from(knobs.late_growth);
        state = match found {
            true if tolerated + 1 < knobs.hysteresis => (scale, 0, tolerated + 1),
            true if knobs.at_floor == AtFloor::HoldOnce && scale <= *floor => return scales,
            true if knobs.at_floor == AtFloor::Stop && lowered < *floor => return scales,
            true => (lowered.max(*floor), 0, tolerated),
            false if tracker + 1 == due => {
                let grown = (f64::from(scale) * growth) as f32;
                (if grown.is_finite() { grown } else { scale }, u32::from(knobs.late_growth), 0)
            }
            false if knobs.refill == Refill::GoodStep => (scale, tracker + 1, 0),
            false => (scale, tracker + 1, tolerated),
        };
        scales.push(state.0);
    }
    scales
}

/// DeepSpeed's rule: `cur_iter` and `last_overflow_iter`, as its documentation and class say it; ends where it raises.
fn by_deepspeed(
    power: u32,
    window: i64,
    hysteresis: i64,
    in_row: bool,
    min: f64,
    pattern: &[bool],
) -> Vec<f32> {
    let (mut scale, mut current, mut last) = (f64::from(1_u32 << power), hysteresis, -1_i64);
    let mut scales = Vec::new();
    for (iteration, overflow) in (0_i64..).zip(pattern) {
        if *overflow {
            if hysteresis == 1 || current == 1 {
                if scale == min {
                    return scales;
                }
                scale = (scale / 2.0).max(min);
            } else {
                current -= 1;
            }
            last = iteration;
        } else {
            if in_row {
                current = hysteresis;
            }
            let stable = iteration - last - 1;
            if stable > 0 && stable % window == 0 {
                if !in_row {
                    current = hysteresis;
                }
                scale *= 2.0;
            }
        }
        scales.push(scale as f32);
    }
    scales
}

#[test]
fn a_deepspeed_block_moves_as_deepspeed() {
    let mut draw = Draw(1);
    for _ in 0..300 {
        let (power, window, hysteresis) = (draw.below(17), 1 + draw.below(6), 1 + draw.below(3));
        let in_row = draw.below(2) == 0;
        let min = [1.0, 0.25, 1.0 / 64.0][draw.below(3) as usize];
        let text = format!(
            r#"{{"fp16": {{"enabled": true, "initial_scale_power": {power}, "loss_scale_window": {window},
            "hysteresis": {hysteresis}, "consecutive_hysteresis": {in_row}, "min_loss_scale": {min}}}}}"#
        );
        let pattern = draw.pattern();
        let expected = by_deepspeed(power as u32, window as i64, hysteresis as i64, in_row, min, &pattern);
        assert_eq!(by_amp(&read(&text).scaler, &pattern), expected, "{text} {pattern:?}");
    }
}

/// Megatron's rule: a growth tracker and a hysteresis tracker that goes on below 0.
fn by_megatron(init: f64, window: i64, hysteresis: i64, min: f64, pattern: &[bool]) -> Vec<f32> {
    let (mut scale, mut growth, mut left) = (init, 0, hysteresis);
    let mut scales = Vec::new();
    for overflow in pattern {
        if *overflow {
            growth = 0;
            left -= 1;
            if left <= 0 {
                scale = (scale * 0.5).max(min);
            }
        } else {
            growth += 1;
            if growth == window {
                growth = 0;
                left = hysteresis;
                scale *= 2.0;
            }
        }
        scales.push(scale as f32);
    }
    scales
}

#[test]
fn megatrons_flags_move_as_megatron() {
    let mut draw = Draw(2);
    for _ in 0..300 {
        let (init, window, hysteresis) = (1_u64 << draw.below(33), 1 + draw.below(6), 1 + draw.below(3));
        let text = format!(
            "pretrain_gpt.py --fp16 --initial-loss-scale {init} \\\n  --min-loss-scale=0.5 --loss-scale-window {window} --hysteresis {hysteresis}"
        );
        let pattern = draw.pattern();
        let expected = by_megatron(init as f64, window as i64, hysteresis as i64, 0.5, &pattern);
        assert_eq!(by_amp(&read(&text).scaler, &pattern), expected, "{text} {pattern:?}");
    }
}

#[test]
fn defaults_are_the_libraries_own() {
    let hold = SkipRules { hold_rate: true, ..SkipRules::default() };
    let deepspeed = Scaler::Dynamic {
        init: 65536.0,
        growth: 2.0,
        backoff: 0.5,
        interval: 1000,
        floor: 1.0,
        knobs: ScaleKnobs {
            hysteresis: 2,
            late_growth: true,
            at_floor: AtFloor::HoldOnce,
            ..ScaleKnobs::default()
        },
        skips: hold,
    };
    assert_eq!(read(r#"{"fp16": {"enabled": true}}"#).scaler, deepspeed);
    let megatron = Scaler::Dynamic {
        init: 4_294_967_296.0,
        growth: 2.0,
        backoff: 0.5,
        interval: 1000,
        floor: 1.0,
        knobs: ScaleKnobs { hysteresis: 2, at_floor: AtFloor::Hold, ..ScaleKnobs::default() },
        skips: hold,
    };
    assert_eq!(read("--fp16").scaler, megatron);
    let torch = Scaler::Dynamic {
        init: 65536.0,
        growth: 2.0,
        backoff: 0.5,
        interval: 2000,
        floor: f32::from_bits(1),
        knobs: ScaleKnobs::default(),
        skips: SkipRules::default(),
    };
    assert_eq!(read("scaler = torch.amp.GradScaler()").scaler, torch);
}

#[test]
fn what_scales_nothing_is_no_scaler() {
    for text in [
        r#"{"fp16": {"enabled": false}}"#,
        r#"{"fp16": {}}"#,
        "--bf16 --lr 1e-4",
        "GradScaler('cuda', enabled=False)",
    ] {
        assert_eq!(read(text).scaler, Scaler::None, "{text}");
        assert_eq!(read(text).node(), "scaler \"std:scalers/none\"");
    }
}

#[test]
fn nodes_of_each() {
    for (text, node) in [
        (
            r#"{"fp16": {"enabled": true, "loss_scale": 128}}"#,
            "scaler \"std:scalers/static\" scale=128.0 lr-on-skip=\"hold\"",
        ),
        (
            r#"{"enabled": true, "initial_scale_power": 12, "consecutive_hysteresis": true}"#,
            "scaler \"std:scalers/guarded\" init=4096.0 growth=2.0 backoff=0.5 interval=1000 floor=1.0 hysteresis=2 refill=\"good-step\" late-growth=#true at-floor=\"hold-once\" lr-on-skip=\"hold\"",
        ),
        (
            "--fp16 --loss-scale-window 500 --hysteresis 1",
            "scaler \"std:scalers/guarded\" init=4294967296.0 growth=2.0 backoff=0.5 interval=500 floor=1.0 at-floor=\"hold\" lr-on-skip=\"hold\"",
        ),
        (
            "torch.cuda.amp.GradScaler(2.**12, growth_interval=500)",
            "scaler \"std:scalers/dynamic\" init=4096.0 growth=2.0 backoff=0.5 interval=500 floor=1e-45",
        ),
        (
            "ShardedGradScaler('cuda', 1024.0, 0.25, 4.0, 7)",
            "scaler \"std:scalers/dynamic\" init=1024.0 growth=4.0 backoff=0.25 interval=7 floor=1e-45",
        ),
        (
            "GradScaler(\n  device=\"cuda\",  # the first (and only)\n  init_scale=2 ** -3, growth_interval=-1)",
            "scaler \"std:scalers/dynamic\" init=0.125 growth=2.0 backoff=0.5 interval=4294967295 floor=1e-45",
        ),
    ] {
        assert_eq!(read(text).node(), node);
    }
}

#[test]
fn nodes_are_read_back_as_what_they_say() {
    for text in [
        r#"{"fp16": {"enabled": true}}"#,
        r#"{"fp16": {"enabled": true, "loss_scale": 3.5}}"#,
        "--fp16 --hysteresis 3",
        "GradScaler(init_scale=65536., growth_factor=1.7, backoff_factor=0.3)",
        "GradScaler(enabled=False)",
    ] {
        let imported = read(text);
        let (manifest, world) = compose(&format!("precision \"amp-fp16\"\n{}\n", imported.node()));
        let (plan, faults, _) = resolved(&manifest, &world);
        let plan = plan.unwrap_or_else(|| panic!("{manifest}: {faults:?}"));
        assert_eq!(plan.scaler, imported.scaler, "{text}");
    }
}

#[test]
fn faults_say_what_was_found() {
    for (text, words) in [
        ("", "found neither JSON"),
        ("{", "found no JSON"),
        ("{\"bf16\": {}}", "found no `fp16` block"),
        ("{\"fp16\": {\"enabled\": 1}}", "expected true or false"),
        ("{\"fp16\": {\"enabled\": true, \"loss_scale\": -1}}", "expected a number above 0"),
        ("{\"fp16\": {\"enabled\": true, \"loss_scale_window\": 0}}", "from 1 to"),
        ("{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 200}}", "from 0 to 127"),
        ("{\"fp16\": {\"enabled\": true, \"min_loss_scale\": 1e6}}", "above the first scale"),
        ("--fp16 --loss-scale", "`--loss-scale nothing`"),
        ("--fp16 --hysteresis two", "`--hysteresis two`"),
        ("GradScaler(init_scale=0)", "expected a number above 0"),
        ("GradScaler(growth_factor=1)", "above 1"),
        ("GradScaler(backoff_factor=-0.5)", "between 0 and 1"),
        ("GradScaler(scale=2)", "does not take"),
        ("GradScaler(init_scale=start)", "expected a number"),
        ("GradScaler(1, 2, 0.5, 4, True, 6)", "too many"),
        ("GradScaler(2**16", "no `)`"),
    ] {
        let message = scaler(text, None).expect_err(text);
        assert!(message.contains(words), "{text}: {message}");
    }
    assert!(scaler("{}", Some("apex")).expect_err("unknown").contains("deepspeed, megatron, pytorch"));
}
