//! `amp init`: a manifest that runs, with the digits that it learns.

use super::args::InitArguments;
use super::{Exit, Failure, Ui};
use crate::stdlib;
use crate::store::write_file;
use serde_json::json;

/// The digits of the first example: 57 kB, so that a new manifest runs anywhere.
const DIGITS: &[u8] = include_bytes!("../../examples/digits/data/digits.csv.gz");

/// Runs the command; nothing that is there is written over.
pub fn run(arguments: &InitArguments, ui: &Ui) -> Result<Exit, Failure> {
    let manifest = arguments.folder.join("manifest.kdl");
    let data = arguments.folder.join("data/digits.csv.gz");
    if manifest.exists() {
        return Err(
            Failure::new(Exit::Usage, format!("`{manifest}` is there already")).help("name another folder")
        );
    }
    let template = stdlib::template(&arguments.kind)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("there is no template `{}`", arguments.kind)))?;
    if !data.exists() {
        write_file(&data, DIGITS)?;
    }
    write_file(&manifest, template.as_bytes())?;
    if ui.json {
        ui.document(&json!({ "schema": "amp.init/1", "manifest": manifest.as_str(), "data": data.as_str() }));
    } else {
        ui.status("Created", &format!("{manifest} and {data}"));
        ui.status("Next", &format!("amp run {manifest}"));
    }
    Ok(Exit::Done)
}
