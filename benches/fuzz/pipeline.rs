//! What is fuzzed: one text through the whole compiler, from syntax to the step graph, and through the formatter.
//!
//! `cargo bench --bench fuzz` and the targets of `fuzz/` share it. A panic is a finding, and so are a formatter that is not
//! done in one go or changes what a manifest means, a rejection without a fault, and a fault that cannot be shown.

use amp::autodiff;
use amp::diag::{Diagnostic, FileId, Severity, SourceMap, render_text, to_json};
use amp::digest::Digest;
use amp::graph::{Features, LabelKind, print};
use amp::lint;
use amp::plan::Plan;
use amp::report::findings::{Findings, github, junit, sarif};
use amp::resolve::{check_module, resolve_text};
use amp::syntax;
use amp::world::Memory;
use camino::Utf8Path;

/// Begins a file beside the manifest, as in the corpus.
const FILE: &str = "// file ";
/// Blocks beyond which a model is not compiled: the fuzzer looks for faults, not for patience.
const MOST_BLOCKS: usize = 4_000;

/// Manifest and the files beside it.
fn split(text: &str) -> (&str, Memory) {
    let mut parts = text.split(FILE);
    let manifest = parts.next().unwrap_or_default();
    let world = parts.filter_map(|part| part.split_once('\n')).fold(Memory::default(), |world, part| {
        let name = part.0.trim();
        let name = if name.is_empty() { "net.kdl" } else { name };
        world.with(name, part.1)
    });
    (manifest, world)
}

/// Sends a text through all stages; only a panic says that something is wrong. What comes back says how far it came and what
/// was said of it: equal answers are the same to a fuzzer.
pub fn survive(text: &str) -> String {
    let (manifest, world) = split(text);
    format_twice(manifest);
    for (path, bytes) in &world.files {
        let module = String::from_utf8_lossy(bytes);
        let mut sources = SourceMap::default();
        let faults = check_module(path, &module, &world, &mut sources);
        show(&faults, &sources);
        format_twice(&module);
    }
    let mut sources = SourceMap::default();
    let (plan, faults) = resolve_text(Utf8Path::new("manifest.kdl"), manifest, &world, &mut sources);
    show(&faults, &sources);
    let errors = faults.iter().any(|fault| fault.severity == Severity::Error);
    assert_eq!(plan.is_none(), errors, "a plan comes back exactly when there is no error");
    let Some(plan) = plan else { return summary("resolve", &faults) };
    means_the_same_formatted(manifest, &world, &plan);
    if plan.model.body.len() > MOST_BLOCKS {
        return summary("large", &faults);
    }
    compile(&plan, &sources, faults)
}

/// From the plan on.
fn compile(plan: &Plan, sources: &SourceMap, mut faults: Vec<Diagnostic>) -> String {
    let shape = plan.data.shape.clone().unwrap_or_else(|| vec![64]);
    let labels = match plan.data.classes {
        Some(classes) => LabelKind::ClassIndex { classes: Some(classes as usize), shape: Vec::new() },
        None => LabelKind::Target(vec![1]),
    };
    let features: Features = shape.as_slice().into();
    let compiled = match autodiff::compile(plan, plan.data.batch, &features, labels.clone()) {
        Ok(compiled) => compiled,
        Err(refused) => {
            assert!(
                refused.iter().any(|fault| fault.severity == Severity::Error),
                "refused without an error"
            );
            show(&refused, sources);
            faults.extend(refused);
            return summary("graph", &faults);
        }
    };
    let again = |batch: usize, _| autodiff::compile(plan, batch, &features, labels.clone()).ok();
    let memory = &amp::graph::memory::device_memory;
    let device = plan.environment.device.as_ref();
    let room = device.map(|device| lint::Room::of(&compiled, memory, device.memory_bytes));
    let advice = lint::lint(&lint::Subject {
        plan,
        compiled: &compiled,
        steps: Some(100),
        evaluation: false,
        memory,
        room: room.as_ref(),
        compile: &again,
    });
    show(&advice, sources);
    faults.extend(advice);
    assert!(!print::step_text(&compiled.step).is_empty());
    let mut kinds: Vec<&str> = compiled.precise.graph.nodes.iter().map(|node| node.op.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    format!("{} {}", summary("step", &faults), kinds.join(" "))
}

/// Every fault can be shown, in each form.
fn show(faults: &[Diagnostic], sources: &SourceMap) {
    let text = render_text(faults, sources, true);
    assert_eq!(text.is_empty(), faults.is_empty());
    let findings = Findings::of_diagnostics("amp check", "manifest.kdl", faults, sources);
    let _ = (github(&findings), junit(&findings), sarif(&findings, 2, false));
    for fault in faults {
        let _ = to_json(fault, sources);
        assert!(!fault.message.is_empty());
    }
}

/// What can be read can be formatted, says the same then, and is formatted in one go.
fn format_twice(text: &str) {
    let (tree, faults) = syntax::parse(FileId(0), text);
    match syntax::format(text) {
        Ok(formatted) => {
            let (again, new) = syntax::parse(FileId(0), &formatted);
            assert!(new.is_empty(), "the formatted text has faults: {new:?}");
            assert!(tree.same_as(&again), "the formatted text says something else");
            assert_eq!(syntax::format(&formatted).expect("formatted text can be formatted"), formatted);
        }
        Err(_) => assert!(!faults.is_empty(), "a text without faults cannot be formatted"),
    }
}

fn means_the_same_formatted(manifest: &str, world: &Memory, plan: &Plan) {
    let formatted = syntax::format(manifest).expect("a manifest that resolves can be formatted");
    let (again, _) =
        resolve_text(Utf8Path::new("manifest.kdl"), &formatted, world, &mut SourceMap::default());
    let again = again.expect("a formatted manifest still resolves");
    assert_eq!(Digest::of(&again), Digest::of(plan), "formatting changes the digest of the plan");
}

/// The stage and the codes, each once.
fn summary(stage: &str, faults: &[Diagnostic]) -> String {
    let mut codes: Vec<u16> = faults.iter().map(|fault| fault.code.0).collect();
    codes.sort_unstable();
    codes.dedup();
    format!("{stage} {codes:?}")
}
