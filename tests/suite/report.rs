//! `amp report` and `amp attest` as a person uses them, and the forms of answers for pipelines.

use super::locks::tiny;
use super::{Place, SMALL};
use serde_json::Value;

/// A place with a recorded run; the folder of its record.
fn recorded() -> (Place, String) {
    let place = Place::with_manifest(&tiny());
    let run = place.amp(&["run", "--record", "--json"]).ends(0).json();
    let record = run["record"].as_str().expect("a record").to_owned();
    let folder = record.strip_suffix("/record.ndjson").expect("a folder").to_owned();
    (place, folder)
}

#[test]
fn a_page_lies_beside_its_record_and_says_what_was_run() {
    let (place, folder) = recorded();
    let answer = place.amp(&["report", &folder]).ends(0);
    assert!(answer.stderr.contains("report.html"), "{}", answer.stderr);
    let page = place.read(&format!("{folder}/report.html"));
    let lock = place.read("manifest.lock");
    let id = lock.split("id=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a run id");
    for word in [
        id,
        "Training loss",
        "Where the time went",
        "data/digits.csv.gz",
        "amp verify",
        "prefers-color-scheme",
        "optimizer",
    ] {
        assert!(page.contains(word), "{word}");
    }
    assert!(!page.contains(&place.path("").display().to_string()), "no folder of this machine is in a page");
    // The same record gives the same bytes; another lock is not taken for its own, and a damaged one is told and left out.
    let _ = place.amp(&["report", &folder, "--output", "again.html"]).ends(0);
    assert_eq!(place.read("again.html"), page);
    place.write(&format!("{folder}/manifest.lock"), lock.replace("data.batch 32", "data.batch 16"));
    let _ = place.amp(&["report", &folder, "--output", "other.html"]).ends(0);
    assert!(place.read("other.html").contains("its entries have another digest"));
    let _ = place.amp(&["attest", &folder]).ends(5);
    place.write(&format!("{folder}/manifest.lock"), "no lock");
    let damaged = place.amp(&["report", &folder, "--output", "damaged.html"]).ends(0);
    assert!(damaged.stderr.contains("left out"), "{}", damaged.stderr);
    assert!(place.read("damaged.html").contains("known by its digests alone"));
}

#[test]
fn two_records_are_shown_side_by_side() {
    let (place, first) = recorded();
    place.write("manifest.kdl", tiny().replace("lr=2e-3", "lr=3e-3"));
    let run = place.amp(&["run", "--json"]).ends(0).json();
    let second = run["record"].as_str().expect("a record").to_owned();
    let answer = place.amp(&["report", &first, &second, "--json"]).ends(0).json();
    assert_eq!(answer["first_difference"]["step"], 1);
    let page = place.read(answer["page"].as_str().expect("a page"));
    assert!(page.contains("first difference at step 1") && page.contains("because of optimizer.lr"));
}

#[test]
fn a_badge_claims_no_more_than_was_verified() {
    let (place, folder) = recorded();
    let _ = place.amp(&["report", &folder, "--badge", "badge.svg"]).ends(0);
    assert!(!place.path(&format!("{folder}/report.html")).exists(), "the page is not asked for");
    assert!(place.read("badge.svg").contains("recorded ") && !place.read("badge.svg").contains("reproduced"));
    let _ = place
        .amp(&["verify", "--write", "verdict.json", "--write", "verdict.xml", "--write", "v.sarif"])
        .ends(0);
    let _ = place.amp(&["report", &folder, "--badge", "badge.json", "--verdict", "verdict.json"]).ends(0);
    let badge: Value = serde_json::from_str(&place.read("badge.json")).expect("JSON");
    assert_eq!((&badge["schemaVersion"], &badge["message"]), (&1.into(), &"reproduced bit for bit".into()));
    assert!(place.read("verdict.xml").contains("tests=\"1\" failures=\"0\""));
    assert!(place.read("v.sarif").contains("\"2.1.0\""));
    // A verdict on another run, and what is no verdict.
    let verdict: Value = serde_json::from_str(&place.read("verdict.json")).expect("JSON");
    let id = verdict["run_id"].as_str().expect("a run id");
    place.write("other.json", place.read("verdict.json").replace(id, &format!("sha256:{}", "0".repeat(64))));
    let other = place.amp(&["report", &folder, "--badge", "b.svg", "--verdict", "other.json"]).ends(2);
    assert!(other.stderr.contains("is a verdict on run"), "{}", other.stderr);
    // One on another run of the same lock, which ended otherwise.
    let chain = verdict["chain"].as_str().expect("a chain");
    place.write(
        "other.json",
        place.read("verdict.json").replace(chain, &format!("sha256:{}", "1".repeat(64))),
    );
    let other = place.amp(&["report", &folder, "--badge", "b.svg", "--verdict", "other.json"]).ends(2);
    assert!(other.stderr.contains("is a verdict on chain"), "{}", other.stderr);
    assert!(!place.path("b.svg").exists());
    let other = place.amp(&["report", &folder, "--badge", "b.svg", "--verdict", "manifest.lock"]).ends(2);
    assert!(other.stderr.contains("amp verify"), "{}", other.stderr);
    let _ = place.amp(&["report", &folder, "--verdict", "verdict.json"]).ends(2);
}

