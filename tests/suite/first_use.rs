//! What somebody does in the first hour: slips of the hand, and whether the answer says what to type next.

use super::locks::tiny;
use super::scaling::overflowing;
use super::{Answer, Place, SMALL};
use serde_json::Value;

/// The folder of the one run of a place, relative to it.
fn run_of(place: &Place) -> String {
    let run = place.amp(&["run", "--json"]).ends(0).json();
    let record = run["record"].as_str().expect("a record");
    record.strip_suffix("/record.ndjson").expect("a folder").trim_start_matches("./").to_owned()
}

/// Asserts that all these words are said.
#[track_caller]
fn says(answer: &Answer, words: &[&str]) {
    for word in words {
        assert!(answer.stderr.contains(word), "{word} in\n{}", answer.stderr);
    }
}

#[test]
fn what_is_no_record_leads_to_one() {
    let place = Place::with_manifest(&tiny());
    let _ = place.amp(&["lock"]).ends(0);
    for path in ["manifest.lock", "manifest.kdl", "."] {
        let answer = place.amp(&["report", path]).ends(2);
        says(&answer, &["no run of `manifest.lock` is in `.amp`: `amp run` makes one"]);
    }
    let run = run_of(&place);
    for path in ["manifest.lock", "manifest.kdl", "."] {
        for command in ["report", "attest"] {
            let answer = place.amp(&[command, path]).ends(2);
            says(&answer, &[&format!("the latest run of `manifest.lock` is `{run}`: name that")]);
        }
    }
    says(&place.amp(&["report", ".amp"]).ends(2), &["`amp store ls --store .amp` lists its runs"]);
    says(&place.amp(&["report", "nope.lock"]).ends(2), &["`nope.lock` is not there", &run]);
    let export = ["export", "manifest.lock", "--names", "gpt2-huggingface", "--out", "x.safetensors"];
    says(&place.amp(&export).ends(2), &["`manifest.lock` is no checkpoint", &run]);
    let predict = ["predict", "--checkpoint", "manifest.kdl", "--out", "x.safetensors"];
    says(&place.amp(&predict).ends(2), &["`manifest.kdl` is no checkpoint", &run]);
    let badge = ["report", &run, "--badge", "b.svg", "--verdict", "nope.json"];
    says(&place.amp(&badge).ends(2), &["there is no verdict at `nope.json`", "amp verify RECORD --json"]);
    let badge = ["report", &run, "--badge", "b.png"];
    says(&place.amp(&badge).ends(2), &["expected a name that ends with .json or .svg, such as `b.svg`"]);
    assert!(!place.path("b.png").exists());
    // An empty file is no record, and is named.
    place.write("empty.ndjson", "");
    says(&place.amp(&["report", "empty.ndjson"]).ends(5), &["AMP0554", "`empty.ndjson`"]);
}

#[test]
fn import_says_what_else_there_is() {
    let place = Place::with_manifest(&tiny());
    place.write("train.py", "scaler = GradScaler(init_scale=1024.0)\n");
    let answer = place.amp(&["import", "train.py", "--from", "deepspeed"]).ends(2);
    says(&answer, &["`--from pytorch`"]);
    let _ = place.amp(&["import", "train.py", "--from", "pytorch"]).ends(0);
    says(&place.amp(&["import", "manifest.kdl"]).ends(2), &["`amp doc scaler`"]);
    let _ = place.amp(&["doc", "scaler"]).ends(0);
    says(&place.amp(&["import", "nope.py"]).ends(2), &["there is no such file"]);
    says(&place.amp(&["import", "data"]).ends(2), &["it is a folder"]);
}

#[test]
fn a_probe_beyond_the_end_is_refused_before_the_run() {
    let place = Place::with_manifest(&tiny());
    let answer = place.amp(&["run", "--probe=1,4"]).ends(2);
    says(&answer, &["`--probe` asks for step 4, and the run has 3 steps", "`--probe=3`"]);
    assert!(!place.path("manifest.lock").exists(), "nothing was begun");
    let _ = place.amp(&["run", "--probe=3"]).ends(0);
}

