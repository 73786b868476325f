//! Parts of a run that are repeated alone: each from one state to the next, so that an audit costs a declared fraction.
//!
//! A part begins at the start of the run or at a state that is still there, and ends at the next state that the record names, or
//! at the end of the run. What was proved of it: these steps follow from that state, and lead to the next one. **Invariant: which
//! parts are chosen is a function of the record, of the states that are there, of the count and of the seed.**

use super::recorded::Recorded;
use super::verdict::{Answer, Verdict, compare_part};
use crate::arithmetic::philox::Stream;
use crate::digest::Digest;
use crate::record::{Event, Record};
use std::collections::BTreeMap;

/// The number of the random stream that chooses segments: the letters `segments`.
const STREAM: u64 = u64::from_le_bytes(*b"segments");

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Steps that were done before it.
    pub from: u64,
    /// Steps that are done after it.
    pub to: u64,
    /// File and digest of the state that it begins with; `None` at the start of the run.
    pub begin: Option<(String, Digest)>,
    /// File and digest of the state that it ends with, where the record names one.
    pub end: Option<(String, Digest)>,
}

impl Segment {
    /// How many steps it has.
    pub fn steps(&self) -> u64 {
        self.to - self.from
    }
}

/// The segments of a record, in order: those whose first state is there. `is_there` tells it of a file that the record names.
pub fn segments(
    record: &Record,
    is_state: impl Fn(&str) -> bool,
    is_there: impl Fn(&str) -> bool,
) -> Vec<Segment> {
    let mut borders: BTreeMap<u64, Option<(String, Digest)>> = BTreeMap::from([(0, None)]);
    for checkpoint in record.checkpoints().filter(|checkpoint| is_state(&checkpoint.file)) {
        borders.insert(checkpoint.step, Some((checkpoint.file.clone(), checkpoint.digest)));
    }
    let last = record.last_step();
    borders.retain(|step, _| *step <= last);
    borders.entry(last).or_insert(None);
    let borders: Vec<_> = borders.into_iter().collect();
    let segment = |pair: &[(u64, Option<(String, Digest)>)]| {
        let [(from, begin), (to, end)] = pair else { return None };
        let there = *from == 0 || begin.as_ref().is_some_and(|(file, _)| is_there(file));
        there.then(|| Segment { from: *from, to: *to, begin: begin.clone(), end: end.clone() })
    };
    borders.windows(2).filter_map(segment).collect()
}

/// Chooses `count` segments, all where there are no more, each as likely as another; in the order of the run.
pub fn choose(all: &[Segment], count: usize, seed: u64) -> Vec<Segment> {
    let order = Stream::new(seed, STREAM).permutation(0, all.len());
    let mut chosen: Vec<usize> = order.into_iter().take(count).map(|index| index as usize).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|index| all[index].clone()).collect()
}

/// What came of repeating a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    /// The segment.
    pub segment: Segment,
    /// Its steps and evaluations, compared.
    pub verdict: Verdict,
    /// Whether the state at its end, or the parameters at the end of the run, are those of the record; `None` where it names none.
    pub state: Option<bool>,
}

impl Repeated {
    /// True when something is not equal.
    pub fn differs(&self) -> bool {
        self.verdict.answer == Answer::Differs || self.state == Some(false)
    }

    /// True when all of it was compared and is equal.
    pub fn is_same(&self) -> bool {
        self.verdict.answer == Answer::Same && self.state != Some(false)
    }
}

/// The verdict on the segments of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// Steps of the whole record.
    pub steps: u64,
    /// How many segments there were to choose from.
    pub available: usize,
    /// The repeated ones, in the order of the run.
    pub repeated: Vec<Repeated>,
}

impl Proof {
    /// Steps that were repeated and are equal.
    pub fn proved(&self) -> u64 {
        self.repeated
            .iter()
            .filter(|repeated| repeated.is_same())
            .map(|repeated| repeated.segment.steps())
            .sum()
    }

    /// The share of the run's steps that was proved.
    pub fn fraction(&self) -> f64 {
        if self.steps == 0 { 0.0 } else { self.proved() as f64 / self.steps as f64 }
    }

    /// The answer: one segment that differs is enough for no, and nothing compared is no success.
    pub fn answer(&self) -> Answer {
        if self.repeated.iter().any(Repeated::differs) {
            Answer::Differs
        } else if self.repeated.is_empty() || !self.repeated.iter().all(Repeated::is_same) {
            Answer::Inconclusive
        } else {
            Answer::Same
        }
    }
}

