//! Each command and each exit code.

use super::{Place, SMALL, repository};

#[test]
fn help_names_every_command_and_every_exit_code() {
    let answer = Place::empty().amp(&["--help"]).ends(0);
    for word in [
        "run", "lock", "check", "graph", "diff", "verify", "bisect", "env", "explain", "fmt", "init", "doc",
        "bench", "store", "man", "predict", "export", "import", "report", "attest",
    ] {
        assert!(answer.stdout.contains(&format!("  {word}")), "{word} in\n{}", answer.stdout);
    }
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "7 ", "101 ", "130 "] {
        assert!(answer.stdout.contains(&format!("\n  {code}")), "{code}");
    }
}

#[test]
fn unknown_arguments_are_exit_2() {
    let _ = Place::empty().amp(&["train"]).ends(2);
    let _ = Place::empty().amp(&["run", "--threads", "0"]).ends(2);
    let _ = Place::empty().amp(&["run", "--threads", "many"]).ends(2);
}

#[test]
fn no_manifest_says_what_to_do() {
    let answer = Place::empty().amp(&["run"]).ends(2);
    assert!(answer.stderr.contains("amp init"), "{}", answer.stderr);
}

#[test]
fn init_writes_a_manifest_that_checks_and_formats() {
    for kind in ["mlp", "cnn", "resnet", "vit", "gpt", "bert"] {
        let place = Place::empty();
        let _ = place.amp(&["init", "--kind", kind]).ends(0);
        let checked = place.amp(&["check", "--json"]).ends(0).json();
        assert_eq!(checked["diagnostics"], serde_json::json!([]), "{kind}");
        let _ = place.amp(&["fmt", "--check"]).ends(0);
        let again = place.amp(&["init", "--kind", kind]).ends(2);
        assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    }
}

#[test]
fn check_reports_all_faults_at_once_with_codes() {
    let place = Place::with_manifest(&SMALL.replace("lr=2e-3", "lr=\"2e-3\"").replace("epochs=2", "epoch=2"));
    let answer = place.amp(&["check"]).ends(2);
    assert!(answer.stderr.matches("AMP02").count() >= 2, "{}", answer.stderr);
    let document = place.amp(&["check", "--json"]).ends(2).json();
    assert!(document["diagnostics"].as_array().is_some_and(|list| list.len() >= 2), "{document}");
    let github = place.amp(&["check", "--message-format", "github"]).ends(2);
    assert!(github.stdout.starts_with("::error file=manifest.kdl,line="), "{}", github.stdout);
}

#[test]
fn a_run_locks_trains_records_and_verifies() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["run", "--locked"]).ends(1);
    let run = place.amp(&["run", "--record", "--json"]).ends(0).json();
    assert_eq!(run["same_as_recorded"], serde_json::Value::Null);
    let _ = place.amp(&["lock", "--check"]).ends(0);
    let again = place.amp(&["run", "--frozen", "--json"]).ends(0).json();
    assert_eq!(again["same_as_recorded"], true);
    assert_eq!(again["chain"], run["chain"]);
    let verdict = place.amp(&["verify", "--json"]).ends(0).json();
    assert_eq!(verdict["verdict"], "same");
    let record = run["record"].as_str().expect("a record");
    let verdict = place.amp(&["verify", record, "--json"]).ends(0).json();
    assert_eq!(verdict["verdict"], "same");
    assert!(verdict["compared"].as_u64().is_some_and(|compared| compared > 20), "{verdict}");
}

#[test]
fn a_lock_without_results_is_inconclusive() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["lock"]).ends(0);
    let answer = place.amp(&["verify"]).ends(7);
    assert!(answer.stderr.contains("--record"), "{}", answer.stderr);
    let verdict = place.amp(&["verify", "--twice", "--json"]).ends(0).json();
    assert_eq!(verdict["verdict"], "same");
    assert!(verdict["compared"].as_u64().is_some_and(|compared| compared > 20), "{verdict}");
}

