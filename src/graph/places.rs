//! Where a value of the plan was written, for the labels of faults.

use crate::diag::{Diagnostic, Span};
use crate::plan::Origin;
use std::collections::BTreeMap;

/// The place of a path of the plan, or of the first thing below it; `None` for defaults of the language.
pub fn place(origins: &BTreeMap<String, Origin>, path: &str) -> Option<Span> {
    let below = format!("{path}.");
    let first_below = || origins.range(below.clone()..).next().filter(|(key, _)| key.starts_with(&below));
    match origins.get(path).or_else(|| first_below().map(|(_, origin)| origin)) {
        Some(Origin::Manifest(span) | Origin::Module(span)) => Some(*span),
        Some(Origin::Language) | None => None,
    }
}

/// The diagnostic with a label at the place of a path, where that has one.
pub fn at(
    diagnostic: Diagnostic,
    origins: &BTreeMap<String, Origin>,
    path: &str,
    label: impl Into<String>,
) -> Diagnostic {
    match place(origins, path) {
        Some(span) => diagnostic.at(span, label),
        None => diagnostic,
    }
}

#[cfg(test)]
mod tests {
    use super::place;
    use crate::autodiff::samples::span;
    use crate::plan::Origin;
    use std::collections::BTreeMap;

    #[test]
    fn a_path_or_the_first_below_it() {
        let origins = BTreeMap::from([
            ("loss.kind".to_owned(), Origin::Manifest(span(4))),
            ("losses".to_owned(), Origin::Manifest(span(9))),
            ("train".to_owned(), Origin::Language),
        ]);
        assert_eq!(place(&origins, "loss.kind"), Some(span(4)));
        assert_eq!(place(&origins, "loss"), Some(span(4)));
        assert_eq!(place(&origins, "los"), None);
        assert_eq!(place(&origins, "train"), None);
    }
}
