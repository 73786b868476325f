//! Parts of a run repeated alone, the first op that differs, and variations that must not matter.

use super::Place;
use super::kills::{RICH, latest};
use amp::record::{Event, Recorder};
use serde_json::Value;

/// A finished run that keeps all its states, as a path relative to its place.
fn kept() -> (Place, String) {
    let place = Place::with_manifest(&RICH.replace("keep=2", "keep=100"));
    let _ = place.amp(&["run", "-q"]).ends(0);
    let record = latest(&place.path(".amp")).expect("a record");
    let folder = record.parent().expect("a folder").strip_prefix(place.path("")).expect("below").to_owned();
    (place, folder.to_str().expect("UTF-8").to_owned())
}

/// The record with another event in the place of each that `change` changes, and the chain that follows from it.
fn forged(place: &Place, run: &str, change: impl Fn(&mut Event)) -> Vec<u8> {
    let text = place.read(&format!("{run}/record.ndjson"));
    let (record, _) = amp::record::read(amp::diag::FileId(0), text.as_bytes()).expect("a record");
    let mut recorder = Recorder::start(Vec::new(), record.started.clone(), &record.unhashed).expect("memory");
    for line in &record.events {
        let mut event = line.event.clone();
        change(&mut event);
        if let Event::Finished(finished) = &mut event {
            finished.chain = recorder.chain();
        }
        recorder.record(&event, &line.unhashed).expect("memory");
    }
    recorder.into_writer()
}

#[test]
fn segments_prove_the_share_that_they_say() {
    let (place, run) = kept();
    let all = place.amp(&["verify", &run, "--segments", "100", "--json"]).ends(0).json();
    // States after each fourth step, and at the evaluations that were the best so far.
    let borders: Vec<u64> = all["segments"]
        .as_array()
        .expect("segments")
        .iter()
        .map(|part| part["to"].as_u64().expect("a step"))
        .collect();
    assert!(borders.len() >= 9 && borders.last() == Some(&36), "{borders:?}");
    assert_eq!(
        (&all["proved_steps"], &all["steps"], &all["fraction"]),
        (&36.into(), &36.into(), &1.0.into())
    );
    assert!(
        all["segments"].as_array().expect("segments").iter().all(|part| part["state_same"] == true),
        "{all:#}"
    );

    let two = place.amp(&["verify", &run, "--segments", "2", "--seed", "5", "--json"]).ends(0).json();
    let again = place
        .amp(&["verify", &run, "--segments", "2", "--seed", "5", "--threads", "1", "--json"])
        .ends(0)
        .json();
    assert_eq!(two["segments"], again["segments"], "the seed chooses");
    assert_eq!(two["segments"].as_array().map(Vec::len), Some(2));
    let steps = |part: &Value| part["to"].as_u64().expect("a step") - part["from"].as_u64().expect("a step");
    let proved: u64 = two["segments"].as_array().expect("segments").iter().map(steps).sum();
    assert_eq!(two["proved_steps"], proved);
    let chosen = |seed: &str| {
        let document =
            place.amp(&["verify", &run, "--segments", "1", "--seed", seed, "--json"]).ends(0).json();
        document["segments"][0]["from"].as_u64().expect("a step")
    };
    let seeds: std::collections::BTreeSet<u64> = ["1", "2", "3", "4"].into_iter().map(chosen).collect();
    assert!(seeds.len() > 1, "another seed chooses others: {seeds:?}");

    // With states that the rule dropped, what is left is what can be proved.
    for entry in std::fs::read_dir(place.path(&run).join("checkpoints")).expect("states").flatten() {
        if !entry.file_name().to_string_lossy().starts_with("00000020") {
            std::fs::remove_file(entry.path()).expect("a state");
        }
    }
    let answer = place.amp(&["verify", &run, "--segments", "5"]).ends(0);
    assert!(answer.stdout.contains("same: 2 of 2 segments repeated"), "{}", answer.stdout);
    assert!(
        answer.stderr.contains("5 segments were asked for, and the run has 2 segments to choose from"),
        "{}",
        answer.stderr
    );
}

