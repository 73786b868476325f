//! An evaluation that was asked for and cannot be made.

use super::Subject;
use crate::diag::{Diagnostic, codes};
use crate::plan::Origin;

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let written = |path: &str| matches!(subject.plan.origins.get(path), Some(Origin::Manifest(_)));
    let asked = ["evaluate.every", "evaluate.metrics"].into_iter().find(|path| written(path));
    let Some(path) = asked.filter(|_| !subject.evaluation) else { return Vec::new() };
    let message = "`evaluate` asks for metrics, and the data has no part to evaluate on";
    let diagnostic = Diagnostic::warning(codes::NOTHING_TO_EVALUATE, message);
    let diagnostic = subject.at_origin(diagnostic, path, "nothing will be evaluated");
    let diagnostic = subject.at_origin(diagnostic, "data.split", "the parts of the data");
    vec![
        diagnostic
            .help("write `split train=0.8 test=0.2` in `data`, name files for `test`, or delete `evaluate`"),
    ]
}
