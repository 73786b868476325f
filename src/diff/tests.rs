//! Changes with their causes, and records apart by units in the last place.

use super::*;
use crate::diag::FileId;
use crate::digest::Digest;
use crate::lock::model::Entry;
use crate::lock::tests::{input, with_platform};
use crate::lock::{Lock, derive};
use crate::record::{Evaluation, Event, Finished, Record, Recorder, Started, Step, Unhashed, read};
use std::collections::BTreeMap;

fn digest(seed: u8) -> Digest {
    Digest([seed; 32])
}

/// A change in brief: path, class, bits, because.
fn brief(diff: &LockDiff) -> Vec<(&str, Class, Bits, String)> {
    let brief = |change: &'_ Change| (change.class, change.bits, change.because.join(" "));
    diff.changes
        .iter()
        .map(|change| {
            let (class, bits, because) = brief(change);
            (change.path.as_str(), class, bits, because)
        })
        .collect()
}

/// The lock of [`input`] with another learning rate, another batch and another text of the module.
pub(crate) fn changed() -> Lock {
    let mut input = input();
    input.entries[5].1 = "0.002".to_owned();
    input.entries[1].1 = "32".to_owned();
    input.entries.push(("optimizer.beta1".to_owned(), "0.9".to_owned()));
    input.sections.insert("optimizer", digest(0x63));
    input.sections.insert("data", digest(0x61));
    input.modules[0].digest = digest(0xbc);
    input.graph = digest(0x62);
    input.precision = digest(0x65);
    input.step = digest(0x64);
    derive(input)
}

#[test]
fn derived_digests_name_the_entries_that_account_for_them() {
    use Bits::{CanChange, Cannot};
    let diff = diff_locks(&derive(input()), &changed());
    assert_eq!(
        brief(&diff),
        [
            ("data.batch", Class::Value, CanChange, String::new()),
            ("module.std:models/mlp", Class::DigestOnly, Cannot, String::new()),
            ("optimizer.beta1", Class::Added, CanChange, String::new()),
            ("optimizer.lr", Class::Value, CanChange, String::new()),
            ("digest.plan.data", Class::DigestOnly, CanChange, "data.batch".to_owned()),
            (
                "digest.plan.optimizer",
                Class::DigestOnly,
                CanChange,
                "optimizer.beta1 optimizer.lr".to_owned()
            ),
            ("digest.graph", Class::DigestOnly, CanChange, "data.batch".to_owned()),
            ("digest.precision", Class::DigestOnly, CanChange, "data.batch".to_owned()),
            (
                "digest.step",
                Class::DigestOnly,
                CanChange,
                "data.batch optimizer.beta1 optimizer.lr".to_owned()
            ),
            ("run.id", Class::DigestOnly, CanChange, "data.batch optimizer.beta1 optimizer.lr".to_owned()),
        ]
    );
    assert!(diff.can_change_bits());
}

#[test]
fn what_cannot_change_a_bit_is_said_to_be_so() {
    let mut input = input();
    input.run = "numbers".to_owned();
    input.manifest = "manifest.kdl".to_owned();
    input.sources[0].digest = digest(0xab);
    input.sources[0].bytes = 60000;
    input.entries.push(("model.description".to_owned(), "for people".to_owned()));
    input.entries[4].1 = "linear out=10".to_owned();
    let diff = diff_locks(&derive(crate::lock::tests::input()), &derive(input));
    assert!(!diff.can_change_bits());
    assert_eq!(
        brief(&diff).into_iter().map(|(path, class, ..)| (path, class)).collect::<Vec<_>>(),
        [
            ("data.source.data/digits.csv.gz", Class::DigestOnly),
            ("manifest", Class::Presentation),
            ("model.description", Class::Added),
            ("model.layer.head", Class::Presentation),
            ("run.name", Class::Presentation),
        ]
    );
    let source = &diff.changes[0];
    let old = format!("bytes=57523 digest=\"{}\"", digest(0xaa));
    assert_eq!(source.old.as_deref(), Some(old.as_str()));
}

