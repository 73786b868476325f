//! Lock against lock: what is stale, what may be kept, what one node's update touches.
//!
//! Staleness is a function of two locks, the one on disk and the one that the manifest gives now: no clock, no network, no
//! user configuration.

use super::depends::{RUN_ID, is_cause, is_derived, root_causes};
use super::hash::run_id;
use super::model::{Entry, Lock, RecordedResult};
use super::read::is_newer;
use super::tuning::Tuning;
use super::write::{entry_text, write};
use super::{INTEGRITY, UNKNOWN_NODE};
use crate::diag::{Diagnostic, nearest};
use std::collections::{BTreeMap, BTreeSet};

/// A node of a lock that no longer says what the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Path of the node.
    pub path: String,
    /// What the lock says; `None` when it has no such node.
    pub locked: Option<String>,
    /// What the manifest gives; `None` when it gives no such node.
    pub fresh: Option<String>,
}

/// How locks said the condition of a policy before they counted one step as one; it is the same condition.
pub const ONE_AS_SEVERAL: &str = "after 1 skipped steps";

/// Returns the nodes in which a lock differs from a fresh one, platform nodes aside, in the order of paths with what people
/// wrote before what amp derived.
///
/// Entries that only an additive revision newer than this amp's can have written are not stale.
pub fn compare(locked: &Lock, fresh: &Lock) -> Vec<Stale> {
    let (left, right) = (in_todays_words(locked), in_todays_words(fresh));
    let paths: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut stale: Vec<Stale> = paths
        .into_iter()
        .filter(|path| left.get(*path) != right.get(*path))
        .filter(|path| right.contains_key(*path) || !is_newer(locked))
        .map(|path| Stale {
            path: path.clone(),
            locked: left.get(path).cloned(),
            fresh: right.get(path).cloned(),
        })
        .collect();
    stale.sort_by_key(|node| is_derived(&node.path));
    stale
}

/// True when two locks hold the same nodes, platform nodes aside, in whatever words they say them: what was begun under one goes on
/// under the other. Their [`super::entries_digest`]s may differ; a record keeps that of the one that it was begun with.
pub fn says_the_same(one: &Lock, other: &Lock) -> bool {
    // Either may be of a newer revision, whose own entries `compare` overlooks in the first of the two.
    one.header.version == other.header.version
        && compare(one, other).is_empty()
        && compare(other, one).is_empty()
}

/// Header and entries as path and text, as amp says them today.
fn in_todays_words(lock: &Lock) -> BTreeMap<String, String> {
    let mut lines = lines(lock);
    for (_, text) in lines.iter_mut().filter(|(path, _)| path.starts_with("precision.phase.")) {
        *text = text.replacen(ONE_AS_SEVERAL, "after 1 skipped step", 1);
    }
    lines
}

/// Header and entries as path and text.
pub(crate) fn lines(lock: &Lock) -> BTreeMap<String, String> {
    let mut lines: BTreeMap<String, String> =
        lock.entries.iter().map(|(path, entry)| (path.clone(), entry_text(entry))).collect();
    let header = [
        ("manifest", &lock.header.manifest),
        ("run.name", &lock.header.run),
        (RUN_ID, &lock.header.id.to_string()),
    ];
    for (path, text) in header {
        lines.insert(path.to_owned(), entry_text(&Entry::new(text.clone())));
    }
    lines
}

/// True when a file's text is, byte for byte, what `amp lock` would write over it: the fresh lock with the file's platform
/// nodes.
pub fn is_current(text: &str, locked: &Lock, fresh: &Lock) -> bool {
    write(&carry_platforms(fresh.clone(), locked)) == text
}

/// Returns the fresh lock with what an earlier lock knew and the manifest cannot: its platform nodes, and the entries and
/// the number of a newer additive revision. Results of another run id are dropped, since nothing can be compared with
/// them; pins stay.
pub fn carry_platforms(mut fresh: Lock, earlier: &Lock) -> Lock {
    let id = fresh.header.id;
    fresh.platforms.clone_from(&earlier.platforms);
    for platform in fresh.platforms.values_mut() {
        if platform.result.as_ref().is_none_or(|result| result.run != id) {
            platform.result = None;
            platform.evaluations.clear();
        }
    }
    fresh.platforms.retain(|_, platform| platform.result.is_some() || !platform.properties.is_empty());
    if is_newer(earlier) {
        fresh.header.revision = earlier.header.revision;
        for (path, entry) in &earlier.entries {
            fresh.entries.entry(path.clone()).or_insert_with(|| entry.clone());
        }
    }
    fresh
}

/// Writes what was chosen for a platform into its node. Results that were recorded there with other choices go, since they may be of
/// other bits.
pub fn retune(lock: &mut Lock, platform: &str, tuning: &Tuning) {
    let node = lock.platforms.entry(platform.to_owned()).or_default();
    let before = Tuning::of(node);
    tuning.write_to(node);
    // Where nothing is chosen, nothing depends on where it was timed.
    let is_same = match &before {
        Ok(None) => tuning.products.is_empty(),
        Ok(Some(before)) => before == tuning || before.products.is_empty() && tuning.products.is_empty(),
        Err(_) => false,
    };
    if !is_same {
        node.result = None;
        node.evaluations.clear();
    }
}

