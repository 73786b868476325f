//! Fuzzing on a stable compiler:
//! `cargo bench --profile test --bench fuzz -- [--seconds N] [--seed N] [--out FOLDER] [--seeds FOLDER] [FILE…]`.
//!
//! Texts of `tests/corpus`, of the library and of the examples are changed by grammar and by bytes and sent through syntax,
//! resolve, graph, precision, autodiff, lints and the formatter. A text whose answer (stage, codes, kinds of ops) was not seen
//! before joins the texts. What panics is made smaller while it panics at the same place, and written to the folder `--out`
//! (`target/fuzz`); so is what takes longer than five seconds. With files, only these are tried; `--seeds` writes the texts that it
//! begins with to a folder, for libFuzzer, and ends. The text at work lies in
//! `current-SEED.txt` there, in case the process itself dies. `cargo fuzz` does the same with coverage: see `fuzz/README.md`.
//!
//! The exit status is 0 only if nothing was found.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its result")]
#![expect(clippy::disallowed_methods, reason = "it reads the corpus, and the clock to end in time")]

#[path = "fuzz/mutate.rs"]
mod mutate;
#[path = "fuzz/pipeline.rs"]
mod pipeline;

use mutate::{Choices, floor, mutate};
use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A text that takes longer is a finding.
const SLOW: Duration = Duration::from_secs(5);
/// Most texts that are kept.
const MOST_TEXTS: usize = 20_000;
/// Tries to make one finding smaller.
const TRIES: usize = 3_000;

/// Where the last panic was.
static PLACE: Mutex<String> = Mutex::new(String::new());

struct Arguments {
    seconds: u64,
    seed: u64,
    out: PathBuf,
    seeds: Option<PathBuf>,
    files: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found =
        Arguments { seconds: 60, seed: 1, out: root.join("target/fuzz"), seeds: None, files: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no whole number"));
        match word.as_str() {
            "--seconds" => found.seconds = number(value()?)?,
            "--seed" => found.seed = number(value()?)?,
            "--out" => found.out = value()?.into(),
            "--seeds" => found.seeds = Some(value()?.into()),
            "--bench" => {}
            file => found.files.push(file.into()),
        }
    }
    Ok(found)
}

/// What a text answers; the place of the panic otherwise.
fn attempt(text: &str) -> Result<String, String> {
    panic::catch_unwind(|| pipeline::survive(text))
        .map_err(|_| PLACE.lock().map(|place| place.clone()).unwrap_or_default())
}

/// Every text below these folders; of a case of the corpus the source alone.
fn seeds() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting: Vec<PathBuf> = ["tests/corpus", "stdlib", "examples"].map(|name| root.join(name)).into();
    let mut texts = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        } else if matches!(path.extension().and_then(|end| end.to_str()), Some("kdl" | "txt")) {
            texts.extend(fs::read_to_string(&path).map(|text| (path, text)));
        }
    }
    texts.sort();
    texts.into_iter().map(|(path, text)| seed(&path, &text)).collect()
}

/// A module of the library becomes the module of a manifest, and a case gets the nodes that the corpus would add.
fn seed(path: &Path, text: &str) -> String {
    let source = text.split("\n──── ").next().unwrap_or_default();
    if source.trim_start().starts_with("module ") && path.extension().is_some_and(|end| end == "kdl") {
        return format!("{MANIFEST}model \"./net.kdl\" classes=10\n// file net.kdl\n{source}");
    }
    let own = source.split("// file ").next().unwrap_or_default();
    let missing: String = MANIFEST
        .lines()
        .chain(["model \"mlp\" classes=10"])
        .filter(|line| !own.lines().any(|own| own.split(' ').next() == line.split(' ').next()))
        .map(|line| format!("{line}\n"))
        .collect();
    format!("{missing}{source}")
}

/// The nodes of a manifest, but for its model.
const MANIFEST: &str = "amp 1\nrun \"r\"\ndata \"d\" { source \"d.csv\"; columns classes=10; shape 1 8 8; batch 8 }\n\
                        optimizer \"adamw\" lr=1e-3\ntrain steps=9\n";

