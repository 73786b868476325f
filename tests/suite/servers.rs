//! The pipelines of `amp init --ci` as a server runs them: each step of a fresh copy of a project, in order, under its condition and
//! in the shell that the server takes. What needs a network is stood in for: `cargo install` puts this amp where it would land, a
//! checkout is the copy, an upload is another copy.

mod github;
mod gitlab;

use super::locks::tiny;
use super::{Answer, Place};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use yaml_rust2::Yaml;

/// A project whose lock has results, with the pipeline of this kind; none where there is no bash.
#[expect(clippy::print_stderr, reason = "a skipped test says so loudly")]
fn project(kind: &str) -> Option<Place> {
    if Command::new("bash").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no bash here to run the pipelines of `amp init --ci {kind}` with");
        return None;
    }
    let place = Place::with_manifest(&tiny());
    let _ = place.amp(&["run", "--record"]).ends(0);
    let _ = place.amp(&["init", "--ci", kind]).ends(0);
    Some(place)
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).expect("a file is copied");
    }
}

/// A server's machine: a checkout, a home, what its steps were told to install.
struct Machine {
    place: Place,
    variables: BTreeMap<String, String>,
}

impl Machine {
    /// Checks a project out: all of it, but of what runs leave only a record that the pipeline is told to verify.
    fn of(project: &Place, told: &[(&str, &str)]) -> Self {
        let place = Place::empty();
        for name in ["checkout", "home", "tools"] {
            std::fs::create_dir(place.path(name)).expect("a folder");
        }
        for entry in std::fs::read_dir(project.path("")).expect("the project") {
            let entry = entry.expect("an entry");
            if entry.file_name() != ".amp" || told.iter().any(|(name, _)| *name == "RECORD") {
                copy(&entry.path(), &place.path("checkout").join(entry.file_name()));
            }
        }
        let installs = format!(
            "#!/bin/sh\nset -eu\necho \"$(basename \"$0\") $*\" >> '{}'\ncase \"$*\" in *install*amp-run*)\n\
             bin=\"${{CARGO_HOME:-$HOME/.cargo}}/bin\"; mkdir -p \"$bin\"; ln -sf '{}' \"$bin/amp\";; esac\n",
            place.path("installed").display(),
            env!("CARGO_BIN_EXE_amp")
        );
        for tool in ["cargo", "rustup"] {
            place.write(&format!("tools/{tool}"), &installs);
            let made = Command::new("chmod").arg("+x").arg(place.path(&format!("tools/{tool}"))).status();
            assert!(made.expect("chmod starts").success());
        }
        let home = place.path("home").display().to_string();
        let tools = place.path("tools").display().to_string();
        let system = std::env::var("PATH").unwrap_or_default();
        let mut variables = BTreeMap::from([
            ("PATH".to_owned(), format!("{tools}:{home}/.cargo/bin:{system}")),
            ("HOME".to_owned(), home),
            ("CI".to_owned(), "true".to_owned()),
        ]);
        variables.extend(told.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Self { place, variables }
    }

    /// Takes the variables that a pipeline declares, as the server reads their values; what the machine was told stays.
    fn declare(&mut self, node: &Yaml, read: impl Fn(&Self, &str) -> String) {
        for (name, value) in node.as_hash().expect("variables") {
            let value = read(self, value.as_str().expect("a text"));
            self.variables.entry(name.as_str().expect("a name").to_owned()).or_insert(value);
        }
    }

    fn shell(&self, options: &[&str], script: &str) -> Answer {
        self.place.write("step.sh", script);
        let output = Command::new("bash")
            .args(options)
            .arg(self.place.path("step.sh"))
            .current_dir(self.place.path("checkout"))
            .env_clear()
            .envs(&self.variables)
            .output();
        Answer::of(output.expect("bash starts"))
    }

    /// A file that the server kept.
    fn read(&self, name: &str) -> String {
        self.place.read(&format!("kept/{name}"))
    }

    /// The names of the files that the server kept.
    fn kept(&self) -> Vec<String> {
        let Ok(folder) = std::fs::read_dir(self.place.path("kept")) else { return Vec::new() };
        let mut names: Vec<String> =
            folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// The recorded results with another first digit of their digests, as of a run that gives other bits.
fn tampered(project: &Place) {
    let lock = project.read("manifest.lock");
    let (before, results) = lock.split_once("platform ").expect("results");
    let (_, digest) = results.split_once("chain=\"sha256:").expect("a digest");
    let digest = &digest[..64];
    let other = if digest.starts_with('0') { '1' } else { '0' };
    let results = results.replace(digest, &format!("{other}{}", &digest[1..]));
    project.write("manifest.lock", format!("{before}platform {results}"));
}

/// The only record of the project, as a pipeline names it.
fn record(project: &Place) -> String {
    let run =
        std::fs::read_dir(project.path(".amp/runs")).expect("runs").next().expect("a run").expect("an entry");
    format!(".amp/runs/{}/0001", run.file_name().to_string_lossy())
}

const FILES: [&str; 7] = [
    "badge.svg",
    "provenance.dsse.json",
    "provenance.pae",
    "provenance.statement.json",
    "report.html",
    "verify.json",
    "verify.xml",
];
