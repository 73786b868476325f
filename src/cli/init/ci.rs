//! `amp init --ci`: a workflow of GitHub or a job of GitLab that keeps a run reproducible.

use super::super::args::InitArguments;
use super::super::pipeline::relative_to;
use super::super::{Exit, Failure, Ui};
use crate::store::write_file;
use camino::Utf8Path;
use serde_json::json;

/// The kinds that can be asked for.
pub const NAMES: [&str; 2] = ["github", "gitlab"];

const GITHUB: &str = include_str!("ci/github.yml");
const GITLAB: &str = include_str!("ci/gitlab.yml");
/// The toolchain that builds amp: that of `rust-version` in its own manifest.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// The text of a pipeline for a manifest, named relative to the repository's root.
pub fn text(kind: &str, manifest: &str) -> String {
    let template = if kind == "gitlab" { GITLAB } else { GITHUB };
    // GitLab expands variables in the values of variables, where `$$` is a dollar sign.
    let quoted =
        |text: &str| quoted(&if kind == "gitlab" { text.replace('$', "$$") } else { text.to_owned() });
    let lock = Utf8Path::new(manifest).with_extension("lock");
    template
        .replace("@MANIFEST@", &quoted(manifest))
        .replace("@LOCK@", &quoted(lock.as_str()))
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@RUST@", RUST)
}

/// A text in double quotes, as YAML reads it: JSON is YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes the pipeline for a manifest that is there; nothing else that is there is written over.
pub fn run(kind: &str, arguments: &InitArguments, ui: &Ui) -> Result<Exit, Failure> {
    let root = &arguments.folder;
    let manifest = arguments.manifest.clone().unwrap_or_else(|| root.join("manifest.kdl"));
    if !manifest.is_file() {
        return Err(Failure::new(Exit::Usage, format!("there is no manifest at `{manifest}`"))
            .help("write one with `amp init`, or name yours: `amp init --ci github --manifest PATH`"));
    }
    let named = relative_to(root, &manifest)?;
    if named.starts_with("..") {
        let message =
            format!("the manifest `{manifest}` lies outside of `{root}`, the folder of the repository");
        return Err(Failure::new(Exit::Usage, message)
            .help("name the repository's folder: `amp init FOLDER --ci github`"));
    }
    let usual = root.join(if kind == "gitlab" { ".gitlab-ci.yml" } else { ".github/workflows/amp.yml" });
    // A repository has one file of GitLab's name for all jobs; a second one can be included into it.
    let path = if kind == "gitlab" && usual.exists() { root.join(INCLUDED) } else { usual.clone() };
    if path.exists() {
        return Err(Failure::new(Exit::Usage, format!("`{path}` is there already"))
            .help("move it away first; what is new is then seen by `diff`"));
    }
    write_file(&path, text(kind, &named).as_bytes())?;
    let lock = manifest.with_extension("lock");
    if ui.json {
        ui.document(
            &json!({ "schema": "amp.init-ci/1", "kind": kind, "file": path.as_str(), "manifest": named }),
        );
        return Ok(Exit::Done);
    }
    ui.status("Created", path.as_str());
    if path != usual {
        ui.status("Next", &format!("write `include: [{{ local: {INCLUDED} }}]` into {usual}"));
    }
    ui.status("Next", &format!("amp run {manifest} --record, and commit {lock} with it"));
    Ok(Exit::Done)
}

/// The file of GitLab's job where there is one for other jobs already.
const INCLUDED: &str = "amp.gitlab-ci.yml";
