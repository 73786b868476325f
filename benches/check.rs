//! How long `amp check` takes on the largest models of the library: `cargo bench --bench check [-- --runs N]`.
//!
//! The whole command is timed, from its start to its end, as a person waits for it, on computed data: 21 times each (`--runs`),
//! after one to warm up. The exit status is 0 only if every median is below 100 ms.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its result")]
#![expect(clippy::disallowed_methods, reason = "it starts processes, writes manifests, and reads the clock")]

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Longest median.
const LIMIT: Duration = Duration::from_millis(100);

/// Tokens whose successors are learned.
const TOKENS: &str = "data \"d\" {\n    synthetic examples=64 { tokens vocabulary=50257 length=1024 }\n    labels \"next-token\"\n    batch 8\n}\n";
/// Pictures of a thousand classes.
const PICTURES: &str = "data \"d\" {\n    synthetic examples=64 { features 3 224 224 }\n    labels \"classes\" classes=1000\n    batch 32\n}\n";
/// Tokens with one of two classes a sequence.
const SEQUENCES: &str = "data \"d\" {\n    synthetic examples=64 { tokens vocabulary=128100 length=512 }\n    labels \"classes\" classes=2\n    batch 8\n}\n";

/// A name, the data and the model.
const MODELS: &[(&str, &str, &str)] = &[
    ("gpt2-xl", TOKENS, "\"std:models/gpt2\" width=1600 layers=48 heads=25"),
    ("gpt2", TOKENS, "\"std:models/gpt2\""),
    ("deberta-v3", SEQUENCES, "\"std:models/deberta-v3\""),
    ("vit-l/16", PICTURES, "\"std:models/vit\" width=1024 layers=24 heads=16"),
    ("resnet101", PICTURES, "\"std:models/resnet\" depth=101"),
];

fn manifest(data: &str, model: &str) -> String {
    format!(
        "amp 1\nrun \"timed\" seed=1\nenvironment \"std:environments/h100-80gb\"\n{data}model {model}\n\
         precision \"std:precision/amp-bf16\"\noptimizer \"std:optimizers/adamw\" lr=1e-4\ntrain epochs=1\n"
    )
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let runs = words
        .iter()
        .position(|word| word == "--runs")
        .and_then(|at| words.get(at + 1)?.parse().ok())
        .unwrap_or(21);
    let folder = std::env::temp_dir().join(format!("amp-bench-check-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        eprintln!("{}: {error}", folder.display());
        return ExitCode::from(2);
    }
    let mut slow = false;
    for (name, data, model) in MODELS {
        let path = folder.join(format!("{}.kdl", name.replace('/', "-")));
        let once = || {
            let watch = Instant::now();
            let status = Command::new(env!("CARGO_BIN_EXE_amp"))
                .arg("check")
                .arg(&path)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            (watch.elapsed(), status.is_ok_and(|status| status.success()))
        };
        let written = std::fs::write(&path, manifest(data, model)).is_ok();
        if !written || !once().1 {
            println!("{name:<12} is refused: amp check {}", path.display());
            slow = true;
            continue;
        }
        let mut times: Vec<Duration> = (0..runs.max(1)).map(|_| once().0).collect();
        times.sort();
        let median = times[times.len() / 2];
        slow |= median > LIMIT;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name:<12} {:>8.1} ms ({:.1} to {:.1})",
            milliseconds(median),
            milliseconds(times[0]),
            milliseconds(times[times.len() - 1])
        );
    }
    if slow {
        return ExitCode::FAILURE;
    }
    let _ = std::fs::remove_dir_all(&folder);
    ExitCode::SUCCESS
}
