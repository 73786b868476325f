//! The loss scale seen from the host: what a step did to it and why, and when it ends a run.
//!
//! The device moves the scale by itself (`Op::ScalerUpdate`); this follows with the same function, so that nothing has to be
//! read back to know the state. Invariant: after every step, scale and counts here are those of the device.

use super::backend::Backend;
use super::fault::ExecFault;
use super::reference::scaler::{ScaleRule, ScaleState, update};
use crate::autodiff::scaler_update;
use crate::graph::Op;
use crate::plan::{AtFloor, Scaler, SkipRules};

/// Follows the scaler of a run.
#[derive(Clone, Debug)]
pub struct Scaling {
    scaler: Scaler,
    rule: Option<ScaleRule>,
    state: ScaleState,
    skipped: u64,
    /// How often the scale fell since the last good step, and from where.
    falls: u32,
    fell_from: f32,
}

/// What a step did to the scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The scale that the step was computed with.
    pub before: f32,
    /// The state that the next step has.
    pub after: ScaleState,
    /// How often the scale fell since the last good step; 0 unless this step made it fall.
    pub falls: u32,
    /// Where it fell from, the first time.
    pub fell_from: f32,
    /// Why the run ends here, if it does.
    pub stop: Option<Stop>,
}

impl Outcome {
    /// Whether the fall of the scale is worth a word: two falls are how a scale is found; from the third on somebody should
    /// look, and less and less often.
    pub fn tells_a_fall(&self) -> bool {
        self.falls >= 3 && (self.falls - 3).is_multiple_of(4) && self.stop.is_none()
    }

    /// Whether it is worth the time of a step to find the first value that is not finite.
    pub fn looks(&self) -> bool {
        let row = u32::try_from(self.after.skips).unwrap_or(0);
        self.stop.is_some() || self.tells_a_fall() || row.is_power_of_two()
    }
}

/// Why a scaler ends a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// The scale would fall below this.
    Floor(f32),
    /// More than this many steps in a row were skipped.
    InRow(u32),
    /// More than this many steps in all were skipped.
    Total(u64),
}

/// The rule of the op that moves the scale; `None` where it does not move.
fn rule_of(scaler: &Scaler) -> Option<ScaleRule> {
    match scaler_update(scaler) {
        Some(Op::ScalerUpdate { growth, backoff, interval, guard }) => {
            let interval = i32::try_from(interval).unwrap_or(i32::MAX);
            Some(ScaleRule { guard, ..ScaleRule::torch(growth, backoff, interval) })
        }
        _ => None,
    }
}

impl Scaling {
    /// At the first step.
    pub fn new(scaler: &Scaler) -> Self {
        let scale = scaler.first_scale();
        Self {
            scaler: scaler.clone(),
            rule: rule_of(scaler),
            state: ScaleState { scale, ..ScaleState::default() },
            skipped: 0,
            falls: 0,
            fell_from: scale,
        }
    }

    /// As the device has it after `done` steps, skipped ones included: 0 at the start, more where a run goes on.
    ///
    /// # Errors
    /// The device's own.
    pub fn read(scaler: &Scaler, engine: &mut dyn Backend, done: u64) -> Result<Self, ExecFault> {
        let mut scaling = Self::new(scaler);
        if done == 0 {
            return Ok(scaling);
        }
        let scale = engine.scale()?;
        let [tracker, tolerated, skips, applied] =
            ["scaler.tracker", "scaler.tolerated", "scaler.skips", "step"];
        let mut count = |name: &str| -> Result<i32, ExecFault> {
            let cell = engine.cell(name)?;
            Ok(cell.and_then(|cell| cell.integers(1).first().copied()).unwrap_or(0))
        };
        let counts = [count(tracker)?, count(tolerated)?, count(skips)?];
        let applied = u64::try_from(count(applied)?).unwrap_or(0);
        scaling.set(counts, scale, done.saturating_sub(applied));
        Ok(scaling)
    }