/// Makes a text smaller while it panics at the same place.
fn minimise(text: &str, place: &str) -> String {
    let same = |text: &str| attempt(text).is_err_and(|found| found == place);
    let mut text = text.to_owned();
    let mut tries = 0;
    let mut length = text.len() / 2;
    while length > 0 && tries < TRIES {
        let mut at = 0;
        while at < text.len() && tries < TRIES {
            let (from, to) = (floor(&text, at), floor(&text, (at + length).min(text.len())));
            let shorter = format!("{}{}", &text[..from], &text[to.max(from)..]);
            tries += 1;
            if shorter.len() < text.len() && same(&shorter) {
                text = shorter;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    text
}

/// Keeps a finding.
fn keep(out: &Path, number: usize, text: &str, what: &str) {
    let path = out.join(format!("found-{number}.txt"));
    println!("\n{what}\n  in {}", path.display());
    if let Err(error) = fs::write(&path, text) {
        eprintln!("{}: {error}\n{text}", path.display());
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(fault) => {
            eprintln!("{fault}");
            return ExitCode::from(2);
        }
    };
    if !arguments.files.is_empty() {
        for file in &arguments.files {
            match fs::read_to_string(file) {
                Ok(text) => println!("{}: {}", file.display(), pipeline::survive(&text)),
                Err(error) => println!("{}: {error}", file.display()),
            }
        }
        return ExitCode::SUCCESS;
    }
    if let Some(folder) = &arguments.seeds {
        let write =
            |(index, text): (usize, String)| fs::write(folder.join(format!("seed-{index}.txt")), text);
        let written =
            fs::create_dir_all(folder).and_then(|()| seeds().into_iter().enumerate().try_for_each(write));
        return written.map_or_else(
            |error| {
                eprintln!("{}: {error}", folder.display());
                ExitCode::from(2)
            },
            |()| ExitCode::SUCCESS,
        );
    }
    if let Err(error) = fs::create_dir_all(&arguments.out) {
        eprintln!("{}: {error}", arguments.out.display());
        return ExitCode::from(2);
    }
    panic::set_hook(Box::new(|panic| {
        let place =
            panic.location().map_or_else(String::new, |place| format!("{}:{}", place.file(), place.line()));
        if let Ok(mut last) = PLACE.lock() {
            *last = place;
        }
    }));
    if search(&arguments) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Searches until the time is over; returns how many places panic or are slow.
fn search(arguments: &Arguments) -> usize {
    let mut texts = seeds();
    let mut answers = BTreeSet::new();
    let mut places = BTreeSet::new();
    let mut choices = Choices::new(arguments.seed);
    let current = arguments.out.join(format!("current-{}.txt", arguments.seed));
    let begin = Instant::now();
    let (first, mut tried, mut said) = (texts.len(), 0_usize, 0);
    while begin.elapsed().as_secs() < arguments.seconds {
        choices.next_text();
        let text = if tried < first { texts[tried].clone() } else { mutate(&texts, &mut choices) };
        tried += 1;
        let _ = fs::write(&current, &text);
        let watch = Instant::now();
        match attempt(&text) {
            Ok(answer) if answers.insert(answer.clone()) && texts.len() < MOST_TEXTS && tried > first => {
                texts.push(text.clone())
            }
            Ok(_) => {}
            Err(place) if places.insert(place.clone()) => {
                let small = minimise(&text, &place);
                keep(&arguments.out, places.len(), &small, &format!("panic at {place}"));
            }
            Err(_) => {}
        }
        if watch.elapsed() > SLOW && places.len() < 50 {
            places.insert(format!("slow {tried}"));
            keep(&arguments.out, places.len(), &text, &format!("{:?} for one text", watch.elapsed()));
        }
        if begin.elapsed().as_secs() >= said + 30 {
            said = begin.elapsed().as_secs();
            println!("{said} s: {tried} texts, {} answers, {} findings", answers.len(), places.len());
        }
    }
    println!(
        "{tried} texts, {} different answers, {} findings in {} s",
        answers.len(),
        places.len(),
        arguments.seconds
    );
    let _ = fs::remove_file(&current);
    places.len()
}
