//! The chain against an independent computation, round trips, and records that were cut, edited or resumed.

use super::event::*;
use super::*;
use crate::diag::FileId;
use crate::digest::Digest;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

const FILE: FileId = FileId(0);

fn digest(seed: u8) -> Digest {
    Digest([seed; 32])
}

fn started() -> Started {
    Started {
        run_id: digest(1),
        lock: digest(2),
        name: "digits".to_owned(),
        platform: "cpu".to_owned(),
        guarantee: "portable".to_owned(),
        seed: u64::MAX,
        steps: 3,
    }
}

fn step(number: u64) -> Event {
    Event::Step(Step {
        step: number,
        epoch: 0,
        loss: 2.25,
        gradient_norm: f32::INFINITY,
        scale: 65536.0,
        learning_rate: 1e-3,
        skipped: number == 2,
        fingerprint: digest(number as u8),
        growth_tracker: None,
    })
}

fn evaluation(number: u64) -> Event {
    let metrics = BTreeMap::from([("accuracy".to_owned(), 0.9638889), ("loss".to_owned(), -0.0)]);
    Event::Evaluation(Evaluation { step: number, split: "test".to_owned(), examples: 360, metrics })
}

/// A record of the given events; `Finished` gets the right chain.
fn text(events: &[Event]) -> Vec<u8> {
    let mut recorder = Recorder::start(Vec::new(), started(), &Unhashed::new()).expect("memory");
    for event in events {
        recorder.record(event, &Unhashed::new()).expect("memory");
    }
    recorder.into_writer()
}

fn finished(recorder_chain: Digest) -> Event {
    Event::Finished(Finished { steps: 3, chain: recorder_chain, parameters: digest(9), data_rechecked: true })
}

#[test]
fn a_note_is_not_called_hashed_and_notes_that_were_are_read() {
    let note = Note { step: 1, kind: "step-skipped".to_owned(), text: "why".to_owned() };
    let written = text(&[step(1), Event::Note(note.clone())]);
    let lines = String::from_utf8(written).expect("text");
    let new = r#"{"schema":"amp.record/1","event":"note","unhashed":{"note":{"kind":"step-skipped","step":1,"text":"why"}}}"#;
    assert_eq!(lines.lines().last(), Some(new));
    let old = r#"{"schema":"amp.record/1","event":"note","hashed":{"step":1,"kind":"step-skipped","text":"why"},"unhashed":{}}"#;
    let (now, _) = read(FILE, lines.as_bytes()).expect("reads");
    let (before, _) = read(FILE, lines.replace(new, old).as_bytes()).expect("reads");
    assert_eq!(now.notes().collect::<Vec<_>>(), [&note]);
    assert_eq!(now, before);
    let broken = lines.replace("\"text\":\"why\"", "\"txt\":\"why\"");
    let (cut, warnings) = read(FILE, broken.trim_end().as_bytes()).expect("a cut last line");
    assert_eq!((cut.notes().count(), warnings.len()), (0, 1));
}

