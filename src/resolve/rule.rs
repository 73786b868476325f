//! What a node may hold, as a table: names, types, defaults, ranges, documentation.
//!
//! The manifest's nodes, the layers and the other primitives are tables of these in this crate; the parameters of a module
//! become the same rules when the module is read. So one checker serves them all, and says the same of each.

use crate::diag::Span;
use crate::syntax::{Number, Value};
use std::borrow::Cow;
use std::fmt;

/// A name or a text that is either part of this crate or was read.
pub(crate) type Name = Cow<'static, str>;

/// The declared type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Integer,
    /// A number that becomes an f32.
    Real32,
    /// A number that becomes an f64.
    Real64,
    /// `#true` or `#false`.
    Flag,
    /// A string.
    Text,
    /// The name of a value that the caller saved, or the empty text.
    Saved,
    /// Sizes, each at least 1.
    Shape,
    /// Several values of one type.
    List(Item),
}

/// The type of a list's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
    /// Texts.
    Text,
}

impl Item {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Integer, Self::Number, Self::Text];

    /// The name that `of=` uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
        }
    }
}

impl Kind {
    /// The type in the words of a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Integer => "a whole number",
            Self::Real32 | Self::Real64 => "a number",
            Self::Flag => "`#true` or `#false`",
            Self::Text => "text in double quotes",
            Self::Saved => "the name of a saved value in double quotes",
            Self::Shape => "a shape",
            Self::List(Item::Integer) => "a list of whole numbers",
            Self::List(Item::Number) => "a list of numbers",
            Self::List(Item::Text) => "a list of texts",
        }
    }

    /// The type of the items of a shape or a list.
    pub fn item(self) -> Option<Self> {
        match self {
            Self::Shape | Self::List(Item::Integer) => Some(Self::Integer),
            Self::List(Item::Number) => Some(Self::Real64),
            Self::List(Item::Text) => Some(Self::Text),
            _ => None,
        }
    }

    /// The name that a module's `parameter` uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real32 | Self::Real64 => "number",
            Self::Flag => "flag",
            Self::Text => "text",
            Self::Saved => "value",
            Self::Shape => "shape",
            Self::List(_) => "list",
        }
    }
}

/// What holds when a value is not written.
#[derive(Clone, Debug, PartialEq)]
pub enum Presence {
    /// It must be written.
    Required,
    /// There is none.
    Optional,
    /// This one.
    Default(Value),
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The end.
    pub value: f64,
    /// True when the end itself is not in the range.
    pub open: bool,
}

/// The values that a number may take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Range {
    /// The lower end.
    pub low: Option<Bound>,
    /// The upper end.
    pub high: Option<Bound>,
}

impl Range {
    /// True when the value is in the range.
    pub fn holds(&self, value: f64) -> bool {
        let above =
            self.low.as_ref().is_none_or(|low| value > low.value || (!low.open && value == low.value));
        let below =
            self.high.as_ref().is_none_or(|high| value < high.value || (!high.open && value == high.value));
        above && below
    }

    /// True when no value is in the range.
    pub fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Some(low), Some(high)) => {
                low.value > high.value || (low.value == high.value && (low.open || high.open))
            }
            _ => false,
        }
    }
}

/// A bound as people write it; powers of two beyond a million as such.
fn bound_text(value: f64) -> String {
    let exponent = (20..=64).find(|exponent| value == (1_u128 << exponent) as f64);
    exponent.map_or_else(|| value.to_string(), |exponent| format!("2^{exponent}"))
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |bound: &Bound, open, closed| {
            format!("{} {}", if bound.open { open } else { closed }, bound_text(bound.value))
        };
        let low = self.low.as_ref().map(|low| end(low, "above", "at least"));
        let high = self.high.as_ref().map(|high| end(high, "below", "at most"));
        match (low, high) {
            (Some(low), Some(high)) => write!(formatter, "{low} and {high}"),
            (Some(one), None) | (None, Some(one)) => formatter.write_str(&one),
            (None, None) => formatter.write_str("any number"),
        }
    }
}

/// A value that a node may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The property's name, or the argument's name in messages.
    pub name: Name,
    /// Its type.
    pub kind: Kind,
    /// What holds without it.
    pub presence: Presence,
    /// Where a module writes what holds without it.
    pub default_span: Option<Span>,
    /// The numbers that it may be; of a list, those that each item may be.
    pub range: Range,
    /// How many items a list may have.
    pub length: Range,
    /// The texts that it may be; any when empty.
    pub one_of: Vec<Name>,
    /// For a text: the property beside it that takes numbers of the same meaning.
    pub numbers_in: Option<&'static str>,
    /// What it is, one sentence.
    pub doc: Name,
    /// Where a module declares it.
    pub span: Option<Span>,
}

