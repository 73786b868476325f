//! The corpus: manifests that are accepted and manifests that are refused, each with exactly what a person sees.
//!
//! A file of `tests/corpus/refuse` or `tests/corpus/accept` is a source, a line [`MARKER`], and the answer of `amp check`.
//! The source holds some nodes of a manifest, others are put behind it (see [`compose`]), and `// file NAME` begins a file
//! beside it: a module, data, or `manifest.lock`, which is read when the manifest has no fault. `data/digits.csv.gz` is there:
//! twenty rows of 64 numbers and a label. A refused source says in its first line which codes it raises
//! (`// expect AMP0202 AMP0207`): an answer that was taken over unread does not say them by chance. An accepted one that
//! says `// show plan` has the plan with its digests behind the last line.
//!
//! When an answer differs, the file as it would be is written to `NAME.new`: read it, and rename it if it is right.
#![expect(clippy::disallowed_methods, reason = "the corpus is read from the source tree")]

use super::{answer, verdict};
use crate::cli::failure::Failure;
use crate::cli::pipeline::{self, Resolved};
use crate::diag::{Diagnostic, Severity, SourceMap, render_text};
use crate::digest::Digest;
use crate::lock;
use crate::resolve::tests::compose;
use crate::syntax;
use crate::world::{Memory, World as _};
use camino::Utf8Path;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Between source and answer.
const MARKER: &str = "\n──── amp check ────\n";

/// The files of a folder of the corpus.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the entry can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

/// Rows of the digits' width: one pixel each, and the ten labels in turn.
fn digits() -> String {
    let row = |index: usize| {
        let pixels: String = (0..64).map(|pixel| if pixel == index { "16," } else { "0," }).collect();
        format!("{pixels}{}\n", index % 10)
    };
    (0..20).map(row).collect()
}

/// The names and the sources of a folder's cases.
pub(super) fn cases(folder: &str) -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a file of the corpus");
        let source = format!("{}\n", parts(&text).0);
        (path, source)
    };
    files(folder).into_iter().map(read).collect()
}

/// The files of a case.
pub(super) fn world_of(source: &str) -> Memory {
    let (manifest, world) = compose(source);
    let world = world.with("manifest.kdl", manifest);
    if world.files.contains_key(Utf8Path::new("data/digits.csv.gz")) {
        return world;
    }
    world.with("data/digits.csv.gz", digits())
}

/// The faults of the lock beside a manifest.
fn lock_faults(world: &Memory, sources: &mut SourceMap) -> Vec<Diagnostic> {
    let Ok(bytes) = world.read(Utf8Path::new("manifest.lock")) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let file = sources.add("manifest.lock", text.as_str());
    match lock::read(file, &text) {
        Ok(read) => lock::integrity(&read).into_iter().collect(),
        Err(faults) => faults,
    }
}

/// What a person sees, and the faults and warnings in it.
fn shown(source: &str) -> (String, Vec<Diagnostic>) {
    let world = world_of(source);
    let nowhere = Utf8Path::new("tests/corpus/no-store");
    let outcome = pipeline::check_in(Utf8Path::new("manifest.kdl"), None, &world, nowhere);
    let extra = outcome.as_ref().map(|resolved| extra(source, resolved)).unwrap_or_default();
    let (mut diagnostics, mut sources) = match answer(outcome) {
        Ok((_, diagnostics, sources)) => (diagnostics, sources),
        Err(Failure::Faults { diagnostics, sources, .. } | Failure::Manifest { diagnostics, sources }) => {
            (diagnostics, sources)
        }
        Err(Failure::Plain { code, message, help, .. }) => {
            let code = code.expect("a refusal of the corpus has a code");
            let fault = Diagnostic::error(code, message);
            (vec![help.into_iter().fold(fault, Diagnostic::help)], SourceMap::default())
        }
    };
    if diagnostics.iter().all(|fault| fault.severity == Severity::Warning) {
        diagnostics.extend(lock_faults(&world, &mut sources));
    }
    let mut text = render_text(&diagnostics, &sources, false);
    if diagnostics.iter().all(|fault| fault.severity == Severity::Warning) {
        text.push_str(&format!("     Checked manifest.kdl: {}\n{extra}", verdict(&diagnostics)));
    }
    (text, diagnostics)
}