/// The canonical form written out by hand, with nothing of `digest` but SHA-256 itself.
#[test]
fn the_chain_is_the_documented_sum() {
    fn text(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let mut bytes = Vec::new();
    text(&mut bytes, "amp.chain.v1");
    bytes.extend([1u8; 32]);
    let zero: [u8; 32] = Sha256::digest(&bytes).into();
    assert_eq!(Chain::start(&digest(1)).digest().0, zero);

    let mut bytes = Vec::new();
    text(&mut bytes, "amp.chain.v1");
    bytes.extend(zero);
    text(&mut bytes, "amp.event.step.v1");
    bytes.extend(2u64.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    for bits in [2.25f32.to_bits(), 0x7f80_0000, 0x4780_0000, 1e-3f32.to_bits()] {
        bytes.extend(bits.to_le_bytes());
    }
    bytes.push(1);
    bytes.extend([2u8; 32]);
    let one: [u8; 32] = Sha256::digest(&bytes).into();
    let mut chain = Chain::start(&digest(1));
    assert_eq!(chain.add(&step(2)).expect("steps are chained").0, one);

    let mut bytes = Vec::new();
    text(&mut bytes, "amp.chain.v1");
    bytes.extend(one);
    text(&mut bytes, "amp.event.evaluation.v1");
    bytes.extend(2u64.to_le_bytes());
    text(&mut bytes, "test");
    bytes.extend(360u64.to_le_bytes());
    bytes.extend(2u64.to_le_bytes());
    text(&mut bytes, "accuracy");
    bytes.extend(0.9638889f32.to_bits().to_le_bytes());
    text(&mut bytes, "loss");
    bytes.extend(0x8000_0000u32.to_le_bytes());
    let two: [u8; 32] = Sha256::digest(&bytes).into();
    assert_eq!(chain.add(&evaluation(2)).expect("evaluations are chained").0, two);
}

#[test]
fn every_nan_is_one_and_zeros_are_two() {
    assert_eq!(canonical_bits(f32::from_bits(0xffc0_1234)), 0x7fc0_0000);
    assert_eq!(canonical_bits(f32::from_bits(0x7f80_0001)), 0x7fc0_0000);
    assert_eq!(canonical_bits(-0.0), 0x8000_0000);
    assert_eq!(canonical_bits(0.0), 0);
}

#[test]
fn ulps_count_floats() {
    assert_eq!(float::ulps(1.0, f32::from_bits(0x3f80_0003)), Some(3));
    assert_eq!(float::ulps(-0.0, 0.0), Some(1));
    assert_eq!(float::ulps(f32::from_bits(1), -f32::from_bits(1)), Some(3));
    assert_eq!(float::ulps(f32::NAN, -f32::NAN), Some(0));
    assert_eq!(float::ulps(f32::NAN, 1.0), None);
}

#[test]
fn a_line_has_this_form() {
    let line =
        write::line(&evaluation(2), Some(digest(7)), &Unhashed::from([("seconds".to_owned(), 0.5.into())]));
    let chain = "07".repeat(32);
    assert_eq!(
        line.expect("json"),
        format!(
            "{{\"schema\":\"amp.record/1\",\"event\":\"evaluation\",\"hashed\":{{\"step\":2,\"split\":\"test\",\"examples\":360,\
             \"metrics\":{{\"accuracy\":{{\"bits\":\"0x3f76c16c\",\"value\":0.9638889}},\
             \"loss\":{{\"bits\":\"0x80000000\",\"value\":-0.0}}}}}},\"chain\":\"sha256:{chain}\",\
             \"unhashed\":{{\"seconds\":0.5}}}}\n"
        )
    );
}

#[test]
fn a_record_reads_back() {
    let mut chain = Chain::start(&digest(1));
    let mut events = vec![
        step(1),
        Event::Note(Note {
            step: 1,
            kind: "scale-fell".to_owned(),
            text: "the scale fell to 32768".to_owned(),
        }),
        step(2),
        evaluation(2),
        Event::Checkpoint(Checkpoint { step: 2, file: "2.safetensors".to_owned(), digest: digest(8) }),
        step(3),
    ];
    for event in &events {
        chain.add(event);
    }
    events.push(finished(chain.digest()));
    let (record, warnings) = read(FILE, &text(&events)).expect("a sound record");
    assert_eq!(warnings, []);
    assert_eq!(record.started, started());
    assert_eq!(record.events.iter().map(|line| line.event.clone()).collect::<Vec<_>>(), events);
    assert_eq!(record.steps().count(), 3);
    assert_eq!(record.chain(), chain.digest());
    assert_eq!(record.finished().expect("an end").parameters, digest(9));
}

#[test]
fn a_cut_last_line_is_left_out_and_said() {
    let whole = text(&[step(1), step(2)]);
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("three lines") + 1;
    for length in last + 1..whole.len() - 1 {
        let (record, warnings) = read(FILE, &whole[..length]).expect("the lines before are sound");
        assert_eq!(record.steps().count(), 1, "cut at {length}");
        assert!(record.truncated);
        assert_eq!(warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [TRUNCATED]);
    }
    let (record, _) = read(FILE, &whole[..whole.len() - 1]).expect("only the line feed is gone");
    assert_eq!((record.steps().count(), record.truncated), (2, false));
}

#[test]
fn an_edited_number_breaks_the_chain_at_its_line() {
    let good = String::from_utf8(text(&[step(1), step(2), step(3)])).expect("UTF-8");
    let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
    lines[2] = lines[2].replace("\"skipped\":true", "\"skipped\":false");
    let fault = read(FILE, (lines.join("\n") + "\n").as_bytes()).expect_err("a broken chain");
    assert_eq!(fault.code, CHAIN);
    assert!(fault.message.starts_with("line 3 says chain sha256:"), "{}", fault.message);

    lines[2] = good.lines().nth(2).expect("line").replace("\"value\":65536.0", "\"value\":32768.0");
    let fault = read(FILE, (lines.join("\n") + "\n").as_bytes()).expect_err("a value of other bits");
    assert_eq!(fault.code, BAD_LINE);
}

#[test]
fn an_interrupted_and_resumed_run_reads_as_an_uninterrupted_one() {
    let straight = text(&[step(1), evaluation(1), step(2), step(3)]);
    let (straight, _) = read(FILE, &straight).expect("sound");
    // Killed within step 3's line; the checkpoint was taken after the evaluation of step 1.
    let mut resumed = text(&[step(1), evaluation(1)]);
    let (before, _) = read(FILE, &resumed).expect("sound");
    resumed = text(&[step(1), evaluation(1), step(2), step(3)]);
    resumed.truncate(resumed.len() - 40);
    let at = Resumed { step: 1, chain: before.chain() };
    let mut recorder = Recorder::resume(resumed, at, &Unhashed::new()).expect("memory");
    for number in [2, 3] {
        recorder.record(&step(number), &Unhashed::new()).expect("memory");
    }
    let (resumed, warnings) = read(FILE, &recorder.into_writer()).expect("sound");
    assert_eq!(resumed.events, straight.events);
    assert_eq!((resumed.resumptions, resumed.truncated, warnings.len()), (1, false, 1));
}

#[test]
fn a_resumption_from_another_run_is_refused() {
    let at = Resumed { step: 1, chain: digest(77) };
    let recorder = Recorder::resume(text(&[step(1)]), at, &Unhashed::new()).expect("memory");
    assert_eq!(read(FILE, &recorder.into_writer()).expect_err("another chain").code, CHAIN);
}

#[test]
fn what_is_no_record_is_a_fault() {
    assert_eq!(read(FILE, b"").expect_err("empty").code, ORDER);
    assert_eq!(read(FILE, b"hello\nworld\n").expect_err("text").code, BAD_LINE);
    assert_eq!(read(FILE, b"{\"schema\":\"amp.record/2\"}\n").expect_err("later").code, UNKNOWN_SCHEMA);
    let mut twice = text(&[]);
    twice.extend(text(&[]));
    assert_eq!(read(FILE, &twice).expect_err("two").code, ORDER);
    let wrong_end = text(&[step(1), finished(digest(3))]);
    assert_eq!(read(FILE, &wrong_end).expect_err("chain of the end").code, CHAIN);
}

proptest::proptest! {
    #[test]
    fn floats_round_trip(bits: u32) {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Number(#[serde(with = "float")] f32);
        let value = f32::from_bits(bits);
        let json = serde_json::to_string(&Number(value)).expect("json");
        let Number(back) = serde_json::from_str(&json).expect("own json");
        proptest::prop_assert_eq!(back.to_bits(), canonical_bits(value), "{}", json);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(cut in 0usize..2000, at in 0usize..2000, byte: u8) {
        let mut bytes = text(&[step(1), evaluation(1), step(2)]);
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(cut % length);
        let result = read(FILE, &bytes);
        if let Ok((record, _)) = result {
            proptest::prop_assert!(record.steps().count() <= 2);
        }
    }
}
