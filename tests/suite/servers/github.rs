//! GitHub's side: steps with conditions, each in a shell of its own.

use super::super::pipelines::{text, yaml};
use super::*;

/// What a step came to, under GitHub's word for it, with its exit code and what it wrote.
struct Step {
    name: String,
    outcome: &'static str,
    code: i32,
    stdout: String,
}

/// Whether a step's `if` holds: comparisons and GitHub's functions of the job's state, joined by `&&`. One that names no function
/// of the state holds only while nothing failed.
fn holds(condition: &str, outcomes: &BTreeMap<String, &str>, failed: bool) -> bool {
    let terms: Vec<&str> = condition.split("&&").map(str::trim).filter(|term| !term.is_empty()).collect();
    let value = |text: &str| match text.trim().strip_prefix('\'') {
        Some(quoted) => quoted.trim_end_matches('\'').to_owned(),
        None => {
            let step = text.trim().strip_prefix("steps.").and_then(|step| step.strip_suffix(".outcome"));
            let step = step.unwrap_or_else(|| panic!("`{text}` is not known here"));
            (*outcomes.get(step).unwrap_or_else(|| panic!("no step `{step}` before"))).to_owned()
        }
    };
    let told = terms.iter().any(|term| ["always()", "failure()", "success()"].contains(term));
    (told || !failed)
        && terms.iter().all(|term| match *term {
            "always()" => true,
            "failure()" => failed,
            "success()" => !failed,
            _ => match (term.split_once("=="), term.split_once("!=")) {
                (Some((left, right)), _) => value(left) == value(right),
                (_, Some((left, right))) => value(left) != value(right),
                _ => panic!("`{term}` is not known here"),
            },
        })
}

/// Runs the workflow of GitHub; the steps that have a name, and what was uploaded in `kept`.
fn github(project: &Place, told: &[(&str, &str)]) -> (Machine, Vec<Step>) {
    let mut machine = Machine::of(project, told);
    for name in ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH"] {
        machine.place.write(name, "");
        let path = machine.place.path(name).display().to_string();
        machine.variables.insert(name.to_owned(), path);
    }
    for (name, value) in [
        ("GITHUB_RUN_ID", "17"),
        ("GITHUB_SERVER_URL", "https://ci.example"),
        ("GITHUB_WORKFLOW_REF", "a/b/.github/workflows/amp.yml@refs/heads/main"),
    ] {
        machine.variables.insert(name.to_owned(), value.to_owned());
    }
    let workflow = yaml(project, ".github/workflows/amp.yml");
    machine.declare(&workflow["env"], |_, value| value.to_owned());
    let (mut outcomes, mut failed, mut steps) = (BTreeMap::new(), false, Vec::new());
    for step in workflow["jobs"]["reproducible"]["steps"].as_vec().expect("steps") {
        let answer = holds(text(step, "if"), &outcomes, failed).then(|| one(&machine, step));
        let outcome = match &answer {
            None => "skipped",
            Some(answer) if answer.code == 0 => "success",
            Some(_) => "failure",
        };
        failed |= outcome == "failure";
        outcomes.insert(text(step, "id").to_owned(), outcome);
        let (code, stdout) = answer.map_or((0, String::new()), |answer| (answer.code, answer.stdout));
        steps.push(Step { name: text(step, "name").to_owned(), outcome, code, stdout });
    }
    steps.retain(|step| !step.name.is_empty());
    (machine, steps)
}

/// Runs a step, or does what stands in for an action.
fn one(machine: &Machine, step: &Yaml) -> Answer {
    let done = Answer { code: 0, stdout: String::new(), stderr: String::new() };
    match (step["run"].as_str(), text(step, "uses").split('@').next()) {
        (Some(script), _) => {
            assert!(!script.contains("${{"), "a script takes nothing but variables: {script}");
            // The shell of a step that names none.
            machine.shell(&["-e"], script)
        }
        (_, Some("actions/checkout")) => done,
        (_, Some("actions/upload-artifact")) => {
            let from = machine.place.path("checkout").join(text(&step["with"], "path"));
            if from.exists() {
                copy(&from, &machine.place.path("kept"));
            }
            assert!(from.exists() || text(&step["with"], "if-no-files-found") == "ignore");
            done
        }
        (_, other) => panic!("nothing stands in for {other:?}"),
    }
}

