//! Programs of the examples and of every op, held against those in `cases/` that were run beside PyTorch (`benches/against_torch.py`),
//! and what every program must be that nobody has run.

use super::lines::NAMES;
use super::{Program, TEMPLATE, Target, program};
use crate::autodiff::{Compiled, compile, samples};
use crate::diag::{Diagnostic, SourceMap, codes};
use crate::graph::{Features, LabelKind};
use crate::plan::{OP_KINDS, Plan};
use crate::resolve::{self, resolve_text};
use crate::world::Memory;
use camino::Utf8Path;
use std::collections::BTreeSet;

/// A manifest's text, and what its data would say.
struct Example {
    name: &'static str,
    text: &'static str,
    shape: &'static [usize],
    /// How many tokens there are, where these are tokens.
    tokens: Option<usize>,
    classes: usize,
}

macro_rules! example {
    ($name:literal, $shape:expr, $tokens:expr, $classes:expr) => {
        Example {
            name: $name,
            text: include_str!(concat!("../../examples/", $name, "/manifest.kdl")),
            shape: &$shape,
            tokens: $tokens,
            classes: $classes,
        }
    };
}

const EXAMPLES: [Example; 7] = [
    example!("digits", [64], None, 10),
    example!("digits-cnn", [1, 8, 8], None, 10),
    example!("mnist-cnn", [1, 28, 28], None, 10),
    example!("gpt2-shakespeare", [64], Some(65), 65),
    example!("bert-base", [512], Some(30522), 30522),
    example!("vit-b16", [3, 224, 224], None, 1000),
    example!("resnet50", [3, 224, 224], None, 1000),
];

fn resolved(text: &str) -> Plan {
    let mut sources = SourceMap::default();
    let (plan, faults) = resolve_text(Utf8Path::new("manifest.kdl"), text, &Memory::default(), &mut sources);
    plan.unwrap_or_else(|| panic!("{faults:?}"))
}

