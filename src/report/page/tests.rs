//! Pages of records made by hand: what they say, and that nothing in a record can break them.

use super::scale::{Axis, Division, short};
use super::series::{SERIES_BUCKETS, durations, thin, throughput};
use super::{Subject, escape, one, two};
use crate::digest::Digest;
use crate::record::{
    Chain, Checkpoint, Evaluation, Event, Finished, Line, Note, Record, Started, Step, Unhashed,
};
use std::collections::BTreeMap;

pub fn line(event: Event) -> Line {
    let chained = matches!(event, Event::Step(_) | Event::Evaluation(_));
    Line { event, chain: chained.then_some(Digest([7; 32])), unhashed: Unhashed::new() }
}

pub fn step(number: u64, loss: f32) -> Line {
    line(Event::Step(Step {
        step: number,
        epoch: 0,
        loss,
        gradient_norm: 1.5,
        scale: 65_536.0,
        learning_rate: 1e-3,
        skipped: false,
        fingerprint: Digest([1; 32]),
        growth_tracker: Some(0),
    }))
}

pub fn skipped(number: u64) -> Line {
    let mut line = step(number, f32::INFINITY);
    if let Event::Step(step) = &mut line.event {
        step.skipped = true;
    }
    line
}

pub fn evaluation(step: u64, split: &str, accuracy: f32) -> Line {
    let metrics = BTreeMap::from([("accuracy".to_owned(), accuracy)]);
    line(Event::Evaluation(Evaluation { step, split: split.to_owned(), examples: 40, metrics }))
}

pub fn finished(steps: u64) -> Line {
    let chain = Digest([7; 32]);
    line(Event::Finished(Finished { steps, chain, parameters: Digest([9; 32]), data_rechecked: true }))
}

pub fn record(events: Vec<Line>) -> Record {
    let started = Started {
        run_id: Digest([0xab; 32]),
        lock: Digest([2; 32]),
        name: "digits".to_owned(),
        platform: "cpu".to_owned(),
        guarantee: "portable".to_owned(),
        seed: 42,
        steps: 10,
    };
    Record { started, unhashed: Unhashed::new(), events, resumptions: 0, truncated: false }
}

fn subject(record: &Record) -> Subject<'_> {
    Subject { record, lock: None, named: "runs/1" }
}

fn page(record: &Record) -> String {
    let text = one(subject(record));
    well_formed(&text);
    text
}

/// Every element is closed in its order, and nothing that a page could fetch or run is in it.
fn well_formed(text: &str) {
    let mut open = Vec::new();
    let (_, body) = text.split_once("<body>").expect("a body");
    for piece in body.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("`<{piece}` is not closed"));
        let name: String =
            tag.trim_start_matches('/').chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) if name == "body" || name == "html" => {}
            (true, _) => assert_eq!(open.pop().as_deref(), Some(name.as_str()), "</{name}>"),
            (false, true) => {}
            (false, false) => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for word in ["<script", "http://", "https://", "src=", "href=", "url(", "@import", "NaN.", "inf "] {
        assert!(!text.contains(word), "the page holds `{word}`");
    }
}

#[test]
fn a_run_of_one_step_an_empty_record_and_a_cut_one_have_pages() {
    let empty = page(&record(Vec::new()));
    assert!(empty.contains("The record has no step"), "{empty}");
    assert!(empty.contains("no end after step 0"));
    let single = page(&record(vec![step(1, 0.5), finished(1)]));
    assert!(single.contains("<circle"), "one point is a circle");
    assert!(single.contains("0.5 at step 1"));
    let mut cut = record(vec![step(1, 0.5), step(2, 0.25)]);
    cut.truncated = true;
    let cut = page(&cut);
    assert!(cut.contains("no end after step 2") && cut.contains("is cut and left out"));
}

#[test]
fn numbers_that_are_none_break_the_line_and_are_marked() {
    let text = page(&record(vec![step(1, 2.0), step(2, f32::NAN), skipped(3), step(4, 1.0), finished(4)]));
    assert!(text.contains("step 2: NaN") && text.contains("step 3: ∞"));
    assert!(text.contains("is 1 skipped step.") && text.contains("step 3 skipped at loss scale 65536"));
    assert!(text.contains("2 → 1, least 1 at step 4, greatest 2 at step 1, 2 not finite"));
    // Points 1 and 4 have no finite neighbour: each is a move of the pen, and a circle.
    let path =
        text.split("class=\"line l0\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line");
    assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 0), "{path}");
    let nothing = page(&record(vec![step(1, f32::NAN), step(2, f32::NEG_INFINITY)]));
    assert!(nothing.contains("no finite value, 2 not finite"));
}

#[test]
fn every_text_is_escaped() {
    let evil = "</title><script>alert(1)</script>&\"'\u{1b}\u{202e}";
    let mut all = record(vec![
        step(1, 1.0),
        evaluation(1, evil, 0.5),
        line(Event::Note(Note { step: 1, kind: "x".to_owned(), text: evil.to_owned() })),
        line(Event::Checkpoint(Checkpoint { step: 1, file: evil.to_owned(), digest: Digest([3; 32]) })),
    ]);
    all.started.name = evil.to_owned();
    all.started.platform = evil.to_owned();
    all.started.guarantee = evil.to_owned();
    all.unhashed.insert("isa".to_owned(), serde_json::json!(evil));
    all.unhashed.insert("environment".to_owned(), serde_json::json!({ evil: [evil, { "a": evil }] }));
    let text = one(Subject { record: &all, lock: None, named: evil });
    well_formed(&text);
    assert!(!text.contains("alert(1)</script>") && !text.contains('\u{1b}') && !text.contains('\u{202e}'));
    well_formed(&two([Subject { record: &all, lock: None, named: evil }, subject(&all)]));
    assert_eq!(escape("<a b='1' c=\"&\">\n"), "&lt;a b=&#39;1&#39; c=&quot;&amp;&quot;&gt;\n");
}