#[test]
fn a_page_is_written_over_a_page_alone() {
    let (place, folder) = recorded();
    let manifest = place.read("manifest.kdl");
    let other = place.amp(&["report", &folder, "--output", "manifest.kdl"]).ends(2);
    assert!(other.stderr.contains("such as `manifest.html`"), "{}", other.stderr);
    assert_eq!(place.read("manifest.kdl"), manifest);
    place.write("notes.html", "mine");
    let other = place.amp(&["report", &folder, "--output", "notes.html"]).ends(2);
    assert!(other.stderr.contains("is no page"), "{}", other.stderr);
    assert_eq!(place.read("notes.html"), "mine");
    for _ in 0..2 {
        let _ = place.amp(&["report", &folder, "--output", "page.html"]).ends(0);
    }
}

#[test]
fn a_run_that_did_not_end_has_a_page_and_no_statement() {
    let (place, folder) = recorded();
    let record = format!("{folder}/record.ndjson");
    let text = place.read(&record);
    let cut: Vec<&str> = text.lines().take(4).collect();
    std::fs::create_dir(place.path("cut")).expect("a folder");
    place.write("cut/record.ndjson", cut.join("\n") + "\n");
    let _ = place.amp(&["report", "cut/record.ndjson"]).ends(0);
    assert!(place.read("cut/report.html").contains("no end after step"));
    for command in ["report", "attest"] {
        let other = place.amp(&[command, "manifest.lock"]).ends(2);
        assert!(
            other.stderr.contains("is no record")
                && other.stderr.contains("the latest run of `manifest.lock` is"),
            "{}",
            other.stderr
        );
    }
    let answer = place.amp(&["attest", "cut/record.ndjson"]).ends(7);
    assert!(answer.stderr.contains("AMP0803") && answer.stderr.contains("--resume"), "{}", answer.stderr);
}

#[test]
fn statements_name_the_bytes_that_are_there() {
    let (place, folder) = recorded();
    let answer = place.amp(&["attest", &folder, "--verify"]).ends(0);
    let statements: Vec<Value> =
        answer.stdout.lines().map(|line| serde_json::from_str(line).expect("a statement a line")).collect();
    assert_eq!(statements.len(), 2);
    assert_eq!(statements[1]["predicate"]["result"], "PASSED");
    let digest = |path: &str| {
        let bytes = std::fs::read(place.path(path)).expect("a file");
        amp::digest::Digest::of_bytes(&bytes).hex()
    };
    let model = &statements[0]["subject"][0];
    assert_eq!(model["name"], "model.safetensors");
    assert_eq!(model["digest"]["sha256"], digest(&format!("{folder}/model.safetensors")));
    let dependencies = &statements[0]["predicate"]["buildDefinition"]["resolvedDependencies"];
    assert_eq!(dependencies[0]["digest"]["sha256"], digest(&format!("{folder}/manifest.lock")));
    assert_eq!(dependencies[1]["digest"]["sha256"], digest("data/digits.csv.gz"));
    let _ = place.amp(&["attest", &folder, "--out", "out"]).ends(0);
    let payload = place.read("out/provenance.statement.json");
    assert_eq!(
        place.read("out/provenance.pae"),
        format!("DSSEv1 28 application/vnd.in-toto+json {} {payload}", payload.len())
    );
    // A checkpoint that is another one by now cannot be stated.
    let path = format!("{folder}/model.safetensors");
    let mut bytes = std::fs::read(place.path(&path)).expect("the checkpoint");
    *bytes.last_mut().expect("a byte") ^= 1;
    place.write(&path, bytes);
    let _ = place.amp(&["attest", &folder]).ends(5);
}

