//! `amp completions SHELL`.

use super::args::{Arguments, CompletionsArguments};
use super::{Exit, Ui};
use clap::CommandFactory as _;

/// Prints the completions of a shell.
pub fn run(arguments: &CompletionsArguments, ui: &Ui) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "amp", &mut script);
    ui.data(&String::from_utf8_lossy(&script));
    Exit::Done
}
