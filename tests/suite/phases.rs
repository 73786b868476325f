//! A precision that changes during the run: what the record says of it, that runs go on in the right one, and what a lock has of it.

use super::kills::{RICH, hashed, kill_and_resume, latest};
use super::{Place, amp, repository};
use std::path::Path;

/// A run whose scale begins so high that three steps in a row are skipped, and that has a last policy from a step on.
pub(super) fn changing() -> String {
    let policies = "precision \"std:precision/amp-fp16\" {\n    layer \"head\" dtype=\"f32\"\n    \
                    after skipped-in-row=3 policy=\"amp-bf16\"\n    from step=17 policy=\"fp32\" scaler=\"none\"\n}";
    RICH.replace("precision \"std:precision/amp-fp16\"", policies).replace("init=65536.0", "init=1e30")
}

/// Each change of policy in a record: steps that were done, number, name, condition.
fn changes(place: &Place, store: &str) -> Vec<(u64, u64, String, String)> {
    let record = std::fs::read_to_string(latest(&place.path(store)).expect("a record")).expect("a record");
    let lines = record.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let phases = lines.filter(|line| line["event"] == "phase").map(|line| line["hashed"].clone());
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    phases
        .map(|line| {
            let number = |name: &str| line[name].as_u64().expect("a number");
            (number("step"), number("phase"), text(&line["policy"]), text(&line["because"]))
        })
        .collect()
}

#[test]
fn the_record_says_which_policy_takes_over_and_why() {
    let place = Place::with_manifest(&changing());
    let answer = place.amp(&["run"]).ends(0);
    let expected = [
        (3, 1, "std:precision/amp-bf16", "after 3 skipped steps in a row"),
        (16, 2, "std:precision/fp32", "from step 17"),
    ];
    let found = changes(&place, ".amp");
    let found: Vec<(u64, u64, &str, &str)> = found
        .iter()
        .map(|(step, phase, policy, why)| (*step, *phase, policy.as_str(), why.as_str()))
        .collect();
    assert_eq!(found, expected);
    assert!(answer.stderr.contains("std:precision/fp32, from step 17"), "{}", answer.stderr);
    let record = std::fs::read_to_string(latest(&place.path(".amp")).expect("a record")).expect("a record");
    let steps: Vec<serde_json::Value> = record
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|line: &serde_json::Value| line["event"] == "step")
        .collect();
    let skipped: Vec<bool> = steps.iter().map(|line| line["hashed"]["skipped"] == true).collect();
    assert_eq!(skipped.iter().take(4).collect::<Vec<_>>(), [&true, &true, &true, &false]);
    assert!(!skipped[3..].contains(&true));
    // A scaler that the line names begins anew: without one, losses are not scaled.
    assert_eq!(steps[16]["hashed"]["scale"]["value"], 1.0);
    assert_ne!(steps[15]["hashed"]["scale"]["value"], 1.0);
    // The listing names each policy before its casts.
    let shown = place.amp(&["graph", "--why", "head"]).ends(0).stdout;
    for line in [
        "at first: std:precision/amp-fp16",
        "after 3 skipped steps in a row: std:precision/amp-bf16",
        "from step 17: std:precision/fp32",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    for stage in ["precision", "step"] {
        let shown = place.amp(&["graph", "--stage", stage]).ends(0).stdout;
        let named = shown.lines().filter(|line| line.contains(": std:precision/")).count();
        assert_eq!(named, 3, "{stage} of each policy:\n{shown}");
        let document = place.amp(&["graph", "--stage", stage, "--json"]).ends(0).json();
        let later = document["later"].as_array().expect("later policies");
        let names: Vec<_> = later.iter().map(|later| later["policy"].as_str().expect("a name")).collect();
        assert_eq!(names, ["std:precision/amp-bf16", "std:precision/fp32"]);
        assert!(later.iter().all(|later| later["stage"]["digest"] != document["digest"]), "{stage}");
    }
}

#[test]
fn a_killed_run_goes_on_in_the_policy_of_its_step() {
    let place = Place::with_manifest(&changing());
    let said = kill_and_resume(&|arguments| amp(arguments), &place.path(""), 5, 31);
    assert!(said.starts_with("5 kills"), "{said}");
}

