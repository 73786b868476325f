//! The pipelines that `amp init --ci` writes: they are YAML, pin what they use, and their scripts are run here.

use super::locks::tiny;
use super::{Answer, Place, repository};
use std::path::Path;
use std::process::Command;
use yaml_rust2::{Yaml, YamlLoader};

fn yaml(place: &Place, file: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&place.read(file)).expect("YAML");
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn text<'a>(node: &'a Yaml, name: &str) -> &'a str {
    node[name].as_str().unwrap_or_default()
}

/// Runs a script as a runner does, with amp on the path and these variables.
fn shell(place: &Place, script: &str, variables: &[(&str, &str)]) -> Answer {
    let folder = Path::new(env!("CARGO_BIN_EXE_amp")).parent().expect("a folder").to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .current_dir(place.path(""))
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env_remove("AMP_STORE")
        .envs(variables.iter().copied())
        .output();
    Answer::of(output.expect("bash starts"))
}

/// The variables of a pipeline, with what a runner adds.
fn variables(node: &Yaml) -> Vec<(String, String)> {
    let of = |(name, value): (&Yaml, &Yaml)| Some((name.as_str()?.to_owned(), value.as_str()?.to_owned()));
    let mut all: Vec<_> = node.as_hash().expect("variables").iter().filter_map(of).collect();
    for (name, value) in [
        ("GITHUB_RUN_ID", "17"),
        ("GITHUB_STEP_SUMMARY", "summary.md"),
        ("GITHUB_SERVER_URL", "https://ci.example"),
        ("GITHUB_WORKFLOW_REF", "a/b/.github/workflows/amp.yml@refs/heads/main"),
        ("CI_JOB_ID", "17"),
        ("CI_JOB_URL", "https://ci.example/jobs/17"),
    ] {
        all.push((name.to_owned(), value.to_owned()));
    }
    all
}