    /// Goes on from counts that were kept: good steps since the scale moved, tolerated steps, skipped steps in a row; the scale;
    /// skipped steps in all.
    pub fn set(&mut self, [tracker, tolerated, skips]: [i32; 3], scale: f32, skipped: u64) {
        self.state = ScaleState { scale, tracker, tolerated, skips };
        (self.skipped, self.falls, self.fell_from) = (skipped, 0, scale);
    }

    /// Goes on with another scaler from its beginning; the count of skipped steps in all stays.
    pub fn restart(&mut self, scaler: &Scaler) {
        *self = Self { skipped: self.skipped, ..Self::new(scaler) };
    }

    /// Steps that were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The state that the next step has.
    pub fn state(&self) -> ScaleState {
        self.state
    }

    /// The step of the schedule that step `number` (from 0) has.
    pub fn schedule_step(&self, number: u64) -> u64 {
        if self.scaler.skips().hold_rate { number.saturating_sub(self.skipped) } else { number }
    }

    /// Good steps since the scale moved; `None` where it does not move.
    pub fn tracker(&self) -> Option<i32> {
        self.rule.is_some_and(|_| matches!(self.scaler, Scaler::Dynamic { .. })).then_some(self.state.tracker)
    }

    /// Takes a step in which a non-finite gradient was `found`, or not.
    pub fn step(&mut self, found: bool) -> Outcome {
        let before = self.state;
        match &self.rule {
            Some(rule) => self.state = update(rule, before, found),
            None => self.state.skips = if found { before.skips.saturating_add(1) } else { 0 },
        }
        self.skipped += u64::from(found);
        let fell = found && self.state.scale < before.scale;
        if !found || self.falls == 0 {
            self.fell_from = before.scale;
        }
        self.falls = if found { self.falls + u32::from(fell) } else { 0 };
        Outcome {
            before: before.scale,
            after: self.state,
            falls: if fell { self.falls } else { 0 },
            fell_from: self.fell_from,
            stop: found.then(|| self.stop(before)).flatten(),
        }
    }

    fn stop(&self, before: ScaleState) -> Option<Stop> {
        if let Scaler::Dynamic { floor, knobs, .. } = &self.scaler {
            let tolerated = self.state.tolerated != before.tolerated;
            let below = match knobs.at_floor {
                AtFloor::Stop => self.state.scale < *floor,
                AtFloor::Hold => false,
                AtFloor::HoldOnce => before.scale <= *floor && !tolerated,
            };
            if below {
                return Some(Stop::Floor(*floor));
            }
        }
        let SkipRules { in_row, total, .. } = self.scaler.skips();
        if in_row > 0 && i64::from(self.state.skips) > i64::from(in_row) {
            return Some(Stop::InRow(in_row));
        }
        (total > 0 && self.skipped > total).then_some(Stop::Total(total))
    }
}

/// The first value of a step that is not finite, in the order of execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonFinite {
    /// Its name in the step graph.
    pub name: String,
    /// The op that made it; `None` for the batch itself.
    pub op: Option<&'static str>,
    /// The op's layer.
    pub layer: String,
    /// Whether it belongs to the backward pass.
    pub backward: bool,
    /// Its format.
    pub format: &'static str,
}

impl NonFinite {
    /// What it is and what made it, for a sentence.
    pub fn what(&self) -> String {
        let Self { name, op, layer, backward, format } = self;
        match op {
            None => format!("`{name}`, which the data holds"),
            Some(op) => {
                let pass = if *backward { "backward" } else { "forward" };
                format!("`{name}` ({format}, `{op}` of layer `{layer}`, {pass} pass)")
            }
        }
    }

