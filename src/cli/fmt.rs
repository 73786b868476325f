//! `amp fmt`: manifests and modules in canonical form; comments and number spellings stay.

use super::args::FmtArguments;
use super::pipeline::{manifest_path, read_text};
use super::{Exit, Failure, Ui};
use crate::diag::SourceMap;
use crate::store::write_file;
use crate::syntax;
use serde_json::json;

/// Runs the command; a file with faults is left as it is.
pub fn run(arguments: &FmtArguments, ui: &Ui) -> Result<Exit, Failure> {
    let mut changed = Vec::new();
    for file in &arguments.files {
        let path = manifest_path(file);
        let text = read_text(&path)?;
        let mut sources = SourceMap::default();
        sources.add(path.as_str(), text.as_str());
        let formatted = syntax::format(&text).map_err(|diagnostics| Failure::Faults {
            exit: Exit::Usage,
            diagnostics,
            sources,
        })?;
        if formatted != text {
            if !arguments.check {
                write_file(&path, formatted.as_bytes())?;
            }
            changed.push(path);
        }
    }
    if ui.json {
        let paths: Vec<&str> = changed.iter().map(|path| path.as_str()).collect();
        ui.document(&json!({ "schema": "amp.fmt/1", "changed": paths, "written": !arguments.check }));
    } else {
        let verb = if arguments.check { "Unformatted" } else { "Formatted" };
        changed.iter().for_each(|path| ui.status(verb, path.as_str()));
    }
    Ok(if arguments.check && !changed.is_empty() { Exit::No } else { Exit::Done })
}
