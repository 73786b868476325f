//! Folders of runs on a disk that is not kind, and processes that are told to stop.

use super::locks::tiny;
use super::{Answer, Place, SMALL};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of a finished run, relative to its place.
fn finished(place: &Place) -> String {
    let run = place.amp(&["run", "--json"]).ends(0).json();
    let record = run["record"].as_str().expect("a record").to_owned();
    let folder = record.strip_suffix("/record.ndjson").expect("a record in a folder");
    folder.strip_prefix("./").unwrap_or(folder).to_owned()
}

/// Turns one bit of a file in the middle.
fn damage(place: &Place, name: &str) {
    let path = place.path(name);
    let mut bytes = std::fs::read(&path).expect("the file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("damage");
}

fn sha256(place: &Place, name: &str) -> String {
    amp::digest::Digest::of_bytes(&std::fs::read(place.path(name)).expect("the file")).to_string()
}

#[test]
fn a_damaged_checkpoint_is_found_by_store_verify_and_by_verify() {
    let place = Place::with_manifest(&tiny());
    let run = finished(&place);
    let answer = place.amp(&["verify", &run]).ends(0);
    assert!(answer.stderr.contains("the checkpoint with its digest"), "{}", answer.stderr);
    let checkpoint = format!("{run}/model.safetensors");
    let expected = sha256(&place, &checkpoint);
    damage(&place, &checkpoint);
    let found = sha256(&place, &checkpoint);
    for arguments in [&["store", "verify"][..], &["verify", &run]] {
        let answer = place.amp(arguments).ends(5);
        for word in ["AMP0765", "model.safetensors", &expected, &found] {
            assert!(answer.stderr.contains(word), "{arguments:?} names {word}: {}", answer.stderr);
        }
    }
    std::fs::remove_file(place.path(&checkpoint)).expect("the checkpoint");
    let answer = place.amp(&["store", "verify"]).ends(5);
    assert!(answer.stderr.contains("AMP0764"), "{}", answer.stderr);
    // The run can still be repeated; what was not compared is said.
    let answer = place.amp(&["verify", &run]).ends(0);
    assert!(answer.stderr.contains("it was not compared"), "{}", answer.stderr);
}

#[test]
fn a_damaged_record_and_a_changed_lock_of_a_run_are_found() {
    let place = Place::with_manifest(&tiny());
    let run = finished(&place);
    let (record, lock) = (format!("{run}/record.ndjson"), format!("{run}/manifest.lock"));
    let (whole_record, whole_lock) = (place.read(&record), place.read(&lock));
    place.write(&record, whole_record.replacen("\"skipped\":false", "\"skipped\":true", 1));
    let answer = place.amp(&["store", "verify"]).ends(5);
    assert!(answer.stderr.contains("AMP0553") && answer.stderr.contains(&record), "{}", answer.stderr);
    place.write(&record, &whole_record);

    let edited = whole_lock.replace("optimizer.lr 0.002", "optimizer.lr 0.003");
    assert_ne!(edited, whole_lock);
    place.write(&lock, edited);
    let answer = place.amp(&["store", "verify"]).ends(5);
    assert!(answer.stderr.contains("AMP0765") && answer.stderr.contains(&lock), "{}", answer.stderr);
    place.write(&lock, &whole_lock);
    let _ = place.amp(&["store", "verify"]).ends(0);
}

#[test]
fn a_cut_record_is_never_read_as_a_whole_one() {
    let place = Place::with_manifest(&tiny());
    let run = finished(&place);
    let record = place.read(&format!("{run}/record.ndjson"));
    let lines: Vec<&str> = record.lines().collect();
    let torn = &record[..record.len() - 40];
    let tailless = format!("{}\n", lines[..lines.len() - 1].join("\n"));
    let no_last_step = format!("{}\n", lines[..3].join("\n"));
    for (name, text) in
        [("torn.ndjson", torn), ("tailless.ndjson", &tailless), ("short.ndjson", &no_last_step)]
    {
        place.write(name, text);
        for (old, new) in [(name, run.as_str()), (&run, name), (name, name)] {
            let answer = place.amp(&["diff", old, new]).ends(7);
            assert!(answer.stderr.contains("AMP0552"), "{name}: {}", answer.stderr);
        }
        let document = place.amp(&["diff", name, &run, "--json"]).ends(7).json();
        assert_eq!(document["cut"], serde_json::json!([true, false]));
    }
    let _ = place.amp(&["diff", &run, &run]).ends(0);
    let answer = place.amp(&["verify", "short.ndjson"]).ends(7);
    assert!(answer.stdout.contains("its record is cut after step 2"), "{}", answer.stdout);
    assert!(!answer.stdout.contains("interrupted"), "{}", answer.stdout);
    // Of a run that was killed or still runs: to be known, and no damage.
    place.write(&format!("{run}/record.ndjson"), torn);
    let answer = place.amp(&["store", "verify"]).ends(0);
    assert!(answer.stderr.contains("has no end") && answer.stderr.contains("warning"), "{}", answer.stderr);
}

#[test]
fn a_record_that_lost_the_digest_of_its_checkpoint_is_damage() {
    let place = Place::with_manifest(&tiny());
    let run = finished(&place);
    let name = format!("{run}/record.ndjson");
    let record = place.read(&name);
    let short: String = record.lines().take(3).map(|line| format!("{line}\n")).collect();
    for text in [short.as_str(), ""] {
        place.write(&name, text);
        let answer = place.amp(&["store", "verify"]).ends(5);
        for word in ["AMP0552", "was cut", "model.safetensors", "help"] {
            assert!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
        }
        let _ = place.amp(&["verify", &run]).ends(5);
        let _ = place.amp(&["store", "gc"]).ends(0);
        assert!(place.path(&format!("{run}/model.safetensors")).exists(), "a result is no leftover");
    }
    place.write(&name, &record);
    let _ = place.amp(&["store", "verify"]).ends(0);
    // Without the checkpoint there is nothing to say that it held more.
    place.write(&name, "");
    std::fs::remove_file(place.path(&format!("{run}/model.safetensors"))).expect("the checkpoint");
    let answer = place.amp(&["store", "verify"]).ends(7);
    assert_eq!(answer.stderr.matches(&run).count(), 1, "once: {}", answer.stderr);
    let _ = place.amp(&["store", "gc"]).ends(0);
    assert!(!place.path(&run).exists(), "a run without an event says nothing");
}

#[test]
fn a_run_that_ends_by_a_fault_ends_by_it_again() {
    let manifest = tiny()
        .replace("scaler \"std:scalers/dynamic\" init=65536.0 interval=10\n", "")
        .replace("std:precision/amp-fp16", "std:precision/fp32")
        .replace("adamw\" lr=2e-3 weight-decay=0.01", "sgd\" lr=1e38")
        .replace(" clip-norm=1.0", "")
        .replace("train steps=3", "train steps=60");
    let place = Place::with_manifest(&manifest);
    let failure = place.amp(&["run", "--json"]).ends(1).json();
    assert_eq!(failure["code"], "AMP0701");
    let record = failure["record"].as_str().expect("a record").to_owned();
    let run = record.strip_suffix("/record.ndjson").expect("a folder");
    let answer = place.amp(&["verify", run]).ends(0);
    assert!(answer.stdout.starts_with("same: it ends by AMP0701 at step"), "{}", answer.stdout);
    let _ = place.amp(&["verify", "--twice"]).ends(0);
    let answer = place.amp(&["verify"]).ends(7);
    assert!(answer.stderr.contains("--twice"), "{}", answer.stderr);
    let text = std::fs::read_to_string(place.path(&record)).expect("the record");
    std::fs::write(place.path(&record), text.replace("AMP0701", "AMP0702")).expect("another fault");
    let answer = place.amp(&["verify", run]).ends(1);
    assert!(answer.stdout.contains("how the run ends"), "{}", answer.stdout);
}

#[test]
fn a_difference_in_a_cut_record_is_a_difference() {
    let place = Place::with_manifest(&tiny());
    let first = finished(&place);
    place.write("manifest.kdl", tiny().replace("lr=2e-3", "lr=3e-3"));
    let second = finished(&place);
    let record = place.read(&format!("{second}/record.ndjson"));
    place.write("cut.ndjson", &record[..record.len() - 40]);
    let _ = place.amp(&["diff", &first, "cut.ndjson"]).ends(0);
    let answer = place.amp(&["diff", &first, "cut.ndjson", "--exit-code"]).ends(1);
    assert!(answer.stderr.contains("AMP0552"), "{}", answer.stderr);
}

#[test]
fn a_run_whose_manifest_is_gone_or_changed_is_inconclusive_and_says_what_to_do() {
    let place = Place::with_manifest(&tiny());
    let run = finished(&place);
    let _ = place.amp(&["store", "gc"]).ends(0);
    let _ = place.amp(&["verify", &run]).ends(0);
    place.write("manifest.kdl", tiny().replace("lr=2e-3", "lr=3e-3"));
    let answer = place.amp(&["verify", &run]).ends(7);
    assert!(
        answer.stderr.contains("amp diff") && answer.stderr.contains("manifest.lock"),
        "{}",
        answer.stderr
    );
    std::fs::remove_file(place.path("manifest.kdl")).expect("the manifest");
    let answer = place.amp(&["verify", &run]).ends(7);
    assert!(
        answer.stderr.contains("not there any more") && answer.stderr.contains("help"),
        "{}",
        answer.stderr
    );
    std::fs::remove_dir_all(place.path(".amp/runs")).expect("the runs");
    let answer = place.amp(&["verify", &format!("{run}/record.ndjson")]).ends(2);
    assert!(answer.stderr.contains("amp store ls"), "{}", answer.stderr);
}

#[cfg(unix)]
fn interrupt_when(mut command: Command, ready: impl Fn() -> bool) -> Answer {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("amp starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < deadline, "no step within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    Answer::of(child.wait_with_output().expect("amp ends"))
}

/// True when a record below the folder has a step.
fn trains(folder: PathBuf) -> impl Fn() -> bool {
    move || {
        super::damage::find(&folder, "record.ndjson").is_some_and(|record| {
            std::fs::read_to_string(record).is_ok_and(|text| text.contains("\"event\":\"step\""))
        })
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_verify_leaves_no_process_and_no_folder() {
    let place = Place::with_manifest(&SMALL.replace("train epochs=2", "train epochs=4000"));
    let _ = place.amp(&["lock"]).ends(0);
    let temporary = place.path("temporary");
    std::fs::create_dir(&temporary).expect("a folder");
    let mut command = place.command(&["verify", "--twice"]);
    command.env("TMPDIR", &temporary);
    let began = Instant::now();
    let answer = interrupt_when(command, trains(temporary.clone())).ends(130);
    assert!(answer.stderr.contains("interrupted"), "{}", answer.stderr);
    assert!(began.elapsed() < Duration::from_secs(60), "4000 epochs take minutes");
    let left: Vec<_> = std::fs::read_dir(&temporary).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // The child would still name the folder in its arguments.
    let listed = Command::new("ps").args(["-eo", "args"]).output();
    if let Ok(listed) = listed {
        let name = temporary.to_str().expect("UTF-8");
        assert!(!String::from_utf8_lossy(&listed.stdout).contains(name), "a child is left");
    }
}

#[cfg(unix)]
#[test]
fn a_repeated_run_ends_when_the_process_that_asked_for_it_is_killed() {
    let place = Place::with_manifest(&SMALL.replace("train epochs=2", "train epochs=4000"));
    let _ = place.amp(&["lock"]).ends(0);
    let mut child = place
        .command(&["verify", "--twice", "--store", "other"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("amp starts");
    let trains = trains(place.path("other"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !trains() {
        assert!(Instant::now() < deadline, "no step within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("a running process");
    child.wait().expect("an end");
    let record = super::damage::find(&place.path("other"), "record.ndjson").expect("a record");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&record).expect("the record").contains("\"event\":\"stopped\"") {
        assert!(Instant::now() < deadline, "the repeated run goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_cannot_be_taken_for_a_whole_one() {
    let place = Place::with_manifest(&SMALL.replace("train epochs=2", "train epochs=4000"));
    let command = place.command(&["run", "-q", "--record"]);
    let answer = interrupt_when(command, trains(place.path(".amp/runs"))).ends(130);
    assert!(answer.stderr.contains("interrupted after step"), "{}", answer.stderr);
    assert!(answer.stdout.starts_with("interrupted after step"), "{}", answer.stdout);
    assert!(!place.read("manifest.lock").contains("platform"), "a part is no result");
    let record = super::damage::find(&place.path(".amp/runs"), "record.ndjson").expect("a record");
    let stopped = std::fs::read_to_string(&record).expect("the record");
    assert!(stopped.contains("\"reason\":\"interrupted\""), "{stopped}");
    // An interrupted run is whole as far as it went, and said to be interrupted.
    let run = record.parent().and_then(|folder| folder.to_str()).expect("a folder");
    let _ = place.amp(&["store", "verify"]).ends(0);
    let _ = place.amp(&["diff", run, run]).ends(0);
}
