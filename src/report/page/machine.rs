//! What machine it was: the unhashed part of a record, which no bit depends on under the guarantee `portable`.

use super::{Subject, escape, table};
use serde_json::Value;
use std::collections::BTreeMap;

/// The machines of the records; paths of that machine are left out, since a page is handed on.
pub fn section(subjects: &[Subject<'_>]) -> String {
    let all: Vec<BTreeMap<String, String>> = subjects.iter().map(|subject| facts(subject)).collect();
    let mut names: Vec<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    let rows: Vec<Vec<String>> = names
        .into_iter()
        .map(|name| {
            let value = |facts: &BTreeMap<String, String>| {
                facts.get(name).map_or_else(String::new, |value| escape(value))
            };
            std::iter::once(escape(name)).chain(all.iter().map(value)).collect()
        })
        .collect();
    let head: &[&str] = if subjects.len() > 1 { &["", "A", "B"] } else { &[] };
    super::section("On which machine", &table(head, &rows))
}

fn facts(subject: &Subject<'_>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let unhashed = &subject.record.unhashed;
    if let Some(environment) = unhashed.get("environment") {
        flatten("", environment, &mut facts);
    }
    facts.remove("schema");
    for (key, name) in [("threads", "threads used"), ("isa", "instruction set used"), ("amp", "amp")] {
        if let Some(value) = unhashed.get(key) {
            facts.insert(name.to_owned(), plain(value));
        }
    }
    facts
}

/// A value as names and texts.
fn flatten(name: &str, value: &Value, facts: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let key = key.replace('_', " ");
                let name = if name.is_empty() { key } else { format!("{name} {key}") };
                flatten(&name, value, facts);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{name} {}", index + 1), item, facts);
            }
        }
        Value::Null => {}
        Value::Number(number) if name.ends_with("bytes") => {
            let shown = number.as_u64().map_or_else(|| number.to_string(), crate::report::number::bytes);
            facts.insert(name.trim_end_matches(" bytes").to_owned(), shown);
        }
        other => {
            facts.insert(name.to_owned(), plain(other));
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}
