//! Events into lines of JSON, each written whole and flushed, so that a killed run loses its last line at most.

use super::SCHEMA;
use super::chain::Chain;
use super::event::{Event, NOTE, Note, Resumed, Started, Unhashed};
use crate::digest::Digest;
use serde::Serialize;
use std::io::{self, Write};

/// Writes a record and keeps its chain.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    writer: W,
    chain: Chain,
}

/// A line on paper, in this order of fields.
#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    #[serde(flatten)]
    event: &'a Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    unhashed: &'a Unhashed,
}

impl<W: Write> Recorder<W> {
    /// Begins a record: writes the `started` line, and begins the chain at the run id.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn start(writer: W, started: Started, unhashed: &Unhashed) -> io::Result<Self> {
        let mut recorder = Self { writer, chain: Chain::start(&started.run_id) };
        recorder.record(&Event::Started(started), unhashed)?;
        Ok(recorder)
    }

    /// Goes on with a record from a checkpoint: writes the `resumed` line (the writer appends to the record of the run
    /// that was interrupted, or begins a new one after its `started` line), and takes the chain from the checkpoint. A line
    /// feed comes first, since the killed run may have left half a line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn resume(mut writer: W, resumed: Resumed, unhashed: &Unhashed) -> io::Result<Self> {
        writer.write_all(b"\n")?;
        let mut recorder = Self { writer, chain: Chain::resume(resumed.chain) };
        recorder.record(&Event::Resumed(resumed), unhashed)?;
        Ok(recorder)
    }

    /// Goes on with a record whose last event gave this chain, as if nothing had happened.
    pub fn go_on(writer: W, chain: Digest) -> Self {
        Self { writer, chain: Chain::resume(chain) }
    }

    /// Writes one event; a step or an evaluation is added to the chain first. Returns the chain's digest.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn record(&mut self, event: &Event, unhashed: &Unhashed) -> io::Result<Digest> {
        let chain = self.chain.add(event);
        let line = line(event, chain, unhashed)?;
        self.writer.write_all(line.as_bytes())?;
        self.writer.flush()?;
        Ok(self.chain.digest())
    }

    /// The chain's digest so far: what a checkpoint keeps.
    pub fn chain(&self) -> Digest {
        self.chain.digest()
    }

    /// The writer, for forcing what it has to the disk.
    pub fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Gives the writer back.
    pub fn into_writer(self) -> W {
        self.writer
    }
}

/// The line of a note: words for people, which no digest covers, so that they stand in the unhashed part.
fn note_line(note: &Note, unhashed: &Unhashed) -> io::Result<String> {
    #[derive(Serialize)]
    struct Written<'a> {
        schema: &'static str,
        event: &'static str,
        unhashed: &'a Unhashed,
    }
    let mut unhashed = unhashed.clone();
    unhashed.insert(NOTE.to_owned(), serde_json::to_value(note)?);
    let mut text = serde_json::to_string(&Written { schema: SCHEMA, event: NOTE, unhashed: &unhashed })?;
    text.push('\n');
    Ok(text)
}

/// Returns one line of a record, with its line feed.
///
/// # Errors
/// None in practice: every event has a JSON form.
pub fn line(event: &Event, chain: Option<Digest>, unhashed: &Unhashed) -> io::Result<String> {
    if let Event::Note(note) = event {
        return note_line(note, unhashed);
    }
    let written = Written { schema: SCHEMA, event, chain: chain.map(|digest| digest.to_string()), unhashed };
    let mut text = serde_json::to_string(&written)?;
    text.push('\n');
    Ok(text)
}