/// What `// show` asks for.
fn extra(source: &str, resolved: &Resolved) -> String {
    let plan = &resolved.plan;
    let mut text = String::new();
    if source.contains("// show plan\n") {
        for (entry, value) in plan.entries() {
            text.push_str(&format!("{entry} {value}\n"));
        }
        for (section, digest) in plan.section_digests() {
            text.push_str(&format!("digest.{section} {digest}\n"));
        }
        text.push_str(&format!("digest {}\n", Digest::of(plan)));
    }
    text
}

/// Compares a case with its file; one that differs is written beside it.
fn compare(path: &Path, source: &str, expected: Option<&str>, found: &str) -> Option<String> {
    if expected == Some(found) {
        return None;
    }
    let new = path.with_extension("new");
    fs::write(&new, format!("{source}{MARKER}{found}")).expect("the source tree can be written");
    Some(format!("{} differs; read {}", path.display(), new.display()))
}

/// Source and answer of a file; a new case has no answer yet.
fn parts(text: &str) -> (&str, Option<&str>) {
    match text.split_once(MARKER) {
        Some((source, answer)) => (source, Some(answer)),
        None => (text.trim_end_matches('\n'), None),
    }
}

fn codes(diagnostics: &[Diagnostic]) -> Vec<String> {
    let mut codes: Vec<String> = diagnostics.iter().map(|fault| fault.code.to_string()).collect();
    codes.sort();
    codes
}

#[test]
fn refused_manifests_raise_their_codes_and_say_so_well() {
    let (mut wrong, mut raised) = (Vec::new(), BTreeSet::new());
    let files = files("refuse");
    for path in &files {
        let text = fs::read_to_string(path).expect("a file of the corpus");
        let (source, expected) = parts(&text);
        let first = source.lines().next().and_then(|line| line.strip_prefix("// expect "));
        let mut said: Vec<&str> = first.expect("the first line has codes").split(' ').collect();
        said.sort_unstable();
        let (answer, diagnostics) = shown(&format!("{source}\n"));
        let found = codes(&diagnostics);
        raised.extend(found.iter().cloned());
        if found != said || diagnostics.iter().all(|fault| fault.severity == Severity::Warning) {
            wrong.push(format!("{} raises {found:?}:\n{answer}", path.display()));
        }
        wrong.extend(compare(path, source, expected, &answer));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 400, "{} refused manifests", files.len());
    for stage in ["AMP01", "AMP02", "AMP03", "AMP04", "AMP05", "AMP07"] {
        assert!(raised.iter().any(|code| code.starts_with(stage)), "no case of {stage}xx");
    }
}

#[test]
fn accepted_manifests_are_accepted_and_mean_what_they_meant() {
    let mut wrong = Vec::new();
    let files = files("accept");
    for path in &files {
        let text = fs::read_to_string(path).expect("a file of the corpus");
        let (source, expected) = parts(&text);
        let (answer, diagnostics) = shown(&format!("{source}\n"));
        if diagnostics.iter().any(|fault| fault.severity == Severity::Error) {
            wrong.push(format!("{} is refused:\n{answer}", path.display()));
        }
        wrong.extend(compare(path, source, expected, &answer));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 80, "{} accepted manifests", files.len());
}

/// What a fuzzer found stays found: these texts once panicked, or were read in other than one way.
#[test]
fn what_was_found_is_survived() {
    for (path, source) in cases("found") {
        let (answer, diagnostics) = shown(&source);
        let errors = diagnostics.iter().any(|fault| fault.severity == Severity::Error);
        assert_eq!(errors, !answer.contains("     Checked manifest.kdl"), "{}", path.display());
        let manifest = compose(&source).0;
        if let Ok(formatted) = syntax::format(&manifest) {
            assert_eq!(syntax::format(&formatted).as_ref(), Ok(&formatted), "{}", path.display());
        }
    }
}
