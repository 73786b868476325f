//! What happens to the events of a run: lines of the record, progress, what the lock may record, and states of the run.
//!
//! Invariant: a state is on the disk before the record names it, and the record is on the disk up to the state's step before
//! the state is written. So whatever is named is whole, wherever the power fails.

use super::probed;
use super::progress::Progress;
use super::ui::Ui;
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::exec::backend::{Backend, Exponents};
use crate::exec::clock::Stopwatch;
use crate::exec::fault::ExecFault;
use crate::exec::keep::{Keeper, file_name};
use crate::exec::session::{Length, Observer};
use crate::exec::state::{self, Position};
use crate::lock::RecordedEvaluation;
use crate::record::{Checkpoint, Event, Record, Recorder, Unhashed};
use crate::store::{Appender, RunFolder, StoreError, write_file};
use camino::Utf8Path;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The store's appender as a writer, so that a record's lines go through the one writer of files.
pub struct Lines(pub Appender);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(std::io::Error::other)?;
        for line in text.lines() {
            self.0.line(line).map_err(std::io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush().map_err(std::io::Error::other)
    }
}

/// Where a run writes to, and what it has written before.
pub struct Written {
    /// The folder of the run.
    pub folder: RunFolder,
    /// The run id.
    pub run_id: Digest,
    /// The record.
    pub recorder: Recorder<Lines>,
    /// Which states are written and stay.
    pub keeper: Keeper,
}

/// Writes events to the record, shows progress, and keeps what the lock may record.
pub struct Watcher<'a> {
    written: Written,
    progress: Progress<'a>,
    watch: Stopwatch,
    stop: Arc<AtomicBool>,
    length: Length,
    accumulate: u64,
    /// The evaluations by step and split.
    pub evaluations: BTreeMap<(u64, String), RecordedEvaluation>,
    /// Steps that were done.
    pub done: u64,
    /// Steps whose update was left out.
    pub skipped: u64,
    /// Steps whose exponents are wanted.
    probes: &'a [u64],
}

impl<'a> Watcher<'a> {
    /// Begins to watch; `accumulate` is the number of micro-batches of a step.
    pub fn new(written: Written, length: Length, accumulate: u32, stop: Arc<AtomicBool>, ui: &'a Ui) -> Self {
        Self {
            written,
            progress: Progress::new(ui, length.steps),
            watch: Stopwatch::start(),
            stop,
            length,
            accumulate: u64::from(accumulate.max(1)),
            evaluations: BTreeMap::new(),
            done: 0,
            skipped: 0,
            probes: &[],
        }
    }

    /// Asks for the exponents of steps.
    pub fn probes(&mut self, steps: &'a [u64]) {
        self.probes = steps;
    }

    /// Takes over what the resumed run had done.
    pub fn resume(&mut self, before: &Record) {
        for line in &before.events {
            self.written.keeper.event(&line.event);
            match (&line.event, line.chain) {
                (Event::Step(step), _) => {
                    self.done = step.step;
                    self.skipped += u64::from(step.skipped);
                }
                (Event::Evaluation(evaluation), Some(chain)) => {
                    let (examples, metrics) = (evaluation.examples, evaluation.metrics.clone());
                    let recorded = RecordedEvaluation { chain, examples, metrics };
                    self.evaluations.insert((evaluation.step, evaluation.split.clone()), recorded);
                }
                _ => {}
            }
        }
    }

    /// The record.
    pub fn recorder(&mut self) -> &mut Recorder<Lines> {
        &mut self.written.recorder
    }

    /// What is said beside an event: the seconds since this process began to train.
    pub fn unhashed(&self) -> Unhashed {
        Unhashed::from([("seconds".to_owned(), json!(self.watch.seconds()))])
    }

    /// Takes the progress bar away.
    pub fn finish(&self) {
        self.progress.finish();
    }

