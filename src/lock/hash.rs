//! The two digests of a lock: the run id, which is its meaning, and the digest of its entries, which is its content.
//!
//! **The run id takes only what can change a bit**: the version of the arithmetic, the digests of the plan's sections
//! (but [`OUTSIDE`]), of the prepared data, and of the graphs. Names, paths, the digests of module texts and of source
//! files (whose content is in the prepared data), platform nodes and amp's version take no part. It is a function of the
//! lock's own entries, so a lock can be checked without its manifest.

use super::model::Lock;
use crate::digest::{ContentHash, Digest, Hasher};

/// Type tag of the run id's canonical form.
pub const RUN_TAG: &str = "amp.run.v1";
/// Prefix of the entries that hold the digests of the plan's sections.
pub const SECTION_PREFIX: &str = "digest.plan.";
/// The sections that change no bit: when states are kept, what is shown to people, and where a run may run (what a platform adds
/// to a result stands in its own node).
pub const OUTSIDE: [&str; 3] = ["checkpoint", "environment", "presentation"];
/// The digests that take part beside those of the plan's sections, in the order of hashing.
pub const PARTS: [&str; 4] = ["digest.data", "digest.graph", "digest.precision", "digest.step"];

/// Returns the run id that a lock's entries give; `None` when an entry that takes part is missing or is no digest.
pub fn run_id(lock: &Lock) -> Option<Digest> {
    let mut hasher = Hasher::new();
    hasher.tag(RUN_TAG);
    lock.value("arithmetic")?.parse::<u32>().ok()?.content_hash(&mut hasher);
    let mut sections = Vec::new();
    for (path, entry) in &lock.entries {
        if let Some(section) = path.strip_prefix(SECTION_PREFIX)
            && !OUTSIDE.contains(&section)
        {
            sections.push((section, Digest::parse(&entry.value)?));
        }
    }
    sections.content_hash(&mut hasher);
    for part in PARTS {
        lock.digest(part)?.content_hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Returns the digest of header and entries, without the platform nodes: what a record names as the lock it followed.
/// Recording results into a platform node does not change it.
pub fn entries_digest(lock: &Lock) -> Digest {
    Digest::of(lock)
}

impl ContentHash for Lock {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.lock.v1");
        self.header.version.content_hash(hasher);
        self.header.revision.content_hash(hasher);
        self.header.manifest.content_hash(hasher);
        self.header.run.content_hash(hasher);
        self.header.id.content_hash(hasher);
        self.entries.len().content_hash(hasher);
        for (path, entry) in &self.entries {
            path.content_hash(hasher);
            entry.value.content_hash(hasher);
            let properties: Vec<(&String, &String)> = entry.properties.iter().collect();
            properties.content_hash(hasher);
        }
    }
}
