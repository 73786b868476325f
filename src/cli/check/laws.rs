//! Laws of the run id over the whole way from text to lock: spelling never changes it, meaning always does.

use super::tests::{cases, world_of};
use crate::arithmetic::philox::Stream;
use crate::cli::pipeline;
use crate::diag::FileId;
use crate::digest::Digest;
use crate::syntax::{self, Argument, Node, Value};
use crate::world::{Memory, World as _};
use camino::Utf8Path;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The run id that a manifest would be locked with; `None` when it is refused or its data is not there.
fn run_id(world: &Memory) -> Option<Digest> {
    let nowhere = Utf8Path::new("tests/corpus/no-store");
    Some(pipeline::lock_in(Utf8Path::new("manifest.kdl"), world, nowhere).ok()?.header.id)
}

/// Writes texts anew: the same nodes, said in another way.
struct Respelling {
    stream: Stream,
    drawn: u64,
}

impl Respelling {
    fn draw(&mut self, count: usize) -> usize {
        self.drawn += 1;
        ((u64::from(self.stream.word(0, self.drawn)) * count as u64) >> 32) as usize
    }

    fn of<'a>(&mut self, several: &[&'a str]) -> &'a str {
        several[self.draw(several.len())]
    }

    /// A whole text; nodes of a manifest's top may change places.
    fn text(&mut self, text: &str, turn: bool) -> String {
        let (tree, faults) = syntax::parse(FileId(0), text);
        assert!(faults.is_empty(), "{text}");
        let mut nodes: Vec<&Node> = tree.nodes.iter().collect();
        if turn && !nodes.is_empty() {
            let by = self.draw(nodes.len());
            nodes.rotate_left(by);
        }
        let mut out = self.of(&["", "\u{feff}", "// begin\n", "/- kdl { x 1 }\n"]).to_owned();
        nodes.into_iter().for_each(|node| self.node(node, &mut out));
        out
    }

    fn node(&mut self, node: &Node, out: &mut String) {
        let before = self.of(&[
            "",
            "  ",
            "\t",
            "/* a /* b */ c */ ",
            "\n\n// about this\n",
            "/- gone 1 a=2 { b }\n",
            ";",
        ]);
        // A semicolon needs a node before it.
        out.push_str(if before == ";" { "" } else { before });
        self.name(&node.name.text, out);
        let mut entries: Vec<(Option<&str>, &Argument)> = node
            .properties
            .iter()
            .map(|property| (Some(property.name.text.as_str()), &property.value))
            .collect();
        let by = self.draw(entries.len().max(1));
        let by = by.min(entries.len());
        entries.rotate_left(by);
        let at = self.draw(entries.len() + 1);
        entries.splice(at..at, node.arguments.iter().map(|argument| (None, argument)));
        for (name, value) in entries {
            out.push_str(self.of(&[
                " ",
                "  ",
                "\t",
                " \\\n    ",
                " \\ // on\n ",
                " /* c */ ",
                " /- 1 ",
                " /- gone=#true ",
            ]));
            if let Some(name) = name {
                self.name(name, out);
                out.push_str(self.of(&["=", "=", " = "]));
            }
            self.value(value, out);
        }
        if let Some(children) = &node.children {
            out.push_str(self.of(&[" {\n", "{", " /- { gone } {", " \\\n {\n\n"]));
            children.iter().for_each(|child| self.node(child, out));
            out.push('}');
        }
        out.push_str(self.of(&["\n", ";", " // end\n", "\r\n", " ;\n", "\n\n"]));
    }

    fn name(&mut self, name: &str, out: &mut String) {
        match self.draw(6) {
            0 => out.push_str(&format!("\"{name}\"")),
            1 => out.push_str(&format!("#\"{name}\"#")),
            _ => out.push_str(name),
        }
    }

    fn value(&mut self, argument: &Argument, out: &mut String) {
        if let Some(annotation) = &argument.annotation {
            write!(out, "({})", annotation.text).expect("text takes everything");
        }
        match &argument.value {
            Value::Text(text) => self.string(text, out),
            Value::Number(number) => self.number(&number.lexeme, out),
            Value::Flag(flag) => write!(out, "#{flag}").expect("text takes everything"),
            other => panic!("{other:?} stands in no manifest that is right"),
        }
    }

    fn string(&mut self, text: &str, out: &mut String) {
        let plain = !text.contains(['\\', '"', '\n', '#']);
        match self.draw(5) {
            0 if plain => out.push_str(&format!("#\"{text}\"#")),
            1 if plain => out.push_str(&format!("\"\"\"\n      {text}\n      \"\"\"")),
            2 if plain => out.push_str(&format!("##\"\"\"\n  {text}\n  \"\"\"##")),
            3 => {
                let escaped: String =
                    text.chars().map(|character| format!("\\u{{{:x}}}", u32::from(character))).collect();
                out.push_str(&format!("\"{escaped}\""));
            }
            _ => out.push_str(&format!(
                "\"{}\"",
                text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
            )),
        }
    }

    fn number(&mut self, lexeme: &str, out: &mut String) {
        if let Ok(whole) = lexeme.parse::<u64>() {
            let spelled = match self.draw(6) {
                0 => format!("0x{whole:x}"),
                1 => format!("0b{whole:b}"),
                2 => format!("0o{whole:o}"),
                3 => format!("+{whole}"),
                4 => format!("{whole}_"),
                _ => whole.to_string(),
            };
            out.push_str(&spelled);
            return;
        }
        let exponent = lexeme.contains(['e', 'E', 'x', 'b', 'o']);
        match self.draw(4) {
            0 if !exponent && lexeme.contains('.') => out.push_str(&format!("{lexeme}000")),
            1 if !exponent && lexeme.contains('.') => out.push_str(&format!("{lexeme}e+0")),
            2 if !exponent && lexeme.contains('.') => {
                let (whole, part) = lexeme.split_once('.').expect("there is a point");
                out.push_str(&format!("{whole}{part}e-{}", part.len()));
            }
            3 if !lexeme.starts_with(['+', '-']) => out.push_str(&format!("+{lexeme}")),
            _ => out.push_str(lexeme),
        }
    }

    /// The manifest and its modules.
    fn world(&mut self, world: &Memory) -> Memory {
        let mut again = world.clone();
        for (path, bytes) in &world.files {
            if path.extension() == Some("kdl") {
                let text = String::from_utf8(bytes.clone()).expect("a text of the corpus");
                let text = self.text(&text, path == "manifest.kdl");
                again.files.insert(path.clone(), text.into_bytes());
            }
        }
        again
    }
}

