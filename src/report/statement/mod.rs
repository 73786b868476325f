//! A run, and its repetition, as statements of in-toto, ready to be signed.
//!
//! The first is SLSA provenance v1: the subject is what the run made, the definition of the build is its lock, the dependencies are
//! its data and modules. The second is in-toto's test result v0.1: whether `amp verify` gave the run again. Statements are unsigned;
//! [`pre_authentication`] is what a signature in a DSSE envelope covers.
//!
//! **Invariant: a statement is a function of the record, its lock and the verdict**; its times are those of the record.

mod base64;
mod time;

#[cfg(test)]
mod tests;

pub use base64::base64;

use crate::diag::number::counted;
use crate::digest::Digest;
use crate::lock::write::entry_text;
use crate::lock::{Lock, entries_digest};
use crate::record::Record;
use crate::verify::{Answer, Verdict};
use serde_json::{Map, Value, json};

/// Type of every statement.
pub const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// Type of the first predicate.
pub const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// Type of the second predicate.
pub const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// Type of a payload in a DSSE envelope.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// How a run is made from a lock: the parameters below, in their first version; `docs/ci.md` describes it.
pub const BUILD_TYPE: &str = "pkg:cargo/amp-run#docs/ci.md/run/v1";

/// What is stated.
pub struct Subject<'a> {
    /// A record that reached its end.
    pub record: &'a Record,
    /// The lock that it followed.
    pub lock: &'a Lock,
    /// The digest of that lock's file.
    pub lock_file: Digest,
    /// Files that the run made, with their digests.
    pub files: Vec<(String, Digest)>,
    /// Who ran it, as a URI.
    pub builder: &'a str,
}

/// What the run made: its files, and the digests that any repetition has to give.
fn subjects(subject: &Subject<'_>) -> Value {
    let files = subject
        .files
        .iter()
        .map(|(file, digest)| json!({ "name": file, "digest": { "sha256": digest.hex() } }));
    let parameters = subject.record.finished().map(|finished| finished.parameters);
    let parameters =
        parameters.map(|digest| json!({ "name": "parameters", "digest": { "ampParameters": digest.hex() } }));
    let chain = json!({ "name": "chain", "digest": { "ampChain": subject.record.chain().hex() } });
    files.chain(parameters).chain([chain]).collect()
}

/// The lock as a resource: its file, and its entries, platform nodes aside.
fn lock_resource(subject: &Subject<'_>) -> Value {
    let digest = json!({ "sha256": subject.lock_file.hex(), "ampLock": entries_digest(subject.lock).hex() });
    json!({ "name": "manifest.lock", "digest": digest, "mediaType": "text/x.amp-lock" })
}

/// SLSA provenance of a run.
pub fn provenance(subject: &Subject<'_>) -> Value {
    let (record, lock) = (subject.record, subject.lock);
    let entries: Map<String, Value> =
        lock.entries.iter().map(|(path, entry)| (path.clone(), entry_text(entry).into())).collect();
    let unhashed = |name: &str| record.unhashed.get(name).cloned().unwrap_or(Value::Null);
    let mut metadata = json!({ "invocationId": format!("{}/{}", record.started.run_id, record.chain()) });
    if let Some(begin) = record.unhashed.get("started_at").and_then(Value::as_u64) {
        let passed = crate::report::page::series::durations(record)
            .iter()
            .filter_map(|(_, passed)| *passed)
            .sum::<f64>();
        metadata["startedOn"] = time::rfc3339(begin).into();
        metadata["finishedOn"] = time::rfc3339(begin.saturating_add(passed as u64)).into();
    }
    let version = record.unhashed.get("amp").and_then(Value::as_str).unwrap_or(env!("CARGO_PKG_VERSION"));
    json!({
        "_type": STATEMENT,
        "subject": subjects(subject),
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "runId": record.started.run_id.to_string(),
                    "lock": { "version": lock.header.version, "entries": entries },
                },
                // Where it ran: under the guarantee `portable` no bit depends on it.
                "internalParameters": {
                    "platform": record.started.platform,
                    "guarantee": record.started.guarantee,
                    "threads": unhashed("threads"),
                    "isa": unhashed("isa"),
                    "environment": unhashed("environment"),
                },
                "resolvedDependencies": dependencies(subject),
            },
            "runDetails": {
                "builder": { "id": subject.builder, "version": { "amp": version } },
                "metadata": metadata,
            },
        },
    })
}

/// The lock, the sources of data, and the modules of the library or of the user.
fn dependencies(subject: &Subject<'_>) -> Vec<Value> {
    let lock = subject.lock;
    let folders = lock.value("data.format").is_some_and(|format| format.starts_with("images"));
    let mut all = vec![lock_resource(subject)];
    for (path, digest, bytes) in lock.sources() {
        // A folder is hashed as a sorted tree, which is no plain digest of a file.
        let kind = if folders && !path.ends_with(".safetensors") { "ampTree" } else { "sha256" };
        all.push(
            json!({ "name": path, "digest": { kind: digest.hex() }, "annotations": { "bytes": bytes } }),
        );
    }
    for (path, entry) in &lock.entries {
        let Some(name) = path.strip_prefix("module.") else { continue };
        let Some(digest) = entry.properties.get("digest").and_then(|text| Digest::parse(text)) else {
            continue;
        };
        all.push(json!({ "name": name, "digest": { "sha256": digest.hex() } }));
    }
    all
}

/// Whether the run was given again: in-toto's test result. What could not be compared is a warning and no success.
pub fn reproduction(subject: &Subject<'_>, verdict: &Verdict) -> Value {
    let record = subject.record;
    let result = match verdict.answer {
        Answer::Same => "PASSED",
        Answer::Differs => "FAILED",
        Answer::Inconclusive => "WARNED",
    };
    let test =
        format!("amp verify: {} compared, {} unequal", counted(verdict.compared, "digest"), verdict.unequal);
    let tests = |answer: Answer| if verdict.answer == answer { vec![test.clone()] } else { Vec::new() };
    let annotations = json!({ "runId": record.started.run_id.to_string(), "amp": env!("CARGO_PKG_VERSION") });
    let mut configuration = lock_resource(subject);
    configuration["annotations"] = annotations;
    json!({
        "_type": STATEMENT,
        "subject": subjects(subject),
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": result,
            "configuration": [configuration],
            "passedTests": tests(Answer::Same),
            "warnedTests": tests(Answer::Inconclusive),
            "failedTests": tests(Answer::Differs),
        },
    })
}

/// The bytes of a statement, as they are signed: one line of JSON, its names sorted.
pub fn payload(statement: &Value) -> String {
    statement.to_string()
}

/// What a signature of DSSE covers (its protocol, version 1.0.2): `"DSSEv1" SP length SP type SP length SP body`.
pub fn pre_authentication(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut out = format!("DSSEv1 {} {kind} {} ", kind.len(), body.len()).into_bytes();
    out.extend(body);
    out
}

/// An envelope with its payload and without a signature yet.
pub fn envelope(payload: &str) -> Value {
    json!({ "payloadType": PAYLOAD_TYPE, "payload": base64(payload.as_bytes()), "signatures": [] })
}
