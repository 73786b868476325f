//! Runs that are killed at random places and go on: shared with `benches/kill.rs`, which does it two hundred times.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run with everything that a resumption can lose: a scaler within its interval, several batches a step, dropout, running
/// statistics, shuffling, evaluations between epochs, and states by a rhythm and by a metric.
pub const RICH: &str = r#"amp 1

run "rich" seed=7 guarantee="portable"

environment "std:environments/cpu"

data "digits" {
    source "data/digits.csv.gz"
    columns label="last" header=#false classes=10
    shape 1 8 8
    normalise "scale" divide=16.0
    split train=0.15 test=0.05
    batch 8 shuffle=#true last="drop"
}

model "std:models/cnn" channels=4 classes=10 dropout=0.25 norm=#true
precision "std:precision/amp-fp16"
scaler "std:scalers/dynamic" init=65536.0 interval=7
optimizer "std:optimizers/adamw" lr=2e-3 weight-decay=0.01
schedule "std:schedules/cosine" warmup=5
train steps=36 clip-norm=1.0 accumulate=2
evaluate steps=5 metrics="accuracy,loss"
checkpoint steps=4 keep=2 best="loss"
"#;

/// Numbers for places and times; the same from the same seed.
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Knuth's MMIX constants.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The lines of a record as every run of the lock has them: without notes and without what the machine said beside.
pub fn hashed(record: &Path) -> String {
    let text = std::fs::read_to_string(record).expect("a record");
    let lines = text.lines().filter(|line| !line.contains("\"event\":\"note\""));
    lines.map(|line| line.split(",\"unhashed\":").next().expect("a part").to_owned() + "\n").collect()
}

/// How many steps the record at a path has.
pub fn steps(record: &Path) -> u64 {
    std::fs::read_to_string(record).map_or(0, |text| text.matches("\"event\":\"step\"").count() as u64)
}

/// The record of the latest run below a store.
pub fn latest(store: &Path) -> Option<PathBuf> {
    let runs = std::fs::read_dir(store.join("runs")).ok()?.flatten().next()?.path();
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(runs).ok()?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders.into_iter().rev().map(|folder| folder.join("record.ndjson")).find(|record| record.exists())
}

/// Kills runs of the manifest in `folder` until `kills` of them were killed, each after a random step and a random time, and
/// resumes each until it ends. Every record and last checkpoint must be that of the run that nobody disturbed.
pub fn kill_and_resume(amp: &dyn Fn(&[&str]) -> Command, folder: &Path, kills: u32, seed: u64) -> String {
    let mut random = Random(seed);
    let run = |arguments: &[&str]| {
        let mut command = amp(arguments);
        command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let straight = run(&["run", "--store", "straight", "-q"]).output().expect("amp starts");
    assert!(straight.status.success(), "{}", String::from_utf8_lossy(&straight.stderr));
    let expected = latest(&folder.join("straight")).expect("a record");
    let model =
        |record: &Path| std::fs::read(record.with_file_name("model.safetensors")).expect("a checkpoint");
    let total = steps(&expected);
    let (mut killed, mut resumed, mut ended) = (0, 0, 0);
    let mut begun = false;
    while killed < kills || begun {
        let arguments: &[&str] = if begun {
            &["run", "--store", "killed", "-q", "--resume"]
        } else {
            &["run", "--store", "killed", "-q"]
        };
        let before =
            if begun { latest(&folder.join("killed")).map_or(0, |record| steps(&record)) } else { 0 };
        let mut child = run(arguments).spawn().expect("amp starts");
        resumed += u32::from(begun);
        if killed < kills && before < total {
            // Before the first step too: while data is prepared, and while the record is cut back.
            let target = before + random.below(total - before);
            let deadline = Instant::now() + Duration::from_secs(120);
            let reached = |record: Option<PathBuf>| record.is_some_and(|record| steps(&record) > target);
            while child.try_wait().expect("a process").is_none()
                && target > before
                && !reached(latest(&folder.join("killed")))
            {
                assert!(Instant::now() < deadline, "no step within two minutes");
                std::thread::sleep(Duration::from_micros(500));
            }
            let wait = if target > before { random.below(4_000) } else { random.below(300_000) };
            std::thread::sleep(Duration::from_micros(wait));
            killed += u32::from(child.try_wait().expect("a process").is_none());
            // SIGKILL: nothing of the process runs any more.
            let _ = child.kill();
        }
        let output = child.wait_with_output().expect("an end");
        assert!(
            output.status.success() || output.status.code().is_none(),
            "{arguments:?} after {killed} kills: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        begun = true;
        if output.status.success() {
            let record = latest(&folder.join("killed")).expect("a record");
            assert_eq!(hashed(&record), hashed(&expected), "after {killed} kills");
            assert_eq!(model(&record), model(&expected), "after {killed} kills");
            ended += 1;
            // The next run is told from this one by being the only one.
            std::fs::remove_dir_all(folder.join("killed/runs")).expect("the run");
            begun = false;
        }
    }
    format!("{killed} kills, {resumed} resumptions, {ended} runs: each is the run that nobody disturbed")
}
