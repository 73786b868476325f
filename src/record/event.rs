//! The events of a run: the wire form of a record's lines.
//!
//! Fields here are the hashed part: equal on every machine that keeps the guarantee. What a machine adds of its own goes
//! into [`Unhashed`], and so does a [`Note`]. Only [`Step`] and [`Evaluation`] enter the chain.

use super::float;
use crate::digest::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a machine may say beside an event: times, host, paths, threads, instruction set. Never hashed, never compared.
pub type Unhashed = BTreeMap<String, serde_json::Value>;

/// Name of what a run says of the chosen algorithms that it follows: an object, by the names of lines of the lock's platform node, of
/// objects with `value` and `properties`.
pub const ALGORITHMS: &str = "algorithms";

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "hashed", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum Event {
    /// The run begins.
    Started(Started),
    /// The run goes on from a checkpoint.
    Resumed(Resumed),
    /// An optimizer step was done (or skipped).
    Step(Step),
    /// A split was evaluated.
    Evaluation(Evaluation),
    /// Another precision policy is in force from the next step on.
    Phase(Phase),
    /// Something that a person should know.
    Note(Note),
    /// A checkpoint was written.
    Checkpoint(Checkpoint),
    /// The run reached its end.
    Finished(Finished),
    /// The run ended before its end.
    Stopped(Stopped),
}

/// The run begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// The lock's run id.
    #[serde(with = "digest")]
    pub run_id: Digest,
    /// Digest of the lock's entries, platform nodes aside.
    #[serde(with = "digest")]
    pub lock: Digest,
    /// Name of the run.
    pub name: String,
    /// Name of the platform, such as `cpu`.
    pub platform: String,
    /// `portable` or `device`.
    pub guarantee: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Optimizer steps that the run has when it ends.
    pub steps: u64,
}

/// The run goes on from a checkpoint; steps after it that are in the record were lost and are done again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// Steps that were done at the checkpoint.
    pub step: u64,
    /// The chain at the checkpoint.
    #[serde(with = "digest")]
    pub chain: Digest,
}

/// An optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Number of the step, from 1: this many steps are done now.
    pub step: u64,
    /// Pass over the training split, from 0.
    pub epoch: u64,
    /// Mean training loss of the step, unscaled.
    #[serde(with = "float")]
    pub loss: f32,
    /// Global norm of the gradient before clipping.
    #[serde(with = "float")]
    pub gradient_norm: f32,
    /// Loss scale that the step was computed with.
    #[serde(with = "float")]
    pub scale: f32,
    /// Learning rate of the step.
    #[serde(with = "float")]
    pub learning_rate: f32,
    /// True when a gradient was not finite and the update was left out.
    pub skipped: bool,
    /// Digest of all parameters after the step.
    #[serde(with = "digest")]
    pub fingerprint: Digest,
    /// Good steps since the loss scale moved, where it moves. It follows from the steps before, so the chain does not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_tracker: Option<i32>,
}

/// An evaluation of a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Steps that were done before it.
    pub step: u64,
    /// Name of the split.
    pub split: String,
    /// How many examples were evaluated.
    pub examples: u64,
    /// Metrics by name.
    #[serde(with = "float::map")]
    pub metrics: BTreeMap<String, f32>,
}

/// Another precision policy is in force from the next step on. It follows from the lock and the steps before, so the chain does not
/// take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Steps that were done.
    pub step: u64,
    /// Number of the policy: 0 for the one that the manifest names first.
    pub phase: u64,
    /// Name of the policy.
    pub policy: String,
    /// The condition that holds now.
    pub because: String,
}

/// The name of a note's event, and of its place in the unhashed part of its line.
pub(super) const NOTE: &str = "note";

/// Something that a person should know, such as a loss scale that fell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Steps that were done.
    pub step: u64,
    /// What kind of note: `scale-fell`, `scale-grew`, `not-finite`, …
    pub kind: String,
    /// One line for people.
    pub text: String,
}

/// A checkpoint was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Steps that were done.
    pub step: u64,
    /// Its file, relative to the record's folder.
    pub file: String,
    /// Digest of its content.
    #[serde(with = "digest")]
    pub digest: Digest,
}

/// The run reached its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// Steps that were done, skipped ones included.
    pub steps: u64,
    /// The last digest of the chain.
    #[serde(with = "digest")]
    pub chain: Digest,
    /// Digest of all parameters.
    #[serde(with = "digest")]
    pub parameters: Digest,
    /// Whether the data sources were hashed again after the run and were the same.
    pub data_rechecked: bool,
}

/// The run ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// Why.
    pub reason: StopReason,
    /// Steps that were done.
    pub step: u64,
}

/// Why a run ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A person or the operating system asked for it.
    Interrupted,
    /// A fault, by its permanent code, such as `AMP0712`.
    Fault(String),
}

/// A digest as its text. For `#[serde(with = "digest")]`.
pub mod digest {
    use crate::digest::Digest;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;

    /// Writes `sha256:…`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(digest)
    }

    /// Reads `sha256:…`.
    ///
    /// # Errors
    /// Any other text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        Digest::parse(&text).ok_or_else(|| {
            D::Error::custom(format!("found digest `{text}`, expected `sha256:` and 64 hexadecimal digits"))
        })
    }

    /// A text where it lies, if it lies there as it is.
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
}