fn compiled(plan: &Plan, example: &Example) -> Compiled {
    let features = Features { shape: example.shape.to_vec(), tokens: example.tokens };
    let shape = example.tokens.map_or(Vec::new(), |_| example.shape.to_vec());
    let labels = LabelKind::ClassIndex { classes: Some(example.classes), shape };
    compile(plan, plan.data.batch, &features, labels).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// The program of an example with some words of its manifest changed.
fn of_example(name: &str, changes: &[(&str, &str)], target: Target) -> Result<Program, Vec<Diagnostic>> {
    let example = EXAMPLES.iter().find(|example| example.name == name).expect("an example");
    let mut text = example.text.to_owned();
    for (old, new) in changes {
        assert!(text.contains(old), "{name} has no {old}");
        text = text.replace(old, new);
    }
    let plan = resolved(&text);
    program(&plan, &compiled(&plan, example), target)
}

/// The lines that are a plan's own.
fn own(program: &Program) -> String {
    let common: BTreeSet<&str> = TEMPLATE.lines().filter(|line| line.len() > 1).collect();
    let lines = program.text.lines().filter(|line| line.len() > 1 && !common.contains(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Compares with files of `cases/`; what they should be is written beside those that differ.
#[expect(clippy::disallowed_methods, reason = "a case that differs is shown beside the one that is kept")]
fn are_cases(cases: &[(String, String)]) {
    let folder = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("src/torch/cases");
    let mut differ = Vec::new();
    for (name, found) in cases {
        if std::fs::read_to_string(folder.join(name)).unwrap_or_default() != *found {
            let path = folder.join(format!("{name}.new"));
            std::fs::write(&path, found).expect("the folder can be written");
            differ.push(path);
        }
    }
    assert!(differ.is_empty(), "other programs than before: {differ:?}");
}

#[test]
fn programs_of_examples_are_those_that_were_run() {
    use Target::{Cpu, Cuda};
    let mut cases = Vec::new();
    for (name, changes, target) in [
        ("digits", &[][..], Cpu),
        ("digits-cnn", &[], Cpu),
        (
            "mnist-cnn",
            &[("amp-fp16", "tf32"), ("scaler \"std:scalers/dynamic\" init=65536.0 interval=500", "")],
            Cuda,
        ),
        ("gpt2-shakespeare", &[("layers=3", "layers=1"), ("dropout=0.0", "dropout=0.1")], Cuda),
        ("bert-base", &[("std:models/bert\"", "std:models/bert\" layers=1")], Cuda),
        ("vit-b16", &[("std:models/vit\"", "std:models/vit\" layers=1")], Cuda),
        ("resnet50", &[("depth=50", "depth=18")], Cuda),
    ] {
        let program = of_example(name, changes, target).unwrap_or_else(|faults| panic!("{faults:?}"));
        cases.push((format!("{name}.py"), own(&program)));
    }
    are_cases(&cases);
}

#[test]
fn every_op_of_a_forward_pass_has_its_line() {
    let (mut kinds, mut cases) = (BTreeSet::new(), Vec::new());
    for target in [Target::Cpu, Target::Cuda] {
        let mut text = String::new();
        for (name, sample) in samples::all() {
            let compiled = sample.compile();
            let Ok(program) = program(&sample.plan, &compiled, target) else {
                assert!(name.starts_with("eight"), "{name} is refused");
                continue;
            };
            kinds.extend(compiled.precise.graph.nodes.iter().map(|node| node.op.kind()));
            sound(name, &program.text);
            text.push_str(&format!("# {name}\n{}", own(&program)));
        }
        cases.push((format!("samples-{}.py", target.name()), text));
    }
    are_cases(&cases);
    let missing: Vec<&str> = OP_KINDS.into_iter().filter(|kind| !kinds.contains(kind)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "an op without a line in operations.rs");
}

#[test]
fn programs_read_what_is_there_in_every_policy() {
    let policies = ["fp32", "tf32", "amp-fp16", "amp-bf16", "amp-bf16-cpu", "apex-o2"];
    for example in &EXAMPLES {
        let mut plan = resolved(example.text);
        for policy in policies {
            let name = format!("std:precision/{policy}");
            plan.precision = resolve::policy_named(&name).expect("the library has it");
            let compiled = compiled(&plan, example);
            for target in [Target::Cpu, Target::Cuda] {
                let name = format!("{}, {policy}, {}", example.name, target.name());
                let program =
                    program(&plan, &compiled, target).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
                sound(&name, &program.text);
            }
        }
    }
}

/// Holds the body of `forward` to what Python asks: brackets close on their line, and names are read while they are alive.
fn sound(name: &str, text: &str) {
    assert!(!text.contains(['§', '«', '»']), "{name}: a place was not filled");
    let body = text.split("    def forward(self, features, labels):\n").nth(1).expect("a forward pass");
    let body = body.split("\n\n").next().unwrap_or_default();
    let (mut alive, mut returns) = (BTreeSet::new(), 0);
    for line in body.lines() {
        let code = line.split("  # ").next().unwrap_or_default().trim();
        for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
            assert_eq!(code.matches(open).count(), code.matches(close).count(), "{name}: {line}");
        }
        assert_eq!(returns, 0, "{name}: a line after the last: {line}");
        if let Some(names) = code.strip_prefix("del ") {
            for gone in names.split(", ") {
                assert!(alive.remove(gone), "{name}: {line}");
            }
            continue;
        }
        let (given, read) = match (code.strip_prefix("return "), code.split_once(" = ")) {
            (Some(read), _) => {
                returns += 1;
                ("", read)
            }
            (None, Some((given, read))) => (given, read),
            (None, None) => {
                assert!(code.starts_with("with torch.autocast("), "{name}: {line}");
                continue;
            }
        };
        for word in words(read) {
            assert!(alive.contains(word), "{name}: `{word}` is not alive: {line}");
        }
        alive.extend(given.split(", ").filter(|given| !given.is_empty()));
    }
    assert_eq!(returns, 1, "{name}: it returns once");
}

/// The names of values in an expression.
fn words(text: &str) -> Vec<&str> {
    let part =
        |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.' || letter == '"';
    let words =
        text.split(move |letter| !part(letter)).map(|word| word.split('.').next().unwrap_or_default());
    let of_value = |word: &&str| {
        NAMES.contains(word)
            || word
                .strip_prefix('x')
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    words.filter(of_value).collect()
}

#[test]
fn what_pytorch_does_not_have_is_refused_by_name() {
    let faults = |result: Result<Program, Vec<Diagnostic>>| -> Vec<String> {
        let faults = result.expect_err("a refusal");
        assert!(
            faults.iter().all(|fault| fault.code == codes::TORCH_REFUSED && fault.help.is_some()),
            "{faults:?}"
        );
        faults.into_iter().map(|fault| fault.message).collect()
    };
    let scaler = ("scaler \"std:scalers/dynamic\" init=65536.0 interval=200", "");
    let without =
        |policy| [("std:precision/amp-fp16\" {\n    layer \"head\" dtype=\"f32\"\n}", policy), scaler];
    let eight = faults(of_example("digits", &without("std:precision/fp8-hybrid\""), Target::Cuda));
    assert!(
        eight.contains(
            &"PyTorch has no counterpart of the op `scaled-linear` of `hidden.1.linear`".to_owned()
        ),
        "{eight:?}"
    );
    let narrow = faults(of_example("digits", &without("std:precision/bf16\""), Target::Cpu));
    assert_eq!(
        narrow,
        [
            "PyTorch has no counterpart of parameters that are kept in bf16 with their moments in f32 (`precision`)"
        ]
    );
    let mixed = without("std:precision/tf32\" {\n    layer \"head\" dtype=\"f32\"\n}");
    assert_eq!(
        faults(of_example("digits", &mixed, Target::Cuda)),
        ["PyTorch has no counterpart of tf32 in `hidden.0.linear` beside f32 in `head`"]
    );
    // On a CPU both are f32, and that is said.
    let notes = of_example("digits", &mixed, Target::Cpu).expect("a program").notes;
    assert_eq!(notes, ["PyTorch has no tf32 on a CPU: its products are in f32"]);
}

#[test]
fn a_program_knows_whether_it_drops() {
    for (dropout, drops) in [("dropout=0.0", false), ("dropout=0.1", true)] {
        let changes = [("dropout=0.0", dropout), ("layers=3", "layers=1")];
        let program = of_example("gpt2-shakespeare", &changes, Target::Cpu).expect("a program");
        assert_eq!(program.drops, drops, "{dropout}");
        assert_eq!(program.text.contains("F.dropout("), drops);
    }
}
