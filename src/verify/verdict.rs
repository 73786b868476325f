//! The comparison and its three answers.

use super::recorded::{Fault, Recorded};
use super::{DIFFERS, INCONCLUSIVE, NOT_DETERMINISTIC};
use crate::diag::Code;
use crate::diff::records::differences;
use crate::digest::Digest;
use crate::lock::RecordedEvaluation;
use crate::lock::write::float_text;
use crate::record::float::ulps;
use crate::record::{Event, Record};
use std::collections::BTreeMap;

/// What the actual run is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// Results that were recorded earlier, here or elsewhere.
    Recorded,
    /// A second run of the same lock on the same machine.
    SecondRun,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All that was expected was compared and is equal.
    Same,
    /// Something is not equal.
    Differs,
    /// Nothing differs, and not all could be compared.
    Inconclusive,
}

impl Answer {
    /// The word for it in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Something that is not equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What it is: `step 12 loss`, `evaluation test at step 440 accuracy`, `parameters`.
    pub what: String,
    /// The step, for what belongs to one.
    pub step: Option<u64>,
    /// What was expected.
    pub expected: String,
    /// What the run gave.
    pub actual: String,
    /// Distance in units in the last place, for two numbers.
    pub ulps: Option<u64>,
}

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// The run id of the actual run.
    pub run_id: Digest,
    /// The chain at the end of the actual run.
    pub chain: Digest,
    /// How many steps, evaluations and final digests were compared.
    pub compared: usize,
    /// How many of them are not equal.
    pub unequal: usize,
    /// The differences in order, [`MOST_DIFFERENCES`] at most.
    pub differences: Vec<Difference>,
    /// The first step at which something is known to differ.
    pub first_step: Option<u64>,
    /// The last step before it at which all was known to be equal; the first difference lies after it.
    pub equal_through: u64,
    /// The fault that ended both runs, where both ended by the same one at the same step.
    pub fault: Option<Fault>,
    /// What was expected and could not be compared.
    pub missing: Vec<String>,
}

/// How many differences are kept: after the first ones, all steps differ.
pub const MOST_DIFFERENCES: usize = 40;

impl Verdict {
    /// The exit code: 0 same, 1 differs from what was recorded, 6 two runs of one lock differ, 7 inconclusive.
    pub fn exit_code(&self, against: Against) -> u8 {
        match (self.answer, against) {
            (Answer::Same, _) => 0,
            (Answer::Differs, Against::Recorded) => 1,
            (Answer::Differs, Against::SecondRun) => 6,
            (Answer::Inconclusive, _) => 7,
        }
    }

    /// The permanent code of an answer that is not yes.
    pub fn code(&self, against: Against) -> Option<Code> {
        match (self.answer, against) {
            (Answer::Same, _) => None,
            (Answer::Differs, Against::Recorded) => Some(DIFFERS),
            (Answer::Differs, Against::SecondRun) => Some(NOT_DETERMINISTIC),
            (Answer::Inconclusive, _) => Some(INCONCLUSIVE),
        }
    }
}

/// Compares a run with what is expected of it.
pub fn compare(expected: &Recorded, actual: &Record) -> Verdict {
    compare_by(expected, actual, Comparison::all)
}

/// Compares a part of a run, which has no end, with the steps and evaluations that are expected of it.
pub fn compare_part(expected: &Recorded, actual: &Record) -> Verdict {
    compare_by(expected, actual, |comparison, expected, actual| {
        comparison.events(expected, &Recorded::from_record(actual));
    })
}

fn compare_by(
    expected: &Recorded,
    actual: &Record,
    how: impl FnOnce(&mut Comparison, &Recorded, &Record),
) -> Verdict {
    let run_id = actual.started.run_id;
    let mut comparison = Comparison { verdict: empty(run_id, actual.chain()) };
    match expected.run_id {
        Some(expected_id) if expected_id == run_id => how(&mut comparison, expected, actual),
        Some(other) => comparison
            .verdict
            .missing
            .push(format!("results of run id {run_id}: what was recorded belongs to {other}")),
        None => comparison.verdict.missing.push("a recorded result for this platform".to_owned()),
    }
    let mut verdict = comparison.verdict;
    verdict.answer = if verdict.unequal > 0 {
        Answer::Differs
    } else if verdict.compared == 0 || !verdict.missing.is_empty() {
        Answer::Inconclusive
    } else {
        Answer::Same
    };
    verdict
}

fn empty(run_id: Digest, chain: Digest) -> Verdict {
    Verdict {
        answer: Answer::Inconclusive,
        run_id,
        chain,
        compared: 0,
        unequal: 0,
        differences: Vec::new(),
        first_step: None,
        equal_through: 0,
        fault: None,
        missing: Vec::new(),
    }
}

struct Comparison {
    verdict: Verdict,
}

impl Comparison {
    fn all(&mut self, expected: &Recorded, actual: &Record) {
        let actual = Recorded::from_record(actual);
        self.events(expected, &actual);
        self.end(expected, &actual);
    }

    fn events(&mut self, expected: &Recorded, actual: &Recorded) {
        let steps: BTreeMap<u64, _> =
            actual.steps.iter().map(|(step, chain)| (step.step, (step, *chain))).collect();
        // In the order of the run: the evaluations of a step come after it.
        let mut evaluations = expected.evaluations.iter().peekable();
        for (step, chain) in &expected.steps {
            while let Some((key, evaluation)) = evaluations.next_if(|((at, _), _)| *at < step.step) {
                self.evaluation(key, evaluation, actual.evaluations.get(key));
            }
            match steps.get(&step.step) {
                None => self.verdict.missing.push(format!("step {}", step.step)),
                Some((found, found_chain)) => {
                    let fields = differences(&Event::Step(step.clone()), &Event::Step((*found).clone()));
                    let fields = fields.into_iter().map(|field| Difference {
                        what: format!("step {} {}", step.step, field.field),
                        step: Some(step.step),
                        expected: field.old,
                        actual: field.new,
                        ulps: field.ulps,
                    });
                    self.event(
                        step.step,
                        fields.collect(),
                        (*chain, *found_chain),
                        &format!("step {}", step.step),
                    );
                }
            }
        }
        for (key, evaluation) in evaluations {
            self.evaluation(key, evaluation, actual.evaluations.get(key));
        }
        shorten(&mut self.verdict.missing);
    }

