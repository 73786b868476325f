//! GitLab's side: the lines of a script in one shell, whatever they leave kept under `artifacts`.

use super::super::pipelines::{text, yaml};
use super::*;

/// A variable's value as GitLab reads it: `$NAME` is a variable, `$$` a dollar sign.
fn expanded(machine: &Machine, value: &str) -> String {
    let mut parts = value.split("$$").map(|part| {
        let known = machine.variables.iter().rev();
        known.fold(part.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
    });
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |text, part| format!("{text}${part}"))
}

/// Runs the job of GitLab; what it kept is in `kept`, the reports that it names among it.
fn gitlab(project: &Place, told: &[(&str, &str)]) -> (Machine, Answer) {
    let mut machine = Machine::of(project, told);
    let checkout = machine.place.path("checkout").display().to_string();
    for (name, value) in [
        ("CI_PROJECT_DIR", checkout.as_str()),
        ("CI_JOB_ID", "17"),
        ("CI_JOB_URL", "https://ci.example/jobs/17"),
    ] {
        machine.variables.insert(name.to_owned(), value.to_owned());
    }
    let job = &yaml(project, ".gitlab-ci.yml")["amp"];
    machine.declare(&job["variables"], expanded);
    let lines: Vec<&str> =
        job["script"].as_vec().expect("a script").iter().filter_map(Yaml::as_str).collect();
    let answer = machine.shell(&["-e", "-o", "pipefail"], &lines.join("\n"));
    let artifacts = &job["artifacts"];
    assert_eq!((text(artifacts, "when"), artifacts["paths"][0].as_str()), ("always", Some("amp-report/")));
    assert_eq!(text(&artifacts["reports"], "junit"), "amp-report/*.xml");
    copy(&machine.place.path("checkout/amp-report"), &machine.place.path("kept"));
    // The cache has what spares the next job the build.
    let cached = job["cache"]["paths"].as_vec().expect("paths");
    assert!(cached.iter().any(|path| path.as_str() == Some(".cargo/bin")));
    assert!(machine.place.path("checkout/.cargo/bin/amp").exists());
    (machine, answer)
}

#[test]
fn a_run_that_reproduces_passes_and_its_page_is_kept() {
    let Some(project) = project("gitlab") else { return };
    let (machine, answer) = gitlab(&project, &[]);
    let _ = answer.ends(0);
    let installed = format!("cargo install amp-run --locked --version {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(machine.place.read("installed"), installed);
    let image = format!("rust:{}-bookworm", env!("CARGO_PKG_RUST_VERSION"));
    assert_eq!(text(&yaml(&project, ".gitlab-ci.yml")["amp"], "image"), image);
    for name in ["check.xml", "lock.xml", "verify.xml"] {
        assert!(machine.read(name).contains("failures=\"0\" errors=\"0\""), "{name}");
    }
    assert!(machine.read("badge.svg").contains("reproduced bit for bit"));
    assert!(machine.read("provenance.statement.json").contains("https://ci.example/jobs/17"));
    let kept = machine.kept();
    assert!(FILES.iter().all(|name| kept.iter().any(|kept| kept == name)), "{kept:?}");
    let (machine, answer) = gitlab(&project, &[("RECORD", &record(&project)), ("SEGMENTS", "1")]);
    let _ = answer.ends(0);
    assert!(machine.read("verify.json").contains("amp.segments/1"));
}

#[test]
fn a_run_that_gives_other_bits_fails_and_its_page_is_kept() {
    let Some(project) = project("gitlab") else { return };
    tampered(&project);
    let (machine, answer) = gitlab(&project, &[]);
    let _ = answer.ends(1);
    assert!(machine.read("verify.xml").contains("failures=\"1\" errors=\"0\""));
    assert!(machine.read("badge.svg").contains("differs by step 3"));
    assert!(machine.kept().contains(&"report.html".to_owned()));
}

#[test]
fn a_lock_that_is_stale_or_missing_fails_and_the_one_that_would_be_is_kept() {
    let Some(project) = project("gitlab") else { return };
    project.write("manifest.kdl", tiny().replace("lr=2e-3", "lr=3e-3"));
    let (machine, answer) = gitlab(&project, &[]);
    let _ = answer.ends(1);
    assert!(machine.read("lock.xml").contains("type=\"AMP0507\""));
    assert!(machine.read("would-be.lock").contains("optimizer.lr 0.003"));
    assert_eq!(machine.kept(), ["check.xml", "lock.xml", "would-be.lock"]);
    std::fs::remove_file(project.path("manifest.lock")).expect("removed");
    let (machine, answer) = gitlab(&project, &[]);
    let _ = answer.ends(1);
    assert_eq!(machine.kept(), ["check.xml", "lock.xml", "would-be.lock"]);
}

#[test]
fn a_manifest_with_a_fault_is_not_run() {
    let Some(project) = project("gitlab") else { return };
    project.write("manifest.kdl", tiny().replace("std:optimizers/adamw", "std:optimizers/adamx"));
    let (machine, answer) = gitlab(&project, &[]);
    let _ = answer.ends(2);
    assert_eq!(machine.kept(), ["check.xml"]);
    assert!(!machine.read("check.xml").contains("failures=\"0\" errors=\"0\""));
}

#[test]
fn a_name_with_a_dollar_sign_reaches_amp() {
    let Some(project) = project("gitlab") else { return };
    std::fs::rename(project.path("manifest.kdl"), project.path("$HOME manifest.kdl")).expect("moved");
    let _ = project.amp(&["run", "$HOME manifest.kdl", "--record"]).ends(0);
    std::fs::remove_file(project.path(".gitlab-ci.yml")).expect("removed");
    let _ = project.amp(&["init", "--ci", "gitlab", "--manifest", "$HOME manifest.kdl"]).ends(0);
    let (machine, answer) = gitlab(&project, &[]);
    let _ = answer.ends(0);
    assert!(machine.read("badge.svg").contains("reproduced bit for bit"));
}