#[test]
fn results_that_differ_from_the_lock_are_exit_1() {
    let place = Place::with_manifest(SMALL);
    let run = place.amp(&["run", "--record", "--json"]).ends(0).json();
    let chain = run["chain"].as_str().expect("a chain");
    let other = format!("sha256:{}", "0".repeat(64));
    place.write("manifest.lock", place.read("manifest.lock").replace(chain, &other));
    let _ = place.amp(&["run", "--locked"]).ends(1);
    let _ = place.amp(&["verify"]).ends(1);
}

#[test]
fn a_stale_lock_is_named_refused_and_updated() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["lock"]).ends(0);
    place.write("manifest.kdl", SMALL.replace("lr=2e-3", "lr=3e-3"));
    let answer = place.amp(&["lock", "--check"]).ends(1);
    assert!(answer.stderr.contains("optimizer.lr"), "{}", answer.stderr);
    assert!(answer.stderr.contains("AMP0507"), "{}", answer.stderr);
    let before = place.read("manifest.lock");
    std::fs::remove_dir_all(place.path(".amp")).expect("the store is there");
    let _ = place.amp(&["lock", "--check"]).ends(1);
    let _ = place.amp(&["lock", "--dry-run"]).ends(0);
    assert_eq!(place.read("manifest.lock"), before);
    assert!(!place.path(".amp").exists(), "answering writes nothing");
    let _ = place.amp(&["run", "--locked"]).ends(1);
    let _ = place.amp(&["lock", "--update", "optimizer"]).ends(0);
    let _ = place.amp(&["lock", "--check"]).ends(0);
}

#[test]
fn diff_says_what_changed_and_whether_it_can_change_bits() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["lock", "--lockfile", "a.lock"]).ends(0);
    place.write("manifest.kdl", SMALL.replace("lr=2e-3", "lr=3e-3"));
    let _ = place.amp(&["lock", "--lockfile", "b.lock"]).ends(0);
    let _ = place.amp(&["diff", "a.lock", "a.lock", "--exit-code"]).ends(0);
    let answer = place.amp(&["diff", "a.lock", "b.lock"]).ends(0);
    assert!(answer.stdout.contains("optimizer.lr"), "{}", answer.stdout);
    assert!(answer.stdout.contains("0.002") && answer.stdout.contains("0.003"), "{}", answer.stdout);
    let _ = place.amp(&["diff", "a.lock", "b.lock", "--exit-code"]).ends(1);
    let document = place.amp(&["diff", "a.lock", "b.lock", "--json"]).ends(0).json();
    assert!(document["changes"].as_array().is_some_and(|changes| !changes.is_empty()), "{document}");
    let markdown = place.amp(&["diff", "a.lock", "b.lock", "--markdown"]).ends(0);
    assert!(markdown.stdout.contains('|'), "{}", markdown.stdout);
}

#[test]
fn the_committed_locks_are_current() {
    for name in ["digits", "digits-cnn"] {
        let manifest = repository().join(format!("examples/{name}/manifest.kdl"));
        let lock = repository().join(format!("lockfiles/{name}.lock"));
        let place = Place::empty();
        let arguments = [
            "lock",
            "--check",
            manifest.to_str().expect("UTF-8"),
            "--lockfile",
            lock.to_str().expect("UTF-8"),
        ];
        let _ = place.amp(&arguments).ends(0);
    }
}

#[test]
fn graph_prints_every_stage_as_text_and_json() {
    let place = Place::with_manifest(SMALL);
    for stage in ["plan", "graph", "precision", "step"] {
        let answer = place.amp(&["graph", "--stage", stage]).ends(0);
        assert!(answer.stdout.lines().count() > 5, "{stage}: {}", answer.stdout);
        let document = place.amp(&["graph", "--stage", stage, "--json"]).ends(0).json();
        assert!(document["schema"].as_str().is_some_and(|schema| schema.starts_with("amp.")), "{stage}");
    }
    let why = place.amp(&["graph", "--why", "head"]).ends(0);
    assert!(why.stdout.contains("head"), "{}", why.stdout);
}

