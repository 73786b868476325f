//! Whole commands on a machine with a fault: processes of the program of the tests, whose kernels flip one bit.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests that start processes and say what they found"
)]

use crate::arithmetic::Isa;
use crate::cli::{Arguments, Ui, dispatch};
use crate::exec::clock::Stopwatch;
use crate::exec::cpu::injected;
use clap::Parser as _;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Holds the words of a command, a line each.
const COMMAND: &str = "AMP_TEST_COMMAND";

/// A process of [`Amp::run`].
#[test]
#[ignore = "a part of other tests"]
fn a_command() {
    let Ok(words) = std::env::var(COMMAND) else { return };
    let arguments =
        Arguments::try_parse_from(std::iter::once("amp").chain(words.lines())).expect("a command");
    let ui = Ui::new(&arguments.voice);
    match dispatch(arguments.command, &ui) {
        Ok(exit) => println!("exit {}", exit as u8),
        Err(failure) => println!("exit {}", failure.show(&ui) as u8),
    }
}

/// What a process said.
struct Said {
    document: Value,
    stderr: String,
    exit: u8,
    seconds: f64,
}

/// Commands in a folder, on a machine with a fault or on a sound one.
struct Amp<'a> {
    folder: &'a Path,
}

impl Amp<'_> {
    fn run(&self, fault: Option<&str>, words: &[&str]) -> Said {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["cli::bisect::tests::a_command", "--exact", "--ignored", "--nocapture"]);
        command.current_dir(self.folder).env(COMMAND, words.join("\n")).env_remove(injected::VARIABLE);
        command.envs(fault.map(|fault| (injected::VARIABLE, fault)));
        let watch = Stopwatch::start();
        let output = command.output().expect("it starts");
        let seconds = watch.seconds();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let document = stdout.find('{').zip(stdout.rfind('}')).map(|(first, last)| &stdout[first..=last]);
        let document = document.map_or(Value::Null, |json| serde_json::from_str(json).expect("JSON"));
        let exit = stdout.split("exit ").last().and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let exit = exit.unwrap_or_else(|| panic!("{words:?}: {stdout}{stderr}"));
        Said { document, stderr, exit, seconds }
    }

    /// The folder of the run that is made, and the kind and the result of the op that was wrong in it.
    fn record(&self, fault: Option<&str>, isa: &str) -> (String, Option<(String, String)>) {
        let said = self.run(fault, &["run", "--json", "-q", "--isa", isa]);
        assert_eq!(said.exit, 0, "{}{}", said.document, said.stderr);
        let record = said.document["record"].as_str().expect("a record").replace("/record.ndjson", "");
        let flipped = said.stderr.lines().find_map(|line| line.strip_prefix("flipped ")?.split_once(' '));
        (record, flipped.map(|(kind, result)| (kind.to_owned(), result.to_owned())))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a manifest and the digits.
fn place(manifest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits/data/digits.csv.gz");
    std::fs::copy(digits, data.join("digits.csv.gz")).expect("the digits");
    std::fs::write(folder.path().join("manifest.kdl"), manifest).expect("a manifest");
    folder
}

/// The digits through an MLP, which the measurements widen.
fn digits(hidden: usize, steps: usize, each: usize) -> String {
    format!(
        r#"amp 1

run "digits" seed=42 guarantee="portable"
environment "std:environments/cpu"
data "digits" {{
    source "data/digits.csv.gz"
    columns label="last" header=#false classes=10
    normalise "scale" divide=16.0
    split train=0.8 test=0.2
    batch 64 shuffle=#true
}}
model "std:models/mlp" hidden={hidden} layers=2 classes=10
precision "std:precision/amp-fp16" {{
    layer "head" dtype="f32"
}}
scaler "std:scalers/dynamic" init=65536.0 interval=200
optimizer "std:optimizers/adamw" lr=1e-3 weight-decay=0.01
train steps={steps} clip-norm=1.0
evaluate every="end" metrics="accuracy"
checkpoint steps={each} keep=100
"#
    )
}

#[test]
fn a_flipped_bit_of_a_run_is_found_by_the_whole_command() {
    let own = Isa::detect();
    if own == Isa::Scalar {
        // Without other kernels than the plain ones, no kernels here are sound.
        return;
    }
    let folder = place(&digits(16, 6, 2));
    let amp = Amp { folder: folder.path() };
    let (good, _) = amp.record(None, "scalar");
    for fault in ["5 forward 0", "5 backward 0.5", "5 update 1", "4 forward 1"] {
        let (bad, flipped) = amp.record(Some(fault), &own.to_string());
        let (kind, result) = flipped.unwrap_or_else(|| panic!("{fault}: no bit was flipped"));
        let single = &["bisect", &bad, "--against", "scalar"][..];
        for words in [single, &["bisect", &bad, &good]] {
            let said = amp.run(Some(fault), &[words, &["--json", "-q"]].concat());
            let (found, op) = (&said.document, &said.document["op"]);
            assert_eq!(
                (said.exit, &found["verdict"]),
                (1, &"differs".into()),
                "{fault} {words:?}: {found:#}"
            );
            assert_eq!(op["step"].to_string(), fault[..1], "{fault} {words:?}: {found:#}");
            let named = (&op["kind"], &op["result"]);
            assert_eq!(named, (&kind.as_str().into(), &result.as_str().into()), "{found:#}");
            // A loss scale is used in the step that follows, where no op differs any more.
            let hidden = kind == "scaler-update";
            // The scaler has one implementation, so that no reference judges it.
            let defined = if hidden { Value::Null } else { json!([false, true]) };
            assert_eq!(op["defined"], defined, "{found:#}");
            let later = found["step"].as_u64() > op["step"].as_u64();
            assert_eq!(later, hidden, "{fault} {words:?}: {found:#}");
            assert_eq!(op["differing"], 1, "{found:#}");
            // Of two records each side gives one; plain kernels are not asked for what nobody recorded.
            let gives = [0, 1].map(|side| &found["sides"][side]["gives"]);
            let expected = match (hidden, words == single) {
                (true, _) => [json!(["old"]), json!(["old"])],
                (false, true) => [json!(["old"]), json!([])],
                (false, false) => [json!(["old"]), json!(["new"])],
            };
            assert_eq!(gives, expected.each_ref(), "{fault} {words:?}: {found:#}");
        }
    }
}

/// A measurement: `cargo test --release --lib -- --ignored --nocapture the_time_of_whole_commands [-- WORD]`. From two records of which one
/// was made with a flipped bit, to the op, over the time of ten steps. A state lies before the step, so that nothing is repeated.
/// Times are those of whole processes, and the least of some, for the machine does other things.
#[test]
#[ignore = "a measurement, which depends on the machine"]
fn the_time_of_whole_commands() {
    let own = Isa::detect().to_string();
    let models = [
        ("digits", digits(256, 46, 23), 24, 15),
        ("digits-cnn", digits_cnn(), 24, 10),
        ("gpt of `amp init`", GPT.to_owned() + "checkpoint steps=10 keep=100\n", 11, 10),
        ("mnist-cnn", MNIST.to_owned(), 4, 3),
    ];
    for (name, manifest, step, times) in models {
        let folder = place(&manifest);
        let amp = Amp { folder: folder.path() };
        let (good, _) = amp.record(None, "avx2");
        let ten = || {
            let said = amp.run(None, &["bench", "--json", "-q"]).document;
            10.0 * said["milliseconds"]["median"].as_f64().expect("a median")
        };
        println!("{name}: ten steps take {:.1} ms", ten());
        for part in ["forward", "backward", "update"] {
            for share in ["0", "0.5", "1"] {
                let fault = format!("{step} {part} {share}");
                let (bad, flipped) = amp.record(Some(&fault), &own);
                let Some((kind, _)) = flipped else { continue };
                let asked = step.to_string();
                let least = |words: &[&str], times: usize| {
                    let words = [words, &["--json", "-q"]].concat();
                    let said: Vec<Said> = (0..times).map(|_| amp.run(Some(&fault), &words)).collect();
                    let found = said.iter().all(|said| said.document["op"]["kind"] == kind.as_str());
                    let found = found && said[0].document["step"] == step;
                    let least = said.iter().map(|said| 1e3 * said.seconds).fold(f64::INFINITY, f64::min);
                    found.then_some(least)
                };
                let records = least(&["bisect", &bad, &good], times);
                // A bit may be lost before it reaches a number of the record.
                let records = records.or_else(|| least(&["bisect", &bad, &good, "--step", &asked], times));
                let [alone, scalar, reference] = ["avx2", "scalar", "reference"].map(|against| {
                    least(&["bisect", &bad, "--against", against, "--step", &asked], times.div_ceil(3))
                });
                println!(
                    "  {part} {share} ({kind}): two records {records:.1?} ms, --against avx2 {alone:.1?}, scalar {scalar:.1?}, reference {reference:.1?}"
                );
            }
        }
        println!("  ten steps take {:.1} ms", ten());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let amp = Amp { folder: folder.path() };
    let empty = (0..20).map(|_| amp.run(None, &["explain", "AMP0101", "-q"]).seconds);
    println!("a process that does nothing: {:.1} ms", 1e3 * empty.fold(f64::INFINITY, f64::min));
}

/// The manifest of the example `digits-cnn`, for fewer steps, with states.
fn digits_cnn() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits-cnn/manifest.kdl");
    let text = std::fs::read_to_string(path).expect("an example");
    let text = text.replace("../digits/", "").replace("train epochs=15", "train steps=46");
    text.replace("evaluate every=\"epoch\"", "evaluate every=\"end\"") + "checkpoint steps=23 keep=100\n"
}

/// What `amp init --kind gpt` writes; states are asked for beside it.
const GPT: &str = include_str!("../../../benches/gpt.kdl");

/// The model and the batch of the example `mnist-cnn` on computed pictures.
const MNIST: &str = r#"amp 1

run "mnist-cnn" seed=42 guarantee="portable"
environment "std:environments/cpu"
data "pictures" {
    synthetic examples=2048 {
        features 1 28 28
    }
    labels "classes" classes=10
    batch 128 shuffle=#true
}
model "std:models/cnn" channels=32 classes=10 dropout=0.25
precision "std:precision/amp-fp16"
scaler "std:scalers/dynamic" init=65536.0 interval=500
optimizer "std:optimizers/adamw" lr=2e-3 weight-decay=0.01
schedule "std:schedules/cosine" warmup=50
train steps=6 clip-norm=1.0
evaluate every="end" metrics="accuracy"
checkpoint steps=3 keep=100
"#;