#[test]
fn spelling_says_nothing() {
    let mut compared = 0;
    for (path, source) in cases("accept") {
        let world = world_of(&source);
        let Some(id) = run_id(&world) else { continue };
        for seed in 0..3 {
            let mut respelling = Respelling { stream: Stream::new(seed, 7), drawn: 0 };
            let again = respelling.world(&world);
            let text = || {
                String::from_utf8_lossy(&again.read(Utf8Path::new("manifest.kdl")).unwrap_or_default())
                    .into_owned()
            };
            assert_eq!(run_id(&again), Some(id), "{} as\n{}", path.display(), text());
            compared += 1;
        }
        let manifest = world.read(Utf8Path::new("manifest.kdl")).expect("the manifest is there");
        let formatted =
            syntax::format(&String::from_utf8_lossy(&manifest)).expect("a manifest that is right");
        assert_eq!(run_id(&world.clone().with("manifest.kdl", formatted)), Some(id), "{}", path.display());
    }
    assert!(compared >= 120, "{compared} texts");
}

/// A manifest that says everything that can be said, with a module of its own.
const WHOLE: &str = r#"amp 1
run "whole" seed=42 guarantee="portable"
environment "std:environments/cpu"
data "digits" {
    source "data/digits.csv.gz"
    columns label="last" header=#false classes=10
    shape 1 8 8
    normalise "scale" divide=16.0
    split train=0.6 validation=0.2 test=0.2
    batch 4 shuffle=#true
}
model "./net.kdl" width=8 {
    freeze "stem.bias"
}
loss "cross-entropy" label-smoothing=0.1
precision "std:precision/amp-fp16" {
    layer "head" dtype="f32"
    op "relu" dtype="f32"
}
scaler "std:scalers/dynamic" init=65536.0 interval=2
optimizer "std:optimizers/adamw" lr=1e-3 weight-decay=0.01 {
    parameters "**.bias" weight-decay=0.0
}
schedule "std:schedules/cosine" warmup=2
train epochs=5 clip-norm=1.0
evaluate every="epoch" metrics="accuracy"
allow "AMP0414" reason="a test"
// file net.kdl
module "net" kind="model" doc="A network." {
    parameter "width" type="integer" default=4 min=1 doc="Width."
    body {
        conv2d "stem" out=(expr)"width" kernel=3 padding=1
        batch-norm "norm"
        relu
        save "skip"
        repeat 2 index="i" name="block" {
            residual {
                conv2d "conv" out=(expr)"width" kernel=3 padding=1 weight-init="kaiming-normal"
            }
            dropout p=0.1
        }
        parallel combine="concatenate" axis=1 {
            chain
            chain {
                recall "skip"
            }
        }
        average-pool2d kernel=2
        flatten
        linear "narrow" out=64
        linear "wide" out=64 bias=#false
        linear "tied" out=64 share-weight="wide" bias=#false
        linear "head" out=10
    }
}
"#;