impl Rule {
    fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self {
            name: Name::Borrowed(name),
            kind,
            presence: Presence::Required,
            default_span: None,
            range: Range::default(),
            length: Range::default(),
            one_of: Vec::new(),
            numbers_in: None,
            doc: Name::Borrowed(doc),
            span: None,
        }
    }

    /// A whole number in `low..=high`.
    pub fn integer(name: &'static str, low: i64, high: i64, doc: &'static str) -> Self {
        Self::new(name, Kind::Integer, doc).min(low as f64).max(high as f64)
    }

    /// A size: a whole number from 1 to 2^31 - 1.
    pub fn size(name: &'static str, doc: &'static str) -> Self {
        Self::integer(name, 1, i64::from(i32::MAX), doc)
    }

    /// A number that becomes an f32.
    pub fn real32(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Kind::Real32, doc)
    }

    /// A number that becomes an f64.
    pub fn real64(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Kind::Real64, doc)
    }

    /// A flag.
    pub fn flag(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Kind::Flag, doc)
    }

    /// A text.
    pub fn text(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Kind::Text, doc)
    }

    /// One text of a list.
    pub fn choice(name: &'static str, one_of: &[&'static str], doc: &'static str) -> Self {
        Self {
            one_of: one_of.iter().map(|text| Name::Borrowed(*text)).collect(),
            ..Self::new(name, Kind::Text, doc)
        }
    }

    /// The rule of one item of a list or a shape.
    pub(crate) fn item(&self) -> Option<Self> {
        let kind = self.kind.item()?;
        Some(Self { kind, presence: Presence::Required, ..self.clone() })
    }

    /// A text, whose numbers stand in another property.
    pub fn numbers_in(mut self, other: &'static str) -> Self {
        self.numbers_in = Some(other);
        self
    }

    /// With a lower end.
    pub fn min(mut self, value: f64) -> Self {
        self.range.low = Some(Bound { value, open: false });
        self
    }

    /// With an upper end.
    pub fn max(mut self, value: f64) -> Self {
        self.range.high = Some(Bound { value, open: false });
        self
    }

    /// With a lower end that is not in the range.
    pub fn above(mut self, value: f64) -> Self {
        self.range.low = Some(Bound { value, open: true });
        self
    }

    /// With an upper end that is not in the range.
    pub fn below(mut self, value: f64) -> Self {
        self.range.high = Some(Bound { value, open: true });
        self
    }

    /// May be left out.
    pub fn optional(mut self) -> Self {
        self.presence = Presence::Optional;
        self
    }

    /// May be left out, and is this number then.
    pub fn or(mut self, lexeme: &str) -> Self {
        self.presence = Presence::Default(Value::Number(Number { lexeme: lexeme.to_owned() }));
        self
    }

    /// May be left out, and is this flag then.
    pub fn or_flag(mut self, flag: bool) -> Self {
        self.presence = Presence::Default(Value::Flag(flag));
        self
    }

    /// May be left out, and is this text then.
    pub fn or_text(mut self, text: &str) -> Self {
        self.presence = Presence::Default(Value::Text(text.to_owned()));
        self
    }
}

/// How often a node may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurs {
    /// Exactly once.
    Once,
    /// At most once.
    Optional,
    /// Any number of times.
    Many,
}

/// What a node may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRule {
    /// The node's name.
    pub name: &'static str,
    /// How often it may stand in its parent.
    pub occurs: Occurs,
    /// What it is, one sentence.
    pub doc: &'static str,
    /// Its arguments in order.
    pub arguments: Vec<Rule>,
    /// Any number of arguments after those.
    pub rest: Option<Rule>,
    /// Its properties.
    pub properties: Vec<Rule>,
    /// True when further properties belong to a module or are names of the user's choice.
    pub open: bool,
    /// True when further nodes of its block belong to a module.
    pub open_block: bool,
    /// Its children; braces are refused when there are none.
    pub children: Vec<NodeRule>,
}

impl NodeRule {
    /// A node that may stand once or not at all, without contents.
    pub fn new(name: &'static str, doc: &'static str) -> Self {
        Self {
            name,
            occurs: Occurs::Optional,
            doc,
            arguments: Vec::new(),
            rest: None,
            properties: Vec::new(),
            open: false,
            open_block: false,
            children: Vec::new(),
        }
    }

    /// Must stand.
    pub fn once(mut self) -> Self {
        self.occurs = Occurs::Once;
        self
    }

    /// May stand any number of times.
    pub fn many(mut self) -> Self {
        self.occurs = Occurs::Many;
        self
    }

    /// With an argument.
    pub fn argument(mut self, rule: Rule) -> Self {
        self.arguments.push(rule);
        self
    }

    /// With any number of further arguments.
    pub fn rest(mut self, rule: Rule) -> Self {
        self.rest = Some(rule);
        self
    }

    /// With a property.
    pub fn property(mut self, rule: Rule) -> Self {
        self.properties.push(rule);
        self
    }

    /// With properties that are checked elsewhere.
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// With nodes in its block that are checked elsewhere.
    pub fn open_block(mut self) -> Self {
        self.open_block = true;
        self
    }

    /// With a child.
    pub fn child(mut self, rule: NodeRule) -> Self {
        self.children.push(rule);
        self
    }
}
