//! What is expected of a run: from a lock's platform node, which has the end and the evaluations, or from a record, which
//! has every step.

use crate::diag::codes;
use crate::digest::Digest;
use crate::lock::{Lock, RecordedEvaluation};
use crate::record::{Ending, Record, Step};
use std::collections::BTreeMap;

/// What a run gave, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The run id that it was recorded under; `None` when the platform node has no result.
    pub run_id: Option<Digest>,
    /// Every step with the chain after it; a lock has none.
    pub steps: Vec<(Step, Digest)>,
    /// Evaluations by step and split.
    pub evaluations: BTreeMap<(u64, String), RecordedEvaluation>,
    /// The end.
    pub end: Option<End>,
    /// The fault of its own numbers that ended it: as much a result as an end, since the lock decides it.
    pub fault: Option<Fault>,
    /// Why there is no end, when there is none: the run was interrupted, a fault stopped it, or the record was cut.
    pub unfinished: Option<String>,
}

/// A fault that the lock decides: the same lock ends by it again, at the same step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its permanent code.
    pub code: String,
    /// Steps that were done.
    pub step: u64,
}

/// How a whole run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Steps that were done.
    pub steps: u64,
    /// The last digest of the chain.
    pub chain: Digest,
    /// Digest of all parameters.
    pub parameters: Digest,
}

impl Recorded {
    /// What a lock recorded of a platform; of a platform that it does not have, nothing.
    pub fn from_lock(lock: &Lock, platform: &str) -> Self {
        let Some(platform) = lock.platforms.get(platform) else {
            return Self {
                run_id: None,
                steps: Vec::new(),
                evaluations: BTreeMap::new(),
                end: None,
                fault: None,
                unfinished: None,
            };
        };
        let result = platform.result.as_ref();
        Self {
            run_id: result.map(|result| result.run),
            steps: Vec::new(),
            evaluations: platform.evaluations.clone(),
            end: result.map(|result| End {
                steps: result.steps,
                chain: result.chain,
                parameters: result.parameters,
            }),
            fault: None,
            unfinished: None,
        }
    }

    /// What a record tells.
    pub fn from_record(record: &Record) -> Self {
        let evaluations = record.evaluations().map(|(evaluation, chain)| {
            let key = (evaluation.step, evaluation.split.clone());
            let metrics = evaluation.metrics.clone();
            (key, RecordedEvaluation { chain, examples: evaluation.examples, metrics })
        });
        Self {
            run_id: Some(record.started.run_id),
            steps: record.steps().map(|(step, chain)| (step.clone(), chain)).collect(),
            evaluations: evaluations.collect(),
            end: record.finished().map(|finished| End {
                steps: finished.steps,
                chain: finished.chain,
                parameters: finished.parameters,
            }),
            fault: fault(record),
            unfinished: unfinished(record),
        }
    }
}

/// The fault that ended a run, if the lock decides it; a full disk, too little memory or changed data are another matter.
fn fault(record: &Record) -> Option<Fault> {
    let decided = [codes::RUN_LOSS_NOT_FINITE, codes::RUN_SCALE_AT_FLOOR, codes::RUN_SKIP_BUDGET]
        .map(|code| code.to_string());
    match record.ending() {
        Ending::Fault(code, step) if decided.iter().any(|known| known == code) => {
            Some(Fault { code: code.to_owned(), step })
        }
        _ => None,
    }
}

/// Why a record has no end, each reason in its own words.
fn unfinished(record: &Record) -> Option<String> {
    match record.ending() {
        Ending::Finished(_) => None,
        Ending::Interrupted(step) => Some(format!("it was interrupted after step {step}")),
        Ending::Fault(code, step) => Some(format!("it was stopped by {code} after step {step}")),
        Ending::Cut => Some(format!("its record is cut after step {}", record.last_step())),
    }
}
