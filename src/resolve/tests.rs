//! Manifests to plans.

use crate::diag::SourceMap;
use crate::plan::Plan;
use crate::world::Memory;
use camino::Utf8Path;

fn plan(text: &str) -> Plan {
    let mut sources = SourceMap::default();
    let (plan, faults) = super::resolve_text(Utf8Path::new("manifest.kdl"), text, &Memory::default(), &mut sources);
    plan.unwrap_or_else(|| panic!("refused: {faults:#?}"))
}

#[test]
fn examples() {
    for text in [include_str!("../../examples/digits/manifest.kdl"), include_str!("../../examples/digits-cnn/manifest.kdl")] {
        let plan = plan(text);
        for (path, value) in plan.entries() {
            eprintln!("{path} {value}");
        }
        eprintln!("{:?}", plan.section_digests());
        eprintln!("{:?}", plan.origins);
    }
    let (library, faults) = super::catalogue();
    assert_eq!((library.len(), faults), (crate::stdlib::SOURCES.len(), Vec::new()));
}
#[test]
fn show() {
    let text = std::fs::read_to_string("/tmp/bad.kdl").expect("x");
    let mut sources = SourceMap::default();
    let (_, faults) = super::resolve_text(Utf8Path::new("manifest.kdl"), &text, &Memory::default(), &mut sources);
    eprintln!("{}", crate::diag::render_text(&faults, &sources, false));
    eprintln!("{}", crate::diag::render_github(&faults, &sources));
}
