//! The pipelines that `amp init --ci` writes: they are YAML and pin what they use. `servers` runs them.

use super::locks::tiny;
use super::{Answer, Place, repository};
use std::path::Path;
use std::process::Command;
use yaml_rust2::{Yaml, YamlLoader};

pub fn yaml(place: &Place, file: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&place.read(file)).expect("YAML");
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

pub fn text<'a>(node: &'a Yaml, name: &str) -> &'a str {
    node[name].as_str().unwrap_or_default()
}

/// Runs a script with amp on the path and these variables.
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

#[test]
fn the_workflow_of_github_pins_what_it_uses_and_may_only_read() {
    let place = Place::with_manifest(&tiny());
    let _ = place.amp(&["init", "--ci", "github"]).ends(0);
    let workflow = yaml(&place, ".github/workflows/amp.yml");
    assert_eq!(workflow["permissions"]["contents"].as_str(), Some("read"));
    let steps = workflow["jobs"]["reproducible"]["steps"].as_vec().expect("steps");
    let mut used = 0;
    for action in steps.iter().filter_map(|step| step["uses"].as_str()) {
        let (_, commit) = action.split_once('@').expect("a version");
        let hex = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(hex, "{action} is pinned to a commit");
        used += 1;
    }
    assert_eq!(used, 2);
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