#[test]
fn segments_find_what_was_forged_and_what_is_damaged() {
    let (place, run) = kept();
    let record = place.read(&format!("{run}/record.ndjson"));
    let text = forged(&place, &run, |event| {
        if let Event::Step(step) = event
            && step.step == 18
        {
            step.loss = f32::from_bits(step.loss.to_bits() ^ 1);
        }
    });
    place.write(&format!("{run}/record.ndjson"), text);
    let answer = place.amp(&["verify", &run, "--segments", "100", "--json"]).ends(1).json();
    let parts = answer["segments"].as_array().expect("segments");
    let wrong: Vec<&Value> = parts.iter().filter(|part| part["verdict"] == "differs").collect();
    // From step 17 on the chain is another one, so each later state says another chain than the record.
    assert!(!wrong.is_empty() && wrong[0]["from"].as_u64() < Some(18), "{answer:#}");
    assert_eq!(wrong[0]["first_step"], 18);
    assert_eq!(wrong[0]["differences"][0]["ulps"], 1);
    place.write(&format!("{run}/record.ndjson"), record);

    let path = place.path(&run).join("checkpoints/00000020.safetensors");
    let mut bytes = std::fs::read(&path).expect("a state");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).expect("damage");
    let answer = place.amp(&["verify", &run, "--segments", "100"]).ends(5);
    assert!(answer.stderr.contains("AMP0765"), "{}", answer.stderr);
    let answer = place.amp(&["verify", "--segments", "1"]).ends(2);
    assert!(answer.stderr.contains("is no record"), "{}", answer.stderr);
    place.write("manifest.kdl", place.read("manifest.kdl").replace("lr=2e-3", "lr=3e-3"));
    let _ = place.amp(&["verify", &run, "--segments", "1"]).ends(7);
}

#[test]
fn bisect_says_which_record_this_machine_gives() {
    let (place, run) = kept();
    let text = forged(&place, &run, |event| {
        if let Event::Step(step) = event
            && step.step == 18
        {
            step.gradient_norm = f32::from_bits(step.gradient_norm.to_bits() + 2);
        }
    });
    place.write("forged.ndjson", text);
    let answer = place.amp(&["bisect", &run, "forged.ndjson", "--json"]).ends(7).json();
    assert_eq!(
        (&answer["step"], &answer["event"], &answer["from"]),
        (&18.into(), &"step".into(), &16.into())
    );
    assert_eq!(answer["sides"][0]["gives"], serde_json::json!(["old"]));
    assert!(
        answer["reason"].as_str().is_some_and(|reason| reason.contains("the second one was made by")),
        "{answer:#}"
    );
    let answer = place.amp(&["bisect", &run, "forged.ndjson", "--against", "scalar"]).ends(7);
    for word in
        ["step 18 is the first that differs", "2 ulps", "AMP0804", "scalar gives what the first record has"]
    {
        assert!(answer.stdout.contains(word), "{word}: {}", answer.stdout);
    }
    let same = place.amp(&["bisect", &run, &run]).ends(0);
    assert!(same.stdout.starts_with("same"), "{}", same.stdout);
    let answer = place.amp(&["bisect", &run, "--against", "scalar", "--json"]).ends(0).json();
    assert_eq!((&answer["verdict"], &answer["step"]), (&"same".into(), &Value::Null));
    // What was compared and has no difference is 0, with a step and without one.
    let answer =
        place.amp(&["bisect", &run, "--against", "reference", "--step", "3", "--json"]).ends(0).json();
    assert_eq!((&answer["verdict"], &answer["step"]), (&"same".into(), &3.into()), "{answer:#}");
    let answer = place.amp(&["bisect", &run, "--against", "scalar", "--step", "3"]).ends(0);
    assert!(answer.stdout.contains("same: no op differs between"), "{}", answer.stdout);
    let _ = place.amp(&["bisect", &run, "--against", "abacus"]).ends(2);
    let _ = place.amp(&["bisect", &run, "--against", "scalar", "--step", "37"]).ends(2);
    let _ = place.amp(&["bisect", &run]).ends(2);
}

/// Changes a bit of all features of a split of prepared data, one that a cast to f16 keeps.
fn damage(place: &Place, split: &str) {
    let folder = std::fs::read_dir(place.path(".amp/prepared")).expect("a folder").flatten().next();
    let path = folder.expect("prepared data").path().join("tensors.safetensors");
    let mut bytes = std::fs::read(&path).expect("prepared data");
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).expect("a file of tensors");
    let (first, last) = metadata.info(&format!("{split}.features")).expect("a split").data_offsets;
    // Eight bytes say how long the header is.
    bytes[8 + header..][first + 2..last].iter_mut().step_by(4).for_each(|byte| *byte ^= 1);
    std::fs::write(&path, bytes).expect("damage");
}

