//! Which entries a derived digest depends on: the table behind every "because".

use super::hash::{OUTSIDE, PARTS, SECTION_PREFIX};
use std::collections::BTreeSet;

/// Path of the run id in changes and stale nodes.
pub const RUN_ID: &str = "run.id";

/// A derived digest and what it is computed from.
struct Rule {
    derived: &'static str,
    /// Paths; one that ends with `.` stands for all below it.
    causes: &'static [&'static str],
    /// What is below a cause and takes no part.
    except: &'static [&'static str],
}

/// The stages in order; a digest of a plan's section has a rule of its own in [`is_cause`].
const RULES: &[Rule] = &[
    Rule { derived: "digest.data", causes: &["data."], except: &["data.batch", "data.shuffle", "data.last"] },
    Rule {
        derived: "digest.graph",
        // A graph is that of the part of a batch that a shard has.
        causes: &["model.", "loss.", "data.", "train.shards", "digest.plan.model", "digest.plan.loss"],
        except: &["data.normalise", "data.shuffle", "data.split", "data.last"],
    },
    Rule {
        derived: "digest.precision",
        causes: &["digest.graph", "precision.", "digest.plan.precision"],
        except: &[],
    },
    Rule {
        derived: "digest.step",
        causes: &[
            "digest.precision",
            "optimizer.",
            "scaler.",
            "train.",
            "digest.plan.optimizer",
            "digest.plan.scaler",
            "digest.plan.train",
        ],
        except: &["train.epochs", "train.steps"],
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
            || section.is_some_and(|section| !OUTSIDE.contains(&section));
    }
    if let Some(section) = derived.strip_prefix(SECTION_PREFIX) {
        if section == "initial" {
            // First values are what the file holds, under the names that the rules give.
            return path.starts_with("model.initial") || path.starts_with("data.source.");
        }
        return section_of(path) == Some(section);
    }
    if derived.starts_with("parameter.") {
        return path == "digest.graph";
    }
    let Some(rule) = RULES.iter().find(|rule| rule.derived == derived) else { return false };
    let below =
        |node: &str| path.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let caused = rule.causes.iter().any(|cause| match cause.strip_suffix('.') {
        Some(node) => below(node),
        None => path == *cause,
    });
    caused && !rule.except.iter().any(|node| below(node))
}

/// The section of the plan that an entry belongs to: its first segment; `None` for derived entries and for those that
/// stand beside the plan.
pub fn section_of(path: &str) -> Option<&str> {
    let root = path.split('.').next().filter(|root| !root.is_empty())?;
    let beside =
        matches!(root, "arithmetic" | "manifest" | "module" | "parameter" | "digest" | "platform" | "lock");
    (!beside && path != RUN_ID && path != "run.name" && !path.starts_with("data.source.")).then_some(root)
}

/// Given the paths that changed, the minimal ones that `derived` comes from: entries that people wrote, reached directly or
/// through other derived digests that changed; and derived digests for whose change no entry accounts (another version of
/// amp computed them). Sorted.
pub fn root_causes<'a>(derived: &str, changed: &[&'a str]) -> Vec<&'a str> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![derived];
    while let Some(path) = open.pop() {
        for candidate in changed.iter().copied().filter(|candidate| is_cause(path, candidate)) {
            let explained = is_derived(candidate) && changed.iter().any(|cause| is_cause(candidate, cause));
            if !explained {
                found.insert(candidate);
            } else if seen.insert(candidate) {
                open.push(candidate);
            }
        }
    }
    found.into_iter().collect()
}
