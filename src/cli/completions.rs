//! `amp completions SHELL`, and the answers that the script asks for.
//!
//! The script holds no list: when a person asks for a completion, the shell runs amp again with [`VARIABLE`] set, and
//! amp answers from the same tables as its commands. So a script that was installed once knows what a later amp knows.

use super::args::{Arguments, CompletionsArguments};
use super::{Exit, Ui, doc, schema};
use crate::arithmetic::Isa;
use crate::diag::CATALOGUE;
use clap::{Command, CommandFactory as _};
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use clap_complete::{CompleteEnv, Shell};
use serde_json::json;
use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

/// Set by the scripts to the name of their shell.
const VARIABLE: &str = "AMP_COMPLETE";

/// Every shell that is known.
const SHELLS: Shells<'static> = Shells(&[&WholeWords, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell that asks for completions; `None` when this process was started for a command.
pub fn answer() -> Option<Exit> {
    let asked = CompleteEnv::with_factory(Arguments::command).var(VARIABLE).shells(SHELLS);
    let folder = std::path::absolute(".").ok();
    match asked.try_complete(std::env::args_os(), folder.as_deref()) {
        Ok(true) => Some(Exit::Done),
        Ok(false) => None,
        Err(error) => {
            let _ = error.print();
            Some(Exit::Usage)
        }
    }
}

/// Prints the script of a shell.
pub fn run(arguments: &CompletionsArguments, ui: &Ui) -> Exit {
    let name = match arguments.shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::PowerShell => "powershell",
        _ => "zsh",
    };
    let mut script = Vec::new();
    if let Some(shell) = SHELLS.completer(name) {
        shell
            .write_registration(VARIABLE, "amp", "amp", "amp", &mut script)
            .expect("writing into memory does not fail");
    }
    let script = String::from_utf8_lossy(&script);
    if ui.json {
        ui.document(&json!({ "schema": "amp.completions/1", "shell": name, "script": script }));
    } else {
        ui.data(&script);
    }
    Exit::Done
}

/// Bash, with words that contain colons: `std:models/mlp` is one word to amp and three to bash.
struct WholeWords;

/// Joins what bash broke at colons, asks, and takes from the answers what bash holds for earlier words.
const BASH_SCRIPT: &str = r#"
_amp_complete() {
    local IFS=$'\013' words=() last=-1 joined=0 word answer prefix
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ $last -ge 1 && ( $word == :* || $joined == 1 ) ]]; then
            words[last]+="$word"
        else
            last=$((last + 1))
            words[last]="$word"
        fi
        joined=0
        if [[ $word == *: ]]; then joined=1; fi
    done
    answer=$(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX="$last" VARIABLE=bash "COMPLETER" -- "${words[@]}") || return
    COMPREPLY=( $answer )
    prefix="${words[last]%"${words[last]##*:}"}"
    if [[ -n $prefix && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=( "${COMPREPLY[@]#"$prefix"}" )
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != *[=/:] ]]; then
        compopt +o nospace 2> /dev/null
    fi
}
complete -o nospace -o bashdefault -F _amp_complete BIN
"#;

impl EnvCompleter for WholeWords {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        bin: &str,
        completer: &str,
        script: &mut dyn Write,
    ) -> Result<(), Error> {
        let text = BASH_SCRIPT.replace("VARIABLE", variable);
        script.write_all(text.replace("BIN", bin).replace("COMPLETER", completer).trim_start().as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> Result<(), Error> {
        Bash.write_complete(command, words, folder, answer)
    }
}

fn candidate(name: impl Into<OsString>, help: impl Into<String>) -> CompletionCandidate {
    let help: String = help.into();
    CompletionCandidate::new(name).help(Some(help.into()))
}

/// What `amp doc` knows.
pub fn names() -> Vec<CompletionCandidate> {
    doc::names().into_iter().map(|(name, doc)| candidate(name, doc)).collect()
}

/// The library's modules of weights, for `amp export --names`.
pub fn weights() -> Vec<CompletionCandidate> {
    crate::stdlib::names("weights").map(CompletionCandidate::new).collect()
}

/// What `amp explain` knows.
pub fn codes() -> Vec<CompletionCandidate> {
    CATALOGUE.iter().map(|page| candidate(page.code.to_string(), page.title)).collect()
}

/// What `amp schema` knows.
pub fn documents() -> Vec<CompletionCandidate> {
    schema::SCHEMAS.iter().map(|(name, _)| CompletionCandidate::new(name.trim_end_matches("-1"))).collect()
}

/// What `amp man` knows.
pub fn commands() -> Vec<CompletionCandidate> {
    let root = Arguments::command();
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| CompletionCandidate::new(command.get_name())).collect()
}

/// What `--isa` knows.
pub fn isas() -> Vec<CompletionCandidate> {
    Isa::NAMES.into_iter().map(CompletionCandidate::new).collect()
}