#[test]
fn a_run_that_skipped_all_its_steps_says_so() {
    let answer = overflowing("scaler \"static\" scale=8.0").amp(&["run", "--quiet"]).ends(0);
    let told =
        "warning[AMP0719]: 24 of 24 steps were skipped: the parameters are those that training began with";
    says(&answer, &[told, "a static scale of 8 stays where it is: take `scaler \"dynamic\"`", "max-skips"]);
    let good = Place::with_manifest(&tiny().replace("init=65536.0", "init=8.0"));
    assert!(!good.amp(&["run"]).ends(0).stderr.contains("AMP0719"));
}

#[test]
fn memory_is_that_of_the_device_of_the_run() {
    let place = Place::with_manifest(&SMALL.replace("std:precision/amp-fp16", "std:precision/fp32"));
    let needs = |arguments: &[&str], code| {
        let answer = place.amp(arguments).ends(code).stderr;
        answer.lines().rfind(|line| line.contains("Needs")).unwrap_or_default().to_owned()
    };
    let line = needs(&["check", "--device-memory", "1GiB"], 0);
    // A CUDA device has 600 MiB of context beside what is allocated; a CPU has none.
    assert!(line.contains("into 1.00 GiB: fits (") && !line.contains("beside"), "{line}");
    let too_much = needs(&["check", "--device-memory", "1KiB"], 1);
    assert!(too_much.contains("even when"), "{too_much}");
    let checked = place.amp(&["check", "--device-memory", "1KiB"]).ends(1);
    says(&checked, &["on the CPU, which has 1.00 KiB"]);
    assert!(
        !checked.stderr.contains("amp-bf16"),
        "a CPU holds every format in four bytes: {}",
        checked.stderr
    );
    let run = place.amp(&["run", "--device-memory", "1KiB"]).ends(3);
    says(
        &run,
        &["AMP0708", "`--device-memory` leaves 1.00 KiB: that is with", "computed again; it would be"],
    );
    // What check says is needed then is what the run is refused for.
    let least = too_much.split("Needs ").nth(1).and_then(|rest| rest.split(" even").next()).expect("a size");
    says(&run, &[&format!("the run needs {least} of memory")]);
}

#[test]
fn programs_are_told_whether_a_run_fits() {
    let place = Place::with_manifest(&SMALL.replace("std:precision/amp-fp16", "std:precision/fp32"));
    let memory = |size: &str, code| {
        let arguments = ["check", "--json", "--device-memory", size];
        place.amp(&arguments).ends(code).json()["memory"].clone()
    };
    let bytes = |memory: &Value, name: &str| memory[name].as_u64().unwrap_or_else(|| panic!("{memory:#}"));
    let roomy = memory("1GiB", 0);
    assert_eq!((&roomy["fit"], bytes(&roomy, "available_bytes")), (&"fits".into(), 1 << 30));
    // A CPU has nothing beside what a step has.
    assert_eq!((&roomy["recomputed"], bytes(&roomy, "beside_bytes")), (&Value::Null, 0));
    let needed = bytes(&roomy, "needed_bytes");
    assert_eq!(needed, bytes(&roomy, "persistent_bytes") + bytes(&roomy, "results_bytes"));
    assert_eq!(memory(&format!("{needed}B"), 0)["fit"], "fits");
    let least = bytes(&memory("1KiB", 1)["recomputed"], "needed_bytes");
    assert!(least < needed, "{least} of {needed}");
    assert_eq!(memory(&format!("{}B", least - 1), 1)["fit"], "does-not-fit");
    let again = memory(&format!("{least}B"), 0);
    assert_eq!((&again["fit"], bytes(&again, "needed_bytes")), (&"fits-recomputed".into(), needed));
    assert!(place.amp(&["check", "--json"]).ends(0).json().get("memory").is_none(), "nobody asked");
    std::fs::remove_file(place.path("data/digits.csv.gz")).expect("the digits");
    let unknown = memory("1GiB", 7);
    assert_eq!((&unknown["fit"], &unknown["needed_bytes"]), (&"unknown".into(), &Value::Null));
}

