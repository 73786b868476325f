//! Lines of JSON into a record, with the chain recomputed: a record that reads without a fault is consistent.

use super::chain::Chain;
use super::event::{
    Checkpoint, Evaluation, Event, Finished, NOTE, Note, Started, Step, StopReason, Stopped, Unhashed,
};
use super::{BAD_LINE, CHAIN, ORDER, SCHEMA, TRUNCATED, UNKNOWN_SCHEMA};
use crate::diag::{Code, Diagnostic, FileId, Span};
use crate::digest::Digest;
use serde::Deserialize;

mod step;

/// One event that counts, with its chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The event.
    pub event: Event,
    /// The chain after it, for steps and evaluations.
    pub chain: Option<Digest>,
    /// What the machine said beside it.
    pub unhashed: Unhashed,
}

/// A run as its record tells it. Events that a resumed run did again are there once.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// How it began.
    pub started: Started,
    /// What the machine said at the start.
    pub unhashed: Unhashed,
    /// All other events in order, without the ones that a resumption threw away.
    pub events: Vec<Line>,
    /// How often the run was resumed.
    pub resumptions: u64,
    /// True when the last line was cut and left out.
    pub truncated: bool,
}

/// How a record ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending<'a> {
    /// The run reached its end.
    Finished(&'a Finished),
    /// Somebody asked it to stop after this many steps.
    Interrupted(u64),
    /// A fault of this code stopped it after this many steps.
    Fault(&'a str, u64),
    /// Nothing is said: the run was killed or still runs, or the record lost its tail.
    Cut,
}

impl Record {
    /// The steps, each with the chain after it.
    pub fn steps(&self) -> impl Iterator<Item = (&Step, Digest)> {
        self.events.iter().filter_map(|line| match (&line.event, line.chain) {
            (Event::Step(step), Some(chain)) => Some((step, chain)),
            _ => None,
        })
    }

    /// The evaluations, each with the chain after it.
    pub fn evaluations(&self) -> impl Iterator<Item = (&Evaluation, Digest)> {
        self.events.iter().filter_map(|line| match (&line.event, line.chain) {
            (Event::Evaluation(evaluation), Some(chain)) => Some((evaluation, chain)),
            _ => None,
        })
    }

    /// The notes.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.events
            .iter()
            .filter_map(|line| if let Event::Note(note) = &line.event { Some(note) } else { None })
    }

    /// The checkpoints, oldest first.
    pub fn checkpoints(&self) -> impl Iterator<Item = &Checkpoint> {
        self.events.iter().filter_map(|line| {
            if let Event::Checkpoint(checkpoint) = &line.event { Some(checkpoint) } else { None }
        })
    }

    /// The end, if the run reached it.
    pub fn finished(&self) -> Option<&Finished> {
        self.events
            .iter()
            .rev()
            .find_map(|line| if let Event::Finished(end) = &line.event { Some(end) } else { None })
    }

    /// Why the run ended before its end, if it did and said so.
    pub fn stopped(&self) -> Option<&Stopped> {
        match self.events.last().map(|line| &line.event) {
            Some(Event::Stopped(stopped)) => Some(stopped),
            _ => None,
        }
    }

    /// How it ended, as far as it says so.
    pub fn ending(&self) -> Ending<'_> {
        match (self.finished(), self.stopped()) {
            (Some(finished), _) => Ending::Finished(finished),
            (None, Some(Stopped { reason: StopReason::Interrupted, step })) => Ending::Interrupted(*step),
            (None, Some(Stopped { reason: StopReason::Fault(code), step })) => Ending::Fault(code, *step),
            (None, None) => Ending::Cut,
        }
    }

    /// How many steps were done by its last step; 0 when it has none.
    pub fn last_step(&self) -> u64 {
        self.steps().last().map_or(0, |(step, _)| step.step)
    }

    /// The chain after the last event.
    pub fn chain(&self) -> Digest {
        let last = self.events.iter().rev().find_map(|line| line.chain);
        last.unwrap_or_else(|| Chain::start(&self.started.run_id).digest())
    }
}

