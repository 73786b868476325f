//! New texts out of old ones: by the grammar (nodes, values, names and properties of one text put into another, doubled,
//! dropped) and by bytes. Every choice is a number of a counter-based stream, so that a seed says all.

use amp::arithmetic::philox::Stream;
use amp::diag::FileId;
use amp::syntax::{self, Node};
use std::ops::Range;

/// Numbers to choose by.
pub struct Choices {
    stream: Stream,
    step: u64,
    element: u64,
}

impl Choices {
    /// The choices of one seed.
    pub fn new(seed: u64) -> Self {
        Self { stream: Stream::new(seed, 0xF022), step: 0, element: 0 }
    }

    /// Begins the choices of the next text.
    pub fn next_text(&mut self) {
        self.step += 1;
        self.element = 0;
    }

    /// A number below `count`, which is not zero.
    pub fn below(&mut self, count: usize) -> usize {
        let word = u64::from(self.stream.word(self.step, self.element));
        self.element += 1;
        ((word * count as u64) >> 32) as usize
    }

    /// One of several.
    pub fn of<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        &several[self.below(several.len())]
    }
}

/// Values at the borders of types and of what anybody thought of.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "8",
    "64",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "0.5",
    "1.0",
    "-0.0",
    "1e-46",
    "1e-38",
    "3.5e38",
    "1e308",
    "1e400",
    "1e-400",
    "0x7f",
    "0b1",
    "1_000",
    "#true",
    "#false",
    "#null",
    "#inf",
    "#nan",
    "\"\"",
    "\"x\"",
    "\"*\"",
    "\"**\"",
    "\"a.b\"",
    "\"../x\"",
    "\"./net.kdl\"",
    "\"std:models/mlp\"",
    "\"std:models/cnn\"",
    "(expr)\"i\"",
    "(expr)\"1 // 0\"",
    "(expr)\"2 ** 62 * 4\"",
    "(expr)\"-1\"",
    "(expr)\"n * n\"",
    "(text)\"a{1}\"",
    "\"é\"",
    "\"\\u{10FFFF}\"",
    "#\"\"\"#",
];

/// Nodes that a body or a manifest may have; the braces take what stands around.
const NODES: &[&str] = &[
    "linear \"l\" out=4",
    "conv2d \"c\" out=4 kernel=3",
    "relu",
    "flatten",
    "reshape 8 8",
    "transpose 0 2 1",
    "max-pool2d kernel=2",
    "average-pool2d kernel=3 stride=1 padding=1",
    "batch-norm \"b\"",
    "layer-norm \"n\"",
    "rms-norm \"r\"",
    "group-norm \"g\" groups=2",
    "softmax axis=1",
    "dropout p=0.5",
    "upsample2d scale=2",
    "slice axis=1 start=0 length=2",
    "select axis=1 index=0",
    "mean axis=1",
    "global-average-pool2d",
    "embedding \"e\" vocabulary=4 size=4",
    "position-embedding \"p\" length=64",
    "class-token \"t\"",
    "rotary-position heads=2",
    "save \"s\"",
    "recall \"s\"",
    "residual { relu }",
    "residual",
    "parallel combine=\"concatenate\" axis=1 { chain; chain }",
    "parallel combine=\"add\" { chain; chain { relu } }",
    "repeat 2 index=\"i\" name=\"r\" { relu }",
    "if (expr)\"true\" { relu }",
    "use \"std:models/mlp\" \"u\" classes=4",
    "linear \"m\" out=4 share=\"l\"",
    "gather { values { recall \"s\" }; index { recall \"s\" } }",
    "shape 1 8 8",
    "shape 64",
    "allow \"AMP0413\" reason=\"x\"",
    "freeze \"**.bias\"",
    "parameters \"**\" lr=0.5",
    "layer \"**\" dtype=\"f16\"",
    "op \"linear\" dtype=\"bf16\"",
    "precision \"amp-fp16\"",
    "scaler \"dynamic\"",
    "loss \"mean-squared-error\"",
    "scale factor=-1e9",
    "optimizer \"sgd\" lr=0.1",
    "columns classes=3",
    "environment \"t4\"",
    "attention heads=2 { query; key; value }",
];

/// Pieces for changes by bytes.
const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "\"",
    "\\",
    "/*",
    "*/",
    "//",
    "/-",
    "#",
    "\"\"\"",
    "=",
    ";",
    "\n",
    " ",
    "\t",
    "\u{feff}",
    "\u{2028}",
    "é",
    "e",
    "_",
    "-",
    "+",
    ".",
    "0",
    "9",
    "\r\n",
    "#\"",
    "\"#",
    "{-1}",
    "i",
    "𝄞",
    "\\\n",
    "(expr)",
    "(text)",
    "kdl-version",
    "\0",
];

