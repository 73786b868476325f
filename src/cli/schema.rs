//! `amp schema NAME`: the JSON Schema of a document that `--json` prints.
//!
//! The schemas are embedded, so that a program's answers and its schemas cannot be of two versions. A test compares every
//! command's answer with its schema.

use super::args::SchemaArguments;
use super::{Exit, Failure, Ui};
use crate::diag::nearest;
use serde_json::json;

macro_rules! schemas {
    ($($name:literal)*) => {
        /// Every document by name, `lock-1`, with its schema, sorted.
        pub const SCHEMAS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../docs/schemas/", $name, ".json")))),*];
    };
}

schemas! {
    "attestation-1"
    "bench-1"
    "bisect-1"
    "code-1"
    "codes-1"
    "completions-1"
    "diagnostics-1"
    "diff-1"
    "doc-1"
    "env-check-1"
    "environment-1"
    "export-1"
    "failure-1"
    "fmt-1"
    "graph-1"
    "hostile-1"
    "import-1"
    "init-1"
    "init-ci-1"
    "lock-1"
    "lock-check-1"
    "man-1"
    "plan-1"
    "predict-1"
    "report-1"
    "run-1"
    "schemas-1"
    "segments-1"
    "store-1"
    "store-gc-1"
    "store-verify-1"
    "verdict-1"
    "why-1"
}

/// Prints a schema, or the list of them.
pub fn run(arguments: &SchemaArguments, ui: &Ui) -> Result<Exit, Failure> {
    let Some(asked) = arguments.name.as_deref() else {
        let names: Vec<&str> = SCHEMAS.iter().map(|(name, _)| *name).collect();
        if ui.json {
            ui.document(&json!({ "schema": "amp.schemas/1", "names": names }));
        } else {
            ui.data(&names.join("\n"));
        }
        return Ok(Exit::Done);
    };
    // `lock`, `lock-1` and `amp.lock/1` are one.
    let name = asked.strip_prefix("amp.").unwrap_or(asked).replace('/', "-");
    let found = SCHEMAS.iter().find(|(known, _)| *known == name || known.strip_suffix("-1") == Some(&name));
    match found {
        Some((_, text)) => {
            ui.data(text);
            Ok(Exit::Done)
        }
        None => {
            let known = SCHEMAS.iter().map(|(known, _)| known.strip_suffix("-1").unwrap_or(known));
            let help = match nearest(&name, known) {
                Some(near) => format!("amp schema {near}"),
                None => "`amp schema` lists the documents".to_owned(),
            };
            Err(Failure::new(Exit::Usage, format!("there is no document `{asked}`")).help(help))
        }
    }
}
