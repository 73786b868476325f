//! Statements against what in-toto, SLSA and DSSE demand, field by field.

use super::{Subject, base64, envelope, payload, pre_authentication, provenance, reproduction};
use crate::digest::Digest;
use crate::lock::{Entry, Header, Lock};
use crate::record::Record;
use crate::report::page::tests::{finished, record, step};
use crate::verify::{Recorded, compare};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn lock() -> Lock {
    let digest = |byte: u8| Digest([byte; 32]).to_string();
    let source = Entry::new("data/a.csv").with("bytes", "57").with("digest", digest(4));
    let entries = BTreeMap::from([
        ("optimizer.lr".to_owned(), Entry::new("0.001")),
        ("data.source.data/a.csv".to_owned(), source),
        ("module.std:models/mlp".to_owned(), Entry::new("std:models/mlp").with("digest", digest(5))),
    ]);
    let header = Header {
        version: 1,
        revision: 0,
        manifest: "manifest.kdl".to_owned(),
        run: "digits".to_owned(),
        id: Digest([0xab; 32]),
    };
    Lock { header, entries, platforms: BTreeMap::new() }
}

fn subject<'a>(record: &'a Record, lock: &'a Lock) -> Subject<'a> {
    let files = vec![("model.safetensors".to_owned(), Digest([3; 32]))];
    Subject { record, lock, lock_file: Digest([8; 32]), files, builder: "https://ci.example/amp" }
}

/// What the specification of in-toto asks of every statement and resource.
fn demands(statement: &Value) {
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    let subjects = statement["subject"].as_array().expect("subjects");
    assert!(!subjects.is_empty());
    for subject in subjects {
        assert!(
            subject["digest"].as_object().is_some_and(|digests| !digests.is_empty()),
            "a subject has a digest"
        );
    }
    let names: Vec<&str> = subjects.iter().filter_map(|subject| subject["name"].as_str()).collect();
    let mut once = names.clone();
    once.dedup();
    assert_eq!(names, once, "names of subjects are unique");
    assert!(statement["predicateType"].as_str().is_some_and(|kind| kind.starts_with("https://")));
    assert!(statement["predicate"].is_object());
    each_digest(statement);
}

/// Standard digests are lower-case hexadecimal of their length.
fn each_digest(value: &Value) {
    match value {
        Value::Object(object) => {
            for (name, digest) in object.get("digest").and_then(Value::as_object).into_iter().flatten() {
                let text = digest.as_str().expect("a digest is text");
                let hex = text.len() == 64 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
                assert!(hex, "{name}: {text}");
            }
            object.values().for_each(each_digest);
        }
        Value::Array(items) => items.iter().for_each(each_digest),
        _ => {}
    }
}

#[test]
fn provenance_has_every_field_that_slsa_requires() {
    let mut record = record(vec![step(1, 1.0), finished(1)]);
    record.unhashed.insert("started_at".to_owned(), json!(1_234_567_890));
    record.events[1].unhashed.insert("seconds".to_owned(), json!(61.9));
    let lock = lock();
    let statement = provenance(&subject(&record, &lock));
    demands(&statement);
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let predicate = &statement["predicate"];
    let definition = &predicate["buildDefinition"];
    // Required: buildType, externalParameters, builder.id.
    assert!(definition["buildType"].as_str().is_some_and(|kind| kind.contains(':')), "a URI");
    let parameters = &definition["externalParameters"];
    assert_eq!(parameters["lock"]["entries"]["optimizer.lr"], "0.001");
    assert_eq!(parameters["runId"], record.started.run_id.to_string());
    assert_eq!(predicate["runDetails"]["builder"]["id"], "https://ci.example/amp");
    let metadata = &predicate["runDetails"]["metadata"];
    assert_eq!(
        (&metadata["startedOn"], &metadata["finishedOn"]),
        (&json!("2009-02-13T23:31:30Z"), &json!("2009-02-13T23:32:31Z"))
    );
    let names: Vec<&str> = definition["resolvedDependencies"]
        .as_array()
        .expect("dependencies")
        .iter()
        .map(|dependency| dependency["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["manifest.lock", "data/a.csv", "std:models/mlp"]);
    let subjects: Vec<_> = statement["subject"]
        .as_array()
        .expect("subjects")
        .iter()
        .map(|subject| subject["name"].clone())
        .collect();
    assert_eq!(subjects, ["model.safetensors", "parameters", "chain"]);
    // No clock: a record without times has none.
    record.unhashed.clear();
    let statement = provenance(&subject(&record, &lock));
    assert!(statement["predicate"]["runDetails"]["metadata"].get("startedOn").is_none());
    assert_eq!(provenance(&subject(&record, &lock)), statement);
}

#[test]
fn a_reproduction_passes_fails_or_warns() {
    let whole = record(vec![step(1, 1.0), finished(1)]);
    let other = record(vec![step(1, 2.0), finished(1)]);
    let cut = record(vec![step(1, 1.0)]);
    let (lock, expected) = (lock(), Recorded::from_record(&whole));
    for (actual, result, list) in [
        (&whole, "PASSED", "passedTests"),
        (&other, "FAILED", "failedTests"),
        (&cut, "WARNED", "warnedTests"),
    ] {
        let statement = reproduction(&subject(&whole, &lock), &compare(&expected, actual));
        demands(&statement);
        assert_eq!(statement["predicateType"], "https://in-toto.io/attestation/test-result/v0.1");
        let predicate = &statement["predicate"];
        assert_eq!(predicate["result"], result);
        assert_eq!(predicate["configuration"][0]["name"], "manifest.lock");
        for name in ["passedTests", "failedTests", "warnedTests"] {
            assert_eq!(predicate[name].as_array().map(Vec::len), Some(usize::from(name == list)), "{name}");
        }
    }
}

#[test]
fn an_envelope_is_that_of_dsse() {
    // The example of the DSSE protocol.
    let pae = pre_authentication("http://example.com/HelloWorld", b"hello world");
    assert_eq!(pae, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    // RFC 4648, section 10.
    let vectors = [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ];
    for (text, expected) in vectors {
        assert_eq!(base64(text.as_bytes()), expected);
    }
    assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    let text = payload(&json!({ "b": 1, "a": [2] }));
    assert_eq!(text, "{\"a\":[2],\"b\":1}");
    let envelope = envelope(&text);
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    assert_eq!(envelope["payload"], base64(text.as_bytes()));
}

#[test]
fn times_are_those_of_the_calendar() {
    let times = [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_799, "2000-02-29T23:59:59Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (1_735_689_599, "2024-12-31T23:59:59Z"),
        (u64::MAX, "9999-12-31T23:59:59Z"),
    ];
    for (seconds, expected) in times {
        assert_eq!(super::time::rfc3339(seconds), expected);
    }
}