/// Asserts the outcomes of the job's steps, `+` for success, `!` for failure, `-` for skipped, and the first exit code of failure.
#[track_caller]
fn ends(steps: &[Step], outcomes: &str, code: i32) {
    let sign = |step: &Step| match step.outcome {
        "success" => '+',
        "failure" => '!',
        _ => '-',
    };
    let all: Vec<_> = steps.iter().map(|step| (&step.name, step.outcome, step.code, &step.stdout)).collect();
    assert_eq!(steps.iter().map(sign).collect::<String>(), outcomes, "{all:#?}");
    let first = steps.iter().find(|step| step.outcome == "failure");
    assert_eq!(first.map_or(0, |step| step.code), code, "{all:#?}");
}

/// The number of results in SARIF.
fn results(text: &str) -> usize {
    let sarif: serde_json::Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    sarif["runs"][0]["results"].as_array().expect("results").len()
}

#[test]
fn a_run_that_reproduces_passes_and_its_page_is_kept() {
    let Some(project) = project("github") else { return };
    let (machine, steps) = github(&project, &[]);
    ends(&steps, "+++-+++", 0);
    let (rust, version) = (env!("CARGO_PKG_RUST_VERSION"), env!("CARGO_PKG_VERSION"));
    let installed = format!(
        "rustup toolchain install {rust} --profile minimal\ncargo +{rust} install amp-run --locked --version {version}\n"
    );
    assert_eq!(machine.place.read("installed"), installed);
    assert!(machine.read("verify.xml").contains("failures=\"0\" errors=\"0\""));
    assert_eq!(results(&machine.read("verify.sarif")), 0);
    assert!(machine.read("badge.svg").contains("reproduced bit for bit"));
    assert!(machine.read("report.html").contains("How to get it again"));
    assert!(machine.read("provenance.statement.json").contains("https://ci.example/a/b/.github"));
    let kept = machine.kept();
    assert!(FILES.iter().all(|name| kept.iter().any(|kept| kept == name)), "{kept:?}");
    // Parts of it, from a record that was carried along.
    let (machine, steps) = github(&project, &[("RECORD", &record(&project)), ("SEGMENTS", "1")]);
    ends(&steps, "+++-+++", 0);
    assert!(machine.read("verify.json").contains("amp.segments/1"));
}

#[test]
fn a_run_that_gives_other_bits_fails_and_says_where() {
    let Some(project) = project("github") else { return };
    tampered(&project);
    let (machine, steps) = github(&project, &[]);
    ends(&steps, "+++-!++", 1);
    assert!(steps[4].stdout.contains("::error file=manifest.lock,line="), "{}", steps[4].stdout);
    assert!(machine.read("verify.xml").contains("failures=\"1\" errors=\"0\""));
    assert!(results(&machine.read("verify.sarif")) > 0);
    assert!(machine.read("badge.svg").contains("differs by step 3"));
    assert!(machine.kept().contains(&"report.html".to_owned()));
}

#[test]
fn a_lock_that_is_stale_or_missing_fails_and_the_one_that_would_be_is_kept() {
    let Some(project) = project("github") else { return };
    project.write("manifest.kdl", tiny().replace("lr=2e-3", "lr=3e-3"));
    let (machine, steps) = github(&project, &[]);
    ends(&steps, "++!+--+", 1);
    assert!(steps[2].stdout.starts_with("::error file=manifest.lock,line="), "{}", steps[2].stdout);
    assert_eq!(machine.kept(), ["would-be.lock"]);
    assert!(machine.read("would-be.lock").contains("optimizer.lr 0.003"));
    assert!(machine.place.read("GITHUB_STEP_SUMMARY").contains("optimizer"));
    // What was kept is the lock that passes this gate.
    project.write("manifest.lock", machine.read("would-be.lock"));
    let (_, steps) = github(&project, &[]);
    assert_eq!(steps[2].outcome, "success");
    std::fs::remove_file(project.path("manifest.lock")).expect("removed");
    let (machine, steps) = github(&project, &[]);
    ends(&steps, "++!+--+", 1);
    assert_eq!(machine.kept(), ["would-be.lock"]);
}

#[test]
fn a_manifest_with_a_fault_is_not_run() {
    let Some(project) = project("github") else { return };
    project.write("manifest.kdl", tiny().replace("std:optimizers/adamw", "std:optimizers/adamx"));
    let (machine, steps) = github(&project, &[]);
    ends(&steps, "+!----+", 2);
    assert!(steps[1].stdout.starts_with("::error file=manifest.kdl,line="), "{}", steps[1].stdout);
    assert!(machine.kept().is_empty());
}
