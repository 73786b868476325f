//! Manifests to plans.

use crate::diag::SourceMap;
use crate::plan::Plan;
use crate::world::Memory;
use camino::Utf8Path;

fn plan(text: &str) -> Plan {
    let mut sources = SourceMap::default();
    let file = sources.add("manifest.kdl", text);
    let (plan, faults) = super::resolve(file, Utf8Path::new("manifest.kdl"), &Memory::default(), &mut sources);
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
