//! `amp export`: a checkpoint under the names and layouts of another library.

use super::args::ExportArguments;
use super::pipeline::folder_of;
use super::{Exit, Failure, Ui, runs};
use crate::diag::number::bytes as size;
use crate::diag::number::counted;
use crate::diag::{SourceMap, codes};
use crate::digest::Digest;
use crate::exec::export::{ExportFault, export};
use crate::exec::state;
use crate::resolve;
use crate::store::{check_file, write_file};
use crate::world::{Disk, World as _};
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

/// Most tensors in one message.
const LISTED: usize = 20;

/// Runs the command; nothing that is there is written over.
pub fn run(arguments: &ExportArguments, ui: &Ui) -> Result<Exit, Failure> {
    let out = &arguments.out;
    if out.exists() {
        return Err(Failure::new(Exit::Usage, format!("`{out}` is there already")).help("name another file"));
    }
    let mut sources = SourceMap::default();
    let rules = resolve::weight_names(&arguments.names, Utf8Path::new(""), &Disk, &mut sources);
    let rules = rules.map_err(|diagnostics| Failure::Manifest { diagnostics, sources })?;
    let (path, bytes) = checkpoint(&arguments.checkpoint, ui)?;
    let exported = export(&rules, &bytes).map_err(|fault| failure(fault, &path, &arguments.names))?;
    write_file(out, &exported.bytes)?;
    if ui.json {
        ui.document(&json!({
            "schema": "amp.export/1",
            "checkpoint": path.as_str(),
            "names": arguments.names,
            "out": out.as_str(),
            "tensors": exported.tensors,
            "bytes": exported.bytes.len(),
            "digest": Digest::of_bytes(&exported.bytes).to_string(),
        }));
    } else {
        ui.status(
            "Exported",
            &format!(
                "{out} ({}, {})",
                counted(exported.tensors, "tensor"),
                size(exported.bytes.len() as u64)
            ),
        );
    }
    Ok(Exit::Done)
}

/// The file that a path names, with its bytes: the last checkpoint of a run, compared with the digest in its record, or a
/// file alone.
pub fn checkpoint(path: &Utf8Path, ui: &Ui) -> Result<(Utf8PathBuf, Vec<u8>), Failure> {
    let mut file = path.to_owned();
    if let Some(path) = runs::record_path(path) {
        let record = runs::read_record(&path)?.warn(ui);
        let Some(last) = record.checkpoints().last() else {
            return Err(Failure::new(Exit::Usage, format!("the record `{path}` names no checkpoint"))
                .help("a run writes one when it ends; `amp run --resume` ends one that was interrupted"));
        };
        file = folder_of(&path).join(&last.file);
        check_file(&file, last.digest).map_err(runs::checkpoint_failure)?;
    }
    let bytes = Disk.read(&file).map_err(|error| {
        Failure::new(Exit::Usage, format!("the checkpoint `{file}` cannot be read: {error}"))
            .help(format!("name a safetensors file, or the folder of a run: {}", runs::instead(&file)))
    })?;
    if matches!(file.extension(), Some("kdl" | "lock")) {
        let message =
            format!("`{file}` is no checkpoint, expected the folder of a run or a safetensors file");
        return Err(Failure::new(Exit::Usage, message).help(runs::instead(&file)));
    }
    // A state of a run that goes on has more than a model.
    Ok((file, state::model_only(bytes)?))
}

fn failure(fault: ExportFault, path: &Utf8Path, names: &str) -> Failure {
    let names = match fault {
        ExportFault::Damaged(reason) => {
            let message = format!("found damaged safetensors in `{path}` ({reason}), expected a whole file");
            return Failure::new(Exit::Integrity, message)
                .code(codes::DATA_SAFETENSORS)
                .help("take an intact copy");
        }
        ExportFault::Names(list) => (list, names),
    };
    let (list, names) = names;
    let mut message =
        format!("{} of `{path}` cannot be written as `{names}` says:", counted(list.len(), "tensor"));
    list.iter().take(LISTED).for_each(|line| message.push_str(&format!("\n  {line}")));
    if list.len() > LISTED {
        message.push_str(&format!("\n  and {} more", list.len() - LISTED));
    }
    Failure::new(Exit::Usage, message)
        .code(codes::EXPORT_NAMES)
        .help("name the module of this model, or write one of your own: `amp doc names` says how")
}
