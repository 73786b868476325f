//! `amp import FILE`: the loss scaler of another library as a node of a manifest.

use super::args::ImportArguments;
use super::{Exit, Failure, Ui};
use crate::resolve::import;
use crate::world::{Disk, World as _};
use serde_json::json;

/// Runs the command; writes nothing but its answer.
pub fn run(arguments: &ImportArguments, ui: &Ui) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let unreadable = |reason: String| {
        Failure::new(Exit::Usage, format!("`{path}` cannot be read: {reason}"))
            .help("name a file: a DeepSpeed configuration, a script with Megatron's flags, a program with `GradScaler(…)`")
    };
    let bytes = Disk.read(path).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
    let imported = import::scaler(&text, arguments.from.as_deref()).map_err(|message| {
        let known = import::LIBRARIES.join(", ");
        Failure::new(Exit::Usage, format!("no scaler in `{path}`: {message}"))
            .help(format!("`--from` names the library: {known}"))
    })?;
    if ui.json {
        ui.document(&json!({
            "schema": "amp.import/1",
            "from": imported.library,
            "node": imported.node(),
            "notes": imported.notes,
        }));
    } else {
        ui.data(&imported.node());
        imported.notes.iter().for_each(|note| ui.status("Note", note));
    }
    Ok(Exit::Done)
}
