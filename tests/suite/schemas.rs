//! Every document that `--json` prints agrees with its published schema, `docs/schemas/NAME-1.json`.
//!
//! The validator knows the part of JSON Schema that the schemas use, and refuses a schema that uses more.

use super::{Place, SMALL, repository};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Documents that no `--json` prints on its own, and why.
const OTHERS: [(&str, &str); 3] = [
    ("amp.diagnostic/1", "stands inside amp.diagnostics/1"),
    ("amp.record/1", "the file of a run, which docs of the record describe"),
    ("amp.run-summary/1", "stands inside amp.report/1"),
];

/// What is wrong with a value, each with its place; nothing when it agrees with the schema.
fn faults(value: &Value, schema: &Value, root: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let rules = schema.as_object().expect("a schema is an object");
    for (word, rule) in rules {
        match word.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" | "required" => {}
            "$ref" => {
                let name =
                    rule.as_str().and_then(|text| text.strip_prefix("#/$defs/")).expect("a local reference");
                found.extend(faults(value, &root["$defs"][name], root, place));
            }
            "type" => {
                let one = [rule.clone()];
                let types = rule.as_array().map_or(&one[..], Vec::as_slice);
                if !types.iter().any(|name| is_of(value, name.as_str().expect("a type's name"))) {
                    found.push(format!("{place}: found {value}, expected {rule}"));
                }
            }
            "const" if value != rule => found.push(format!("{place}: found {value}, expected {rule}")),
            "const" => {}
            "enum" => {
                if !rule.as_array().expect("a list").contains(value) {
                    found.push(format!("{place}: found {value}, expected one of {rule}"));
                }
            }
            "oneOf" => {
                let each = rule.as_array().expect("a list").iter();
                let all: Vec<Vec<String>> = each.map(|schema| faults(value, schema, root, place)).collect();
                if all.iter().filter(|faults| faults.is_empty()).count() != 1 {
                    found.push(format!("{place}: not exactly one form fits: {all:#?}"));
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(item, rule, root, &format!("{place}[{index}]")));
                }
            }
            "properties" => {
                let Some(object) = value.as_object() else { continue };
                let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                found.extend(
                    required
                        .filter(|name| !object.contains_key(*name))
                        .map(|name| format!("{place}: no {name}")),
                );
                for (name, value) in object {
                    match (rule.get(name), schema.get("additionalProperties")) {
                        (Some(rule), _) => {
                            found.extend(faults(value, rule, root, &format!("{place}.{name}")))
                        }
                        (None, Some(Value::Bool(false))) => {
                            found.push(format!("{place}: {name} is not known"))
                        }
                        (None, _) => {}
                    }
                }
            }
            "additionalProperties" => {
                if let (Some(object), true) = (value.as_object(), rule.is_object()) {
                    let each = object.iter();
                    found.extend(
                        each.flat_map(|(name, value)| faults(value, rule, root, &format!("{place}.{name}"))),
                    );
                }
            }
            other => panic!("{place}: the validator does not know `{other}`"),
        }
    }
    found
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("`{other}` is no type of JSON Schema"),
    }
}

#[test]
fn the_validator_finds_what_is_wrong() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": ["integer", "null"] }, "b": { "type": "array", "items": { "enum": ["x", "y"] } } },
        "required": ["a"],
        "additionalProperties": false,
    });
    let count = |value: Value| faults(&value, &schema, &schema, "root").len();
    assert_eq!(count(json!({ "a": 1, "b": ["x", "y"] })), 0);
    assert_eq!(count(json!({ "a": null })), 0);
    assert_eq!(count(json!({ "a": 1.5 })), 1);
    assert_eq!(count(json!({ "b": [] })), 1);
    assert_eq!(count(json!({ "a": 1, "c": 2 })), 1);
    assert_eq!(count(json!({ "a": 1, "b": ["x", "z", 3] })), 2);
    assert_eq!(count(json!([])), 1);
}

