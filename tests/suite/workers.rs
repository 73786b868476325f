//! `train shards=N` and `amp run --workers W`: how many processes share the shards changes no bit.

use super::kills::{RICH, hashed, latest, steps};
use super::{Place, SMALL};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Everything that shards meet: micro-batches, dropout, batch norm, f16 with a scaler, clipping, states.
fn cut(steps: u32) -> Place {
    let manifest = RICH.replace("train steps=36", &format!("train steps={steps}"));
    Place::with_manifest(&manifest.replace("accumulate=2", "accumulate=2 shards=4"))
}

/// The hashed part of the record and the last checkpoint of the latest run in a store.
fn left(place: &Place, store: &str) -> (String, Vec<u8>) {
    let record = latest(&place.path(store)).expect("a record");
    (hashed(&record), std::fs::read(record.with_file_name("model.safetensors")).expect("a checkpoint"))
}

#[test]
fn one_two_three_and_four_workers_leave_the_same() {
    let place = cut(12);
    let _ = place.amp(&["run", "-q", "--store", "1"]).ends(0);
    let expected = left(&place, "1");
    assert_eq!(expected.0.matches("\"event\":\"step\"").count(), 12);
    for workers in ["2", "3", "4"] {
        let answer = place.amp(&["run", "--no-progress", "--store", workers, "--workers", workers]).ends(0);
        assert!(answer.stderr.contains(&format!("4 shards, {workers} workers")), "{}", answer.stderr);
        assert!(left(&place, workers) == expected, "{workers} workers");
    }
    // A repetition in one process, and parts of it, are the same too.
    let record = latest(&place.path("4")).expect("a record");
    let folder = record.parent().and_then(Path::to_str).expect("a path");
    let _ = place.amp(&["verify", folder]).ends(0);
    let _ = place.amp(&["verify", folder, "--segments", "2"]).ends(0);
    // Another number of shards is another run.
    place.write("manifest.kdl", place.read("manifest.kdl").replace("shards=4", "shards=2"));
    let _ = place.amp(&["run", "-q", "--store", "other"]).ends(0);
    let other = left(&place, "other");
    assert_ne!(other.0, expected.0);
    let id = |text: &str| text.split("\"run_id\":\"").nth(1).map(|rest| rest[..20].to_owned());
    assert_ne!(id(&other.0), id(&expected.0));
}

#[test]
fn a_last_batch_is_cut_too_or_refused() {
    // 360 examples: 11 batches of 32 and one of 8, which 4 shards divide and 16 do not.
    let place = Place::with_manifest(&SMALL.replace("clip-norm=1.0", "clip-norm=1.0 shards=4"));
    let runs = ["1", "4"].map(|workers| {
        let _ = place.amp(&["run", "-q", "--store", workers, "--workers", workers]).ends(0);
        left(&place, workers)
    });
    assert!(runs[0] == runs[1]);
    place.write("manifest.kdl", place.read("manifest.kdl").replace("shards=4", "shards=16"));
    for command in ["check", "lock", "run"] {
        let answer = place.amp(&[command]).ends(2);
        assert!(
            answer.stderr.contains("AMP0228") && answer.stderr.contains("last=\"drop\""),
            "{}",
            answer.stderr
        );
    }
    place.write(
        "manifest.kdl",
        place.read("manifest.kdl").replace("shuffle=#true", "shuffle=#true last=\"drop\""),
    );
    let _ = place.amp(&["check"]).ends(0);
}

