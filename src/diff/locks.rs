//! Lock against lock.

use crate::lock::depends::{RUN_ID, is_cause, is_derived, root_causes, section_of};
use crate::lock::hash::{OUTSIDE, SECTION_PREFIX};
use crate::lock::model::{Entry, Lock, Platform, is_named_by_value};
use crate::lock::write::{entry_text, evaluation_entry, result_entry};
use std::collections::{BTreeMap, BTreeSet};

/// What kind of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The node is new.
    Added,
    /// The node is gone.
    Removed,
    /// The value is another.
    Value,
    /// The value is the same, the bytes behind it are others; or the node is nothing but a digest.
    DigestOnly,
    /// It belongs to one platform.
    PlatformOnly,
    /// It is shown to people and means nothing.
    Presentation,
}

impl Class {
    /// The word for it, the same in text, JSON and Markdown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Value => "value",
            Self::DigestOnly => "digest",
            Self::PlatformOnly => "platform",
            Self::Presentation => "presentation",
        }
    }
}

/// Whether a change can change a bit of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bits {
    /// It can.
    CanChange,
    /// It cannot.
    Cannot,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path of the node.
    pub path: String,
    /// What it was, as the lock writes it; `None` when it was not there.
    pub old: Option<String>,
    /// What it is; `None` when it is gone.
    pub new: Option<String>,
    /// What kind of change it is.
    pub class: Class,
    /// Whether it can change a bit of the result.
    pub bits: Bits,
    /// For a derived node: the minimal changed nodes that it comes from. Empty for what people wrote, and when no entry
    /// accounts for the change: then another version of amp computed it.
    pub because: Vec<String>,
}

impl Change {
    /// True for what amp computed from other nodes.
    pub fn is_derived(&self) -> bool {
        is_derived(&self.path)
    }
}

/// All changes between two locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDiff {
    /// Run ids: before and after.
    pub run_ids: [crate::digest::Digest; 2],
    /// How many nodes were compared.
    pub compared: usize,
    /// What people wrote, by path; then what amp derived, in the order of the stages; then platforms.
    pub changes: Vec<Change>,
}

impl LockDiff {
    /// True when nothing differs.
    pub fn is_same(&self) -> bool {
        self.changes.is_empty()
    }

    /// True when something differs that can change a bit.
    pub fn can_change_bits(&self) -> bool {
        self.changes.iter().any(|change| change.bits == Bits::CanChange)
    }
}

/// Returns what changed from `old` to `new`.
pub fn diff_locks(old: &Lock, new: &Lock) -> LockDiff {
    let left = nodes(old);
    let right = nodes(new);
    let paths: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let changed: Vec<&str> =
        paths.iter().filter(|path| left.get(**path) != right.get(**path)).map(|path| path.as_str()).collect();
    let judge = Judge { old, new, changed: &changed };
    let mut changes: Vec<Change> =
        changed.iter().map(|path| judge.change(path, left.get(*path), right.get(*path))).collect();
    changes.sort_by_key(|change| (stage(&change.path), change.path.clone()));
    let compared = paths.len();
    let platforms: BTreeSet<&String> = old.platforms.keys().chain(new.platforms.keys()).collect();
    let mut platform_nodes = 0;
    for name in platforms {
        let (left, right) = (old.platforms.get(name), new.platforms.get(name));
        platform_nodes += platform_changes(name, left, right, is_device(old) || is_device(new), &mut changes);
    }
    LockDiff { run_ids: [old.header.id, new.header.id], compared: compared + platform_nodes, changes }
}

fn is_device(lock: &Lock) -> bool {
    lock.value("run.guarantee") == Some("device")
}

/// Header and entries as one map.
fn nodes(lock: &Lock) -> BTreeMap<String, Entry> {
    let mut nodes = lock.entries.clone();
    nodes.insert("manifest".to_owned(), Entry::new(lock.header.manifest.clone()));
    nodes.insert("run.name".to_owned(), Entry::new(lock.header.run.clone()));
    nodes.insert("lock".to_owned(), Entry::new(format!("{}.{}", lock.header.version, lock.header.revision)));
    nodes.insert(RUN_ID.to_owned(), Entry::new(lock.header.id.to_string()));
    nodes
}

/// Place in the order of changes: 0 for what people wrote, then the stages.
fn stage(path: &str) -> u8 {
    match path {
        "digest.data" => 2,
        "digest.graph" => 3,
        _ if path.starts_with("parameter.") => 4,
        "digest.precision" => 5,
        "digest.step" => 6,
        RUN_ID => 7,
        _ if path.starts_with("digest.") => 1,
        _ => 0,
    }
}

/// Judges one change in the light of all of them.
struct Judge<'a> {
    old: &'a Lock,
    new: &'a Lock,
    changed: &'a [&'a str],
}

