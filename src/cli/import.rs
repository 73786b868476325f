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
    if Disk.is_folder(path) {
        return Err(unreadable("it is a folder".to_owned()));
    }
    let bytes = Disk.read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unreadable("there is no such file".to_owned()),
        _ => unreadable(error.to_string()),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
    let imported = import::scaler(&text, arguments.from.as_deref()).map_err(|message| {
        Failure::new(Exit::Usage, format!("no scaler in `{path}`: {message}"))
            .help(elsewhere(&text, arguments))
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

/// What to do where no scaler was found: another library may be meant, or the file is a manifest, which has its scaler.
fn elsewhere(text: &str, arguments: &ImportArguments) -> String {
    if arguments.file.extension() == Some("kdl") {
        return "a manifest says its scaler itself: `amp doc scaler` shows what there is".to_owned();
    }
    let guessed = import::scaler(text, None).ok().filter(|_| arguments.from.is_some());
    let found = guessed.map(|imported| imported.library);
    match (found, &arguments.from) {
        (Some(library), _) => format!("it has one of another library: `--from {library}`"),
        (None, None) => format!(
            "write the scaler yourself, as `amp doc scaler` shows it, or name the library: `--from {}`",
            import::LIBRARIES.join("|")
        ),
        (None, Some(_)) => {
            "name the file that sets the scaler, or write the node yourself, as `amp doc scaler` shows it"
                .to_owned()
        }
    }
}
