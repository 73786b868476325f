//! The lock as several people and processes meet it: nothing that was recorded is lost without a word.

use super::{Answer, Place, SMALL};

/// A manifest that trains three steps.
pub fn tiny() -> String {
    SMALL.replace("train epochs=2", "train steps=3").replace("every=\"epoch\"", "every=\"end\"")
}

/// The tiny manifest with another learning rate: another run id.
fn other() -> String {
    tiny().replace("lr=2e-3", "lr=3e-3")
}

/// A manifest that trains until it is changed or stopped: some seconds.
fn slow() -> String {
    SMALL.replace("train epochs=2", "train steps=80")
}

/// Waits until a run of this place has its first step.
fn first_step(place: &Place) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !super::damage::find(&place.path(".amp/runs"), "record.ndjson").is_some_and(|record| {
        std::fs::read_to_string(record).is_ok_and(|text| text.contains("\"event\":\"step\""))
    }) {
        assert!(std::time::Instant::now() < deadline, "no step within a minute");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Starts `run --record`, changes the lock once it trains, and returns the answer.
fn record_while(place: &Place, change: impl FnOnce()) -> Answer {
    let mut command = place.command(&["run", "--record"]);
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("amp starts");
    first_step(place);
    change();
    Answer::of(child.wait_with_output().expect("amp ends"))
}

#[test]
fn results_of_another_platform_that_came_during_the_run_stay() {
    let place = Place::with_manifest(&slow());
    let _ = place.amp(&["lock"]).ends(0);
    let zeros = format!("sha256:{}", "0".repeat(64));
    let lock = place.read("manifest.lock");
    let id = lock.split("id=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a run id");
    let node = format!(
        "platform \"cuda-sm90\" {{\n    result chain=\"{zeros}\" parameters=\"{zeros}\" run=\"{id}\" steps=3\n}}\n"
    );
    let _ = record_while(&place, || place.write("manifest.lock", format!("{lock}{node}"))).ends(0);
    let after = place.read("manifest.lock");
    assert!(after.contains(&node), "{after}");
    assert!(after.contains("platform \"cpu\""), "{after}");
    let _ = place.amp(&["lock", "--check"]).ends(0);
}

#[test]
fn a_lock_that_became_another_runs_is_not_written_over() {
    let place = Place::with_manifest(&slow());
    let answer = record_while(&place, || {
        place.write("manifest.kdl", other());
        let _ = place.amp(&["lock"]).ends(0);
    })
    .ends(1);
    assert!(
        answer.stderr.contains("AMP0507") && answer.stderr.contains("nothing was recorded"),
        "{}",
        answer.stderr
    );
    assert!(!place.read("manifest.lock").contains("platform"), "the new lock is as it was");
    let _ = place.amp(&["lock", "--check"]).ends(0);
}

#[test]
fn a_lock_that_is_removed_during_the_run_is_said() {
    let place = Place::with_manifest(&slow());
    let answer = record_while(&place, || {
        std::fs::remove_file(place.path("manifest.lock")).expect("the lock is there")
    })
    .ends(1);
    assert!(answer.stderr.contains("AMP0508"), "{}", answer.stderr);
    assert!(!place.path("manifest.lock").exists());
}

#[test]
fn two_runs_that_record_at_once_both_end_well() {
    let place = Place::with_manifest(&tiny());
    let children: Vec<_> = (0..2)
        .map(|_| {
            let mut command = place.command(&["run", "--record"]);
            let piped = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            piped.spawn().expect("amp starts")
        })
        .collect();
    for child in children {
        let _ = Answer::of(child.wait_with_output().expect("amp ends")).ends(0);
    }
    let answer = place.amp(&["run", "--frozen"]).ends(0);
    assert!(answer.stderr.contains("Same"), "{}", answer.stderr);
}

#[test]
fn recorded_results_of_another_run_id_are_never_dropped_silently() {
    let place = Place::with_manifest(&tiny());
    let run = place.amp(&["run", "--record", "--json"]).ends(0).json();
    assert_eq!(run["dropped"], serde_json::json!([]));
    let recorded = place.read("manifest.lock");
    place.write("manifest.kdl", other());

    let dry = place.amp(&["lock", "--dry-run"]).ends(0);
    assert!(dry.stderr.contains("would be dropped") && dry.stderr.contains("`cpu`"), "{}", dry.stderr);
    assert_eq!(place.read("manifest.lock"), recorded);
    let dry = place.amp(&["lock", "--dry-run", "--json"]).ends(0).json();
    assert_eq!(dry["dropped"][0]["platform"], "cpu");
    assert_eq!(dry["dropped"][0]["run_id"], run["run_id"]);
    assert_eq!(dry["dropped"][0]["chain"], run["chain"]);

    for arguments in [&["lock"][..], &["lock", "--update", "optimizer"], &["run"]] {
        place.write("manifest.lock", &recorded);
        let answer = place.amp(arguments).ends(0);
        assert!(answer.stderr.contains("are dropped: 3 steps"), "{arguments:?}: {}", answer.stderr);
        assert!(answer.stderr.contains("amp run --record"), "{arguments:?}: {}", answer.stderr);
        assert!(!place.read("manifest.lock").contains("platform"), "{arguments:?}");
        // Once they are gone there is nothing to say.
        let again = place.amp(arguments).ends(0);
        assert!(!again.stderr.contains("dropped"), "{arguments:?}: {}", again.stderr);
    }
    place.write("manifest.lock", &recorded);
    let run = place.amp(&["run", "--json"]).ends(0).json();
    assert_eq!(run["dropped"][0]["platform"], "cpu");
}

#[test]
fn another_result_of_the_same_run_is_replaced_loudly() {
    let place = Place::with_manifest(&tiny());
    let run = place.amp(&["run", "--record", "--json"]).ends(0).json();
    let (chain, zeros) = (run["chain"].as_str().expect("a chain"), format!("sha256:{}", "0".repeat(64)));
    let right = place.read("manifest.lock");
    let wrong = right.replace(chain, &zeros);
    assert_ne!(wrong, right);
    place.write("manifest.lock", &wrong);
    let answer = place.amp(&["run", "--record", "-q"]).ends(0);
    assert!(answer.stderr.contains("AMP0801"), "{}", answer.stderr);
    assert!(answer.stderr.contains(chain) && answer.stderr.contains(&zeros), "{}", answer.stderr);
    assert_eq!(place.read("manifest.lock"), right);
    place.write("manifest.lock", &wrong);
    let document = place.amp(&["run", "--record", "--json"]).ends(0).json();
    assert_eq!(document["same_as_recorded"], false);
    assert_eq!(document["replaced"]["chain"], zeros.as_str());
    let help = place.amp(&["run", "--help"]).ends(0);
    assert!(help.stdout.contains("replaced with a warning"), "{}", help.stdout);
}

#[test]
fn line_ends_of_windows_are_no_stale_lock() {
    let place = Place::with_manifest(&tiny());
    let _ = place.amp(&["run", "--record"]).ends(0);
    let windows = place.read("manifest.lock").replace('\n', "\r\n");
    place.write("manifest.lock", &windows);
    let asked = [(&["lock", "--check"][..], 1), (&["run", "--locked"], 0), (&["verify"], 0)];
    for (arguments, code) in asked {
        let answer = place.amp(arguments).ends(code);
        assert!(answer.stderr.contains("AMP0511"), "{arguments:?}: {}", answer.stderr);
        assert!(answer.stderr.contains("carriage returns"), "{arguments:?}: {}", answer.stderr);
        assert!(!answer.stderr.contains("AMP0507"), "{arguments:?}: {}", answer.stderr);
        assert_eq!(place.read("manifest.lock"), windows);
    }
    // What the page of the code says: it runs, and `amp lock` puts it right.
    let page = place.amp(&["explain", "AMP0511"]).ends(0);
    assert!(page.stdout.contains("It runs, but `lock --check` asks for the bytes"), "{}", page.stdout);
    let _ = place.amp(&["lock"]).ends(0);
    let _ = place.amp(&["lock", "--check"]).ends(0);
}

#[test]
fn a_check_names_what_was_written_and_counts_what_follows() {
    let place = Place::with_manifest(&tiny());
    let _ = place.amp(&["lock"]).ends(0);
    let unchanged = place.amp(&["lock", "--dry-run"]).ends(0);
    assert!(unchanged.stderr.contains("Unchanged"), "{}", unchanged.stderr);
    place.write("manifest.kdl", other());
    let answer = place.amp(&["lock", "--check"]).ends(1);
    assert!(answer.stderr.contains("optimizer.lr: locked 0.002, now 0.003"), "{}", answer.stderr);
    // digest.plan.optimizer, digest.step and run.id.
    assert!(answer.stderr.contains("and 3 digests that follow from it"), "{}", answer.stderr);
    assert!(!answer.stderr.contains("sha256:"), "{}", answer.stderr);
    let document = place.amp(&["lock", "--check", "--json"]).ends(1).json();
    assert_eq!(document["stale"].as_array().map(Vec::len), Some(4), "{document}");
    let answer = place.amp(&["lock", "--update", "digest"]).ends(2);
    assert!(
        answer.stderr.contains("the nodes are:") && answer.stderr.contains("optimizer"),
        "{}",
        answer.stderr
    );
}

#[test]
fn a_place_where_no_lock_can_be_is_refused_and_nothing_is_made() {
    let place = Place::with_manifest(&tiny());
    for command in ["run", "lock"] {
        let answer = place.amp(&[command, "--lockfile", "nodir/x.lock"]).ends(2);
        assert!(answer.stderr.contains("mkdir -p nodir"), "{}", answer.stderr);
        let answer = place.amp(&[command, "--lockfile", "data"]).ends(2);
        assert!(answer.stderr.contains("is a folder"), "{}", answer.stderr);
    }
    assert!(!place.path("nodir").exists() && !place.path(".amp").exists());
}

#[test]
fn what_is_no_lock_is_said_as_what_it_is() {
    let place = Place::with_manifest(&tiny());
    let asked = |path: &'static str| {
        [vec!["verify", path], vec!["env", "--check", path], vec!["diff", path, path]]
            .map(|arguments| place.amp(&arguments).ends(2).stderr)
    };
    for stderr in asked("data/nope.lock") {
        assert!(stderr.contains("`data/nope.lock` is not there"), "{stderr}");
        assert!(!stderr.contains("amp lock"), "no manifest lies beside it: {stderr}");
    }
    for stderr in asked("manifest.lock") {
        assert!(stderr.contains("is not there") && stderr.contains("`amp lock manifest.kdl`"), "{stderr}");
    }
    for stderr in asked("manifest.kdl") {
        assert!(stderr.contains("is a manifest") && stderr.contains("manifest.lock"), "{stderr}");
    }
}