    /// Ends the record and forces it to the disk.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn sync(self) -> Result<(), StoreError> {
        self.written.recorder.into_writer().0.sync()
    }

    /// Removes the states that the rule does not keep; at the end of a run that of an interruption too.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn drop_states(&self) -> Result<(), ExecFault> {
        let kept: Vec<String> = self.written.keeper.kept().into_iter().map(name).collect();
        self.written.folder.keep_states(&kept).map_err(refused)
    }

    /// Writes the state after `done` steps; the record does not name it yet.
    ///
    /// # Errors
    /// The device's own; those of the disk.
    pub fn write_state(&mut self, done: u64, engine: &mut dyn Backend) -> Result<Checkpoint, ExecFault> {
        let position = Position {
            run_id: self.written.run_id,
            step: done,
            epoch: done / self.length.steps_per_epoch,
            batch: done % self.length.steps_per_epoch * self.accumulate,
            chain: self.written.recorder.chain(),
            best: self.written.keeper.best(),
        };
        let bytes = state::bytes(engine, &position)?;
        self.written.recorder.writer_mut().0.sync().map_err(refused)?;
        let file = file_name(done);
        write_file(&self.written.folder.path.join(&file), &bytes).map_err(refused)?;
        self.written.folder.sync().map_err(refused)?;
        Ok(Checkpoint { step: done, file, digest: Digest::of_bytes(&bytes) })
    }
}

/// A disk that refuses, as the end of a run.
fn refused(error: StoreError) -> ExecFault {
    let fault = ExecFault::new(error.code(), error.to_string());
    match error.help() {
        Some(help) => fault.help(help),
        None => fault,
    }
}

impl Observer for Watcher<'_> {
    fn event(&mut self, event: &Event) -> Result<(), ExecFault> {
        let unhashed = self.unhashed();
        let chain = self.written.recorder.record(event, &unhashed).map_err(ExecFault::record)?;
        self.written.keeper.event(event);
        match event {
            Event::Step(step) => {
                self.done = step.step;
                self.skipped += u64::from(step.skipped);
                let scale = step.growth_tracker.map(|_| step.scale);
                self.progress.step(step.step, step.loss, scale, self.skipped);
            }
            Event::Note(note) => self.progress.status("Note", &note.text),
            Event::Phase(phase) => {
                let what =
                    format!("is now {}, {} (step {} was done)", phase.policy, phase.because, phase.step);
                self.progress.status("Precision", &what);
            }
            Event::Evaluation(evaluation) => {
                let metrics: Vec<String> =
                    evaluation.metrics.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
                let what =
                    format!("{} at step {}: {}", evaluation.split, evaluation.step, metrics.join(", "));
                self.progress.status("Evaluated", &what);
                let recorded = RecordedEvaluation {
                    chain,
                    examples: evaluation.examples,
                    metrics: evaluation.metrics.clone(),
                };
                self.evaluations.insert((evaluation.step, evaluation.split.clone()), recorded);
            }
            _ => {}
        }
        Ok(())
    }

    fn between(&mut self, done: u64, engine: &mut dyn Backend) -> Result<(), ExecFault> {
        if !self.written.keeper.is_due(done) {
            return Ok(());
        }
        let state = self.write_state(done, engine)?;
        self.event(&Event::Checkpoint(state))?;
        self.written.recorder.writer_mut().0.sync().map_err(refused)?;
        self.drop_states()
    }

    fn looks(&self, done: u64) -> bool {
        self.written.keeper.is_due(done)
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn probes(&self, step: u64) -> bool {
        self.probes.contains(&step)
    }

    fn probed(&mut self, step: u64, scale: f32, found: &[Exponents]) -> Result<(), ExecFault> {
        let path = self.written.folder.path.join(format!("probe-{step}.json"));
        let text = probed::document(step, scale, found).to_string();
        write_file(&path, text.as_bytes()).map_err(ExecFault::record)?;
        self.progress.status("Probed", &format!("step {step}: {} in {path}", counted(found.len(), "value")));
        for line in probed::lines(scale, found) {
            self.progress.status("Note", &line);
        }
        Ok(())
    }
}

/// The name of a state in its folder.
fn name(step: u64) -> String {
    let file = file_name(step);
    Utf8Path::new(&file).file_name().unwrap_or(&file).to_owned()
}