impl Judge<'_> {
    fn change(&self, path: &str, old: Option<&Entry>, new: Option<&Entry>) -> Change {
        let bits = self.bits(path);
        let class = match (old, new) {
            _ if matches!(
                path,
                "manifest" | "run.name" | "lock" | "digest.plan.presentation" | "digest.plan.environment"
            ) =>
            {
                Class::Presentation
            }
            (None, _) => Class::Added,
            (_, None) => Class::Removed,
            (Some(_), Some(_)) if path.starts_with("digest.") || path == RUN_ID => Class::DigestOnly,
            (Some(old), Some(new)) if is_digest_only(old, new) => Class::DigestOnly,
            (Some(_), Some(_)) if bits == Bits::Cannot => Class::Presentation,
            (Some(_), Some(_)) => Class::Value,
        };
        let because = if is_derived(path) {
            let causes = root_causes(path, self.changed).into_iter();
            causes
                .filter(|cause| *cause != path && self.bits(cause) == Bits::CanChange)
                .map(str::to_owned)
                .collect()
        } else {
            Vec::new()
        };
        let (old, new) = texts(path, old, new);
        Change { path: path.to_owned(), old, new, class, bits, because }
    }

    /// A change can change bits when something that the run id is made of depends on it and changed.
    fn bits(&self, path: &str) -> Bits {
        let beside = matches!(path, "manifest" | "run.name" | "lock") || path.starts_with("module.");
        if beside || self.old.header.id == self.new.header.id {
            return Bits::Cannot;
        }
        let effective = if path == RUN_ID || is_cause(RUN_ID, path) {
            true
        } else if let Some(source) = path.strip_prefix("data.source.") {
            let initial = [self.old, self.new].iter().any(|lock| lock.value("model.initial") == Some(source));
            self.has_changed(if initial { "digest.plan.initial" } else { "digest.data" })
        } else if path.starts_with("parameter.") {
            self.has_changed("digest.graph")
        } else {
            self.section_has_changed(path)
        };
        if effective { Bits::CanChange } else { Bits::Cannot }
    }

    /// Whether the meaning of the entry's section is another. An entry of no section that the locks know is taken for
    /// one that can change bits.
    fn section_has_changed(&self, path: &str) -> bool {
        let Some(section) = section_of(path) else { return !path.starts_with(SECTION_PREFIX) };
        let digest = format!("{SECTION_PREFIX}{section}");
        let known = self.old.entries.contains_key(&digest) || self.new.entries.contains_key(&digest);
        !OUTSIDE.contains(&section) && (!known || self.has_changed(&digest))
    }

    fn has_changed(&self, path: &str) -> bool {
        self.changed.contains(&path)
    }
}

/// True when all that differs are digests and lengths of bytes.
fn is_digest_only(old: &Entry, new: &Entry) -> bool {
    let without = |entry: &Entry| {
        let mut properties = entry.properties.clone();
        properties.remove("digest");
        properties.remove("bytes");
        properties
    };
    old.value == new.value && without(old) == without(new)
}

/// Both sides as text: the whole entry where the value differs, else the properties that do.
fn texts(path: &str, old: Option<&Entry>, new: Option<&Entry>) -> (Option<String>, Option<String>) {
    let (Some(left), Some(right)) = (old, new) else {
        // The path of an entry that is named by its value says the value already.
        let text = |entry: &Entry| match is_named_by_value(path, entry) {
            Some(_) => properties_text(&entry.properties),
            None => entry_text(entry),
        };
        return (old.map(text), new.map(text));
    };
    if left.value != right.value {
        return (Some(entry_text(left)), Some(entry_text(right)));
    }
    let differing = |one: &Entry, other: &Entry| {
        let properties =
            one.properties.iter().filter(|(name, value)| other.properties.get(*name) != Some(value));
        properties_text(&properties.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    (Some(differing(left, right)), Some(differing(right, left)))
}

fn properties_text(properties: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    crate::lock::write::write_properties(properties, &mut text);
    text.trim_start().to_owned()
}

/// Adds the changes of one platform node; returns how many of its lines were compared. Pins and chosen kernels can
/// change bits only under the guarantee `device`; recorded results are the bits and change none.
fn platform_changes(
    name: &str,
    old: Option<&Platform>,
    new: Option<&Platform>,
    device: bool,
    changes: &mut Vec<Change>,
) -> usize {
    let left = old.map(|platform| platform_nodes(name, platform)).unwrap_or_default();
    let right = new.map(|platform| platform_nodes(name, platform)).unwrap_or_default();
    let places: BTreeSet<&Place> = left.keys().chain(right.keys()).collect();
    for place in &places {
        let (old, new) = (left.get(*place), right.get(*place));
        if old == new {
            continue;
        }
        let (kind, _, path) = place;
        changes.push(Change {
            path: path.clone(),
            old: old.cloned(),
            new: new.cloned(),
            class: Class::PlatformOnly,
            bits: if *kind == Kind::Pin && device { Bits::CanChange } else { Bits::Cannot },
            because: Vec::new(),
        });
    }
    places.len()
}

/// A line of a platform node, in the order of lines: kind, step, path.
type Place = (Kind, u64, String);

/// What a line of a platform node is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Pin,
    Evaluation,
    Result,
}

fn platform_nodes(name: &str, platform: &Platform) -> BTreeMap<Place, String> {
    let mut nodes = BTreeMap::new();
    for (property, entry) in &platform.properties {
        nodes.insert((Kind::Pin, 0, format!("platform.{name}.{property}")), entry_text(entry));
    }
    for ((step, split), evaluation) in &platform.evaluations {
        let path = format!("platform.{name}.evaluation.{split}.{step}");
        nodes.insert((Kind::Evaluation, *step, path), properties_text(&evaluation_entry(*step, evaluation)));
    }
    if let Some(result) = &platform.result {
        nodes.insert(
            (Kind::Result, 0, format!("platform.{name}.result")),
            properties_text(&result_entry(result)),
        );
    }
    nodes
}
