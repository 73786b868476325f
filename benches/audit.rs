//! What looking at a run again costs: `cargo bench --bench audit -- [STEPS]`.
//!
//! A run keeps a state after each twentieth of its steps. One of the twenty parts, 5 % of the steps, is repeated with
//! `verify --segments 1`, for several seeds; the ratio is its time over the run's. Then `amp bisect --step` looks into one step
//! op by op; the ratio is its time over that of ten steps. Times are CPU seconds of the processes, from their start to their end, so that
//! what else the machine does counts less; they include preparing, compiling and reading the state.

#![expect(clippy::print_stdout, reason = "a program whose output is its result")]
#![expect(clippy::disallowed_methods, reason = "it starts processes, and makes files for them")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits as pictures through two convolutions: some milliseconds a step.
const MANIFEST: &str = r#"amp 1

run "audited" seed=7 guarantee="portable"

environment "std:environments/cpu"

data "digits" {
    source "data/digits.csv.gz"
    columns label="last" header=#false classes=10
    shape 1 8 8
    normalise "scale" divide=16.0
    split train=0.8 test=0.2
    batch 64 shuffle=#true last="drop"
}

model "std:models/cnn" channels=16 classes=10
optimizer "std:optimizers/adamw" lr=2e-3 weight-decay=0.0
train steps=STEPS
evaluate every="end" metrics="accuracy"
checkpoint steps=EACH keep=20
"#;

fn main() {
    let steps = std::env::args().skip(1).find_map(|word| word.parse::<u64>().ok()).unwrap_or(4000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder for the data");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits/data/digits.csv.gz");
    std::fs::copy(digits, data.join("digits.csv.gz")).expect("the digits");
    let each = (steps / 20).max(1);
    let manifest = MANIFEST.replace("STEPS", &steps.to_string()).replace("EACH", &each.to_string());
    std::fs::write(folder.path().join("manifest.kdl"), manifest).expect("a manifest");
    let run = timed(folder.path(), &["run", "-q"], 0);
    let record = latest(&folder.path().join(".amp/runs"));
    let record = record.to_str().expect("UTF-8");
    println!("{steps} steps: {run:.2} s of CPU time");
    let mut ratios: Vec<f64> = (0..5)
        .map(|seed| {
            let seed = format!("--seed={seed}");
            timed(folder.path(), &["verify", record, "--segments", "1", &seed, "-q"], 0) / run
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let [least, .., most] = ratios[..] else { return };
    let median = ratios[ratios.len() / 2];
    println!(
        "5 % of it repeated: {:.2} % of its time (median of 5; {:.2} to {:.2})",
        1e2 * median,
        1e2 * least,
        1e2 * most
    );
    let ten = run / steps as f64 * 10.0;
    // The step after a state, so that nothing is repeated before it.
    let step = format!("{}", 7 * each + 1);
    for against in ["avx2", "scalar", "reference"] {
        let seconds =
            timed(folder.path(), &["bisect", record, "--step", &step, "--against", against, "-q"], 7);
        let empty = timed(folder.path(), &["check", "-q"], 0);
        println!(
            "step {step} op by op against {against}: {:.0} ms, {:.2} of ten steps; {:.2} without what `amp check` takes",
            1e3 * seconds,
            seconds / ten,
            (seconds - empty) / ten
        );
    }
}

/// Runs amp and returns its CPU seconds.
fn timed(folder: &Path, arguments: &[&str], exit: i32) -> f64 {
    let before = cpu_seconds_of_children();
    let mut command = Command::new(env!("CARGO_BIN_EXE_amp"));
    let output =
        command.args(arguments).current_dir(folder).env_remove("AMP_STORE").output().expect("amp starts");
    let code = output.status.code();
    assert!(
        code == Some(exit) || code == Some(0),
        "{arguments:?}: {code:?} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    cpu_seconds_of_children() - before
}

/// User and system time of the processes that were waited for, which Linux counts in hundredths of a second.
fn cpu_seconds_of_children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    // Fields 16 and 17 of proc(5); the first here is the third.
    (ticks(13) + ticks(14)) / 100.0
}

fn latest(runs: &Path) -> PathBuf {
    let only = |folder: &Path| {
        std::fs::read_dir(folder).expect("a folder").flatten().next().expect("an entry").path()
    };
    only(&only(runs))
}
