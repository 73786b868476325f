//! `amp explain CODE`: the page of a code.

use super::args::ExplainArguments;
use super::{Exit, Failure, Ui};
use crate::diag::{CATALOGUE, Code, CodePage};
use serde_json::json;

/// Prints a page, or the list of all codes.
pub fn run(arguments: &ExplainArguments, ui: &Ui) -> Result<Exit, Failure> {
    let Some(asked) = arguments.code.as_deref().filter(|_| !arguments.all) else {
        list(ui);
        return Ok(Exit::Done);
    };
    match Code::parse(asked).and_then(Code::page) {
        Some(page) => {
            if ui.json {
                ui.document(&document(page));
            } else {
                ui.data(&format!("# {}: {}\n\n{}", page.code, page.title, page.page.trim()));
            }
            Ok(Exit::Done)
        }
        None => Err(Failure::new(Exit::Usage, format!("there is no code `{asked}`")).help(suggestion(asked))),
    }
}

/// The codes of the stages, as [`crate::diag::codes`] numbers them.
const RANGES: &str = "01xx syntax, 02xx manifest, 03xx graph, 04xx precision, 05xx lock and record, 06xx machine, 07xx run, \
                      data and store, 08xx verify";

/// A code that was meant, when one digit was mistyped; the ranges otherwise.
fn suggestion(asked: &str) -> String {
    let Some(code) = Code::parse(asked) else {
        return format!("codes are written AMP0207; `amp explain --all` lists them: {RANGES}");
    };
    let digits = code.to_string();
    let mistyped = |page: &&CodePage| {
        let known = page.code.to_string();
        known.bytes().zip(digits.bytes()).filter(|(left, right)| left != right).count() == 1
    };
    // Of several the numerically nearest, so that AMP0299 leads into the 02xx.
    match CATALOGUE.iter().filter(mistyped).min_by_key(|page| page.code.0.abs_diff(code.0)) {
        Some(page) => format!("amp explain {} ({})", page.code, page.title),
        None => format!("`amp explain --all` lists the codes: {RANGES}"),
    }
}

fn list(ui: &Ui) {
    if ui.json {
        let pages: Vec<_> = CATALOGUE.iter().map(document).collect();
        ui.document(&json!({ "schema": "amp.codes/1", "codes": pages }));
    } else {
        let lines: Vec<String> =
            CATALOGUE.iter().map(|page| format!("{}  {}", page.code, page.title)).collect();
        ui.data(&lines.join("\n"));
    }
}

fn document(page: &CodePage) -> serde_json::Value {
    json!({ "schema": "amp.code/1", "code": page.code.to_string(), "title": page.title, "page": page.page.trim() })
}