/// Each of these changes what is computed.
const CHANGES: &[(&str, &str)] = &[
    ("seed=42", "seed=43"),
    ("portable", "device"),
    ("divide=16.0", "divide=8.0"),
    ("divide=16.0", "add=1.0"),
    ("\"scale\" divide=16.0", "\"standardise\" over=\"all\""),
    ("    normalise \"scale\" divide=16.0\n", ""),
    ("train=0.6 validation=0.2", "train=0.7 validation=0.1"),
    ("validation=0.2", "validation=0.2 seed=1"),
    ("test=0.2", "test=0.2 shuffle=#false"),
    ("batch 4", "batch 5"),
    ("batch 4", "batch 4 last=\"drop\""),
    ("shuffle=#true\n}", "shuffle=#false\n}"),
    ("width=8", "width=9"),
    (" width=8", ""),
    ("freeze \"stem.bias\"", "freeze \"stem.*\""),
    ("freeze \"stem.bias\"", ""),
    ("label-smoothing=0.1", "label-smoothing=0.2"),
    (" label-smoothing=0.1", ""),
    ("label-smoothing=0.1", "label-smoothing=0.1 ignore-index=3"),
    ("amp-fp16\" {", "amp-bf16\" {"),
    ("amp-fp16\" {", "fp32\" {"),
    ("layer \"head\"", "layer \"wide\""),
    ("layer \"head\" dtype=\"f32\"", "layer \"head\" dtype=\"bf16\""),
    ("op \"relu\"", "op \"average-pool2d\""),
    ("init=65536.0", "init=1024.0"),
    ("interval=2", "interval=3"),
    ("interval=2", "interval=2 growth=4.0"),
    ("interval=2", "interval=2 backoff=0.25"),
    ("interval=2", "interval=2 floor=2.0"),
    ("dynamic\" init=65536.0 interval=2", "static\" scale=128.0"),
    ("lr=1e-3", "lr=1.0001e-3"),
    ("weight-decay=0.01", "weight-decay=0.02"),
    ("weight-decay=0.01", "weight-decay=0.01 beta1=0.8"),
    ("weight-decay=0.01", "weight-decay=0.01 beta2=0.9"),
    ("weight-decay=0.01", "weight-decay=0.01 eps=1e-7"),
    ("optimizers/adamw", "optimizers/sgd"),
    ("parameters \"**.bias\"", "parameters \"**.weight\""),
    ("weight-decay=0.0\n", "weight-decay=0.005\n"),
    ("weight-decay=0.0\n", "lr=1e-4\n"),
    ("schedules/cosine", "schedules/linear"),
    ("warmup=2", "warmup=3"),
    ("warmup=2", "warmup=2 final-factor=0.1"),
    ("epochs=5", "epochs=6"),
    ("epochs=5", "steps=5"),
    ("clip-norm=1.0", "clip-norm=2.0"),
    (" clip-norm=1.0", ""),
    ("every=\"epoch\"", "every=\"end\""),
    ("every=\"epoch\"", "steps=3"),
    ("metrics=\"accuracy\"", "metrics=\"accuracy,loss\""),
    // The module.
    ("kernel=3 padding=1\n        batch", "kernel=3 padding=1 bias=#false\n        batch"),
    ("kernel=3 padding=1\n        batch", "kernel=5 padding=2\n        batch"),
    ("\"norm\"\n", "\"norm\" eps=1e-4\n"),
    ("\"norm\"\n", "\"norm\" momentum=0.2\n"),
    ("batch-norm \"norm\"", "group-norm \"norm\" groups=2"),
    ("        relu\n", "        silu\n"),
    ("        relu\n", ""),
    ("repeat 2", "repeat 3"),
    ("kaiming-normal", "kaiming-uniform"),
    ("p=0.1", "p=0.2"),
    ("average-pool2d", "max-pool2d"),
    ("out=64 share-weight=\"wide\"", "out=64"),
    ("bias=#false\n        linear \"head\"", "bias=#true\n        linear \"head\""),
    ("name=\"block\"", "name=\"stage\""),
    ("\"wide\" out=64", "\"wide\" out=64 weight-init=\"zeros\""),
    ("linear \"head\" out=10", "linear \"head\" out=10 bias-init=\"zeros\""),
];

