//! What was run: the entries of the lock, by node.

use super::{Subject, code, escape, table};
use crate::diff::{Bits, diff_locks};
use crate::lock::Lock;
use crate::lock::model::is_named_by_value;
use crate::lock::write::entry_text;
use crate::report::number::short_digests;
use crate::report::words::{because, lock_conclusion};

/// Nodes in the order in which a manifest has them.
const ORDER: [&str; 13] = [
    "run",
    "environment",
    "arithmetic",
    "data",
    "model",
    "loss",
    "precision",
    "scaler",
    "optimizer",
    "schedule",
    "train",
    "evaluate",
    "checkpoint",
];

/// Entries that are many and rarely looked at: their prefix, and what they are.
const LONG: [(&str, &str); 5] = [
    ("model.layer.", "layers"),
    ("precision.class.", "classes of ops"),
    ("module.", "modules"),
    ("parameter.", "parameters"),
    ("digest.", "digests of the stages"),
];

/// The plan of a record, as its lock says it.
fn described(subject: Subject<'_>) -> String {
    let Some(lock) = subject.followed() else {
        let why = match subject.lock {
            Some(_) => {
                "The lock beside the record is not the one that the record followed: its entries have another digest."
            }
            None => {
                "The lock that the record followed does not lie beside it, so what was run is known by its digests alone."
            }
        };
        return format!("<p class=\"notice-box\">{why}</p>");
    };
    entries(lock)
}

/// The section of one record.
pub fn section(subject: Subject<'_>, title: &str) -> String {
    super::section(title, &described(subject))
}

fn entries(lock: &Lock) -> String {
    let is_long = |path: &str| LONG.iter().any(|(prefix, _)| path.starts_with(prefix));
    let node = |path: &str| path.split('.').next().unwrap_or(path).to_owned();
    let short: Vec<_> = lock.entries.iter().filter(|(path, _)| !is_long(path)).collect();
    let mut nodes: Vec<String> = Vec::new();
    let known = ORDER.iter().map(|name| (*name).to_owned());
    for name in known.chain(short.iter().map(|(path, _)| node(path))) {
        if !nodes.contains(&name) && short.iter().any(|(path, _)| node(path) == name) {
            nodes.push(name);
        }
    }
    let mut out = "<div class=\"plan\">".to_owned();
    for name in nodes {
        let rows: Vec<Vec<String>> = short
            .iter()
            .filter(|(path, _)| node(path) == name && **path != name)
            .map(|(path, entry)| {
                // `data.source.digits.csv` says its value twice.
                let path = is_named_by_value(path, entry).unwrap_or(path);
                let rest = path.strip_prefix(&name).unwrap_or(path).trim_start_matches('.');
                vec![escape(rest), code(&entry_text(entry))]
            })
            .collect();
        let own = lock.entries.get(&name).map_or_else(String::new, |entry| code(&entry_text(entry)));
        out.push_str(&format!("<div><h3>{} {own}</h3>{}</div>", escape(&name), table(&[], &rows)));
    }
    out.push_str("</div>");
    for (prefix, what) in LONG {
        let rows: Vec<Vec<String>> = lock
            .entries
            .iter()
            .filter_map(|(path, entry)| Some((path.strip_prefix(prefix)?, entry)))
            .map(|(path, entry)| vec![code(path), code(&entry_text(entry))])
            .collect();
        if !rows.is_empty() {
            let count = rows.len();
            out.push_str(&format!(
                "<details><summary>{count} {what}</summary>{}</details>",
                table(&[], &rows)
            ));
        }
    }
    out
}

/// What differs between the plans of two records, and both plans.
pub fn changes(subjects: [Subject<'_>; 2]) -> String {
    let [old, new] = subjects;
    let mut content = String::new();
    if let (Some(left), Some(right)) = (old.followed(), new.followed()) {
        let diff = diff_locks(left, right);
        content.push_str(&format!("<p>{}</p>", escape(&lock_conclusion(&diff))));
        let side = |value: &Option<String>| {
            value.as_deref().map_or_else(|| "–".to_owned(), |value| code(&short_digests(value)))
        };
        let rows: Vec<Vec<String>> = diff
            .changes
            .iter()
            .map(|change| {
                let bits = if change.bits == Bits::CanChange { "can change" } else { "cannot change" };
                vec![
                    code(&change.path),
                    side(&change.old),
                    side(&change.new),
                    bits.to_owned(),
                    escape(&because(change)),
                ]
            })
            .collect();
        content.push_str(&table(&["node", "A", "B", "bits", "because"], &rows));
    }
    for (index, subject) in subjects.into_iter().enumerate() {
        content.push_str(&format!(
            "<details><summary>The whole plan of {}</summary>{}</details>",
            super::letter(index),
            described(subject)
        ));
    }
    super::section("What was run", &content)
}