    /// The likely cause and what to change.
    pub fn cause(&self) -> String {
        let layer = &self.layer;
        match (self.op, self.backward, self.format) {
            (None, _, _) => "the data holds values that are not finite; clean it, or give `normalise`".to_owned(),
            (Some(_), false, "f16") => format!(
                "the forward pass overflows in f16, which no loss scale helps; write `layer \"{layer}\" dtype=\"f32\"` in `precision`, or take amp-bf16"
            ),
            (Some(_), false, _) => {
                "the forward pass itself is not finite; lower the learning rate, or look for odd values in the data".to_owned()
            }
            (Some(_), true, _) => format!(
                "a gradient overflows at this scale; where the scale does not settle, begin lower (`scaler init=`), or write `layer \"{layer}\" dtype=\"f32\"` in `precision`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Scaling, Stop};
    use crate::autodiff::samples;
    use crate::plan::{AtFloor, ScaleKnobs, Scaler, SkipRules};

    fn scaling(init: f32, floor: f32, at_floor: AtFloor, skips: SkipRules) -> Scaling {
        let mut sample = samples::mlp();
        let knobs = ScaleKnobs { at_floor, ..ScaleKnobs::default() };
        sample.plan.scaler =
            Scaler::Dynamic { init, growth: 2.0, backoff: 0.5, interval: 3, floor, knobs, skips };
        Scaling::new(&sample.plan.scaler)
    }

    /// The scale after each letter, and the stop that ends the list.
    fn run(mut scaling: Scaling, letters: &str) -> (Vec<f32>, Option<Stop>) {
        let mut scales = Vec::new();
        for letter in letters.chars() {
            let outcome = scaling.step(letter == 'i');
            scales.push(outcome.after.scale);
            if outcome.stop.is_some() {
                return (scales, outcome.stop);
            }
        }
        (scales, None)
    }

    #[test]
    fn three_ways_to_meet_the_floor() {
        let at = |floor| scaling(4.0, 1.5, floor, SkipRules::default());
        assert_eq!(run(at(AtFloor::Stop), "iiii"), (vec![2.0, 1.0], Some(Stop::Floor(1.5))));
        assert_eq!(run(at(AtFloor::Hold), "iiii"), (vec![2.0, 1.5, 1.5, 1.5], None));
        assert_eq!(run(at(AtFloor::HoldOnce), "iiii"), (vec![2.0, 1.5, 1.5], Some(Stop::Floor(1.5))));
    }

    #[test]
    fn a_budget_of_skipped_steps_ends_the_run() {
        let rules = SkipRules { in_row: 2, ..SkipRules::default() };
        let at = |skips| scaling(65536.0, 1.0, AtFloor::Stop, skips);
        assert_eq!(run(at(rules), "iigiig").1, None);
        assert_eq!(run(at(rules), "iigiii"), (run(at(rules), "iigiii").0, Some(Stop::InRow(2))));
        let rules = SkipRules { total: 3, ..SkipRules::default() };
        let (scales, stop) = run(at(rules), "igigigig");
        assert_eq!((scales.len(), stop), (7, Some(Stop::Total(3))));
    }

    #[test]
    fn a_static_scale_has_a_budget_too() {
        let mut sample = samples::mlp();
        let skips = SkipRules { in_row: 1, ..SkipRules::default() };
        sample.plan.scaler = Scaler::Static { scale: 128.0, skips };
        let (scales, stop) = run(Scaling::new(&sample.plan.scaler), "gigii");
        assert_eq!((scales, stop), (vec![128.0; 5], Some(Stop::InRow(1))));
    }

    #[test]
    fn the_schedule_can_wait_for_applied_steps() {
        let mut held =
            scaling(65536.0, 1.0, AtFloor::Stop, SkipRules { hold_rate: true, ..SkipRules::default() });
        let mut advancing = scaling(65536.0, 1.0, AtFloor::Stop, SkipRules::default());
        for letter in [false, true, true, false] {
            let _ = (held.step(letter), advancing.step(letter));
        }
        assert_eq!((held.schedule_step(4), advancing.schedule_step(4)), (2, 4));
    }

    #[test]
    fn falls_are_counted_until_a_good_step() {
        let mut scaling = scaling(64.0, 1.0, AtFloor::Stop, SkipRules::default());
        let mut falls = Vec::new();
        for letter in "iigii".chars() {
            let outcome = scaling.step(letter == 'i');
            falls.push((outcome.falls, outcome.fell_from));
        }
        assert_eq!(falls, [(1, 64.0), (2, 64.0), (0, 16.0), (1, 16.0), (2, 16.0)]);
    }
}