/// The processes that a process started.
#[cfg(target_os = "linux")]
fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[cfg(target_os = "linux")]
fn is_there(id: u32) -> bool {
    // One that ended and was not waited for is a zombie.
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what} within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_dies_ends_the_run_and_the_run_goes_on_with_others() {
    let place = cut(60);
    let _ = place.amp(&["run", "-q", "--store", "straight"]).ends(0);
    let expected = left(&place, "straight");
    let start = |arguments: &[&str], from: u64| {
        let child = place
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("amp starts");
        until("steps", || latest(&place.path(".amp")).is_some_and(|record| steps(&record) >= from));
        let workers = children(child.id());
        assert_eq!(workers.len(), 3, "of the process {}", child.id());
        (child, workers)
    };
    let kill = |signal: &str, id: u32| {
        assert!(Command::new("kill").args([signal, &id.to_string()]).status().expect("kill runs").success());
    };
    // A worker is killed.
    let (child, workers) = start(&["run", "--no-progress", "--workers", "4"], 10);
    kill("-KILL", workers[1]);
    let answer = super::Answer::of(child.wait_with_output().expect("an end")).ends(3);
    assert!(
        answer.stderr.contains("AMP0717") && answer.stderr.contains("worker 2 of 4"),
        "{}",
        answer.stderr
    );
    assert!(answer.stderr.contains("signal: 9") && answer.stderr.contains("--resume"), "{}", answer.stderr);
    until("the end of all workers", || !workers.iter().any(|id| is_there(*id)));
    let record = latest(&place.path(".amp")).expect("a record");
    assert!(std::fs::read_to_string(&record).expect("a record").contains("AMP0717"));
    // The leader is killed.
    let (mut child, workers) = start(&["run", "-q", "--resume", "--workers", "4"], 20);
    child.kill().expect("a process");
    child.wait().expect("an end");
    until("the end of all workers", || !workers.iter().any(|id| is_there(*id)));
    // Somebody interrupts all of them, as a terminal does.
    let (child, workers) = start(&["run", "-q", "--resume", "--workers", "4"], 30);
    workers.iter().for_each(|id| kill("-INT", *id));
    kill("-INT", child.id());
    let _ = super::Answer::of(child.wait_with_output().expect("an end")).ends(130);
    // Another number goes on to the end.
    let _ = place.amp(&["run", "-q", "--resume", "--workers", "2"]).ends(0);
    assert!(left(&place, ".amp") == expected);
}

#[test]
fn what_a_worker_cannot_do_is_said_by_the_first_one() {
    let place = cut(4);
    // 8 divides the batch of 8; 5 does not, and is no advice.
    for (workers, advice) in [("8", "write `train shards=8`"), ("5", "help: lower `--workers` to 4 or less")]
    {
        let answer = place.amp(&["run", "--workers", workers]).ends(2);
        assert!(answer.stderr.contains("AMP0716") && answer.stderr.contains(advice), "{}", answer.stderr);
    }
    let answer = place.amp(&["run", "--workers", "0"]).ends(2);
    assert!(answer.stderr.contains("at least 1"), "{}", answer.stderr);
}

/// The leader says which policy is in force, and a scaler that begins anew does so everywhere.
#[test]
fn workers_change_their_policy_together() {
    let place =
        Place::with_manifest(&super::phases::changing().replace("accumulate=2", "accumulate=2 shards=4"));
    for workers in ["1", "4"] {
        let _ = place.amp(&["run", "-q", "--store", workers, "--workers", workers]).ends(0);
    }
    let [one, four] = ["1", "4"].map(|store| left(&place, store));
    assert_eq!(one.0.matches("\"event\":\"phase\"").count(), 2, "both changes were met");
    assert!(one == four);
}

#[test]
fn maxima_of_delayed_scaling_are_those_of_all_workers() {
    let manifest = SMALL
        .replace("cnn\" channels=8 classes=10 dropout=0.25 norm=#true", "mlp\" hidden=32 layers=3 classes=10")
        .replace("amp-fp16\"", "fp8-hybrid\" first=0")
        .replace("batch 32 shuffle=#true", "batch 32 shuffle=#true last=\"drop\"")
        .replace("batch 32 ", "batch 64 ")
        .replace("clip-norm=1.0", "clip-norm=1.0 shards=4");
    for scaling in ["delayed", "current"] {
        let place =
            Place::with_manifest(&manifest.replace("first=0", &format!("first=0 scaling=\"{scaling}\"")));
        let runs = ["1", "2", "3"].map(|workers| {
            let _ = place.amp(&["run", "-q", "--workers", workers, "--store", workers]).ends(0);
            left(&place, workers)
        });
        assert!(runs[0] == runs[1] && runs[0] == runs[2], "{scaling}");
    }
}

#[test]
fn a_difference_of_shards_is_told_by_its_cause() {
    let place = Place::with_manifest(&RICH.replace("accumulate=2", "accumulate=2 shards=4"));
    let _ = place.amp(&["lock", "--lockfile", "four.lock"]).ends(0);
    place.write("manifest.kdl", place.read("manifest.kdl").replace("shards=4", "shards=2"));
    let _ = place.amp(&["lock", "--lockfile", "two.lock"]).ends(0);
    let answer = place.amp(&["diff", "four.lock", "two.lock"]).ends(0);
    assert!(answer.stdout.contains("because train.shards"), "{}", answer.stdout);
    assert!(!answer.stdout.contains("another version"), "{}", answer.stdout);
}