#[test]
fn each_change_of_meaning_has_a_run_id_of_its_own() {
    assert!(CHANGES.len() >= 60);
    let mut ids = BTreeSet::from([run_id(&world_of(WHOLE)).expect("the manifest is right")]);
    for (from, to) in CHANGES {
        assert!(WHOLE.contains(from), "{from}");
        let changed = WHOLE.replacen(from, to, 1);
        let id = run_id(&world_of(&changed)).unwrap_or_else(|| panic!("{from} → {to} is refused"));
        assert!(ids.insert(id), "{from} → {to} has the run id of another text");
    }
}

#[test]
fn names_places_and_what_is_allowed_say_nothing() {
    let id = run_id(&world_of(WHOLE));
    assert!(id.is_some());
    for (from, to) in [
        ("run \"whole\"", "run \"other\""),
        ("data \"digits\" {", "data \"other\" {"),
        ("environments/cpu", "environments/a100-80gb"),
        ("allow \"AMP0414\" reason=\"a test\"\n", ""),
        (
            "allow \"AMP0414\" reason=\"a test\"\n",
            "allow \"AMP0410\" reason=\"another\"\nallow \"AMP0413\" reason=\"b\"\n",
        ),
        ("module \"net\"", "module \"other\""),
        ("doc=\"A network.\"", "doc=\"Another text.\""),
        ("\"width\" type=\"integer\" default=4 min=1", "\"width\" type=\"integer\" default=5 min=2 max=99"),
        ("\"std:precision/amp-fp16\"", "\"amp-fp16\""),
        ("warmup=2", "warmup=2 final-factor=0.0"),
        ("clip-norm=1.0", "clip-norm=1 accumulate=1 shards=1"),
    ] {
        assert!(WHOLE.contains(from), "{from}");
        let same = WHOLE.replacen(from, to, 1);
        assert_eq!(run_id(&world_of(&same)), id, "{from} → {to}");
    }
    let moved = WHOLE.replace("data/digits.csv.gz", "elsewhere.csv");
    let data = world_of(WHOLE).read(Utf8Path::new("data/digits.csv.gz")).expect("the digits");
    assert_eq!(run_id(&world_of(&moved).with("elsewhere.csv", data)), id);
}
