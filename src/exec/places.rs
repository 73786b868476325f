//! The line of the manifest that a fault of data or of the run's length belongs to.
//!
//! Data is read after the manifest was resolved, by rooms that know no spans; here each code is given the node that
//! decides it, so that such a fault is shown as those of the language are.

use super::fault::ExecFault;
use crate::data::DataFault;
use crate::diag::number::counted;
use crate::diag::{Code, Diagnostic, codes};
use crate::graph::places::{self, place};
use crate::plan::Plan;

/// The paths of the plan that decide a code, nearest first.
fn paths(code: Code) -> &'static [&'static str] {
    match code {
        codes::DATA_SPLIT | codes::DATA_WINDOW => &["data.split"],
        codes::DATA_BATCH => &["data.batch"],
        codes::DATA_NORMALISE => &["data.normalise"],
        codes::DATA_TOKEN | codes::DATA_TEXT => &["data.format"],
        codes::DATA_HEADER => &["data.columns"],
        codes::SHARDS => &["train.shards"],
        codes::RUN_TOO_LITTLE_DATA => &["train.accumulate", "train.epochs", "train.steps"],
        _ => &[],
    }
}

/// A fault of data, with the line of the manifest that it belongs to.
pub fn data(fault: DataFault, plan: &Plan) -> Diagnostic {
    placed(Diagnostic::from(fault), plan)
}

/// A fault of the file of first values, at the line that names it.
pub fn initial(fault: DataFault, plan: &Plan) -> Diagnostic {
    places::at(Diagnostic::from(fault), &plan.origins, "model.initial", "asked for here")
}

/// A fault of the length of a run, with the line of the manifest that it belongs to.
pub fn run(fault: ExecFault, plan: &Plan) -> Diagnostic {
    placed(Diagnostic { help: fault.help, ..Diagnostic::error(fault.code, fault.message) }, plan)
}

/// A fault of a graph that only a shorter last batch has, with the line that decides its size.
pub fn short_batch(fault: Diagnostic, plan: &Plan, batch: usize) -> Diagnostic {
    places::at(fault, &plan.origins, "data.batch", format!("the last batch is shorter: it has {batch}"))
        .help("write `last=\"drop\"` on `batch`, or another size, so that no short batch remains")
}

/// A fault of a graph, with the line that cuts its batches where they are cut.
pub fn shard(fault: Diagnostic, plan: &Plan, batch: usize) -> Diagnostic {
    if plan.train.shards <= 1 || fault.code != codes::GRAPH_ONE_VALUE {
        return fault;
    }
    let examples = plan.train.shard_of(batch);
    let text = format!("a shard has {examples} of {}", counted(batch, "example"));
    places::at(fault, &plan.origins, "train.shards", text).help("lower `shards=`, or write a larger `batch`")
}

fn placed(diagnostic: Diagnostic, plan: &Plan) -> Diagnostic {
    let data = ["data.source", "data.sources", "data.synthetic"];
    let known = paths(diagnostic.code).iter().chain(&data);
    match known.into_iter().find_map(|path| place(&plan.origins, path)) {
        Some(span) if diagnostic.labels.is_empty() => diagnostic.at(span, "asked for here"),
        _ => diagnostic,
    }
}
