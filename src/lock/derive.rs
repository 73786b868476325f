//! From the results of all compiler stages to the lock.
//!
//! A pure function: equal inputs give equal locks, and nothing else enters.

use super::hash::{SECTION_PREFIX, run_id};
use super::model::{Entry, Header, Lock, NAMED_BY_VALUE};
use super::{REVISION, VERSION};
use crate::digest::Digest;
use crate::graph::Graph;
use crate::plan::{Initialiser, ModuleUse};
use std::collections::BTreeMap;

/// All that a lock is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct LockInput<'a> {
    /// Path of the manifest, relative to the lock's folder, with `/`.
    pub manifest: String,
    /// Name of the run.
    pub run: String,
    /// Every value of the plan as (dotted path, canonical text).
    pub entries: Vec<(String, String)>,
    /// Digest of each section of the plan by name; `presentation` takes no part in the run id.
    pub sections: BTreeMap<&'a str, Digest>,
    /// Every data source.
    pub sources: Vec<SourceFile>,
    /// Digest of the prepared data: its content, however the files hold it.
    pub data: Digest,
    /// Every module that was read.
    pub modules: Vec<ModuleUse>,
    /// Every trainable parameter.
    pub parameters: Vec<ParameterLine>,
    /// Digest of the graph.
    pub graph: Digest,
    /// Digest of the precise graph.
    pub precision: Digest,
    /// Digest of the step graph.
    pub step: Digest,
    /// Version of the arithmetic: raised whenever a kernel gives other bits.
    pub arithmetic: u32,
}

/// A data source as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path as the manifest gives it.
    pub path: String,
    /// SHA-256 of its bytes, or of its sorted tree.
    pub digest: Digest,
    /// Length in bytes.
    pub bytes: u64,
}

/// A parameter as people see it in the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterLine {
    /// Dotted name, such as `head.weight`.
    pub name: String,
    /// Storage format; parameters are `f32`.
    pub dtype: String,
    /// Sizes.
    pub shape: Vec<usize>,
    /// How it begins, such as `fan-in-uniform`.
    pub initialiser: String,
}

impl ParameterLine {
    /// The parameters of a graph.
    pub fn of_graph(graph: &Graph) -> Vec<Self> {
        let line = |parameter: &crate::graph::Parameter| {
            let value = graph.value(parameter.value);
            Self {
                name: value.name.clone(),
                dtype: "f32".to_owned(),
                shape: value.shape.clone(),
                initialiser: initialiser_text(parameter.initialiser),
            }
        };
        graph.parameters.iter().map(line).collect()
    }
}

/// The canonical text of an initialiser.
pub fn initialiser_text(initialiser: Initialiser) -> String {
    match initialiser {
        Initialiser::Constant(value) => format!("constant {value}"),
        Initialiser::FanInUniform => "fan-in-uniform".to_owned(),
        Initialiser::KaimingNormal => "kaiming-normal".to_owned(),
        Initialiser::KaimingNormalFanOut => "kaiming-normal-fan-out".to_owned(),
        Initialiser::XavierUniform => "xavier-uniform".to_owned(),
        Initialiser::KaimingUniform => "kaiming-uniform".to_owned(),
        Initialiser::XavierNormal => "xavier-normal".to_owned(),
        Initialiser::TruncatedNormal { std } => format!("truncated-normal std={std}"),
        Initialiser::Normal { std } => format!("normal std={std}"),
    }
}

/// Returns the lock, without platform nodes; [`super::carry_platforms`] takes those of an earlier lock over.
pub fn derive(input: LockInput<'_>) -> Lock {
    let mut entries = BTreeMap::new();
    for (path, value) in input.entries {
        // The resolved sources below say the same and more.
        let is_source =
            path.starts_with("data.source") && input.sources.iter().any(|source| source.path == value);
        if !is_source {
            insert(&mut entries, &path, Entry::new(plain(value)));
        }
    }
    insert(&mut entries, "arithmetic", Entry::new(input.arithmetic.to_string()));
    for source in input.sources {
        let entry = Entry::new(source.path).with("bytes", source.bytes.to_string());
        insert(&mut entries, "data.source", entry.with("digest", source.digest.to_string()));
    }
    for module in input.modules {
        insert(&mut entries, "module", Entry::new(module.name).with("digest", module.digest.to_string()));
    }
    for parameter in input.parameters {
        let shape: Vec<String> = parameter.shape.iter().map(usize::to_string).collect();
        let entry =
            Entry::new(parameter.dtype).with("init", parameter.initialiser).with("shape", shape.join("x"));
        insert(&mut entries, &format!("parameter.{}", parameter.name), entry);
    }
    let digests =
        [("data", input.data), ("graph", input.graph), ("precision", input.precision), ("step", input.step)];
    for (name, digest) in digests {
        insert(&mut entries, &format!("digest.{name}"), Entry::new(digest.to_string()));
    }
    for (section, digest) in input.sections {
        insert(&mut entries, &format!("{SECTION_PREFIX}{section}"), Entry::new(digest.to_string()));
    }
    let header = Header {
        version: VERSION,
        revision: REVISION,
        manifest: input.manifest,
        run: input.run,
        id: Digest([0; 32]),
    };
    let mut lock = Lock { header, entries, platforms: BTreeMap::new() };
    lock.header.id = run_id(&lock).expect("arithmetic and every digest were just inserted");
    lock
}

/// Adds an entry under its path; an entry of a kind that is named by its value goes under that name.
fn insert(entries: &mut BTreeMap<String, Entry>, path: &str, entry: Entry) {
    let path =
        if NAMED_BY_VALUE.contains(&path) { format!("{path}.{}", entry.value) } else { path.to_owned() };
    entries.insert(path, entry);
}

/// KDL's keywords as plain words: the lock writes `#true` for the text `true`.
fn plain(value: String) -> String {
    match value.as_str() {
        "#true" => "true".to_owned(),
        "#false" => "false".to_owned(),
        _ => value,
    }
}
