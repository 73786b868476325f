//! `amp completions SHELL`.

use super::args::{Arguments, CompletionsArguments};
use super::{Exit, Ui};
use clap::CommandFactory as _;
use serde_json::json;

/// Prints the completions of a shell.
pub fn run(arguments: &CompletionsArguments, ui: &Ui) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "amp", &mut script);
    let script = String::from_utf8_lossy(&script);
    if ui.json {
        let shell = arguments.shell.to_string();
        ui.document(&json!({ "schema": "amp.completions/1", "shell": shell, "script": script }));
    } else {
        ui.data(&script);
    }
    Exit::Done
}