    fn evaluation(
        &mut self,
        key: &(u64, String),
        expected: &RecordedEvaluation,
        actual: Option<&RecordedEvaluation>,
    ) {
        let (step, split) = key;
        let name = format!("evaluation {split} at step {step}");
        let Some(actual) = actual else {
            self.verdict.missing.push(name);
            return;
        };
        let mut fields = Vec::new();
        let mut field = |field: &str, expected: String, actual: String, ulps: Option<u64>| {
            let what = format!("{name} {field}");
            fields.push(Difference { what, step: Some(*step), expected, actual, ulps });
        };
        if expected.examples != actual.examples {
            field("examples", expected.examples.to_string(), actual.examples.to_string(), None);
        }
        let names: std::collections::BTreeSet<_> =
            expected.metrics.keys().chain(actual.metrics.keys()).collect();
        for metric in names {
            let side =
                |value: Option<&f32>| value.map_or_else(|| "none".to_owned(), |value| float_text(*value));
            let (old, new) = (expected.metrics.get(metric), actual.metrics.get(metric));
            let distance = old.zip(new).map(|(old, new)| ulps(*old, *new));
            if distance != Some(Some(0)) {
                field(metric, side(old), side(new), distance.flatten());
            }
        }
        self.event(*step, fields, (expected.chain, actual.chain), &name);
    }

    /// Counts an event and keeps its differences; when only the chain differs, something before it does.
    fn event(&mut self, step: u64, mut fields: Vec<Difference>, chains: (Digest, Digest), name: &str) {
        self.verdict.compared += 1;
        if fields.is_empty() && chains.0 == chains.1 {
            if self.verdict.first_step.is_none() {
                self.verdict.equal_through = step;
            }
            return;
        }
        self.verdict.unequal += 1;
        if fields.is_empty() && self.verdict.first_step.is_none() {
            fields.push(Difference {
                what: format!("{name} chain"),
                step: Some(step),
                expected: chains.0.to_string(),
                actual: chains.1.to_string(),
                ulps: None,
            });
        }
        self.verdict.first_step.get_or_insert(step);
        self.keep(fields);
    }

    /// Compares ends of which at least one is a fault that the lock decides; false when that is not so.
    fn fault(&mut self, expected: &Recorded, actual: &Recorded) -> bool {
        let words = |side: &Recorded| match (&side.fault, side.end) {
            (Some(fault), _) => Some((format!("{} at step {}", fault.code, fault.step), fault.step)),
            (None, Some(end)) => Some((format!("the end after step {}", end.steps), end.steps)),
            (None, None) => None,
        };
        let (Some(old), Some(new)) = (words(expected), words(actual)) else { return false };
        if expected.fault.is_none() && actual.fault.is_none() {
            return false;
        }
        self.verdict.compared += 1;
        if expected.fault == actual.fault {
            self.verdict.fault.clone_from(&expected.fault);
            return true;
        }
        self.verdict.unequal += 1;
        self.verdict.first_step.get_or_insert(old.1.min(new.1));
        self.verdict.differences.truncate(MOST_DIFFERENCES - 1);
        let what = "how the run ends".to_owned();
        self.keep(vec![Difference { what, step: None, expected: old.0, actual: new.0, ulps: None }]);
        true
    }

    fn end(&mut self, expected: &Recorded, actual: &Recorded) {
        if self.fault(expected, actual) {
            return;
        }
        let Some(end) = expected.end else {
            self.lacks_end("the run that was recorded", expected);
            return;
        };
        let Some(found) = actual.end else {
            self.lacks_end("this run", actual);
            return;
        };
        let pairs = [
            ("steps", end.steps.to_string(), found.steps.to_string()),
            ("chain", end.chain.to_string(), found.chain.to_string()),
            ("parameters", end.parameters.to_string(), found.parameters.to_string()),
        ];
        let mut fields = Vec::new();
        for (what, expected, actual) in pairs {
            self.verdict.compared += 1;
            if expected != actual {
                self.verdict.unequal += 1;
                fields.push(Difference { what: what.to_owned(), step: None, expected, actual, ulps: None });
            }
        }
        // The end says that something differs even when every event in between was equal or unknown.
        if !fields.is_empty() {
            self.verdict.first_step.get_or_insert(end.steps.min(found.steps));
        }
        self.verdict.differences.truncate(MOST_DIFFERENCES - fields.len());
        self.keep(fields);
    }

    fn lacks_end(&mut self, whose: &str, side: &Recorded) {
        let why = side.unfinished.as_deref().unwrap_or("nothing was recorded of it");
        self.verdict.missing.push(format!("the end of {whose}: {why}"));
    }

    fn keep(&mut self, fields: Vec<Difference>) {
        self.verdict.differences.extend(fields);
        self.verdict.differences.truncate(MOST_DIFFERENCES);
    }
}

/// Keeps a list readable: a run that stopped early lacks all steps after that.
fn shorten(missing: &mut Vec<String>) {
    const MOST: usize = 8;
    if missing.len() > MOST {
        let rest = missing.len() - MOST;
        missing.truncate(MOST);
        missing.push(format!("and {rest} more"));
    }
}