/// The places of one text by their sort.
#[derive(Default)]
struct Places {
    /// Whole nodes, with their braces.
    nodes: Vec<Range<usize>>,
    /// Names of nodes and of properties.
    names: Vec<Range<usize>>,
    /// Values with their annotations.
    values: Vec<Range<usize>>,
    /// Properties.
    properties: Vec<Range<usize>>,
}

impl Places {
    fn of(text: &str) -> Self {
        let (tree, _) = syntax::parse(FileId(0), text);
        let mut places = Self::default();
        places.add(&tree.nodes, text);
        places
    }

    fn add(&mut self, nodes: &[Node], text: &str) {
        let range = |span: amp::diag::Span| span.start as usize..span.end as usize;
        for node in nodes {
            self.names.push(range(node.name.span));
            self.values.extend(node.arguments.iter().map(|argument| range(argument.span)));
            for property in &node.properties {
                self.names.push(range(property.name.span));
                self.values.push(range(property.value.span));
                self.properties.push(range(property.span()));
            }
            self.add(node.nodes(), text);
            let mut whole = range(node.span);
            if node.children.is_some() {
                whole.end = closing(text, whole.end, node.nodes().last().map(|last| last.span.end as usize));
            }
            self.nodes.push(whole);
        }
    }

    fn sort(&self, sort: usize) -> &[Range<usize>] {
        match sort {
            0 => &self.nodes,
            1 => &self.names,
            2 => &self.values,
            _ => &self.properties,
        }
    }
}

/// Behind the brace that closes a node, roughly: the next one behind its last child.
fn closing(text: &str, end: usize, last: Option<usize>) -> usize {
    let from = last.unwrap_or(end).max(end);
    text.get(from..).and_then(|rest| rest.find('}')).map_or(end, |at| from + at + 1)
}

/// A text made of others by one to four changes.
pub fn mutate(texts: &[String], choices: &mut Choices) -> String {
    let mut text = choices.of(texts).clone();
    for _ in 0..1 + choices.below(4) {
        text = match choices.below(4) {
            0 => by_bytes(&text, texts, choices),
            _ => by_grammar(&text, texts, choices),
        };
        if text.len() > 20_000 {
            let end = floor(&text, 20_000);
            text.truncate(end);
        }
    }
    text
}

fn by_grammar(text: &str, texts: &[String], choices: &mut Choices) -> String {
    let places = Places::of(text);
    let sort = choices.below(4);
    let own = places.sort(sort);
    if own.is_empty() {
        return by_bytes(text, texts, choices);
    }
    let place = choices.of(own).clone();
    let piece = match choices.below(5) {
        // Dropped.
        0 => String::new(),
        // Doubled.
        1 => format!("{0} {0}", text.get(place.clone()).unwrap_or_default()),
        // Out of a list.
        2 | 3 if sort == 2 => (*choices.of(VALUES)).to_owned(),
        2 if sort == 0 => (*choices.of(NODES)).to_owned(),
        3 if sort == 0 => format!("{}\n{}", choices.of(NODES), text.get(place.clone()).unwrap_or_default()),
        // Out of another text, of the same sort.
        _ => {
            let other = choices.of(texts);
            let others = Places::of(other);
            match others.sort(sort) {
                [] => String::new(),
                several => other.get(choices.of(several).clone()).unwrap_or_default().to_owned(),
            }
        }
    };
    put(text, place, &piece)
}

fn by_bytes(text: &str, texts: &[String], choices: &mut Choices) -> String {
    let from = floor(text, choices.below(text.len() + 1));
    let to = floor(text, (from + choices.below(8)).min(text.len())).max(from);
    let place = if choices.below(2) == 0 { from..from } else { from..to };
    let piece = match choices.below(4) {
        0 => String::new(),
        1 => {
            let other = choices.of(texts);
            let from = floor(other, choices.below(other.len() + 1));
            let to = floor(other, (from + choices.below(60)).min(other.len())).max(from);
            other[from..to].to_owned()
        }
        _ => (*choices.of(PIECES)).to_owned(),
    };
    put(text, place, &piece)
}

fn put(text: &str, place: Range<usize>, piece: &str) -> String {
    let (before, after) = (text.get(..place.start), text.get(place.end..));
    format!("{}{piece}{}", before.unwrap_or(text), after.unwrap_or_default())
}

/// The border of a character at or before a byte.
pub fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
