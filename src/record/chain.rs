//! The digest chain: `chain_0 = H(tag, run id)`, `chain_i = H(tag, chain_{i-1}, event_i)` over steps and evaluations.
//!
//! H is SHA-256 over the canonical form (`digest`), with floats by [`canonical_bits`]. One digest therefore stands for
//! every number of a run up to its place.

use super::event::{Evaluation, Event, Step};
use super::float::canonical_bits;
use crate::digest::{ContentHash, Digest, Hasher};

/// Type tag of the chain's canonical form.
pub const CHAIN_TAG: &str = "amp.chain.v1";

/// The chain up to some event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    digest: Digest,
}

impl Chain {
    /// The chain of a run before its first event.
    pub fn start(run_id: &Digest) -> Self {
        let mut hasher = Hasher::new();
        hasher.tag(CHAIN_TAG);
        run_id.content_hash(&mut hasher);
        Self { digest: hasher.finish() }
    }

    /// The chain at a checkpoint that kept its digest.
    pub fn resume(digest: Digest) -> Self {
        Self { digest }
    }

    /// The digest so far.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Adds an event; returns the new digest, or `None` for events that are not part of the chain.
    pub fn add(&mut self, event: &Event) -> Option<Digest> {
        match event {
            Event::Step(step) => Some(self.link(step)),
            Event::Evaluation(evaluation) => Some(self.link(evaluation)),
            _ => None,
        }
    }

    fn link<T: ContentHash>(&mut self, event: &T) -> Digest {
        let mut hasher = Hasher::new();
        hasher.tag(CHAIN_TAG);
        self.digest.content_hash(&mut hasher);
        event.content_hash(&mut hasher);
        self.digest = hasher.finish();
        self.digest
    }
}

/// A float as the chain takes it.
struct Canonical(f32);

impl ContentHash for Canonical {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.raw(&canonical_bits(self.0).to_le_bytes());
    }
}

impl ContentHash for Step {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.event.step.v1");
        self.step.content_hash(hasher);
        self.epoch.content_hash(hasher);
        for number in [self.loss, self.gradient_norm, self.scale, self.learning_rate] {
            Canonical(number).content_hash(hasher);
        }
        self.skipped.content_hash(hasher);
        self.fingerprint.content_hash(hasher);
    }
}

impl ContentHash for Evaluation {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.event.evaluation.v1");
        self.step.content_hash(hasher);
        self.split.content_hash(hasher);
        self.examples.content_hash(hasher);
        self.metrics.len().content_hash(hasher);
        for (name, value) in &self.metrics {
            name.content_hash(hasher);
            Canonical(*value).content_hash(hasher);
        }
    }
}