/// Compares the events of a repeated segment with those of the record.
pub fn compare_segment(record: &Record, segment: &Segment, actual: &Record) -> Verdict {
    let mut part = record.clone();
    part.events.retain(|line| match &line.event {
        Event::Step(step) => segment.from < step.step && step.step <= segment.to,
        Event::Evaluation(evaluation) => segment.from < evaluation.step && evaluation.step <= segment.to,
        _ => false,
    });
    compare_part(&Recorded::from_record(&part), actual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Checkpoint, Line, Started, Step, Unhashed};

    /// A record of 10 steps with states after 3, 6 and 8.
    fn record() -> Record {
        let line = |event| Line { event, chain: Some(Digest([5; 32])), unhashed: Unhashed::new() };
        let mut events = Vec::new();
        for step in 1..=10 {
            let fingerprint = Digest([6; 32]);
            let (loss, gradient_norm, scale, learning_rate) = (1.0, 1.0, 1.0, 1.0);
            let event = Step {
                step,
                epoch: 0,
                loss,
                gradient_norm,
                scale,
                learning_rate,
                growth_tracker: None,
                skipped: false,
                fingerprint,
            };
            events.push(line(Event::Step(event)));
            if [3, 6, 8].contains(&step) {
                let (file, digest) =
                    (format!("states/{step}"), Digest([u8::try_from(step).expect("small"); 32]));
                events.push(line(Event::Checkpoint(Checkpoint { step, file, digest })));
            }
        }
        let started = Started {
            run_id: Digest([1; 32]),
            lock: Digest([2; 32]),
            name: "test".to_owned(),
            platform: "cpu".to_owned(),
            guarantee: "portable".to_owned(),
            seed: 1,
            steps: 10,
        };
        Record { started, unhashed: Unhashed::new(), events, resumptions: 0, truncated: false }
    }

    fn borders(found: &[Segment]) -> Vec<(u64, u64)> {
        found.iter().map(|segment| (segment.from, segment.to)).collect()
    }

    #[test]
    fn segments_lie_between_states_and_begin_where_one_is_left() {
        let all = segments(&record(), |_| true, |_| true);
        assert_eq!(borders(&all), [(0, 3), (3, 6), (6, 8), (8, 10)]);
        let end = Some(("states/3".to_owned(), Digest([3; 32])));
        assert_eq!((all[0].begin.is_none(), all[0].end.clone()), (true, end));
        assert_eq!(
            (all[3].begin.clone(), all[3].end.clone()),
            (Some(("states/8".to_owned(), Digest([8; 32]))), None)
        );
        let left = segments(&record(), |_| true, |file| file == "states/6");
        assert_eq!(borders(&left), [(0, 3), (6, 8)]);
        let none = segments(&record(), |_| false, |_| true);
        assert_eq!(borders(&none), [(0, 10)]);
    }

    #[test]
    fn the_seed_chooses_and_each_segment_is_as_likely_as_another() {
        let all = segments(&record(), |_| true, |_| true);
        assert_eq!(choose(&all, 2, 9), choose(&all, 2, 9));
        assert_eq!(borders(&choose(&all, 9, 3)), borders(&all), "all, in the order of the run");
        let mut counts = [0_u32; 4];
        for seed in 0..4000 {
            let one = choose(&all, 1, seed);
            counts[all.iter().position(|segment| *segment == one[0]).expect("one of them")] += 1;
        }
        // 1000 each; the standard deviation is sqrt(4000 · 1/4 · 3/4) = 27.4.
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 140), "{counts:?}");
    }

    #[test]
    fn a_proof_counts_what_is_equal_and_nothing_is_no_success() {
        let record = record();
        let all = segments(&record, |_| true, |_| true);
        let repeated = |segment: &Segment, state| {
            let mut actual = record.clone();
            if state == Some(false) {
                actual
                    .events
                    .retain(|line| !matches!(&line.event, Event::Step(step) if step.step == segment.to));
            }
            let verdict = compare_segment(&record, segment, &actual);
            Repeated { segment: segment.clone(), verdict, state }
        };
        let proof = |repeated: Vec<Repeated>| Proof { steps: 10, available: 4, repeated };
        let same = proof(vec![repeated(&all[0], Some(true)), repeated(&all[2], None)]);
        assert_eq!((same.answer(), same.proved(), same.fraction()), (Answer::Same, 5, 0.5));
        let wrong = proof(vec![repeated(&all[0], Some(true)), repeated(&all[1], Some(false))]);
        assert_eq!((wrong.answer(), wrong.proved()), (Answer::Differs, 3));
        let none = proof(Vec::new());
        assert_eq!((none.answer(), none.proved(), none.fraction()), (Answer::Inconclusive, 0, 0.0));
    }
}
