//! The command line as a person meets it: one binary, so that it links once.
#![expect(clippy::disallowed_methods, reason = "tests meet the outside: files, processes, clocks")]

mod accuracy;
mod against;
mod audit;
mod commands;
mod damage;
mod exits;
mod faults;
mod first_use;
mod kills;
mod language;
mod locks;
mod lsp;
mod page_sessions;
mod pages;
mod phases;
mod pipelines;
mod readme;
mod reference;
mod report;
mod repro;
mod resume;
mod runs;
mod scaling;
mod schemas;
mod servers;
mod weights;
mod workers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary folder with one of the repository's examples in it.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// An empty folder.
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A folder with the digits' data and a manifest of this text.
    pub fn with_manifest(text: &str) -> Self {
        let place = Self::empty();
        place.write("manifest.kdl", text);
        let data = place.path("data");
        std::fs::create_dir(&data).expect("a folder for the data");
        std::fs::copy(repository().join("examples/digits/data/digits.csv.gz"), data.join("digits.csv.gz"))
            .expect("the digits");
        place
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("the file can be written");
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file can be read")
    }

    /// The command, in this folder, in a quiet environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = amp(arguments);
        command.current_dir(self.folder.path());
        command
    }

    /// Runs amp in this folder.
    pub fn amp(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.command(arguments).output().expect("amp starts"))
    }
}

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Answer {
    /// What came of a process.
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code, showing everything otherwise.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", self.stdout))
    }
}

/// The command with these arguments.
pub fn amp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_amp"));
    command.args(arguments).env_remove("AMP_STORE").env("NO_COLOR", "1");
    command
}

/// The repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A manifest that trains in about a second, for tests that run it many times.
pub const SMALL: &str = r#"amp 1

run "small" seed=7 guarantee="portable"

environment "std:environments/cpu"

data "digits" {
    source "data/digits.csv.gz"
    columns label="last" header=#false classes=10
    shape 1 8 8
    normalise "scale" divide=16.0
    split train=0.2 test=0.1
    batch 32 shuffle=#true
}

model "std:models/cnn" channels=8 classes=10 dropout=0.25 norm=#true
precision "std:precision/amp-fp16"
scaler "std:scalers/dynamic" init=65536.0 interval=10
optimizer "std:optimizers/adamw" lr=2e-3 weight-decay=0.01
schedule "std:schedules/cosine" warmup=5
train epochs=2 clip-norm=1.0
evaluate every="epoch" metrics="accuracy"
"#;
