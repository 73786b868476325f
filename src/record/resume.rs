//! Where a run can go on: the places of a record at which a state of the run was kept.
//!
//! A resumed run goes on with the record of the run that it resumes: what came after the state is cut off, to the byte, and is
//! done again. **Invariant: the lines of a resumed run are those of one that was never interrupted, but for notes, which no
//! digest covers.** So a state that the manifest's rule asked for has a `checkpoint` line, and one that was written because
//! somebody interrupted the run is named in the unhashed part of the `stopped` line, which goes when the run goes on.

use super::chain::Chain;
use super::event::{Checkpoint, Event, Unhashed};
use super::read::{Line, Record, parse_line, read};
use crate::diag::{Diagnostic, FileId};
use crate::digest::Digest;

/// The kind of the note that a resumed run begins with.
pub const RESUMED: &str = "resumed";
/// The place in the unhashed part of a line for a state that no rule asked for.
const CHECKPOINT: &str = "checkpoint";

/// A place at which a run can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Steps that were done.
    pub step: u64,
    /// The chain there.
    pub chain: Digest,
    /// File and digest of the state; `None` for the begin of the run, which needs none.
    pub state: Option<(String, Digest)>,
    /// Whether the manifest's rule asked for the state.
    pub scheduled: bool,
    /// Bytes of the record that stay.
    pub kept: usize,
}

/// What a record says to somebody who wants to go on.
#[derive(Debug)]
pub struct Resumable {
    /// The run up to the first fault.
    pub record: Record,
    /// The places, the latest first; the begin of the run is the last one.
    pub points: Vec<Point>,
    /// What is wrong with the rest of the record, which is left out.
    pub damage: Option<Diagnostic>,
}

/// Notes a state in the unhashed part of a line.
pub fn note_state(unhashed: &mut Unhashed, state: &Checkpoint) {
    if let Ok(value) = serde_json::to_value(state) {
        unhashed.insert(CHECKPOINT.to_owned(), value);
    }
}

fn noted_state(line: &Line) -> Option<Checkpoint> {
    serde_json::from_value(line.unhashed.get(CHECKPOINT)?.clone()).ok()
}

/// Reads as much of a record as is sound, and finds the places at which its run can go on. `is_state` tells the files of states
/// from other checkpoints.
///
/// # Errors
/// A text whose first line does not begin a run.
pub fn resumable(
    file: FileId,
    text: &[u8],
    is_state: impl Fn(&str) -> bool,
) -> Result<Resumable, Box<Diagnostic>> {
    let (mut sound, mut damage) = (text, None);
    let record = loop {
        match read(file, sound) {
            Ok((record, _)) => break record,
            Err(fault) => {
                let start = fault.labels.first().map_or(0, |label| label.span.start as usize);
                if start == 0 || start >= sound.len() {
                    return Err(Box::new(fault));
                }
                sound = &sound[..start];
                damage.get_or_insert(fault);
            }
        }
    };
    let mut points = points(sound, &record, is_state);
    points.reverse();
    Ok(Resumable { record, points, damage })
}