#[test]
fn bisect_reads_all_data_where_a_step_is_not_the_recorded_one() {
    let (place, run) = kept();
    let look = |step: &str| place.amp(&["bisect", &run, "--against", "scalar", "--step", step]).ends(0);
    // No step reads what evaluations alone do, so that its damage is nothing to them.
    damage(&place, "test");
    let answer = look("18");
    assert!(answer.stdout.contains("same: no op differs"), "{}", answer.stdout);
    assert!(!answer.stderr.contains("damaged"), "{}", answer.stderr);
    // Of damaged examples no recorded step comes; it is told from one that another machine made.
    damage(&place, "train");
    let answer = look("18");
    assert!(answer.stdout.contains("same: no op differs"), "{}", answer.stdout);
    assert!(answer.stdout.contains("gives what the first record has"), "{}", answer.stdout);
    assert!(answer.stderr.contains("was damaged and has been made anew"), "{}", answer.stderr);
    let answer = look("19");
    assert!(!answer.stderr.contains("damaged"), "{}", answer.stderr);
}

#[test]
fn an_exchanged_state_is_found() {
    let (place, run) = kept();
    let state = |step: &str| place.path(&run).join(format!("checkpoints/{step}.safetensors"));
    let last = std::fs::read(state("00000036")).expect("the last state");
    std::fs::copy(state("00000032"), state("00000036")).expect("exchanged");
    // No step begins with the last state, and no number of the record tells of it.
    for command in [
        &["verify", &run, "--segments", "100"][..],
        &["bisect", &run, &run],
        &["bisect", &run, "--against", "scalar"],
        &["store", "verify"],
    ] {
        let answer = place.amp(command).ends(5);
        assert!(answer.stderr.contains("AMP0765") && answer.stderr.contains("00000036"), "{}", answer.stderr);
    }
    // A step that begins elsewhere is looked into all the same.
    let _ = place.amp(&["bisect", &run, "--against", "scalar", "--step", "30"]).ends(0);
    std::fs::write(state("00000036"), last).expect("as it was");
    std::fs::copy(state("00000032"), state("00000028")).expect("exchanged");
    let answer = place.amp(&["bisect", &run, "--against", "scalar", "--step", "30"]).ends(5);
    assert!(answer.stderr.contains("00000028"), "{}", answer.stderr);
}

#[test]
fn a_record_that_was_emptied_beside_its_states_is_damage() {
    let (place, run) = kept();
    place.write(&format!("{run}/record.ndjson"), "");
    std::fs::remove_file(place.path(&run).join("model.safetensors")).expect("the checkpoint");
    let answer = place.amp(&["store", "verify"]).ends(5);
    assert!(answer.stderr.contains("AMP0552") && answer.stderr.contains("00000036"), "{}", answer.stderr);
    // States are a person's, so that a collection leaves them.
    let _ = place.amp(&["store", "gc"]).ends(0);
    assert!(place.path(&run).join("checkpoints/00000036.safetensors").is_file());
}

#[test]
fn nothing_around_a_run_matters() {
    let place = Place::with_manifest(&super::locks::tiny());
    let _ = place.amp(&["run", "-q", "--record"]).ends(0);
    let document = place.amp(&["verify", "--hostile", "--json"]).ends(0).json();
    let variations = document["variations"].as_array().expect("variations");
    assert_eq!((&document["recorded"], &document["verdict"]), (&"same".into(), &"same".into()));
    let verdict = |name: &str| {
        let found = variations.iter().find(|variation| variation["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {document:#}"))["verdict"].clone()
    };
    for name in [
        "locale",
        "time zone",
        "home",
        "working folder",
        "environment",
        "memory poison",
        "file order",
        "one thread",
        "scalar kernels",
    ] {
        assert_eq!(verdict(name), "same", "{name}: {document:#}");
    }
    assert!(!variations.iter().any(|variation| variation["verdict"] == "differs"), "{document:#}");
    // Another result was recorded: that is said, and no variation is blamed.
    let lock = place.read("manifest.lock");
    let start = lock.find("chain=\"sha256:").expect("a chain") + "chain=\"sha256:".len();
    let digit = if lock.as_bytes()[start] == b'0' { "1" } else { "0" };
    let mut edited = lock.clone();
    edited.replace_range(start..=start, digit);
    place.write("manifest.lock", edited);
    let answer = place.amp(&["verify", "--hostile"]).ends(1);
    assert!(answer.stdout.contains("differs from what was recorded"), "{}", answer.stdout);
}