/// What a platform recorded and a written lock no longer has.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// Name of the platform.
    pub platform: String,
    /// What a whole run gave there; `None` when only evaluations were recorded.
    pub result: Option<RecordedResult>,
    /// How many recorded evaluations go.
    pub evaluations: usize,
}

/// Returns what `earlier` recorded and `written` has not, platform by platform: the results of another run id, as
/// [`carry_platforms`] drops them.
pub fn dropped(earlier: &Lock, written: &Lock) -> Vec<Dropped> {
    let mut all = Vec::new();
    for (name, platform) in &earlier.platforms {
        let kept = written.platforms.get(name);
        let result = platform
            .result
            .as_ref()
            .filter(|result| kept.and_then(|kept| kept.result.as_ref()) != Some(result));
        let is_kept = |key| kept.is_some_and(|kept| kept.evaluations.contains_key(key));
        let evaluations = platform.evaluations.keys().filter(|key| !is_kept(*key)).count();
        if result.is_some() || evaluations > 0 {
            all.push(Dropped { platform: name.clone(), result: result.cloned(), evaluations });
        }
    }
    all
}

/// Parts stale nodes into those that no other stale node accounts for (what people wrote, and digests that another version
/// of amp computed from the same entries) and those that follow from them, each part in the order given.
pub fn causes_and_effects(stale: &[Stale]) -> (Vec<&Stale>, Vec<&Stale>) {
    let follows =
        |node: &Stale| is_derived(&node.path) && stale.iter().any(|cause| is_cause(&node.path, &cause.path));
    stale.iter().partition(|node| !follows(node))
}

/// Returns the locked text with one node, and the entries below it, taken from the fresh lock. Derived digests follow
/// when all that changed them is within the node; the run id is computed anew. Nothing else moves.
///
/// # Errors
/// [`UNKNOWN_NODE`] when neither lock has the node.
pub fn update_node(locked: &Lock, fresh: &Lock, node: &str) -> Result<Lock, Diagnostic> {
    let within = |path: &str| below(path, node) && !is_derived(path);
    let (left, right) = (lines(locked), lines(fresh));
    let known: BTreeSet<&String> = left.keys().chain(right.keys()).filter(|path| !is_derived(path)).collect();
    if !known.iter().any(|path| within(path)) {
        let nodes: BTreeSet<&str> = known
            .iter()
            .flat_map(|path| path.match_indices('.').map(|(at, _)| &path[..at]).chain([path.as_str()]))
            .collect();
        let help = help_for_node(node, &nodes);
        return Err(Diagnostic::error(
            UNKNOWN_NODE,
            format!("found no node `{node}` in the lock or the manifest"),
        )
        .help(help));
    }
    let stale = compare(locked, fresh);
    let mut moves: BTreeSet<&str> =
        stale.iter().map(|stale| stale.path.as_str()).filter(|path| within(path)).collect();
    let stays: BTreeSet<&str> = stale
        .iter()
        .map(|stale| stale.path.as_str())
        .filter(|path| !is_derived(path) && !within(path))
        .collect();
    let changed: Vec<&str> = stale.iter().map(|stale| stale.path.as_str()).collect();
    for path in changed.iter().copied().filter(|path| is_derived(path) && *path != RUN_ID) {
        let causes = root_causes(path, &changed);
        let held = causes.iter().any(|cause| stays.contains(cause));
        if !held && causes.iter().any(|cause| within(cause)) {
            moves.insert(path);
        }
    }
    let mut updated = locked.clone();
    for path in moves {
        match path {
            "manifest" => updated.header.manifest.clone_from(&fresh.header.manifest),
            "run.name" => updated.header.run.clone_from(&fresh.header.run),
            _ => {}
        }
        match fresh.entries.get(path) {
            Some(entry) => updated.entries.insert(path.to_owned(), entry.clone()),
            None => updated.entries.remove(path),
        };
    }
    if let Some(id) = run_id(&updated) {
        updated.header.id = id;
    }
    Ok(carry_platforms(updated, locked))
}

/// True for a path that is the node, or an entry below it.
fn below(path: &str, node: &str) -> bool {
    path.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What to type instead of a node that cannot be updated.
fn help_for_node(node: &str, nodes: &BTreeSet<&str>) -> String {
    let roots: Vec<&str> = nodes.iter().copied().filter(|node| !node.contains('.')).collect();
    let list = || format!("the nodes are: {}", roots.join(", "));
    if ["digest", "parameter", RUN_ID].iter().any(|kind| below(node, kind)) {
        return format!("digests and parameters follow from the entries, so name one of these; {}", list());
    }
    let near = nearest(node, nodes.iter().copied());
    near.map_or_else(list, |near| format!("did you mean `amp lock --update {near}`?"))
}

/// Returns the fault of a lock whose run id is not the one of its entries.
pub fn integrity(lock: &Lock) -> Option<Diagnostic> {
    let help =
        "the file was edited or damaged; take it from version control, or run `amp lock` to write it anew";
    match run_id(lock) {
        Some(id) if id == lock.header.id => None,
        Some(id) => {
            let message = format!("the lock says run id {}, its entries give {id}", lock.header.id);
            Some(Diagnostic::error(INTEGRITY, message).help(help))
        }
        None => {
            let message = "the lock lacks an entry that the run id is made of (`arithmetic` or a `digest.…`)";
            Some(Diagnostic::error(INTEGRITY, message).help(help))
        }
    }
}
