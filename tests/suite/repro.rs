//! Bits are promises: one lock gives one chain, under everything that is not in the lock.

use super::{Answer, Place, SMALL, repository};
use std::process::Command;

/// Runs the small manifest in a fresh store and returns (chain, parameters).
fn bits(place: &Place, arguments: &[&str], prepare: impl FnOnce(&mut Command)) -> (String, String) {
    let store = tempfile::tempdir().expect("a temporary folder");
    let store = store.path().to_str().expect("a UTF-8 path").to_owned();
    let mut all = vec!["run", "--json", "--store", &store];
    all.extend(arguments);
    let mut command = place.command(&all);
    prepare(&mut command);
    let answer = Answer::of(command.output().expect("amp starts")).ends(0);
    let document = answer.json();
    let text = |name: &str| document[name].as_str().expect("a digest").to_owned();
    (text("chain"), text("parameters"))
}

#[test]
fn threads_and_instruction_sets_change_no_bit() {
    let place = Place::with_manifest(SMALL);
    let expected = bits(&place, &["--threads", "1"], |_| ());
    for threads in ["2", "3", "4"] {
        assert_eq!(bits(&place, &["--threads", threads], |_| ()), expected, "{threads} threads");
    }
    for isa in amp::arithmetic::Isa::available() {
        let name = isa.to_string();
        assert_eq!(bits(&place, &["--isa", &name], |_| ()), expected, "{name}");
    }
}

#[test]
fn locale_time_zone_umask_home_and_noise_change_no_bit() {
    let place = Place::with_manifest(SMALL);
    let expected = bits(&place, &[], |_| ());
    let hostile = bits(&place, &[], |command| {
        command
            .env("LC_ALL", "tr_TR.UTF-8")
            .env("LANG", "de_DE.UTF-8")
            .env("TZ", "Pacific/Kiritimati")
            .env("HOME", "/nonexistent")
            .env("RAYON_NUM_THREADS", "7")
            .env("OMP_NUM_THREADS", "3")
            .env("MALLOC_PERTURB_", "165")
            .env("NOISE", "x".repeat(4096));
    });
    assert_eq!(hostile, expected);
}

#[cfg(unix)]
#[test]
fn umask_changes_no_bit() {
    let place = Place::with_manifest(SMALL);
    let expected = bits(&place, &[], |_| ());
    let store = tempfile::tempdir().expect("a temporary folder");
    let script = format!(
        "umask 0077 && exec {} run --json --store {} manifest.kdl",
        env!("CARGO_BIN_EXE_amp"),
        store.path().display()
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path("."))
        .env("NO_COLOR", "1")
        .output()
        .expect("a shell");
    let document = Answer::of(output).ends(0).json();
    assert_eq!(document["chain"].as_str(), Some(expected.0.as_str()));
}

#[test]
fn the_working_directory_changes_no_bit_and_no_lock() {
    let place = Place::with_manifest(SMALL);
    let expected = bits(&place, &[], |_| ());
    let lock = place.read("manifest.lock");
    std::fs::remove_file(place.path("manifest.lock")).expect("the lock is there");
    let manifest = place.path("manifest.kdl");
    let elsewhere = Place::empty();
    let moved = bits(&elsewhere, &[manifest.to_str().expect("UTF-8")], |_| ());
    assert_eq!(moved, expected);
    assert_eq!(place.read("manifest.lock"), lock);
}

#[test]
fn names_comments_and_layout_of_the_manifest_change_no_bit() {
    let place = Place::with_manifest(SMALL);
    let expected = bits(&place, &[], |_| ());
    let other = SMALL
        .replace("run \"small\"", "// another name\nrun \"renamed\"")
        .replace("lr=2e-3 weight-decay=0.01", "weight-decay=1e-2 lr=0.002");
    assert_eq!(bits(&Place::with_manifest(&other), &[], |_| ()), expected);
}

#[test]
fn the_seed_and_every_other_meaning_change_bits() {
    let expected = bits(&Place::with_manifest(SMALL), &[], |_| ());
    for (from, to) in [
        ("seed=7", "seed=8"),
        ("lr=2e-3", "lr=2.0001e-3"),
        ("amp-fp16", "fp32"),
        ("dropout=0.25", "dropout=0.2"),
        ("clip-norm=1.0", "clip-norm=0.9"),
        ("shuffle=#true", "shuffle=#false"),
    ] {
        let changed = SMALL.replace(from, to);
        assert_ne!(changed, SMALL, "{from}");
        let found = bits(&Place::with_manifest(&changed), &[], |_| ());
        assert_ne!(found.0, expected.0, "{from} → {to}");
    }
}

/// The committed locks were recorded by a release build; the tests run another profile. Equal digests prove both.
#[test]
fn this_build_gives_the_bits_that_the_committed_locks_recorded() {
    let locks = ["digits", "digits-cnn"];
    for name in locks {
        let store = tempfile::tempdir().expect("a temporary folder");
        let lock = repository().join(format!("lockfiles/{name}.lock"));
        let answer = Place::empty().amp(&[
            "verify",
            lock.to_str().expect("UTF-8"),
            "--store",
            store.path().to_str().expect("UTF-8"),
            "--json",
        ]);
        let document = answer.ends(0).json();
        assert_eq!(document["verdict"], "same", "{name}");
        assert!(document["compared"].as_u64().is_some_and(|compared| compared > 2), "{name}: {document}");
    }
}