#[test]
fn two_records_show_the_first_difference() {
    let left = record(vec![step(1, 2.0), step(2, 1.0), finished(2)]);
    let right = record(vec![step(1, 2.0), step(2, 1.5), finished(2)]);
    let text = two([subject(&left), subject(&right)]);
    well_formed(&text);
    assert!(text.contains("first difference at step 2, equal through step 1"));
    assert!(text.contains("<title>first difference at step 2</title>"));
    let same = two([subject(&left), subject(&left)]);
    assert!(same.contains("same: 2 steps and evaluations compared, none differs"));
    assert!(!same.contains("<title>first difference"));
}

#[test]
fn a_long_series_keeps_its_extremes_and_its_trouble() {
    let few: Vec<(u64, f64)> = (1..=600).map(|step| (step, step as f64)).collect();
    assert_eq!(thin(&few), few, "600 points are not many");
    let mut many: Vec<(u64, f64)> = (1..=3000).map(|step| (step, 1.0)).collect();
    many[1234].1 = 9.0;
    many[1236].1 = -9.0;
    many[1235].1 = f64::NAN;
    let thinned = thin(&many);
    // 3000 steps in 300 parts: 10 a part. Equal values leave the first one; part 123 (1231 to 1240) has three kinds.
    assert_eq!(thinned.len(), 299 + 3);
    let part: Vec<u64> =
        thinned.iter().map(|(step, _)| *step).filter(|step| (1231..=1240).contains(step)).collect();
    assert_eq!(part, [1235, 1236, 1237]);
    assert_eq!(thinned[0], (1, 1.0));
    // Far apart steps do not overflow.
    let far: Vec<(u64, f64)> = (0..1000).map(|index| (u64::MAX / 1000 * index, index as f64)).collect();
    assert!(thin(&far).len() <= 2 * SERIES_BUCKETS);
}

#[test]
fn axes_have_round_numbers() {
    let texts = |axis: &Axis| axis.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
    let axis = Axis::of([0.0, 1.0].into_iter(), Division::Linear).expect("an axis");
    assert_eq!(texts(&axis), ["0", "0.5", "1.0"]);
    let axis = Axis::of([0.001, 0.01, 1.0].into_iter(), Division::Wide).expect("an axis");
    assert!(axis.is_by_powers());
    assert_eq!(texts(&axis), ["1", "0.1", "0.01", "0.001"]);
    // By powers the middle is the geometric mean.
    let middle = (axis.place(0.001) + axis.place(1.0)) / 2.0;
    assert!((axis.place(0.001_f64 * 1000.0_f64.sqrt()) - middle).abs() < 1e-6);
    let axis = Axis::of([1024.0, 65_536.0].into_iter(), Division::Doubling).expect("an axis");
    assert_eq!(texts(&axis), ["65536", "16384", "4096", "1024"]);
    assert_eq!(Axis::of([f64::NAN].into_iter(), Division::Linear), None);
    for (least, greatest) in
        [(1e-40, 3e38), (-3.4e38, 3.4e38), (5.0, 5.0), (0.0, 0.0), (-1e-45, 1e-45), (1e30, 1.0000001e30)]
    {
        for division in [Division::Linear, Division::Wide, Division::Doubling] {
            let axis = Axis::of([least, greatest].into_iter(), division).expect("an axis");
            assert!(axis.ticks.len() <= 22, "{least} to {greatest}: {:?}", axis.ticks);
            for value in [least, greatest] {
                assert!((0.0..=1.0).contains(&axis.place(value)));
            }
        }
    }
    assert_eq!(texts(&Axis::steps(1, 1)), ["1", "2"]);
    assert_eq!(texts(&Axis::steps(1, 460)), ["100", "200", "300", "400"]);
    let shown = [0.0, 0.1, 65_536.0, 1e-7, 12_345_678.0, 2.345_678, f64::NAN, f64::NEG_INFINITY].map(short);
    assert_eq!(shown, ["0", "0.1", "65536", "1e-7", "1.23e7", "2.3457", "NaN", "−∞"]);
}

#[test]
fn time_is_told_by_kind_and_a_clock_that_goes_back_is_another_process() {
    let mut events = vec![step(1, 1.0), step(2, 1.0), evaluation(2, "test", 0.5), step(3, 1.0), step(4, 1.0)];
    for (line, seconds) in events.iter_mut().zip([2.0, 3.0, 7.0, 1.0, 2.5]) {
        line.unhashed.insert("seconds".to_owned(), serde_json::json!(seconds));
    }
    let mut record = record(events);
    let passed: Vec<f64> = durations(&record).iter().filter_map(|(_, passed)| *passed).collect();
    assert_eq!(passed, [2.0, 1.0, 4.0, 1.0, 1.5]);
    record.unhashed.insert("examples_per_step".to_owned(), serde_json::json!(30));
    // Without the first step: 1, 1 and 1.5 seconds for 30 examples each.
    let (points, unit) = throughput(&record);
    assert_eq!((points, unit), (vec![(2, 30.0), (3, 30.0), (4, 20.0)], "examples/s"));
    let text = page(&record);
    assert!(text.contains("training steps") && text.contains("57.9 %"), "5.5 of 9.5 seconds");
    assert!(text.contains("evaluations") && text.contains("42.1 %"));
}

#[test]
fn a_chain_without_events_is_that_of_the_run_id() {
    let record = record(Vec::new());
    let expected = Chain::start(&record.started.run_id).digest().to_string();
    assert!(page(&record).contains(&expected));
}
