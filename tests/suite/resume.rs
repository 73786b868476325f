//! `amp run --resume`: a run that was killed or interrupted gives the record of one that never was.

use super::kills::{RICH, hashed, kill_and_resume, latest, steps};
use super::{Answer, Place, amp};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn ten_runs_that_are_killed_at_random_places_go_on() {
    let place = Place::with_manifest(RICH);
    let said = kill_and_resume(&|arguments| amp(arguments), &place.path(""), 10, 20_260_815);
    assert!(said.starts_with("10 kills"), "{said}");
}

#[test]
fn kills_while_states_are_written_lose_nothing() {
    // Each step is followed by a state, so that most kills meet one that is being written or dropped.
    let place = Place::with_manifest(&RICH.replace("checkpoint steps=4 keep=2", "checkpoint steps=1 keep=1"));
    let said = kill_and_resume(&|arguments| amp(arguments), &place.path(""), 4, 7);
    assert!(said.starts_with("4 kills"), "{said}");
}

/// A run that was killed once it had done this many steps; the folder of the run.
fn killed_after(place: &Place, wanted: u64) -> PathBuf {
    let mut child = place
        .command(&["run", "-q"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("amp starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    let record = loop {
        match latest(&place.path(".amp")).filter(|record| steps(record) >= wanted) {
            Some(record) => break record,
            None => assert!(Instant::now() < deadline, "no step within a minute"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    child.kill().expect("a running process");
    child.wait().expect("an end");
    record.parent().expect("a folder").to_owned()
}

/// The states in the folder of a run, oldest first.
fn states(run: &Path) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(run.join("checkpoints")).expect("a folder of states");
    let mut found: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    found.sort();
    found
}

/// A long run, so that there is time to end it: its steps, and its record as it should be.
fn long() -> (Place, String) {
    let place = Place::with_manifest(&RICH.replace("train steps=36", "train steps=120"));
    let _ = place.amp(&["run", "-q", "--store", "straight"]).ends(0);
    let expected = hashed(&latest(&place.path("straight")).expect("a record"));
    (place, expected)
}

#[test]
fn damaged_states_are_said_and_left_out() {
    let (place, expected) = long();
    let run = killed_after(&place, 60);
    let _ = place.amp(&["store", "verify"]).ends(0);
    let written = states(&run);
    assert!(written.len() >= 2, "{written:?}");
    let (newest, older) = (&written[written.len() - 1], &written[..written.len() - 1]);
    let step = |path: &Path| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        name.parse::<u64>().expect("a step")
    };
    // One bit of the newest.
    let mut bytes = std::fs::read(newest).expect("a state");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(newest, &bytes).expect("damage");
    let record = run.join("record.ndjson");
    // The state may be written and not yet named; then it is one that nobody asks for.
    let named = std::fs::read_to_string(&record).expect("a record").contains(&format!("{:08}", step(newest)));
    if named {
        let _ = place.amp(&["store", "verify"]).ends(5);
    }
    // The one before is cut, and the one before that is not there.
    let last = older.last().expect("an older state");
    let cut = std::fs::read(last).expect("a state");
    std::fs::write(last, &cut[..cut.len() / 3]).expect("damage");
    for path in &older[..older.len() - 1] {
        std::fs::remove_file(path).expect("a state");
    }
    let answer = place.amp(&["run", "--resume"]).ends(0);
    let left_out = |step: u64| format!("the checkpoint after step {step} is left out");
    for path in &written {
        assert!(!named || answer.stderr.contains(&left_out(step(path))), "{path:?}: {}", answer.stderr);
    }
    assert!(
        answer.stderr.contains("AMP0712") && answer.stderr.contains("after step 0 of 120"),
        "{}",
        answer.stderr
    );
    assert_eq!(hashed(&record), expected);
    let _ = place.amp(&["store", "verify"]).ends(0);
}

#[test]
fn a_torn_and_a_damaged_record_go_on_from_what_is_sound() {
    let (place, expected) = long();
    let run = killed_after(&place, 50);
    let record = run.join("record.ndjson");
    let text = std::fs::read_to_string(&record).expect("a record");
    for tail in ["{\"schema\":\"amp.rec", "\0\0\0\0", "\n\0\0\n{}\n"] {
        std::fs::write(&record, format!("{text}{tail}")).expect("a torn record");
        let answer = place.amp(&["run", "--resume"]).ends(0);
        assert!(answer.stderr.contains("Resuming"), "{}", answer.stderr);
        assert_eq!(hashed(&record), expected, "{tail:?}");
    }
    // A number in the middle: what follows it is done again.
    let damaged = text.replacen("\"skipped\":false", "\"skipped\":true", 30);
    std::fs::write(&record, damaged).expect("a damaged record");
    let answer = place.amp(&["run", "--resume"]).ends(0);
    assert!(answer.stderr.contains("AMP0553") && answer.stderr.contains("Resuming"), "{}", answer.stderr);
    assert_eq!(hashed(&record), expected);
    std::fs::write(&record, "no record\n").expect("no record");
    let _ = place.amp(&["run", "--resume"]).ends(5);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on_where_it_ended() {
    let (place, expected) = long();
    // Without a rule the state of the interruption is the only one.
    let manifest = place.read("manifest.kdl");
    place.write("manifest.kdl", manifest.replace("checkpoint steps=4 keep=2 best=\"loss\"\n", ""));
    let _ = place.amp(&["run", "-q", "--store", "bare"]).ends(0);
    let bare = hashed(&latest(&place.path("bare")).expect("a record"));
    for (manifest, expected) in [(place.read("manifest.kdl"), bare), (manifest, expected)] {
        place.write("manifest.kdl", manifest);
        for _ in 0..2 {
            let resume = ["run", "-q", "--json", "--resume"];
            let child = place
                .command(&resume)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("amp starts");
            let before = latest(&place.path(".amp")).map_or(0, |record| steps(&record));
            let deadline = Instant::now() + Duration::from_secs(60);
            while latest(&place.path(".amp")).is_none_or(|record| steps(&record) < before.min(70) + 20) {
                assert!(Instant::now() < deadline, "no step within a minute");
                std::thread::sleep(Duration::from_millis(1));
            }
            let sent =
                Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
            assert!(sent.success());
            let answer = Answer::of(child.wait_with_output().expect("amp ends")).ends(130);
            assert_eq!(answer.json()["interrupted"], true);
            let _ = place.amp(&["store", "verify"]).ends(0);
        }
        let interrupted = steps(&latest(&place.path(".amp")).expect("a record"));
        let answer = place.amp(&["run", "--json", "--resume"]).ends(0).json();
        assert_eq!(answer["resumed_after"], interrupted);
        assert_eq!((&answer["steps"], &answer["interrupted"]), (&120.into(), &false.into()));
        assert_eq!(hashed(&latest(&place.path(".amp")).expect("a record")), expected);
        // A run at its end is at its end.
        let again = place.amp(&["run", "--json", "--resume"]).ends(0).json();
        assert_eq!((&again["chain"], &again["record"]), (&answer["chain"], &answer["record"]));
        std::fs::remove_dir_all(place.path(".amp/runs")).expect("the runs");
    }
}

#[test]
fn two_processes_on_one_run_are_one_too_many() {
    let place = Place::with_manifest(&RICH.replace("train steps=36", "train steps=4000"));
    let mut child = place
        .command(&["run", "-q"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("amp starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while latest(&place.path(".amp")).is_none_or(|record| steps(&record) < 2) {
        assert!(Instant::now() < deadline, "no step within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = place.amp(&["run", "--resume"]).ends(3);
    assert!(
        answer.stderr.contains("AMP0711") && answer.stderr.contains("another process"),
        "{}",
        answer.stderr
    );
    child.kill().expect("a running process");
    child.wait().expect("an end");
    let answer = place.amp(&["run", "--resume=7"]).ends(2);
    assert!(answer.stderr.contains("its runs in this store are 1"), "{}", answer.stderr);
    // Another rule is another lock, and its record would be another one.
    place.write("manifest.kdl", place.read("manifest.kdl").replace("keep=2", "keep=3"));
    let answer = place.amp(&["run", "--resume"]).ends(1);
    assert!(answer.stderr.contains("AMP0713") && answer.stderr.contains("amp diff"), "{}", answer.stderr);
}

#[test]
fn a_run_that_cannot_be_resumed_leaves_the_lock_as_it_was() {
    let place = Place::with_manifest(RICH);
    let answer = place.amp(&["run", "--resume=9"]).ends(2);
    assert!(answer.stderr.contains("no run `9`"), "{}", answer.stderr);
    assert!(!answer.stderr.contains("Locked") && !place.path("manifest.lock").exists(), "{}", answer.stderr);
    let _ = place.amp(&["run", "-q"]).ends(0);
    let lock = place.read("manifest.lock");
    // Another rule for states is the same run under another lock; another seed is another run.
    for (from, to) in [("keep=2", "keep=3"), ("seed=7", "seed=8")] {
        assert!(RICH.contains(from));
        place.write("manifest.kdl", RICH.replacen(from, to, 1));
        let answer = place.amp(&["run", "--resume=9"]).ends(2);
        assert!(answer.stderr.contains("no run `9`"), "{}", answer.stderr);
        assert_eq!(place.read("manifest.lock"), lock);
    }
}

#[test]
fn a_rule_for_checkpoints_changes_no_bit_and_no_run_id() {
    let place = Place::with_manifest(RICH);
    let with = place.amp(&["run", "--json"]).ends(0).json();
    let kept = states(latest(&place.path(".amp")).expect("a record").parent().expect("a folder"));
    assert!((2..=3).contains(&kept.len()), "{kept:?}");
    let lock = place.read("manifest.lock");
    assert!(
        lock.contains("checkpoint.every steps=4\n") || lock.contains("checkpoint.every \"steps=4\"\n"),
        "{lock}"
    );
    place.write("with.lock", &lock);
    place.write("manifest.kdl", RICH.replace("checkpoint steps=4 keep=2 best=\"loss\"\n", ""));
    let without = place.amp(&["run", "--json"]).ends(0).json();
    assert!(!place.read("manifest.lock").contains("checkpoint"));
    for same in ["run_id", "chain", "parameters"] {
        assert_eq!(with[same], without[same]);
    }
    let answer = place.amp(&["diff", "with.lock", "manifest.lock", "--json"]).ends(0).json();
    assert_eq!(answer["old_run_id"], answer["new_run_id"], "{answer:#}");
    assert_eq!(answer["can_change_bits"], false, "{answer:#}");
    for (wrong, code) in [
        ("best=\"loss\"", ""),
        ("best=\"error\"", "AMP0208"),
        ("keep=0", "AMP0207"),
        ("every=\"epoch\"", "AMP0226"),
    ] {
        let metrics = if code.is_empty() { "metrics=\"accuracy\"" } else { "metrics=\"accuracy,loss\"" };
        let text = RICH.replace("metrics=\"accuracy,loss\"", metrics);
        let text =
            text.replace("checkpoint steps=4 keep=2 best=\"loss\"", &format!("checkpoint steps=4 {wrong}"));
        place.write("wrong.kdl", text);
        let answer = place.amp(&["check", "wrong.kdl"]).ends(2);
        assert!(
            answer.stderr.contains(if code.is_empty() { "AMP0226" } else { code }),
            "{wrong}: {}",
            answer.stderr
        );
    }
}

#[test]
fn a_state_is_a_checkpoint_for_predict_and_export() {
    let place = Place::with_manifest(&RICH.replace("train steps=36", "train steps=120"));
    let run = killed_after(&place, 30);
    let run = run.to_str().expect("UTF-8");
    let _ = place.amp(&["predict", "--checkpoint", run, "--out", "predictions.safetensors"]).ends(0);
    let _ = place.amp(&["verify", run]).ends(7);
}