#[test]
fn env_knows_this_machine_and_a_device_that_is_not_there_is_exit_3() {
    let place = Place::with_manifest(SMALL);
    let document = place.amp(&["env", "--json"]).ends(0).json();
    assert!(document["schema"].as_str().is_some());
    let _ = place.amp(&["run", "--device", "cuda"]).ends(3);
    let _ = place.amp(&["run", "--isa", "sse9"]).ends(2);
}

#[test]
fn a_model_that_cannot_fit_is_refused_before_it_begins() {
    let place = Place::empty();
    let _ = place.amp(&["init", "--kind", "mlp"]).ends(0);
    let text = place.read("manifest.kdl");
    // 10^12 weights: 4 TB before the optimizer's state.
    let large = text.replace("hidden=256", "hidden=1000000");
    assert_ne!(large, text);
    place.write("manifest.kdl", large);
    let answer = place.amp(&["run"]).ends(3);
    assert!(answer.stderr.contains("AMP0708"), "{}", answer.stderr);
}

#[test]
fn explain_has_a_page_for_every_code_and_offers_the_nearest() {
    let place = Place::empty();
    let document = place.amp(&["explain", "--all", "--json"]).ends(0).json();
    let codes = document["codes"].as_array().expect("codes");
    assert!(codes.len() > 40, "{}", codes.len());
    let first = codes[0]["code"].as_str().expect("a code");
    assert!(place.amp(&["explain", first]).ends(0).stdout.contains(first));
    assert!(place.amp(&["explain", &first.to_lowercase()]).ends(0).stdout.contains(first));
    let _ = place.amp(&["explain", "AMP9999"]).ends(2);
}

#[test]
fn completions_have_a_script_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = Place::empty().amp(&["completions", shell]).ends(0);
        assert!(answer.stdout.contains("AMP_COMPLETE"), "{shell}: {}", answer.stdout);
    }
}

#[test]
fn fmt_is_idempotent_and_keeps_comments() {
    let place = Place::with_manifest("// why\namp   1;run \"x\"   seed=0x10 // note\n");
    let _ = place.amp(&["fmt", "--check"]).ends(1);
    let _ = place.amp(&["fmt"]).ends(0);
    let once = place.read("manifest.kdl");
    assert!(once.contains("// why") && once.contains("// note") && once.contains("0x10"), "{once}");
    let _ = place.amp(&["fmt"]).ends(0);
    assert_eq!(place.read("manifest.kdl"), once);
}

#[test]
fn the_store_lists_verifies_and_cleans_itself() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["store", "ls"]).ends(2);
    let _ = place.amp(&["run"]).ends(0);
    let listed = place.amp(&["store", "ls"]).ends(0);
    assert!(listed.stdout.contains("prepared") && listed.stdout.contains("run "), "{}", listed.stdout);
    let _ = place.amp(&["store", "verify"]).ends(0);
    let _ = place.amp(&["store", "gc", "--dry-run"]).ends(0);
    assert_eq!(place.amp(&["store", "ls"]).ends(0).stdout, listed.stdout);
    let gone = place.amp(&["store", "gc", "--dry-run", "--json"]).ends(0).json();
    assert_eq!(gone["dry_run"], true);
    let gone = place.amp(&["store", "gc", "--json"]).ends(0).json();
    assert_eq!(gone["dry_run"], false);
    // Runs stay, and are verified: record, checkpoint and lock.
    let document = place.amp(&["store", "verify", "--json"]).ends(0).json();
    assert_eq!(document["compared"], 3);
}

#[test]
fn json_of_every_command_has_a_schema() {
    let place = Place::with_manifest(SMALL);
    for arguments in [
        &["lock", "--json"][..],
        &["lock", "--check", "--json"],
        &["check", "--json"],
        &["run", "--json"],
        &["env", "--json"],
        &["fmt", "--check", "--json"],
        &["store", "ls", "--json"],
        &["store", "verify", "--json"],
        &["bench", "--blocks", "1", "--json"],
    ] {
        let answer = place.amp(arguments);
        let document = answer.json();
        let schema = document["schema"].as_str().unwrap_or_default();
        assert!(schema.starts_with("amp.") && schema.contains('/'), "{arguments:?}: {document}");
    }
}
