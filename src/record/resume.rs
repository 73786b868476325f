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
                Event::Note(_) => tail = end,
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