#[test]
fn a_repeated_run_and_its_parts_change_alike() {
    let place = Place::with_manifest(&changing());
    let _ = place.amp(&["run", "-q", "--record"]).ends(0);
    let _ = place.amp(&["verify", "-q"]).ends(0);
    let record = latest(&place.path(".amp")).expect("a record");
    let record = record.to_str().expect("a path");
    let _ = place.amp(&["verify", record, "--segments", "4", "-q"]).ends(0);
}

#[test]
fn every_policy_is_in_the_run_id() {
    let id = |text: &str| {
        let place = Place::with_manifest(text);
        let _ = place.amp(&["lock", "-q"]).ends(0);
        let lock = place.read("manifest.lock");
        lock.lines().find(|line| line.contains("id=")).expect("a run id").to_owned()
    };
    let text = changing();
    let changed = [
        text.replace("step=17", "step=18"),
        text.replace("skipped-in-row=3", "skipped-in-row=4"),
        text.replace("skipped-in-row=3", "skipped=3"),
        text.replace("policy=\"fp32\"", "policy=\"tf32\""),
        text.replace("policy=\"fp32\" scaler=\"none\"", "policy=\"fp32\""),
    ];
    let first = id(&text);
    assert_eq!(id(&text), first);
    for other in changed {
        assert_ne!(other, text);
        assert_ne!(id(&other), first, "{other}");
    }
}

#[test]
fn fp8_trains_and_goes_on_where_it_was_killed() {
    let text = RICH
        .replace("shape 1 8 8\n", "")
        .replace("batch 8 ", "batch 16 ")
        .replace(
            "model \"std:models/cnn\" channels=4 classes=10 dropout=0.25 norm=#true",
            "model \"std:models/mlp\" hidden=32 layers=3 classes=10",
        )
        .replace("precision \"std:precision/amp-fp16\"", "precision \"fp8-hybrid\" history=4")
        .replace("scaler \"std:scalers/dynamic\" init=65536.0 interval=7", "")
        .replace("lr=2e-3", "lr=1e-2");
    let place = Place::with_manifest(&text);
    let said = kill_and_resume(&|arguments| amp(arguments), &place.path(""), 3, 5);
    assert!(said.starts_with("3 kills"), "{said}");
    let record = latest(&place.path("straight")).expect("a record");
    // A checkpoint of parameters has no histories, and that is said.
    let run = record.parent().and_then(std::path::Path::to_str).expect("a path");
    let answer = place.amp(&["predict", "--checkpoint", run, "--out", "p.safetensors"]).ends(0);
    assert!(answer.stderr.contains("the policy delays the scales of FP8"), "{}", answer.stderr);
    let text = std::fs::read_to_string(record).expect("a record");
    let losses: Vec<f64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|line| line["event"] == "step")
        .map(|line| line["hashed"]["loss"]["value"].as_f64().expect("a loss"))
        .collect();
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[losses.len() - 6..]) < 0.9 * mean(&losses[..6]), "{losses:?}");
}

/// Each complaint of `docs/amp.md` names a test that there is.
#[test]
fn complaints_name_tests_that_there_are() {
    let page = std::fs::read_to_string(repository().join("docs/amp.md")).expect("the page");
    let mut sources = String::new();
    for folder in ["src", "tests"] {
        for entry in walkdir::WalkDir::new(repository().join(folder)) {
            let entry = entry.expect("the sources can be read");
            if entry.path().extension().is_some_and(|extension| extension == "rs") {
                sources += &std::fs::read_to_string(entry.path()).expect("a source");
            }
        }
    }
    let rows: Vec<Vec<&str>> = page
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 6 && cells[1].parse::<u32>().is_ok())
        .collect();
    let numbers: Vec<u32> = rows.iter().map(|cells| cells[1].parse().expect("a number")).collect();
    assert_eq!(numbers, (1..=34).collect::<Vec<u32>>());
    for cells in rows {
        let name = cells[4].trim_matches('`');
        assert!(sources.contains(&format!("fn {name}()")), "{}: there is no test `{name}`", cells[1]);
    }
}

#[test]
fn one_skipped_step_is_one_and_locks_that_said_several_are_followed() {
    let place = Place::with_manifest(&changing().replace("skipped-in-row=3", "skipped-in-row=1"));
    let _ = place.amp(&["lock"]).ends(0);
    let lock = place.read("manifest.lock");
    let line = "after 1 skipped step in a row std:precision/amp-bf16";
    assert!(lock.contains(line), "{lock}");
    place.write("manifest.lock", lock.replace(line, &line.replace("step", "steps")));
    let answer = place.amp(&["run", "--locked", "-q"]).ends(0);
    assert!(answer.stderr.contains("it counts one skipped step as several"), "{}", answer.stderr);
    assert_eq!(changes(&place, ".amp")[0].3, "after 1 skipped step in a row");
    let _ = place.amp(&["lock"]).ends(0);
    assert!(place.read("manifest.lock").contains(line));
}

