//! `amp explain CODE`: the page of a code.

use super::args::ExplainArguments;
use super::{Exit, Failure, Ui};
use crate::diag::{CATALOGUE, CodePage, nearest};
use serde_json::json;

/// Prints a page, or the list of all codes.
pub fn run(arguments: &ExplainArguments, ui: &Ui) -> Result<Exit, Failure> {
    let Some(asked) = arguments.code.as_deref().filter(|_| !arguments.all) else {
        list(ui);
        return Ok(Exit::Done);
    };
    let wanted = asked.trim().to_uppercase();
    match CATALOGUE.iter().find(|page| page.code.to_string() == wanted) {
        Some(page) => {
            if ui.json {
                ui.document(&document(page));
            } else {
                ui.data(&format!("# {}: {}\n\n{}", page.code, page.title, page.page.trim()));
            }
            Ok(Exit::Done)
        }
        None => {
            let codes: Vec<String> = CATALOGUE.iter().map(|page| page.code.to_string()).collect();
            let near = nearest(&wanted, codes.iter().map(String::as_str));
            let help =
                near.map_or_else(|| "amp explain --all".to_owned(), |code| format!("amp explain {code}"));
            Err(Failure::new(Exit::Usage, format!("there is no code `{asked}`")).help(help))
        }
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