#[test]
fn where_no_library_makes_products_nothing_is_timed_and_the_lock_is_written() {
    let place = Place::with_manifest(&tiny());
    let answer = place.amp(&["lock", "--platform", "--json"]).ends(0);
    assert!(answer.stderr.contains("Untimed"), "{}", answer.stderr);
    let document = answer.json();
    assert!(document["platform"].is_null() && document["written"] == true, "{document}");
    place.amp(&["lock", "--check"]).ends(0);
    // Not a word that `amp lock` alone could do anything with, nor one that answers without writing.
    place.amp(&["lock", "--device", "cpu"]).ends(2);
    place.amp(&["lock", "--platform", "--check"]).ends(2);
    place.amp(&["lock", "--platform", "--device", "tpu"]).ends(2);
}

#[test]
fn what_a_platform_chose_stays_in_the_lock_and_shows_in_a_diff() {
    let place = Place::with_manifest(&tiny());
    place.amp(&["lock"]).ends(0);
    let plain = std::fs::read_to_string(place.path("manifest.lock")).expect("a lock");
    let node = |tile: &str| {
        format!(
            "platform \"cuda-sm90\" {{\n    product.bf16.512x256x64.nt.bias \"cublaslt\" algorithm=66 cluster=3 custom=1 inner=0 \
             splits=1 stages=35 swizzle=0 tile={tile}\n    tuned \"NVIDIA H200\" library=\"cublaslt\" multiprocessors=132 \
             version=130100\n}}\n"
        )
    };
    place.write("manifest.lock", format!("{plain}{}", node("29")));
    place.amp(&["lock", "--check"]).ends(0);
    // The CPU follows none of it, and records beside it.
    place.amp(&["run", "--record"]).ends(0);
    let recorded = std::fs::read_to_string(place.path("manifest.lock")).expect("a lock");
    assert!(recorded.contains(&node("29")) && recorded.contains("platform \"cpu\""), "{recorded}");
    place.amp(&["verify", "manifest.lock"]).ends(0);
    place.write("other.lock", recorded.replace("tile=29", "tile=20"));
    let document = place.amp(&["diff", "manifest.lock", "other.lock", "--json"]).ends(0).json();
    assert_eq!(
        document["changes"][0]["path"], "platform.cuda-sm90.product.bf16.512x256x64.nt.bias",
        "{document}"
    );
    place.write("manifest.kdl", other());
    place.amp(&["lock"]).ends(0);
    let relocked = std::fs::read_to_string(place.path("manifest.lock")).expect("a lock");
    assert!(relocked.contains(&node("29")), "{relocked}");
}
