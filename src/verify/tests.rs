//! Three answers, and none of them empty.

use super::*;
use crate::diff::tests::record;
use crate::digest::Digest;
use crate::lock::tests::input;
use crate::lock::{Lock, Platform, RecordedEvaluation, RecordedResult, derive};
use crate::record::{Event, Record, StopReason, Stopped};

/// A lock that recorded the record's results.
fn lock_of(record: &Record) -> Lock {
    let mut lock = derive(input());
    let finished = record.finished().expect("a finished run");
    let mut platform = Platform {
        result: Some(RecordedResult {
            run: record.started.run_id,
            steps: finished.steps,
            chain: finished.chain,
            parameters: finished.parameters,
        }),
        ..Platform::default()
    };
    for (evaluation, chain) in record.evaluations() {
        let key = (evaluation.step, evaluation.split.clone());
        let metrics = evaluation.metrics.clone();
        platform
            .evaluations
            .insert(key, RecordedEvaluation { chain, examples: evaluation.examples, metrics });
    }
    lock.platforms.insert("cpu".to_owned(), platform);
    lock
}

fn codes(verdict: &Verdict) -> (u8, u8) {
    (verdict.exit_code(Against::Recorded), verdict.exit_code(Against::SecondRun))
}

#[test]
fn an_equal_run_is_the_same_by_lock_and_by_record() {
    let run = record(1.0, 0.75);
    let by_lock = compare(&Recorded::from_lock(&lock_of(&run), "cpu"), &run);
    // Two evaluations; steps, chain and parameters of the end.
    assert_eq!((by_lock.answer, by_lock.compared, by_lock.unequal), (Answer::Same, 5, 0));
    let by_record = compare(&Recorded::from_record(&run), &run);
    assert_eq!((by_record.answer, by_record.compared, by_record.unequal), (Answer::Same, 9, 0));
    assert_eq!(codes(&by_record), (0, 0));
    assert_eq!(by_record.code(Against::Recorded), None);
}

#[test]
fn a_difference_has_its_step_and_its_distance() {
    let (expected, actual) = (record(1.0, 0.75), record(f32::from_bits(1.0f32.to_bits() + 2), 0.75));
    let verdict = compare(&Recorded::from_record(&expected), &actual);
    assert_eq!(verdict.answer, Answer::Differs);
    assert_eq!((verdict.first_step, verdict.equal_through), (Some(3), 2));
    let first = Difference {
        what: "step 3 loss".to_owned(),
        step: Some(3),
        expected: "1".to_owned(),
        actual: "1.0000002".to_owned(),
        ulps: Some(2),
    };
    assert_eq!(verdict.differences[0], first);
    // Steps 3 and 4, the evaluation of step 4 and the last chain.
    assert_eq!((verdict.compared, verdict.unequal), (9, 4));
    assert_eq!(codes(&verdict), (1, 6));
    assert_eq!(verdict.code(Against::Recorded), Some(DIFFERS));
    assert_eq!(verdict.code(Against::SecondRun), Some(NOT_DETERMINISTIC));
}

#[test]
fn a_lock_brackets_the_first_difference_by_its_evaluations() {
    let (expected, actual) = (record(1.0, 0.75), record(1.5, 0.75));
    let verdict = compare(&Recorded::from_lock(&lock_of(&expected), "cpu"), &actual);
    // Equal at the evaluation of step 2, not at that of step 4; its metrics are the same, the chain before it is not.
    assert_eq!((verdict.answer, verdict.first_step, verdict.equal_through), (Answer::Differs, Some(4), 2));
    assert_eq!(verdict.differences[0].what, "evaluation test at step 4 chain");
}

#[test]
fn a_comparison_of_nothing_is_inconclusive() {
    let run = record(1.0, 0.75);
    let verdict = compare(&Recorded::from_lock(&derive(input()), "cpu"), &run);
    assert_eq!((verdict.answer, verdict.compared, codes(&verdict)), (Answer::Inconclusive, 0, (7, 7)));
    assert_eq!(verdict.missing, ["a recorded result for this platform"]);
    assert_eq!(verdict.code(Against::Recorded), Some(INCONCLUSIVE));
    let verdict = compare(&Recorded::from_lock(&lock_of(&run), "cuda-sm90"), &run);
    assert_eq!(verdict.answer, Answer::Inconclusive);
}

