//! What a lock says, as plain data in canonical order.
//!
//! Values are text: what decides bits is in the digests, and an entry's text is there for people and for `diff`. The maps
//! are sorted, so that the written order is the model's order.

use crate::digest::Digest;
use std::collections::BTreeMap;

/// Kinds of entries that a lock has several of; each is named by its value. The path of `module "std:models/mlp"` is
/// `module.std:models/mlp`.
pub const NAMED_BY_VALUE: [&str; 2] = ["data.source", "module"];

/// A whole lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Versions, names and the run id.
    pub header: Header,
    /// The entries by dotted path.
    pub entries: BTreeMap<String, Entry>,
    /// One node for each target, by name (`cpu`, `cuda-sm90`); never part of the run id.
    pub platforms: BTreeMap<String, Platform>,
}

/// The first lines of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Breaking version of the format.
    pub version: u32,
    /// Additive version of the format; the one found is kept.
    pub revision: u32,
    /// Path of the manifest, relative to the lock's folder, with `/`.
    pub manifest: String,
    /// Name of the run, shown to people.
    pub run: String,
    /// The run id: the digest of all that decides the result.
    pub id: Digest,
}

/// One line of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Canonical text of the value: `64`, `0.001`, `true`, `sha256:…`.
    pub value: String,
    /// Properties by name, as canonical text.
    pub properties: BTreeMap<String, String>,
}

impl Entry {
    /// An entry without properties.
    pub fn new(value: impl Into<String>) -> Self {
        Self { value: value.into(), properties: BTreeMap::new() }
    }

    /// Adds a property.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.properties.insert(name.to_owned(), value.into());
        self
    }
}

/// What belongs to one target: pinned libraries, chosen kernels, recorded results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Platform {
    /// Pins and choices by name, and lines that a higher revision added.
    pub properties: BTreeMap<String, Entry>,
    /// What a whole run gave.
    pub result: Option<RecordedResult>,
    /// What its evaluations gave, by step and split.
    pub evaluations: BTreeMap<(u64, String), RecordedEvaluation>,
}

/// What a whole run gave on one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedResult {
    /// The run id that it was recorded under.
    pub run: Digest,
    /// Optimizer steps, skipped ones included.
    pub steps: u64,
    /// The last digest of the chain.
    pub chain: Digest,
    /// Digest of all parameters after the last step.
    pub parameters: Digest,
}

/// What an evaluation gave on one target.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvaluation {
    /// The chain after it.
    pub chain: Digest,
    /// How many examples were evaluated.
    pub examples: u64,
    /// Metrics by name.
    pub metrics: BTreeMap<String, f32>,
}

impl Lock {
    /// The value of an entry, if there is such an entry.
    pub fn value(&self, path: &str) -> Option<&str> {
        self.entries.get(path).map(|entry| entry.value.as_str())
    }

    /// The digest that an entry holds, if it holds one.
    pub fn digest(&self, path: &str) -> Option<Digest> {
        Digest::parse(self.value(path)?)
    }

    /// The data sources: path as in the manifest, digest and length in bytes.
    pub fn sources(&self) -> Vec<(&str, Digest, u64)> {
        self.entries
            .iter()
            .filter(|(path, entry)| is_named_by_value(path, entry) == Some("data.source"))
            .filter_map(|(_, entry)| {
                let digest = Digest::parse(entry.properties.get("digest")?)?;
                Some((entry.value.as_str(), digest, entry.properties.get("bytes")?.parse().ok()?))
            })
            .collect()
    }
}

/// The kind of an entry that is named by its value; `None` for all others.
pub fn is_named_by_value(path: &str, entry: &Entry) -> Option<&'static str> {
    NAMED_BY_VALUE
        .into_iter()
        .find(|kind| path.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')) == Some(&entry.value))
}