/// A line as it is read.
#[derive(Deserialize)]
struct Written {
    #[serde(flatten)]
    event: Event,
    chain: Option<String>,
    #[serde(default)]
    unhashed: Unhashed,
}

/// The schema alone: read first, so that another schema is not told as a missing field.
#[derive(Deserialize)]
struct Schema {
    schema: String,
}

/// Returns the record that a text holds, with warnings (a cut last line).
///
/// # Errors
/// The first fault: a line that is no event, another schema, events out of order, or a chain that does not match
/// its numbers ([`CHAIN`], an integrity fault).
pub fn read(file: FileId, text: &[u8]) -> Result<(Record, Vec<Diagnostic>), Diagnostic> {
    let mut reader = Reader { record: None, chain: None, ended: false };
    let mut warnings = Vec::new();
    let mut cut: Option<Diagnostic> = None;
    let mut start = 0;
    for (index, raw) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let end = start + raw.len();
        let place = Place { number: index + 1, span: Span { file, start: start as u32, end: end as u32 } };
        start = end;
        if raw.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let parsed = parse(raw, &place);
        // Only a run that was killed and then resumed leaves a cut line in the middle.
        match (cut.take(), &parsed) {
            (Some(_), Ok(Line { event: Event::Resumed(_), .. })) | (None, _) => {}
            (Some(fault), _) => return Err(fault),
        }
        match parsed {
            Ok(line) => reader.line(line, &place)?,
            Err(fault) if fault.code == BAD_LINE => {
                let message = format!(
                    "line {} is cut: the run ended while it was written; it is left out",
                    place.number
                );
                warnings.push(Diagnostic::warning(TRUNCATED, message).at(place.span, "cut here"));
                if raw.ends_with(b"\n") {
                    cut = Some(fault);
                } else if let Some(record) = &mut reader.record {
                    record.truncated = true;
                }
            }
            Err(fault) => return Err(fault),
        }
    }
    if let Some(fault) = cut {
        return Err(fault);
    }
    let none = || Diagnostic::error(ORDER, "found no `started` event, expected a record of a run").help(HELP);
    Ok((reader.record.ok_or_else(none)?, warnings))
}

const HELP: &str = "a record is written by `amp run` alone; take an intact copy, or run again";

/// Where a line is.
struct Place {
    number: usize,
    span: Span,
}

impl Place {
    fn fault(&self, code: Code, message: String) -> Diagnostic {
        Diagnostic::error(code, message).at(self.span, "this line").help(HELP)
    }
}

/// A line alone, without its place.
pub(super) fn parse_line(raw: &[u8]) -> Result<Line, Diagnostic> {
    parse(raw, &Place { number: 1, span: Span { file: FileId(0), start: 0, end: 0 } })
}

fn parse(raw: &[u8], place: &Place) -> Result<Line, Diagnostic> {
    step::step(raw).map_or_else(|| parse_any(raw, place), Ok)
}

fn parse_any(raw: &[u8], place: &Place) -> Result<Line, Diagnostic> {
    let bad = |error: serde_json::Error| {
        place.fault(BAD_LINE, format!("line {} is no event: {error}", place.number))
    };
    let Schema { schema } = serde_json::from_slice(raw).map_err(bad)?;
    if schema != SCHEMA {
        let message = format!("line {} has schema `{schema}`, this amp reads `{SCHEMA}`", place.number);
        return Err(place.fault(UNKNOWN_SCHEMA, message));
    }
    if let Some(note) = note(raw).map_err(bad)? {
        return Ok(note);
    }
    let Written { event, chain, unhashed } = serde_json::from_slice(raw).map_err(bad)?;
    let chain = match chain {
        None => None,
        Some(text) => Some(Digest::parse(&text).ok_or_else(|| {
            place.fault(BAD_LINE, format!("line {}: found chain `{text}`, expected a digest", place.number))
        })?),
    };
    Ok(Line { event, chain, unhashed })
}

