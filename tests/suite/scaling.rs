//! Loss scaling as a person meets it: skipped steps, scalers that stop a run, exponents on request, scalers of other libraries.

use super::{Place, SMALL};

/// Pixels that f16 does not hold, so that every step is skipped.
fn overflowing(scaler: &str) -> Place {
    let text = SMALL
        .replace("normalise \"scale\" divide=16.0", "normalise \"scale\" multiply=1000000.0")
        .replace("scaler \"std:scalers/dynamic\" init=65536.0 interval=10", scaler);
    Place::with_manifest(&text)
}

/// The folder of the one run in the store.
fn run_folder(place: &Place) -> std::path::PathBuf {
    let runs = place.path(".amp/runs");
    let mut found = walkdir::WalkDir::new(runs)
        .into_iter()
        .map(|entry| entry.expect("the store can be read").path().to_owned())
        .filter(|path| path.ends_with("record.ndjson"));
    let record = found.next().expect("a run leaves a record");
    assert_eq!(found.next(), None);
    record.parent().expect("a folder").to_owned()
}

#[test]
fn a_scaler_that_stops_a_run_names_the_value_and_keeps_the_last_good_step() {
    for (scaler, code, words) in [
        ("scaler \"dynamic\" init=4.0", "AMP0702", "fell to 0.5 at step 3, below its floor of 1"),
        (
            "scaler \"guarded\" init=4.0 at-floor=\"hold-once\"",
            "AMP0702",
            "is at its floor of 1 and would fall from 1 again at step 3",
        ),
        (
            "scaler \"guarded\" max-skips=2 at-floor=\"hold\"",
            "AMP0714",
            "3 steps in a row were skipped, more than `max-skips=2`",
        ),
        (
            "scaler \"guarded\" max-skips-total=4",
            "AMP0714",
            "5 steps were skipped, more than `max-skips-total=4`",
        ),
        ("scaler \"static\" scale=8.0 max-skips=1", "AMP0714", "2 steps in a row were skipped"),
    ] {
        let place = overflowing(scaler);
        let answer = place.amp(&["run"]).ends(1);
        for part in [
            code,
            words,
            "layer \"",
            "dtype=\"f32\"",
            "forward pass",
            "the parameters of the last good step are in",
        ] {
            assert!(answer.stderr.contains(part), "{scaler}: {part} in\n{}", answer.stderr);
        }
        let folder = run_folder(&place);
        assert!(folder.join("model.safetensors").is_file(), "{scaler}");
        let record = std::fs::read_to_string(folder.join("record.ndjson")).expect("a record");
        for part in ["step-skipped", "the first value that is not finite is", "\"checkpoint\"", code] {
            assert!(record.contains(part), "{scaler}: {part} in\n{record}");
        }
    }
}

#[test]
fn a_run_that_its_own_numbers_ended_is_not_told_to_go_on() {
    let place = overflowing("scaler \"dynamic\" init=4.0");
    let _ = place.amp(&["run"]).ends(1);
    let answer = place.amp(&["attest", run_folder(&place).to_str().expect("UTF-8")]).ends(7);
    assert!(!answer.stderr.contains("--resume"), "{}", answer.stderr);
    assert!(answer.stderr.contains("amp explain AMP0702"), "{}", answer.stderr);
}

#[test]
fn a_scale_that_holds_its_floor_goes_on_and_tells_that_it_fell() {
    let place = overflowing("scaler \"guarded\" init=64.0 at-floor=\"hold\"");
    let run = place.amp(&["run", "--json"]).ends(0);
    let document = run.json();
    assert_eq!(document["skipped"], document["steps"], "{document}");
    assert!(
        run.stderr.contains("the loss scale fell 3 times without a good step between, from 64 to 8"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("overflows in f16"), "{}", run.stderr);
}

#[test]
fn the_record_has_scale_and_tracker() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["run"]).ends(0);
    let record = std::fs::read_to_string(run_folder(&place).join("record.ndjson")).expect("a record");
    let lines = record.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let steps: Vec<serde_json::Value> = lines.filter(|line| line["event"] == "step").collect();
    let first = &steps[0]["hashed"];
    assert_eq!(
        (first["scale"]["value"].as_f64(), first["growth_tracker"].as_i64()),
        (Some(65536.0), Some(1)),
        "{first}"
    );
}

