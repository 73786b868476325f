//! Which states of a run are written and which of them stay: the manifest's `checkpoint`.
//!
//! **Invariant: a function of the rule and of the events so far**, so that a resumed run keeps what an uninterrupted one
//! keeps, and a record says by itself which of the states that it names should still be there.

use super::session::{Length, falls_on};
use crate::plan::Checkpoint;
use crate::record::{Evaluation, Event, Record};

/// The folder of states below a run's folder.
pub const FOLDER: &str = crate::store::STATES;

/// The file of the state after `step` steps, relative to the run's folder.
pub fn file_name(step: u64) -> String {
    format!("{FOLDER}/{step:08}.safetensors")
}

/// True for the file of a state, as a record names it; the last checkpoint of a run lies beside the record.
pub fn is_state(file: &str) -> bool {
    file.strip_prefix(FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// What is known while a run goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Keeper {
    rule: Option<Checkpoint>,
    length: Length,
    /// The first evaluation of a step is of this split, where the best state is kept.
    split: Option<String>,
    /// Step and value of the best evaluation.
    best: Option<(u64, f32)>,
    /// The steps whose states were written, oldest first.
    written: Vec<u64>,
}

impl Keeper {
    /// The keeper of a run before its first step. The best is sought among the evaluations of the split `validation`, or of
    /// the first one by name where there is none of that name.
    pub fn new<'a>(rule: Option<Checkpoint>, length: Length, splits: impl Iterator<Item = &'a str>) -> Self {
        let mut splits: Vec<&str> = splits.filter(|name| *name != "train").collect();
        splits.sort_unstable();
        let split = splits.iter().find(|name| **name == "validation").or(splits.first());
        Self { rule, length, split: split.map(|name| (*name).to_owned()), best: None, written: Vec::new() }
    }

    /// Takes notice of an event.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Evaluation(evaluation) => self.evaluation(evaluation),
            Event::Checkpoint(checkpoint) if is_state(&checkpoint.file) => self.written.push(checkpoint.step),
            _ => {}
        }
    }

    fn evaluation(&mut self, evaluation: &Evaluation) {
        let Some(metric) = self.rule.as_ref().and_then(|rule| rule.best.as_deref()) else { return };
        let Some(value) = evaluation.metrics.get(metric).copied().filter(|value| !value.is_nan()) else {
            return;
        };
        if self.split.as_ref() != Some(&evaluation.split) {
            return;
        }
        // Of equal ones the first stays.
        let better = |best: f32| if metric == "loss" { value < best } else { value > best };
        if self.best.is_none_or(|(_, best)| better(best)) {
            self.best = Some((evaluation.step, value));
        }
    }

    /// Whether the state after `done` steps is to be written: by the rhythm, or because it is the best so far.
    pub fn is_due(&self, done: u64) -> bool {
        let Some(rule) = &self.rule else { return false };
        falls_on(rule.every, done, &self.length) || self.best.is_some_and(|(step, _)| step == done)
    }

    /// The best evaluation so far: its step and the bits of the metric.
    pub fn best(&self) -> Option<(u64, u32)> {
        self.best.map(|(step, value)| (step, value.to_bits()))
    }

    /// The steps whose states stay: the newest ones, and the best.
    pub fn kept(&self) -> Vec<u64> {
        let Some(rule) = &self.rule else { return Vec::new() };
        let first = self.written.len().saturating_sub(rule.keep as usize);
        let best = self.best.map(|(step, _)| step);
        let stays = |(index, step): &(usize, &u64)| *index >= first || Some(**step) == best;
        self.written.iter().enumerate().filter(stays).map(|(_, step)| *step).collect()
    }
}

/// The states that a record names and that should still be there, when its rule is known.
pub fn kept_of(record: &Record, rule: &Checkpoint) -> Vec<u64> {
    let length = Length { steps: record.started.steps, steps_per_epoch: u64::MAX };
    let splits: Vec<String> = record.evaluations().map(|(evaluation, _)| evaluation.split.clone()).collect();
    let mut keeper = Keeper::new(Some(rule.clone()), length, splits.iter().map(String::as_str));
    record.events.iter().for_each(|line| keeper.event(&line.event));
    keeper.kept()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::plan::Every;
    use std::collections::BTreeMap;

    fn keeper(keep: u32, best: Option<&str>, splits: &[&str]) -> Keeper {
        let rule = Checkpoint { every: Every::Steps(10), keep, best: best.map(str::to_owned) };
        let length = Length { steps: 100, steps_per_epoch: 25 };
        Keeper::new(Some(rule), length, splits.iter().copied())
    }

    fn evaluated(step: u64, split: &str, metric: &str, value: f32) -> Event {
        let metrics = BTreeMap::from([(metric.to_owned(), value)]);
        Event::Evaluation(Evaluation { step, split: split.to_owned(), examples: 1, metrics })
    }

    fn written(step: u64) -> Event {
        let (file, digest) = (file_name(step), Digest([0; 32]));
        Event::Checkpoint(crate::record::Checkpoint { step, file, digest })
    }

    #[test]
    fn the_newest_stay_and_the_best_besides() {
        let mut keeper = keeper(2, Some("accuracy"), &["train", "test"]);
        for (step, value) in [(10, 0.5), (20, 0.75), (30, 0.75), (40, 0.25)] {
            keeper.event(&evaluated(step, "test", "accuracy", value));
            keeper.event(&written(step));
        }
        // Of the two equal ones the first is the best.
        assert_eq!((keeper.kept(), keeper.best()), (vec![20, 30, 40], Some((20, 0.75_f32.to_bits()))));
        keeper.event(&evaluated(50, "test", "accuracy", f32::NAN));
        keeper.event(&written(50));
        assert_eq!(keeper.kept(), [20, 40, 50]);
    }

    #[test]
    fn a_state_is_due_by_the_rhythm_or_as_the_best() {
        let mut keeper = keeper(1, Some("loss"), &["test", "validation"]);
        let due = |keeper: &Keeper| (1..=40).filter(|step| keeper.is_due(*step)).collect::<Vec<_>>();
        assert_eq!(due(&keeper), [10, 20, 30, 40]);
        keeper.event(&evaluated(25, "test", "loss", 0.1));
        assert_eq!(due(&keeper), [10, 20, 30, 40], "`validation` decides");
        keeper.event(&evaluated(25, "validation", "loss", 2.0));
        assert_eq!(due(&keeper), [10, 20, 25, 30, 40]);
        keeper.event(&evaluated(31, "validation", "loss", 2.5));
        assert_eq!(due(&keeper), [10, 20, 25, 30, 40]);
    }

    #[test]
    fn without_a_rule_nothing_is_written_or_kept() {
        let length = Length { steps: 100, steps_per_epoch: 25 };
        let mut keeper = Keeper::new(None, length, ["test"].into_iter());
        keeper.event(&evaluated(25, "test", "accuracy", 1.0));
        assert!(!keeper.is_due(25) && keeper.kept().is_empty());
    }

    #[test]
    fn names_of_states_are_told_from_the_last_checkpoint() {
        assert_eq!(file_name(40), "checkpoints/00000040.safetensors");
        assert!(
            is_state(&file_name(7)) && !is_state("model.safetensors") && !is_state("checkpoints.safetensors")
        );
    }
}