/// How a lock said that one skipped step is the condition, and how it says it.
const SAID: [&str; 2] = ["after 1 skipped steps in a row", "after 1 skipped step in a row"];

/// Cuts the record of a run as if it had been killed: after the steps that follow its first state.
fn cut(record: &Path) {
    let text = std::fs::read_to_string(record).expect("a record");
    let state = text.find("\"event\":\"checkpoint\"").expect("a state");
    let end = text[state..].match_indices('\n').nth(3).expect("more lines").0 + state + 1;
    std::fs::write(record, &text[..end]).expect("a file");
}

#[test]
fn a_run_goes_on_under_a_lock_that_says_its_plan_in_other_words() {
    let place = Place::with_manifest(&changing().replace("skipped-in-row=3", "skipped-in-row=1"));
    let _ = place.amp(&["lock"]).ends(0);
    let new = place.read("manifest.lock");
    let old = new.replace(SAID[1], SAID[0]);
    assert_ne!(old, new);
    // What the lock said at first, what it says later, and how the run goes on: `amp run` writes the lock anew by itself.
    let cases = [
        (&old, &new, vec!["run", "-q", "--resume"]),
        (&old, &old, vec!["run", "-q", "--resume"]),
        (&old, &new, vec!["run", "-q", "--resume", "--locked"]),
        (&new, &old, vec!["run", "-q", "--resume", "--locked"]),
    ];
    for (number, (first, later, words)) in cases.into_iter().enumerate() {
        let store = format!("store-{number}");
        let words = [words, vec!["--store", &store]].concat();
        place.write("manifest.lock", first);
        let _ = place.amp(&["run", "-q", "--locked", "--store", &store]).ends(0);
        let record = latest(&place.path(&store)).expect("a record");
        let folder = record.parent().expect("a folder").to_str().expect("a name").to_owned();
        let undisturbed = hashed(&record);
        let model = std::fs::read(record.with_file_name("model.safetensors")).expect("a checkpoint");
        cut(&record);
        place.write("manifest.lock", later);
        let answer = place.amp(&words).ends(0);
        let warning = "begun under a lock that says the same in other words";
        assert!(answer.stderr.contains(warning) && answer.stderr.contains("AMP0511"), "{}", answer.stderr);
        assert_eq!(hashed(&record), undisturbed, "{words:?}");
        assert_eq!(std::fs::read(record.with_file_name("model.safetensors")).expect("a checkpoint"), model);
        // The record names the lock that it was begun with, which lies beside it, and all who ask for that one find it.
        let beside = format!("{folder}/manifest.lock");
        assert_eq!(std::fs::read_to_string(&beside).expect("a lock"), *first);
        assert_eq!(
            place.read("manifest.lock").contains(SAID[0]),
            words.contains(&"--locked") && later == &old
        );
        let _ = place.amp(&["store", "verify", "--store", &store]).ends(0);
        let _ = place.amp(&["verify", &folder]).ends(0);
        let _ = place.amp(&["verify", &folder, "--segments", "1"]).ends(0);
        let _ = place.amp(&["attest", &folder]).ends(0);
        let _ = place.amp(&["report", &folder]).ends(0);
        assert!(
            !std::fs::read_to_string(format!("{folder}/report.html"))
                .expect("a page")
                .contains("another digest")
        );
        let diff = place.amp(&["diff", &beside, "manifest.lock", "--json"]).ends(0).json();
        assert_eq!(diff["old_run_id"], diff["new_run_id"]);
        assert_eq!(diff["can_change_bits"], false, "{diff:#}");
    }
    let runs = [0, 3].map(|number| latest(&place.path(&format!("store-{number}"))).expect("a record"));
    let runs = runs.each_ref().map(|record| record.to_str().expect("a name"));
    let _ = place.amp(&["diff", runs[0], runs[1], "--exit-code"]).ends(0);
    let _ = place.amp(&["bisect", runs[0], runs[1]]).ends(0);
}
