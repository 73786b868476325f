//! How far a run is: a bar on a terminal, a plain line now and then elsewhere.

use super::ui::Ui;
use crate::exec::clock::Stopwatch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows the steps of a run.
pub struct Progress<'a> {
    ui: &'a Ui,
    bar: Option<ProgressBar>,
    total: u64,
    since_line: Stopwatch,
}

/// Seconds between plain lines.
const LINE_EVERY: f64 = 10.0;

impl<'a> Progress<'a> {
    /// Begins at step 0 of `total`.
    pub fn new(ui: &'a Ui, total: u64) -> Self {
        let bar = ui.progress.then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            if let Ok(style) =
                ProgressStyle::with_template("     Running {wide_bar} {pos}/{len}  {msg}  {per_sec}")
            {
                bar.set_style(style);
            }
            bar
        });
        Self { ui, bar, total, since_line: Stopwatch::start() }
    }

    /// A step was done.
    pub fn step(&mut self, step: u64, loss: f32, scale: Option<f32>, skipped: u64) {
        let scaled = || {
            let scale = scale.map_or_else(String::new, |scale| format!(", scale {scale}"));
            if skipped > 0 { format!("{scale}, {skipped} skipped") } else { scale }
        };
        match &self.bar {
            Some(bar) => {
                bar.set_position(step);
                bar.set_message(format!("loss {loss:.4}{}", scaled()));
            }
            None if self.since_line.seconds() >= LINE_EVERY => {
                self.since_line = Stopwatch::start();
                let what = format!("step {step} of {}, loss {loss:.4}{}", self.total, scaled());
                self.ui.status("Running", &what);
            }
            None => {}
        }
    }

    /// Writes a status line without breaking the bar.
    pub fn status(&self, verb: &str, what: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.ui.status(verb, what)),
            None => self.ui.status(verb, what),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