#[test]
fn events_for_tensorboard_are_written_on_request() {
    let (place, folder) = recorded();
    let answer = place.amp(&["report", &folder, "--tensorboard", "events", "--json"]).ends(0).json();
    let file = answer["tensorboard"][0].as_str().expect("a file");
    assert!(file.starts_with("events/events.out.tfevents."), "{file}");
    assert_eq!(answer["page"], Value::Null);
    let bytes = std::fs::read(place.path(file)).expect("the file");
    assert_eq!(amp::report::tensorboard::crc32c::masked(&bytes[..8]).to_le_bytes(), bytes[8..12]);
}

#[test]
fn every_answer_for_pipelines_has_its_form() {
    let place = Place::with_manifest(&SMALL.replace("lr=2e-3", "lr=\"2e-3\""));
    let forms = ["github", "junit", "sarif"];
    let begins = [
        "::error file=manifest.kdl,line=",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ",
        "{\n",
    ];
    for (form, begin) in forms.into_iter().zip(begins) {
        for command in [&["check"][..], &["lock", "--check"]] {
            let answer = place.amp(&[command, &["--message-format", form]].concat()).ends(2);
            assert!(answer.stdout.starts_with(begin), "{command:?} {form}: {}", answer.stdout);
            // A person who reads the log sees the fault too.
            assert!(answer.stderr.contains("error[AMP0205]"), "{}", answer.stderr);
        }
    }
    let json = place.amp(&["check", "--message-format", "json"]).ends(2);
    assert_eq!(json.json(), place.amp(&["check", "--json"]).ends(2).json());
    let both = place.amp(&["check", "--json", "--message-format", "junit"]).ends(2).json();
    assert!(both["message"].as_str().is_some_and(|text| text.contains("expected one of them")), "{both}");
    let quiet = format!("{SMALL}\nallow \"AMP0413\" reason=\"known\"\n");
    place.write("manifest.kdl", &quiet);
    let _ = place.amp(&["lock"]).ends(0);
    let sarif = |answer: super::Answer| answer.json()["runs"][0]["results"].clone();
    assert_eq!(
        sarif(place.amp(&["lock", "--check", "--message-format", "sarif"]).ends(0)),
        serde_json::json!([])
    );
    // Nothing recorded: no success in any form.
    let nothing = place.amp(&["verify", "--message-format", "junit", "--write", "v.json"]).ends(7);
    assert!(
        nothing.stdout.contains("errors=\"1\"") && nothing.stdout.contains("AMP0803"),
        "{}",
        nothing.stdout
    );
    assert!(place.read("v.json").contains("amp.failure/1"));
    let _ = place.amp(&["verify", "--write", "v.txt"]).ends(2);
    place.write("manifest.kdl", quiet.replace("lr=2e-3", "lr=3e-3"));
    let _ = place.amp(&["lock", "--lockfile", "b.lock"]).ends(0);
    let results = sarif(
        place.amp(&["diff", "manifest.lock", "b.lock", "--exit-code", "--message-format", "sarif"]).ends(1),
    );
    assert_eq!(
        (&results[0]["ruleId"], &results[0]["level"]),
        (&"diff/can-change-bits".into(), &"error".into())
    );
    let place_of = &results[0]["locations"][0]["physicalLocation"];
    let line = place_of["region"]["startLine"].as_u64().expect("a line") as usize;
    assert_eq!(place.read("b.lock").lines().nth(line - 1), Some("optimizer.lr 0.003"));
}