#[test]
fn data_of_another_content_changes_bits_because_of_its_source() {
    let mut input = input();
    input.sources[0].digest = digest(0xab);
    input.data = digest(0x77);
    let diff = diff_locks(&derive(crate::lock::tests::input()), &derive(input));
    assert_eq!(
        brief(&diff),
        [
            ("data.source.data/digits.csv.gz", Class::DigestOnly, Bits::CanChange, String::new()),
            ("digest.data", Class::DigestOnly, Bits::CanChange, "data.source.data/digits.csv.gz".to_owned()),
            ("run.id", Class::DigestOnly, Bits::CanChange, "data.source.data/digits.csv.gz".to_owned()),
        ]
    );
}

#[test]
fn a_digest_that_no_entry_accounts_for_is_its_own_cause() {
    let mut input = input();
    input.graph = digest(0x77);
    input.precision = digest(0x78);
    let diff = diff_locks(&derive(crate::lock::tests::input()), &derive(input));
    assert_eq!(
        brief(&diff).into_iter().map(|(path, _, _, because)| (path, because)).collect::<Vec<_>>(),
        [
            ("digest.graph", String::new()),
            ("digest.precision", "digest.graph".to_owned()),
            ("run.id", "digest.graph".to_owned()),
        ]
    );
}

#[test]
fn platforms_change_no_bit_of_a_portable_run() {
    let old = with_platform(derive(input()));
    let mut new = old.clone();
    let platform = new.platforms.get_mut("cpu").expect("cpu");
    platform.properties.insert("pin.cublas".to_owned(), Entry::new("13.0.3"));
    platform.result = None;
    let diff = diff_locks(&old, &new);
    assert!(
        diff.changes.iter().all(|change| change.class == Class::PlatformOnly && change.bits == Bits::Cannot)
    );
    assert_eq!(
        diff.changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(),
        ["platform.cpu.pin.cublas", "platform.cpu.result"]
    );
    assert_eq!(diff.changes[0].old.as_deref(), Some("\"13.0.2\""));
    assert_eq!(diff.changes[1].new, None);
    // Under the guarantee `device` the pins decide bits.
    let device = |mut lock: Lock| {
        lock.entries.insert("run.guarantee".to_owned(), Entry::new("device"));
        lock
    };
    let diff = diff_locks(&device(old), &device(new));
    assert_eq!(
        diff.changes.iter().map(|change| change.bits).collect::<Vec<_>>(),
        [Bits::CanChange, Bits::Cannot]
    );
}

#[test]
fn equal_locks_have_no_changes_and_say_how_much_was_compared() {
    let lock = with_platform(derive(input()));
    let diff = diff_locks(&lock, &lock);
    assert!(diff.is_same());
    // 18 entries, 4 of the header, 3 of the platform.
    assert_eq!(diff.compared, 18 + 4 + 3);
}

/// A finished record of four steps, with the given loss of step 3 and accuracy at the end.
pub(crate) fn record(loss: f32, accuracy: f32) -> Record {
    let started = Started {
        run_id: digest(1),
        lock: digest(2),
        name: "digits".to_owned(),
        platform: "cpu".to_owned(),
        guarantee: "portable".to_owned(),
        seed: 42,
        steps: 4,
    };
    let mut recorder = Recorder::start(Vec::new(), started, &Unhashed::new()).expect("memory");
    let mut add =
        |event: &Event| recorder.record(event, &Unhashed::from([("seconds".to_owned(), 75.0.into())]));
    for step in 1..=4 {
        let loss = if step >= 3 { loss } else { 2.5 };
        add(&Event::Step(Step {
            step,
            epoch: 0,
            loss,
            gradient_norm: 1.5,
            scale: 65536.0,
            learning_rate: 1e-3,
            skipped: step == 1,
            fingerprint: digest(step as u8),
            growth_tracker: None,
        }))
        .expect("memory");
        if step % 2 == 0 {
            let metrics = BTreeMap::from([("accuracy".to_owned(), if step == 4 { accuracy } else { 0.5 })]);
            let evaluation = Evaluation { step, split: "test".to_owned(), examples: 360, metrics };
            add(&Event::Evaluation(evaluation)).expect("memory");
        }
    }
    let chain = recorder.chain();
    let end = Finished { steps: 4, chain, parameters: digest(9), data_rechecked: true };
    recorder.record(&Event::Finished(end), &Unhashed::new()).expect("memory");
    read(FileId(0), &recorder.into_writer()).expect("a sound record").0
}