#[test]
fn a_held_learning_rate_waits_for_applied_steps() {
    let rates = |scaler: &str| -> Vec<f64> {
        let place = overflowing(scaler);
        let _ = place.amp(&["run"]).ends(0);
        let record = std::fs::read_to_string(run_folder(&place).join("record.ndjson")).expect("a record");
        let lines = record.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        let steps = lines.filter(|line| line["event"] == "step");
        steps.map(|line| line["hashed"]["learning_rate"]["value"].as_f64().expect("a rate")).collect()
    };
    let held = rates("scaler \"static\" lr-on-skip=\"hold\"");
    assert!(held.len() > 3 && held.windows(2).all(|pair| pair[0] == pair[1]), "{held:?}");
    let advancing = rates("scaler \"static\"");
    assert!(advancing[0] < advancing[1], "{advancing:?}");
}

#[test]
fn exponents_on_request() {
    let place = Place::with_manifest(SMALL);
    let run = place.amp(&["run", "--probe=1,3"]).ends(0);
    assert!(run.stderr.contains("gradients up to 2^"), "{}", run.stderr);
    let folder = run_folder(&place);
    for step in [1, 3] {
        let text = std::fs::read_to_string(folder.join(format!("probe-{step}.json"))).expect("a file");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((document["step"].as_u64(), document["scale"].as_f64()), (Some(step), Some(65536.0)));
        let values = document["values"].as_array().expect("values");
        let passes = |pass| values.iter().filter(|value| value["pass"] == pass).count();
        assert!(passes("forward") > 5 && passes("backward") > 5, "{document}");
    }
    // Looking changes no bit.
    let plain = Place::with_manifest(SMALL);
    let (probed, plain) = (run.stdout, plain.amp(&["run"]).ends(0).stdout);
    assert_eq!(probed, plain);
}

#[test]
fn scalers_of_other_libraries() {
    let place = Place::empty();
    place.write("ds_config.json", r#"{"train_batch_size": 8, "fp16": {"enabled": true, "hysteresis": 1}}"#);
    place.write("train.sh", "torchrun pretrain_gpt.py --fp16 --initial-loss-scale 65536\n");
    place.write("train.py", "scaler = torch.amp.GradScaler('cuda', init_scale=2.0**12)\n");
    place.write("none.txt", "nothing\n");
    for (file, words) in [
        ("ds_config.json", "late-growth=#true at-floor=\"hold-once\""),
        (
            "train.sh",
            "init=65536.0 growth=2.0 backoff=0.5 interval=1000 floor=1.0 hysteresis=2 at-floor=\"hold\"",
        ),
        ("train.py", "scaler \"std:scalers/dynamic\" init=4096.0"),
    ] {
        let answer = place.amp(&["import", file]).ends(0);
        assert!(answer.stdout.contains(words), "{}", answer.stdout);
        let node = answer.stdout;
        let manifest = SMALL.replace("scaler \"std:scalers/dynamic\" init=65536.0 interval=10", node.trim());
        let other = Place::with_manifest(&manifest);
        let _ = other.amp(&["check"]).ends(0);
    }
    let answer = place.amp(&["import", "none.txt"]).ends(2);
    assert!(answer.stderr.contains("`--from deepspeed|megatron|pytorch`"), "{}", answer.stderr);
    let answer = place.amp(&["import", "train.py", "--from", "deepspeed"]).ends(2);
    assert!(answer.stderr.contains("found no JSON"), "{}", answer.stderr);
}
