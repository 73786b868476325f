//! The files of `testdata`.
#![expect(clippy::disallowed_methods, reason = "test data is read from the source tree")]

use super::{compose, resolved};
use crate::diag::{Severity, render_text};
use crate::digest::Digest;
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/resolve/testdata").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the entry can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "kdl"))
        .collect();
    files.sort();
    files
}

/// Compares with the text beside a file; a differing one is written to `*.txt.new`.
fn compare(path: &Path, text: &str) -> Option<String> {
    let golden = path.with_extension("txt");
    let new = path.with_extension("txt.new");
    if fs::read_to_string(&golden).is_ok_and(|expected| expected == text) {
        return None;
    }
    fs::write(&new, text).expect("the source tree can be written");
    Some(format!("{} differs; read {}", golden.display(), new.display()))
}

#[test]
fn refused_files_raise_their_codes_and_say_so_well() {
    let mut wrong = Vec::new();
    let files = files("refuse");
    assert!(files.len() >= 60, "{} refused files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("a file of the corpus");
        let first = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("// expect "))
            .expect("the first line has codes");
        let mut expected: Vec<&str> = first.split(' ').collect();
        let (manifest, world) = compose(&text);
        let (plan, faults, sources) = resolved(&manifest, &world);
        let mut codes: Vec<String> = faults.iter().map(|fault| fault.code.to_string()).collect();
        codes.sort();
        expected.sort_unstable();
        if codes != expected {
            wrong.push(format!(
                "{} raises {codes:?}:\n{}",
                path.display(),
                render_text(&faults, &sources, false)
            ));
        }
        let errors = faults.iter().any(|fault| fault.severity == Severity::Error);
        assert_eq!(plan.is_none(), errors, "{}: a plan comes back without errors alone", path.display());
        wrong.extend(compare(&path, &render_text(&faults, &sources, false)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn accepted_files_raise_nothing_and_mean_what_they_meant() {
    let mut wrong = Vec::new();
    for path in files("accept") {
        let (manifest, world) = compose(&fs::read_to_string(&path).expect("a file of the corpus"));
        let (plan, faults, sources) = resolved(&manifest, &world);
        let Some(plan) = plan.filter(|_| faults.is_empty()) else {
            wrong.push(format!("{}:\n{}", path.display(), render_text(&faults, &sources, false)));
            continue;
        };
        let mut text = String::new();
        for (entry, value) in plan.entries() {
            text.push_str(&format!("{entry} {value}\n"));
        }
        for (section, digest) in plan.section_digests() {
            text.push_str(&format!("digest.{section} {digest}\n"));
        }
        text.push_str(&format!("digest {}\n", Digest::of(&plan)));
        wrong.extend(compare(&path, &text));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
