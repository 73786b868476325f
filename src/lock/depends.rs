//! Which entries a derived digest depends on: the table behind every "because".

use super::hash::{PARTS, PRESENTATION, SECTION_PREFIX};

/// Path of the run id in changes and stale nodes.
pub const RUN_ID: &str = "run.id";

/// A derived digest and what it is computed from.
struct Rule {
    derived: &'static str,
    /// Paths, or prefixes that end with `.`.
    causes: &'static [&'static str],
}

/// The stages in order; a digest of a plan's section has a rule of its own in [`is_cause`].
const RULES: &[Rule] = &[
    Rule { derived: "digest.data", causes: &["data."] },
    Rule { derived: "digest.graph", causes: &["digest.plan.model", "digest.plan.loss", "digest.plan.data"] },
    Rule { derived: "digest.precision", causes: &["digest.graph", "digest.plan.precision"] },
    Rule {
        derived: "digest.step",
        causes: &["digest.precision", "digest.plan.optimizer", "digest.plan.scaler", "digest.plan.train"],
    },
];

/// True for the paths of digests that amp computes from other entries.
pub fn is_derived(path: &str) -> bool {
    path == RUN_ID || path.starts_with("digest.") || path.starts_with("parameter.")
}

/// True when the derived digest `derived` is computed from the entry or digest `path`.
pub fn is_cause(derived: &str, path: &str) -> bool {
    if derived == RUN_ID {
        let section = path.strip_prefix(SECTION_PREFIX);
        return path == "arithmetic"
            || PARTS.contains(&path)
            || section.is_some_and(|section| section != PRESENTATION);
    }
    if let Some(section) = derived.strip_prefix(SECTION_PREFIX) {
        return section_of(path) == Some(section);
    }
    if derived.starts_with("parameter.") {
        return path == "digest.graph";
    }
    let rule = RULES.iter().find(|rule| rule.derived == derived);
    rule.is_some_and(|rule| {
        rule.causes.iter().any(|cause| path == *cause || (cause.ends_with('.') && path.starts_with(cause)))
    })
}

/// The section of the plan that an entry belongs to: its first segment; `None` for derived entries and for those that
/// stand beside the plan.
pub fn section_of(path: &str) -> Option<&str> {
    let root = path.split('.').next().filter(|root| !root.is_empty())?;
    let beside =
        matches!(root, "arithmetic" | "manifest" | "module" | "parameter" | "digest" | "platform" | "lock");
    (!beside && path != RUN_ID && path != "run.name" && !path.starts_with("data.source.")).then_some(root)
}

/// Given the paths that changed, the ones that nobody computed and that `derived` comes from, directly or through other
/// derived digests that changed; sorted.
pub fn root_causes<'a>(derived: &str, changed: &[&'a str]) -> Vec<&'a str> {
    let mut found = std::collections::BTreeSet::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut open = vec![derived.to_owned()];
    while let Some(path) = open.pop() {
        for candidate in changed.iter().copied().filter(|candidate| is_cause(&path, candidate)) {
            if !is_derived(candidate) {
                found.insert(candidate);
            } else if seen.insert(candidate) {
                open.push(candidate.to_owned());
            }
        }
    }
    found.into_iter().collect()
}
