//! `amp man [COMMAND]`: pages for `man`, made from the same arguments that the commands read.
//!
//! A page is the same on every machine, every day: no date stands in it.

use super::args::{Arguments, ManArguments};
use super::{Exit, Failure, Ui, exit};
use crate::diag::nearest;
use crate::diag::number::counted;
use crate::store::write_file;
use clap::{Command, CommandFactory as _};
use serde_json::json;

/// Prints a page, or writes all of them.
pub fn run(arguments: &ManArguments, ui: &Ui) -> Result<Exit, Failure> {
    let pages = pages();
    if let Some(folder) = &arguments.out {
        let mut written = Vec::new();
        for (name, text) in &pages {
            let path = folder.join(format!("{name}.1"));
            write_file(&path, text.as_bytes())?;
            written.push(path.into_string());
        }
        if ui.json {
            ui.document(&json!({ "schema": "amp.man/1", "written": written, "name": null, "text": null }));
        } else {
            ui.status("Wrote", &format!("{} into {folder}", counted(written.len(), "page")));
        }
        return Ok(Exit::Done);
    }
    let asked = std::iter::once("amp".to_owned())
        .chain(arguments.command.iter().cloned())
        .collect::<Vec<_>>()
        .join("-");
    let Some((name, text)) = pages.iter().find(|(name, _)| *name == asked) else {
        let words = arguments.command.join(" ");
        let known: Vec<String> =
            pages.iter().filter_map(|(name, _)| Some(name.strip_prefix("amp-")?.replace('-', " "))).collect();
        let help = match nearest(&words, known.iter().map(String::as_str)) {
            Some(near) => format!("amp man {near}"),
            None => format!("the commands are {}", known.join(", ")),
        };
        return Err(Failure::new(Exit::Usage, format!("there is no command `{words}`")).help(help));
    };
    if ui.json {
        ui.document(&json!({ "schema": "amp.man/1", "written": [], "name": name, "text": text }));
    } else {
        ui.data(text);
    }
    Ok(Exit::Done)
}

/// Every page: `amp`, `amp-run`, `amp-store-ls`, in the order of the commands.
fn pages() -> Vec<(String, String)> {
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    let mut waiting = vec![root];
    while let Some(command) = waiting.pop() {
        let inner: Vec<Command> =
            command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
        waiting.extend(inner.into_iter().rev());
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        pages.push((name, page(command)));
    }
    pages
}

fn page(command: Command) -> String {
    let subcommands = command.has_subcommands();
    let man = clap_mangen::Man::new(command).manual("amp").source(concat!("amp ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    let drawn = [
        man.render_title(&mut text),
        man.render_name_section(&mut text),
        man.render_synopsis_section(&mut text),
        man.render_description_section(&mut text),
        man.render_options_section(&mut text),
        if subcommands { man.render_subcommands_section(&mut text) } else { Ok(()) },
    ];
    drawn.into_iter().for_each(|part| part.expect("writing into memory does not fail"));
    let mut text = String::from_utf8_lossy(&text).into_owned();
    text.push_str(&exit_status());
    text
}

/// The table of exit codes as a section.
fn exit_status() -> String {
    let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
    for line in exit::TABLE.lines().skip(1) {
        let (code, meaning) = line.trim().split_once(' ').unwrap_or((line, ""));
        text.push_str(&format!(".TP\n\\fB{code}\\fR\n{}\n", meaning.trim().replace('-', "\\-")));
    }
    text
}