#[test]
fn results_of_another_run_id_are_not_compared() {
    let run = record(1.0, 0.75);
    let mut expected = Recorded::from_record(&run);
    expected.run_id = Some(Digest([0x55; 32]));
    let verdict = compare(&expected, &run);
    assert_eq!((verdict.answer, verdict.compared), (Answer::Inconclusive, 0));
}

#[test]
fn an_interrupted_run_is_inconclusive_until_it_differs() {
    let whole = record(1.0, 0.75);
    let mut cut = whole.clone();
    cut.events.truncate(3);
    let verdict = compare(&Recorded::from_record(&whole), &cut);
    assert_eq!((verdict.answer, verdict.compared), (Answer::Inconclusive, 3));
    assert_eq!(
        verdict.missing,
        [
            "step 3",
            "step 4",
            "evaluation test at step 4",
            "the end of this run: its record is cut after step 2"
        ]
    );
    let mut other = record(1.5, 0.75);
    other.events.truncate(4);
    assert_eq!(compare(&Recorded::from_record(&whole), &other).answer, Answer::Differs);
    // An empty run has nothing to compare at all.
    cut.events.clear();
    let verdict = compare(&Recorded::from_record(&cut), &cut);
    assert_eq!((verdict.answer, verdict.compared), (Answer::Inconclusive, 0));
}

#[test]
fn each_reason_for_a_missing_end_has_its_words() {
    let whole = record(1.0, 0.75);
    let mut short = whole.clone();
    short.events.pop();
    let mut line = short.events[0].clone();
    let reasons = [
        (StopReason::Interrupted, "it was interrupted after step 4"),
        (StopReason::Fault("AMP0731".to_owned()), "it was stopped by AMP0731 after step 4"),
    ];
    for (reason, words) in reasons {
        let mut stopped = short.clone();
        line.event = Event::Stopped(Stopped { reason, step: 4 });
        line.chain = None;
        stopped.events.push(line.clone());
        let verdict = compare(&Recorded::from_record(&stopped), &whole);
        assert_eq!(verdict.missing, [format!("the end of the run that was recorded: {words}")]);
        assert_eq!(verdict.answer, Answer::Inconclusive);
    }
    let verdict = compare(&Recorded::from_record(&short), &whole);
    assert_eq!(verdict.missing, ["the end of the run that was recorded: its record is cut after step 4"]);
}

#[test]
fn a_fault_that_the_lock_decides_is_an_end_like_another() {
    let whole = record(1.0, 0.75);
    let ended = |code: &str, step| {
        let mut run = whole.clone();
        run.events.pop();
        let mut line = run.events[0].clone();
        line.event = Event::Stopped(Stopped { reason: StopReason::Fault(code.to_owned()), step });
        line.chain = None;
        run.events.push(line);
        run
    };
    let first = Recorded::from_record(&ended("AMP0701", 4));
    let verdict = compare(&first, &ended("AMP0701", 4));
    // Four steps, two evaluations and the fault.
    assert_eq!((verdict.answer, verdict.compared, codes(&verdict)), (Answer::Same, 7, (0, 0)));
    for other in [ended("AMP0702", 4), ended("AMP0701", 3), whole.clone()] {
        let verdict = compare(&first, &other);
        assert_eq!((verdict.answer, verdict.unequal), (Answer::Differs, 1));
        assert_eq!(verdict.differences[0].what, "how the run ends");
        assert_eq!(verdict.differences[0].expected, "AMP0701 at step 4");
    }
    assert_eq!(compare(&Recorded::from_record(&whole), &ended("AMP0701", 4)).answer, Answer::Differs);
    // A full disk is not the lock's doing.
    assert_eq!(compare(&first, &ended("AMP0761", 4)).answer, Answer::Inconclusive);
}

#[test]
fn a_flood_of_differences_is_bounded_and_keeps_the_end() {
    let whole = record(1.0, 0.75);
    let mut expected = Recorded::from_record(&whole);
    let (step, chain) = expected.steps[3].clone();
    expected.steps.clear();
    for _ in 0..100 {
        let mut other = step.clone();
        other.loss = 9.0;
        expected.steps.push((other, chain));
    }
    expected.end.as_mut().expect("an end").parameters = Digest([0; 32]);
    let verdict = compare(&expected, &whole);
    assert_eq!(verdict.differences.len(), MOST_DIFFERENCES);
    assert_eq!(verdict.differences[MOST_DIFFERENCES - 1].what, "parameters");
    assert_eq!(verdict.unequal, 101);
}