#[test]
fn pipelines_get_the_advice_on_the_manifest() {
    let text = SMALL.replace("precision \"std:precision/amp-fp16\"", "precision \"std:precision/fp32\"");
    let place = Place::with_manifest(&text);
    let _ = place.amp(&["lock", "--quiet"]).ends(0);
    for quiet in [&[][..], &["--quiet"]] {
        let arguments = [&["lock", "--check", "--message-format", "github"], quiet].concat();
        let answer = place.amp(&arguments).ends(0);
        assert!(answer.stdout.contains("::warning file=manifest.kdl,line="), "{}", answer.stdout);
        assert!(answer.stdout.contains("title=AMP0230"), "{}", answer.stdout);
    }
    place.write("manifest.kdl", text.replace("clip-norm", "clip-nrom"));
    for command in [&["check"][..], &["lock", "--check"]] {
        let answer = place.amp(&[command, &["--message-format", "sarif"]].concat()).ends(2).json();
        let invocation = &answer["runs"][0]["invocations"][0];
        assert_eq!(*invocation, serde_json::json!({ "executionSuccessful": false, "exitCode": 2 }));
    }
}

#[test]
fn a_bench_on_a_cpu_counts_memory() {
    let place = Place::with_manifest(&tiny());
    let document = place.amp(&["bench", "--blocks", "1", "--json"]).ends(0).json();
    assert!(document["planned_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{document}");
    let text = place.amp(&["bench", "--blocks", "1"]).ends(0).stdout;
    assert!(text.contains("of memory planned for a step"), "{text}");
}

#[test]
fn one_is_no_plural() {
    let place = Place::with_manifest(&tiny().replace("train steps=3", "train steps=1"));
    let run = place.amp(&["run", "--threads", "1"]).ends(0);
    says(&run, &["Training 1 step on", "1 thread)", "(1 step, "]);
    says(&place.amp(&["run", "--probe=2"]).ends(2), &["the run has 1 step"]);
}

#[test]
fn a_lock_or_a_record_is_no_manifest() {
    let place = Place::with_manifest(&tiny());
    let run = run_of(&place);
    for command in [&["run"][..], &["lock"], &["check"], &["graph"], &["bench"], &["fmt"]] {
        let answer = place.amp(&[command, &["manifest.lock"]].concat()).ends(2);
        says(
            &answer,
            &["AMP0200", "`manifest.lock` is a lock, expected a manifest", "its manifest is `manifest.kdl`"],
        );
    }
    let record = format!("{run}/record.ndjson");
    says(&place.amp(&["check", &record]).ends(2), &["is a record, expected a manifest"]);
}

#[test]
fn folders_to_write_into_are_no_files() {
    let place = Place::with_manifest(&tiny());
    let run = run_of(&place);
    for arguments in [&["report", &run, "--tensorboard"][..], &["attest", &run, "--out"], &["man", "--out"]] {
        let answer = place.amp(&[arguments, &["manifest.kdl"]].concat()).ends(2);
        says(&answer, &["found a file at `manifest.kdl`, expected a folder"]);
    }
}

#[test]
fn slips_of_a_beginner_are_answered() {
    let place = Place::with_manifest(&tiny());
    says(&place.amp(&["run", "--device", "gpu"]).ends(2), &["a GPU is `cuda` here"]);
    says(&place.amp(&["run", "--workers", "2"]).ends(2), &["share 1 shard", "or leave `--workers` out"]);
    place.write("pets.csv", "a,b,label\n1,2,cat\n3,4,dog\n");
    let answer = place.amp(&["init", "pets", "--data", "pets.csv"]).ends(2);
    says(&answer, &["found `cat`, expected a number", "a whole number for each class, from 0 on"]);
    place.write("empty.csv", "x,y\n");
    says(&place.amp(&["init", "e", "--data", "empty.csv"]).ends(2), &["found no row of data", "help"]);
}