fn pairs(variables: &[(String, String)]) -> Vec<(&str, &str)> {
    variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn the_workflow_of_github_passes_and_says_what_is_stale() {
    let place = Place::with_manifest(&tiny());
    let _ = place.amp(&["run", "--record"]).ends(0);
    let _ = place.amp(&["init", "--ci", "github"]).ends(0);
    let workflow = yaml(&place, ".github/workflows/amp.yml");
    assert_eq!(workflow["permissions"]["contents"].as_str(), Some("read"));
    let steps = workflow["jobs"]["reproducible"]["steps"].as_vec().expect("steps");
    let variables = variables(&workflow["env"]);
    let mut used = 0;
    for step in steps {
        if let Some(action) = step["uses"].as_str() {
            let (_, commit) = action.split_once('@').expect("a version");
            let hex = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(hex, "{action} is pinned to a commit");
            used += 1;
        }
    }
    assert_eq!(used, 2);
    let named = |name: &str| {
        let step = steps
            .iter()
            .find(|step| text(step, "name") == name)
            .unwrap_or_else(|| panic!("no step `{name}`"));
        (text(step, "run").to_owned(), text(step, "if").to_owned())
    };
    let run = |name: &str| shell(&place, &named(name).0, &pairs(&variables));
    let _ = run("The manifest has no faults").ends(0);
    let _ = run("The lock is current").ends(0);
    let _ = run("The run gives the recorded bits").ends(0);
    let _ = run("Page, badge and statements").ends(0);
    assert!(place.read("amp-report/badge.svg").contains("reproduced bit for bit"));
    assert!(place.read("amp-report/verify.xml").contains("failures=\"0\" errors=\"0\""));
    assert!(place.read("amp-report/report.html").contains("How to get it again"));
    assert!(place.read("amp-report/provenance.statement.json").contains("https://ci.example/a/b/.github"));
    // By parts, from a record that was carried along.
    let record =
        std::fs::read_dir(place.path(".amp/runs")).expect("runs").next().expect("a run").expect("an entry");
    let record = format!(".amp/runs/{}/0001", record.file_name().to_string_lossy());
    let mut parts = variables.clone();
    parts.push(("RECORD".to_owned(), record));
    parts.push(("SEGMENTS".to_owned(), "1".to_owned()));
    let _ = shell(&place, &named("The run gives the recorded bits").0, &pairs(&parts)).ends(0);
    assert!(place.read("amp-report/verify.json").contains("amp.segments/1"));
    place.write("manifest.kdl", tiny().replace("lr=2e-3", "lr=3e-3"));
    let stale = run("The lock is current").ends(1);
    assert!(stale.stdout.starts_with("::error file=manifest.lock,line="), "{}", stale.stdout);
    assert_eq!(named("The lock that would be").1, "failure() && steps.lock.outcome == 'failure'");
    let _ = run("The lock that would be").ends(0);
    assert!(place.read("amp-report/would-be.lock").contains("optimizer.lr 0.003"));
    assert!(place.read("summary.md").contains("optimizer"), "{}", place.read("summary.md"));
}

#[test]
fn the_job_of_gitlab_passes_and_keeps_the_lock_that_would_be() {
    let place = Place::with_manifest(&tiny());
    let _ = place.amp(&["run", "--record"]).ends(0);
    let _ = place.amp(&["init", "--ci", "gitlab"]).ends(0);
    let job = &yaml(&place, ".gitlab-ci.yml")["amp"];
    let script: Vec<&str> =
        job["script"].as_vec().expect("a script").iter().filter_map(Yaml::as_str).collect();
    let script: Vec<&str> = script
        .into_iter()
        .filter(|line| !line.starts_with("cargo ") && !line.starts_with("export PATH"))
        .collect();
    let script = script.join("\n");
    let variables = variables(&job["variables"]);
    let _ = shell(&place, &script, &pairs(&variables)).ends(0);
    assert!(place.read("amp-report/badge.svg").contains("reproduced bit for bit"));
    assert!(place.path("amp-report/check.xml").exists() && place.path("amp-report/lock.xml").exists());
    place.write("manifest.kdl", tiny().replace("lr=2e-3", "lr=3e-3"));
    let _ = shell(&place, &script, &pairs(&variables)).ends(1);
    assert!(place.read("amp-report/would-be.lock").contains("optimizer.lr 0.003"));
    assert!(place.read("amp-report/lock.xml").contains("type=\"AMP0507\""));
}

#[test]
fn a_pipeline_is_for_a_manifest_that_is_there_and_writes_nothing_over() {
    let place = Place::empty();
    let answer = place.amp(&["init", "--ci", "github"]).ends(2);
    assert!(answer.stderr.contains("amp init"), "{}", answer.stderr);
    std::fs::create_dir(place.path("a \"b\": c")).expect("a folder");
    place.write("a \"b\": c/m.kdl", tiny());
    let _ = place.amp(&["init", "--ci", "github", "--manifest", "a \"b\": c/m.kdl"]).ends(0);
    let workflow = yaml(&place, ".github/workflows/amp.yml");
    assert_eq!(workflow["env"]["MANIFEST"].as_str(), Some("a \"b\": c/m.kdl"));
    assert_eq!(workflow["env"]["LOCK"].as_str(), Some("a \"b\": c/m.lock"));
    let again = place.amp(&["init", "--ci", "github", "--manifest", "a \"b\": c/m.kdl"]).ends(2);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    place.write(".gitlab-ci.yml", "other: { script: [\"true\"] }\n");
    let second = place.amp(&["init", "--ci", "gitlab", "--manifest", "a \"b\": c/m.kdl"]).ends(0);
    assert!(second.stderr.contains("include:"), "{}", second.stderr);
    assert!(place.path("amp.gitlab-ci.yml").exists());
    let _ = place.amp(&["init", "--ci", "gitlab", "--manifest", "../m.kdl"]).ends(2);
    let _ = place.amp(&["init", "--ci", "jenkins"]).ends(2);
    // The toolchain that they install is the one that this package asks for.
    let package = std::fs::read_to_string(repository().join("Cargo.toml")).expect("the package");
    let rust = package
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .expect("a version");
    assert!(
        place
            .read(".github/workflows/amp.yml")
            .contains(&format!("cargo +{rust} install amp-run --locked --version "))
    );
}

/// True when a text has the words of a pattern in their order, `[..]` standing for anything within a line.
fn says(text: &str, pattern: &str) -> bool {
    text.lines().any(|line| {
        let mut rest = line;
        pattern.trim().split("[..]").all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    })
}

#[test]
fn the_sessions_of_the_page_are_true() {
    let place = Place::with_manifest(&tiny());
    let page = std::fs::read_to_string(repository().join("docs/ci.md")).expect("the page");
    let mut run = 0;
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().expect("a fence is closed");
        let mut said = String::new();
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let answer = shell(&place, command, &[]).ends(0);
                said = format!("{}{}", answer.stdout, answer.stderr);
                run += 1;
            } else {
                assert!(says(&said, line), "`{line}` is not in:\n{said}");
            }
        }
    }
    assert!(run >= 9, "{run} commands");
}

/// The bits of a record are found where its project was carried to.
#[test]
fn a_record_that_was_carried_with_its_project_is_verified_there() {
    let place = Place::with_manifest(&tiny());
    std::fs::create_dir(place.path("there")).expect("a folder");
    for name in ["manifest.kdl", "data"] {
        std::fs::rename(place.path(name), place.path(&format!("there/{name}"))).expect("moved");
    }
    let _ = place.amp(&["run", "there"]).ends(0);
    std::fs::rename(place.path("there"), place.path("elsewhere")).expect("moved");
    let run = std::fs::read_dir(place.path("elsewhere/.amp/runs"))
        .expect("runs")
        .next()
        .expect("one")
        .expect("an entry");
    let record = format!("elsewhere/.amp/runs/{}/0001", run.file_name().to_string_lossy());
    let answer = place.amp(&["verify", &record]).ends(0);
    assert!(answer.stdout.starts_with("same: "), "{}", answer.stdout);
    // Alone, a record does not say where its manifest is.
    std::fs::create_dir(place.path("alone")).expect("a folder");
    std::fs::copy(place.path(&format!("{record}/record.ndjson")), place.path("alone/record.ndjson"))
        .expect("copied");
    let _ = place.amp(&["verify", "alone/record.ndjson"]).ends(7);
}