#[test]
fn equal_records_are_the_same() {
    let diff = diff_records(&record(1.0, 0.75), &record(1.0, 0.75));
    assert!(diff.is_same());
    assert_eq!((diff.compared, diff.differing, diff.equal_through), (6, 0, 4));
}

#[test]
fn the_first_difference_is_given_in_ulps() {
    let next = f32::from_bits(1.0f32.to_bits() + 1);
    let diff = diff_records(&record(1.0, 0.75), &record(next, 0.25));
    assert!(!diff.is_same());
    let first = diff.first.expect("a difference");
    assert_eq!((first.step, first.event.as_str(), diff.equal_through), (3, "step", 2));
    let field = FieldDifference {
        field: "loss".to_owned(),
        old: "1".to_owned(),
        new: "1.0000001".to_owned(),
        ulps: Some(1),
    };
    assert_eq!(first.fields, [field]);
    assert_eq!((diff.compared, diff.differing), (6, 3));
    // 0.75 = 1.5·2^-1 and 0.25 = 1·2^-2: half of a binade of 2^23, and a whole one.
    let largest = [
        Largest { field: "evaluation test accuracy".to_owned(), step: 4, ulps: (1 << 23) + (1 << 22) },
        Largest { field: "step loss".to_owned(), step: 3, ulps: 1 },
    ];
    assert_eq!(diff.largest, largest);
    assert_eq!(diff.summary[3].old.as_deref(), Some("0.75"));
}

#[test]
fn a_shorter_record_is_not_the_same() {
    let whole = record(1.0, 0.75);
    let mut short = whole.clone();
    short.events.truncate(3);
    let diff = diff_records(&whole, &short);
    assert!(!diff.is_same());
    assert_eq!((diff.first, diff.compared, diff.steps), (None, 3, [4, 2]));
}

#[test]
fn algorithms_that_two_runs_did_not_both_follow_are_told_and_are_no_difference_by_themselves() {
    let with = |loss: f32, tile: Option<&str>| {
        let mut record = record(loss, 0.75);
        let line = |tile| serde_json::json!({ "value": "cublaslt", "properties": { "algorithm": "66", "tile": tile } });
        let lines = tile.map(|tile| serde_json::json!({ "product.bf16.8x8x8.nt": line(tile) }));
        record.unhashed.extend(lines.map(|lines| (crate::record::ALGORITHMS.to_owned(), lines)));
        record
    };
    let same = diff_records(&with(1.0, Some("29")), &with(1.0, Some("29")));
    assert!(same.is_same() && same.algorithms.is_empty());
    let equal = diff_records(&with(1.0, Some("29")), &with(1.0, Some("20")));
    assert!(equal.is_same());
    let other = diff_records(&with(1.0, Some("29")), &with(1.5, Some("20")));
    let figure = Figure {
        name: "product.bf16.8x8x8.nt".to_owned(),
        old: Some("cublaslt algorithm=66 tile=29".to_owned()),
        new: Some("cublaslt algorithm=66 tile=20".to_owned()),
    };
    assert_eq!(other.algorithms, std::slice::from_ref(&figure));
    let gone = diff_records(&with(1.0, Some("29")), &with(1.5, None));
    assert_eq!(gone.algorithms, [Figure { new: None, ..figure }]);
}