/// A note, which stands in the unhashed part; `None` for any other line, and for notes of records before that, which have a
/// hashed part and are read as any event.
fn note(raw: &[u8]) -> serde_json::Result<Option<Line>> {
    #[derive(Deserialize)]
    struct Head {
        event: String,
        hashed: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        unhashed: Unhashed,
    }
    let Ok(Head { event, hashed: None, mut unhashed }) = serde_json::from_slice(raw) else { return Ok(None) };
    match unhashed.remove(NOTE).filter(|_| event == NOTE) {
        Some(note) => {
            Ok(Some(Line { event: Event::Note(serde_json::from_value(note)?), chain: None, unhashed }))
        }
        None => Ok(None),
    }
}

struct Reader {
    record: Option<Record>,
    chain: Option<Chain>,
    ended: bool,
}

impl Reader {
    fn line(&mut self, line: Line, place: &Place) -> Result<(), Diagnostic> {
        let number = place.number;
        match (&line.event, &mut self.record) {
            (Event::Started(started), None) => {
                self.chain = Some(Chain::start(&started.run_id));
                self.record = Some(Record {
                    started: started.clone(),
                    unhashed: line.unhashed,
                    events: Vec::new(),
                    resumptions: 0,
                    truncated: false,
                });
                return Ok(());
            }
            (Event::Started(_), Some(_)) => {
                return Err(place.fault(ORDER, format!("line {number} starts a second run in one record")));
            }
            (_, None) => {
                return Err(place.fault(ORDER, format!("line {number} comes before the `started` event")));
            }
            (Event::Resumed(resumed), Some(record)) => {
                self.ended = false;
                record.resumptions += 1;
                // A resumed run in a file of its own has no steps to go on from: the checkpoint's word is taken.
                if record.events.iter().any(|line| line.chain.is_some()) && !drop_after(record, resumed.chain)
                {
                    let message = format!(
                        "line {number} resumes at step {} with chain {}, which no event before it has",
                        resumed.step, resumed.chain
                    );
                    return Err(place.fault(CHAIN, message));
                }
                self.chain = Some(Chain::resume(resumed.chain));
                return Ok(());
            }
            _ => {}
        }
        if self.ended {
            return Err(place.fault(ORDER, format!("line {number} comes after the end of the run")));
        }
        self.check_chain(&line, place)?;
        self.ended = matches!(line.event, Event::Finished(_) | Event::Stopped(_));
        if let Some(record) = &mut self.record {
            record.events.push(line);
        }
        Ok(())
    }

    fn check_chain(&mut self, line: &Line, place: &Place) -> Result<(), Diagnostic> {
        let number = place.number;
        let Some(chain) = &mut self.chain else { return Ok(()) };
        let (said, computed) = match &line.event {
            Event::Finished(finished) => (Some(finished.chain), Some(chain.digest())),
            event => (line.chain, chain.add(event)),
        };
        if said == computed {
            return Ok(());
        }
        let show =
            |digest: Option<Digest>| digest.map_or_else(|| "none".to_owned(), |digest| digest.to_string());
        let message = format!("line {number} says chain {}, its numbers give {}", show(said), show(computed));
        Err(place.fault(CHAIN, message))
    }
}

/// Drops the events that came after a checkpoint with this chain: the resumed run does them again. What was said between
/// the checkpoint's last step and the next one stays. False when no event has this chain.
fn drop_after(record: &mut Record, chain: Digest) -> bool {
    let kept = if chain == Chain::start(&record.started.run_id).digest() {
        0
    } else {
        match record.events.iter().rposition(|line| line.chain == Some(chain)) {
            Some(last) => last + 1,
            None => return false,
        }
    };
    let ends =
        |line: &Line| line.chain.is_some() || matches!(line.event, Event::Stopped(_) | Event::Finished(_));
    if let Some(lost) = record.events[kept..].iter().position(ends) {
        record.events.truncate(kept + lost);
    }
    true
}