fn points(text: &[u8], record: &Record, is_state: impl Fn(&str) -> bool) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut chain = Chain::start(&record.started.run_id).digest();
    // Where the last line ends that an uninterrupted run would have too.
    let (mut start, mut tail) = (0, 0);
    for raw in text.split_inclusive(|byte| *byte == b'\n').filter(|raw| raw.ends_with(b"\n")) {
        let end = start + raw.len();
        if let Ok(line) = parse_line(raw) {
            let point = |state: Checkpoint, scheduled, kept| Point {
                step: state.step,
                chain: line.chain.unwrap_or(chain),
                state: Some((state.file, state.digest)),
                scheduled,
                kept,
            };
            match &line.event {
                Event::Started(_) => {
                    points.push(Point { step: 0, chain, state: None, scheduled: true, kept: end });
                    tail = end;
                }
                Event::Step(_) | Event::Evaluation(_) => {
                    chain = line.chain.unwrap_or(chain);
                    tail = end;
                }
                Event::Note(note) if note.kind == RESUMED => {
                    points.extend(noted_state(&line).map(|state| point(state, false, start)));
                    tail = end;
                }
                Event::Note(_) | Event::Phase(_) => tail = end,
                Event::Checkpoint(state) if is_state(&state.file) => {
                    points.push(point(state.clone(), true, end));
                    tail = end;
                }
                Event::Stopped(_) => {
                    points.extend(noted_state(&line).map(|state| point(state, false, tail)));
                }
                _ => {}
            }
        }
        start = end;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::super::event::{Note, Started, Step, StopReason, Stopped};
    use super::super::write::Recorder;
    use super::*;

    fn step(number: u64) -> Event {
        Event::Step(Step {
            step: number,
            epoch: 0,
            loss: 1.0,
            gradient_norm: 2.0,
            scale: 1.0,
            learning_rate: 0.5,
            growth_tracker: None,
            skipped: false,
            fingerprint: Digest([7; 32]),
        })
    }

    fn state(number: u64) -> Checkpoint {
        let file = format!("states/{number}");
        Checkpoint { step: number, file, digest: Digest([u8::try_from(number).expect("small"); 32]) }
    }

    fn is_state(file: &str) -> bool {
        file.starts_with("states/")
    }

    fn record(events: &[(Event, Unhashed)]) -> Vec<u8> {
        let started = Started {
            run_id: Digest([1; 32]),
            lock: Digest([2; 32]),
            name: "test".to_owned(),
            platform: "cpu".to_owned(),
            guarantee: "portable".to_owned(),
            seed: 1,
            steps: 9,
        };
        let mut recorder = Recorder::start(Vec::new(), started, &Unhashed::new()).expect("memory");
        for (event, unhashed) in events {
            recorder.record(event, unhashed).expect("memory");
        }
        recorder.into_writer()
    }

    fn plain(event: Event) -> (Event, Unhashed) {
        (event, Unhashed::new())
    }

    fn noted(event: Event, at: u64) -> (Event, Unhashed) {
        let mut unhashed = Unhashed::new();
        note_state(&mut unhashed, &state(at));
        (event, unhashed)
    }

    fn found(text: &[u8]) -> Vec<(u64, bool, usize)> {
        let found = resumable(FileId(0), text, is_state).expect("a record");
        found.points.iter().map(|point| (point.step, point.scheduled, point.kept)).collect()
    }

    #[test]
    fn a_run_goes_on_after_its_states_and_from_its_begin() {
        let begun = record(&[]).len();
        let first = [plain(step(1)), plain(step(2)), plain(Event::Checkpoint(state(2)))];
        let kept = record(&first).len();
        let later =
            [&first[..], &[plain(step(3)), plain(step(4)), plain(Event::Checkpoint(state(4)))]].concat();
        let text = record(&later);
        assert_eq!(found(&text), [(4, true, text.len()), (2, true, kept), (0, true, begun)]);
        // Steps after the last state, a torn line, and a model's checkpoint beside the record are no places to go on.
        let model = Checkpoint { step: 5, file: "model".to_owned(), digest: Digest([3; 32]) };
        let more = [&later[..], &[plain(step(5)), plain(Event::Checkpoint(model))]].concat();
        let mut torn = record(&more);
        torn.extend_from_slice(b"{\"schema\":\"amp.rec");
        assert_eq!(found(&torn), found(&text));
    }

    #[test]
    fn an_interruption_leaves_a_state_that_no_later_record_names() {
        let before = [plain(step(1)), plain(step(2))];
        let kept = record(&before).len();
        let model = Checkpoint { step: 2, file: "model".to_owned(), digest: Digest([3; 32]) };
        let stopped = Event::Stopped(Stopped { reason: StopReason::Interrupted, step: 2 });
        let text = record(&[&before[..], &[plain(Event::Checkpoint(model)), noted(stopped, 2)]].concat());
        assert_eq!(found(&text)[0], (2, false, kept));
        // The resumed run notes where it began, and is killed: it goes on from the same state.
        let note = Note { step: 2, kind: RESUMED.to_owned(), text: "resumed".to_owned() };
        let text = record(&[&before[..], &[noted(Event::Note(note), 2), plain(step(3))]].concat());
        assert_eq!(found(&text)[0], (2, false, kept));
        let point = &resumable(FileId(0), &text, is_state).expect("a record").points[0];
        assert_eq!(point.state, Some(("states/2".to_owned(), Digest([2; 32]))));
        let (whole, _) = read(FileId(0), &text[..kept]).expect("a record");
        assert_eq!(point.chain, whole.chain());
    }

    #[test]
    fn what_follows_a_fault_is_left_out() {
        let events = [
            plain(step(1)),
            plain(Event::Checkpoint(state(1))),
            plain(step(2)),
            plain(Event::Checkpoint(state(2))),
        ];
        let kept = record(&events[..2]).len();
        let text = String::from_utf8(record(&events)).expect("UTF-8");
        let place = text.rfind("\"skipped\":false").expect("the second step");
        let mut damaged = text.clone();
        damaged.replace_range(place..place + 15, "\"skipped\":true ");
        let found = resumable(FileId(0), damaged.as_bytes(), is_state).expect("a record");
        assert_eq!(found.damage.map(|fault| fault.code), Some(super::super::CHAIN));
        assert_eq!((found.points[0].step, found.points[0].kept), (1, kept));
        assert_eq!(found.record.last_step(), 1);
        for text in ["", "no record\n", "{}\n"] {
            assert!(resumable(FileId(0), text.as_bytes(), is_state).is_err(), "{text:?}");
        }
    }
}
