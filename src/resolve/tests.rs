//! Laws over generated texts, and the examples of the pages. The corpus of manifests is `tests/corpus`, which the tests of
//! `cli::check` run; its texts and those of the pages are composed here.
//!
//! A text holds some nodes of a manifest; the nodes of [`BASE`] that it does not have are put behind it, so that its own lines
//! keep their numbers. `// file NAME` begins a file beside it, `// base: without NODE` leaves a node out.

mod laws;
mod pages;

use super::resolve_text;
use crate::diag::{Diagnostic, SourceMap, render_text};
use crate::plan::Plan;
use crate::world::Memory;
use camino::Utf8Path;

/// A manifest, node by node.
const BASE: &[(&str, &str)] = &[
    ("amp", "amp 1"),
    ("run", "run \"digits\" seed=42"),
    (
        "data",
        "data \"digits\" { source \"data/digits.csv.gz\"; columns classes=10; split train=0.8 test=0.2; batch 64 }",
    ),
    ("model", "model \"mlp\" classes=10"),
    ("optimizer", "optimizer \"adamw\" lr=1e-3"),
    ("train", "train epochs=5"),
];

/// The plan of a model line, over data of these `columns` (with other children of `data`) that nobody reads; `optimizer` is a whole line.
pub fn model_plan(model: &str, columns: &str, optimizer: &str) -> Plan {
    let manifest = format!(
        "amp 1\nrun \"model\"\ndata \"none\" {{\n source \"none.csv\"\n {columns}\n batch 2\n}}\nmodel {model}\n\
         {optimizer}\ntrain steps=9\n"
    );
    let mut sources = SourceMap::default();
    let path = Utf8Path::new("manifest.kdl");
    let (plan, faults) = resolve_text(path, &manifest, &Memory::default(), &mut sources);
    plan.unwrap_or_else(|| panic!("{}", render_text(&faults, &sources, false)))
}

/// A manifest and the modules beside it, out of the text of a test.
pub(crate) fn compose(text: &str) -> (String, Memory) {
    let mut parts = text.split("// file ");
    let own = parts.next().unwrap_or_default();
    let mut manifest = own.to_owned();
    for (name, node) in BASE {
        let stands = own.lines().any(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ';']))
        });
        if !stands && !own.contains(&format!("// base: without {name}")) {
            manifest.push_str(node);
            manifest.push('\n');
        }
    }
    let world = parts.fold(Memory::default(), |world, part| {
        let (name, content) = part.split_once('\n').expect("a module has lines");
        world.with(name.trim(), content)
    });
    (manifest, world)
}

/// What comes of a manifest.
pub(super) fn resolved(manifest: &str, world: &Memory) -> (Option<Plan>, Vec<Diagnostic>, SourceMap) {
    let mut sources = SourceMap::default();
    let (plan, faults) = super::resolve_text(Utf8Path::new("manifest.kdl"), manifest, world, &mut sources);
    (plan, faults, sources)
}

/// The plan of a manifest that is right.
pub(super) fn plan(manifest: &str) -> Plan {
    let (plan, faults, sources) = resolved(manifest, &Memory::default());
    assert_eq!(faults, [], "{}", crate::diag::render_text(&faults, &sources, false));
    plan.expect("a manifest without faults has a plan")
}