#[test]
fn every_document_agrees_with_its_schema() {
    let place = Place::with_manifest(SMALL);
    place.write("faulty.kdl", SMALL.replace("lr=2e-3", "lr=\"2e-3\""));
    place.write("unformatted.kdl", "amp   1\n");
    place.write("rows.csv", "a,b,price\n1.5,2,10.5\n2.5,3,11\n3.5,1,12\n4.5,9,13\n");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut seen = BTreeSet::new();
    let mut answer = |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--json"]).collect();
        let document = place.amp(&arguments).json();
        let name =
            document["schema"].as_str().unwrap_or_else(|| panic!("{arguments:?}: {document}")).to_owned();
        let schema = place.amp(&["schema", &name]).ends(0).json();
        let found = faults(&document, &schema, &schema, "root");
        assert_eq!(found, Vec::<String>::new(), "{arguments:?}: {document:#}");
        seen.insert(name);
        document
    };
    for line in [
        "lock --check",
        "lock --dry-run",
        "lock",
        "lock --check",
        "lock --lockfile a.lock",
        "check",
        "check --device-memory 1GiB",
        "check --device-memory 1KiB",
        "check faulty.kdl",
        "fmt --check unformatted.kdl",
        "env",
        "env --check manifest.lock",
        "graph --stage plan",
        "graph --stage graph",
        "graph --stage precision",
        "graph --stage step",
        "graph --why head",
        "explain AMP0207",
        "explain --all",
        "explain AMP9999",
        "completions zsh",
        "man",
        "man store gc",
        "man --out pages",
        "schema",
        "doc",
        "doc layers",
        "doc layers --full",
        "doc library --full",
        "doc manifest --full",
        "doc std:models/mlp --source",
        "doc linear",
        "doc data",
        "init digits",
        "init table --data rows.csv",
        "init digits --ci github",
        "bench --blocks 1",
        "predict --out predictions.safetensors",
        "verify",
    ] {
        answer(words(line));
    }
    #[cfg(unix)]
    {
        super::against::python(&place, super::against::PYTHON);
        answer(words("bench --blocks 1 --against torch --python ./python --torch-mode eager,compile"));
    }
    place.write("manifest.kdl", super::phases::changing());
    answer(words("graph --stage precision"));
    answer(words("graph --stage step"));
    place.write("manifest.kdl", SMALL);
    place.write("ds_config.json", r#"{"fp16": {"enabled": true}}"#);
    answer(words("import ds_config.json"));
    let first = answer(words("run --record"));
    let second = answer(words("run"));
    place.write("manifest.kdl", SMALL.replace("lr=2e-3", "lr=3e-3"));
    let third = answer(words("run --record"));
    assert!(third["dropped"].as_array().is_some_and(|dropped| !dropped.is_empty()), "{third}");
    let record = |run: &Value| run["record"].as_str().expect("a record").to_owned();
    let (names, folder) = (
        "module \"all\" kind=\"weights\" doc=\"As they are.\" { body { names { map \"\" \"\"; }; }; }",
        record(&first),
    );
    place.write("all.kdl", names);
    answer(vec![
        "export".to_owned(),
        folder,
        "--names=./all.kdl".to_owned(),
        "--out=a.safetensors".to_owned(),
    ]);
    place.write("manifest.kdl", SMALL);
    for words in [&["report", "--tensorboard=events"][..], &["report"], &["attest"]] {
        answer(words.iter().map(|word| (*word).to_owned()).chain([folder_of(&record(&first))]).collect());
    }
    answer(vec!["report".to_owned(), record(&first), record(&third)]);
    for other in [&["verify", "--segments=1"][..], &["bisect", "--step=1", "--against=scalar"]] {
        answer(other.iter().map(|word| (*word).to_owned()).chain([folder_of(&record(&first))]).collect());
    }
    place.write("manifest.kdl", super::locks::tiny());
    let tiny = answer(words("run --lockfile tiny.lock"));
    answer(vec!["verify".to_owned(), "--hostile".to_owned(), folder_of(&record(&tiny))]);
    place.write("manifest.kdl", SMALL.replace("lr=2e-3", "lr=3e-3"));
    for line in [
        "diff a.lock manifest.lock",
        "verify",
        "verify --twice",
        "store ls",
        "store verify",
        "store gc --dry-run",
    ] {
        answer(words(line));
    }
    for other in [&second, &third] {
        answer(vec!["diff".to_owned(), record(&first), record(other)]);
    }
    let published = place.amp(&["schema", "--json"]).ends(0).json();
    let published: BTreeSet<String> = published["names"]
        .as_array()
        .expect("names")
        .iter()
        .map(|name| id_of(name.as_str().expect("a name")))
        .collect();
    assert_eq!(seen, published, "each is met, and none is missing");
}

/// The folder of a record.
fn folder_of(record: &str) -> String {
    record.strip_suffix("/record.ndjson").expect("a record in a folder").to_owned()
}

/// `amp.lock-check/1` of `lock-check-1`.
fn id_of(name: &str) -> String {
    let (name, version) = name.rsplit_once('-').expect("a version");
    format!("amp.{name}/{version}")
}

#[test]
fn every_document_that_the_source_names_is_published() {
    let mut named = BTreeSet::new();
    for entry in walkdir::WalkDir::new(repository().join("src")) {
        let entry = entry.expect("the source can be read");
        if entry.path().extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).expect("a source file");
        for part in text.split("\"amp.").skip(1) {
            let Some((name, _)) = part.split_once("/1\"") else { continue };
            if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
                named.insert(format!("amp.{name}/1"));
            }
        }
    }
    let mut published = BTreeSet::new();
    for entry in std::fs::read_dir(repository().join("docs/schemas")).expect("the schemas") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let schema: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("a schema")).expect("JSON");
        assert_eq!(schema["$id"], id_of(&name));
        published.insert(id_of(&name));
    }
    let others: BTreeSet<String> = OTHERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<_> = named.difference(&published).filter(|name| !others.contains(*name)).collect();
    assert!(missing.is_empty(), "no schema for {missing:?}");
    assert!(published.is_subset(&named), "{:?}", published.difference(&named).collect::<Vec<_>>());
}

#[test]
fn a_schema_is_named_in_three_ways() {
    let place = Place::empty();
    let whole = place.amp(&["schema", "lock-check-1"]).ends(0).stdout;
    assert_eq!(place.amp(&["schema", "lock-check"]).ends(0).stdout, whole);
    assert_eq!(place.amp(&["schema", "amp.lock-check/1"]).ends(0).stdout, whole);
    let answer = place.amp(&["schema", "lock-chek"]).ends(2);
    assert!(answer.stderr.contains("amp schema lock-check"), "{}", answer.stderr);
}
