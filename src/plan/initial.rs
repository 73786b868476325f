//! Where the first values of parameters come from, when they come from a file.
//!
//! The path takes no part in a digest; what the file gives is hashed when it is read, parameter by parameter.

use camino::Utf8PathBuf;
use std::collections::BTreeMap;

/// A file of first values, and how its names become those of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialWeights {
    /// A safetensors file, relative to the manifest's folder.
    pub path: Utf8PathBuf,
    /// The rules, in order: those of the manifest, then those of a module of weights.
    pub rules: Vec<InitialRule>,
    /// How many of the rules are the manifest's own. Each of them must reach something; a module's need not, because it knows
    /// the spellings of several files.
    pub own: usize,
}

/// One rule about tensors of the file or parameters of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitialRule {
    /// A tensor whose name begins with `from` is called `to` with the rest of its name; the first rule that fits counts.
    /// `{i}` stands for one name, `{path*}` for any number of names.
    Map {
        /// The beginning of the tensor's name.
        from: String,
        /// What stands in its place.
        to: String,
    },
    /// Tensors of the file, by a glob, that are not used.
    Ignore(String),
    /// Tensors of the file, by a glob, whose two axes change places.
    Transpose(String),
    /// Tensors of the file, by a glob, whose shape is that of the model's after a 1.
    LeadingAxis(String),
    /// Parameters of the model, by a glob, that the file does not hold; they begin as their layers say.
    Missing(String),
}

impl InitialRule {
    /// The rule as a manifest writes it.
    pub fn text(&self) -> String {
        match self {
            Self::Map { from, to } => format!("map {from} {to}"),
            Self::Ignore(glob) => format!("ignore {glob}"),
            Self::Transpose(glob) => format!("transpose {glob}"),
            Self::LeadingAxis(glob) => format!("leading-axis {glob}"),
            Self::Missing(glob) => format!("missing {glob}"),
        }
    }
}

/// One piece of a `map` pattern, between dots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// This name.
    Name(&'a str),
    /// Any one name, called so.
    One(&'a str),
    /// A name that begins and ends so, with one letter or more between them, called so: `layer_{i}`.
    Part {
        /// What stands before the brace.
        before: &'a str,
        /// What the brace is called.
        name: &'a str,
        /// What stands after the brace.
        after: &'a str,
    },
    /// Any number of names, called so.
    Many(&'a str),
}

impl<'a> Piece<'a> {
    /// What a brace is called.
    pub fn called(&self) -> Option<&'a str> {
        match self {
            Self::One(name) | Self::Many(name) | Self::Part { name, .. } => Some(name),
            Self::Name(_) => None,
        }
    }
}

/// The pieces of a pattern; the text that is no piece when there is one. The empty pattern has none.
///
/// # Errors
/// The piece with braces that are not `{name}`, `{name*}` or `text{name}text`.
pub fn pieces(pattern: &str) -> Result<Vec<Piece<'_>>, &str> {
    if pattern.is_empty() {
        return Ok(Vec::new());
    }
    pattern.split('.').map(|text| piece(text).ok_or(text)).collect()
}

fn piece(text: &str) -> Option<Piece<'_>> {
    let named = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let Some((before, rest)) = text.split_once('{') else {
        return (!text.contains('}')).then_some(Piece::Name(text));
    };
    let (inner, after) = rest.split_once('}')?;
    if before.contains('}') || after.contains(['{', '}']) {
        return None;
    }
    match (inner.strip_suffix('*'), before.is_empty() && after.is_empty()) {
        (Some(name), true) if named(name) => Some(Piece::Many(name)),
        (None, true) if named(inner) => Some(Piece::One(inner)),
        (None, false) if named(inner) => Some(Piece::Part { before, name: inner, after }),
        _ => None,
    }
}

/// What the braces of a pattern stand for.
type Captures<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// What the braces of a pattern stand for in a name, and the rest of the name; `None` when it does not begin so. `{path*}`
/// stands for as few names as possible.
fn captured<'a>(from: &'a str, name: &'a str) -> Option<(Captures<'a>, Vec<&'a str>)> {
    let pattern = pieces(from).ok()?;
    let names: Vec<&str> = name.split('.').collect();
    let many = pattern.iter().any(|piece| matches!(piece, Piece::Many(_)));
    let longest = if many { names.len() } else { 0 };
    (0..=longest).find_map(|length| {
        let mut captures = BTreeMap::new();
        let mut at = 0;
        for piece in &pattern {
            let width = if matches!(piece, Piece::Many(_)) { length } else { 1 };
            let found = names.get(at..at + width)?;
            match piece {
                Piece::Name(wanted) => (found[0] == *wanted).then_some(())?,
                Piece::One(called) | Piece::Many(called) => {
                    captures.insert(*called, found.to_vec());
                }
                Piece::Part { before, name, after } => {
                    let inner = found[0].strip_prefix(before)?.strip_suffix(after)?;
                    (!inner.is_empty()).then_some(())?;
                    captures.insert(*name, vec![inner]);
                }
            }
            at += width;
        }
        Some((captures, names[at..].to_vec()))
    })
}

/// Whether a name begins as a pattern says.
pub fn begins(pattern: &str, name: &str) -> bool {
    captured(pattern, name).is_some()
}

/// The name with another beginning; `None` when it does not begin with `from`, or when `to` has a brace that `from` has not.
pub fn with_other_beginning(from: &str, to: &str, name: &str) -> Option<String> {
    let (captures, rest) = captured(from, name)?;
    let mut parts: Vec<String> = Vec::new();
    for piece in pieces(to).ok()? {
        match piece {
            Piece::Name(name) => parts.push(name.to_owned()),
            Piece::One(name) | Piece::Many(name) => {
                parts.extend(captures.get(name)?.iter().map(|part| (*part).to_owned()));
            }
            Piece::Part { before, name, after } => {
                parts.push(format!("{before}{}{after}", captures.get(name)?.join(".")));
            }
        }
    }
    parts.extend(rest.into_iter().map(str::to_owned));
    Some(parts.join("."))
}

/// What a tensor of a file is called in the model: by the first rule that fits, else as in the file.
pub fn renamed(rules: &[InitialRule], name: &str) -> String {
    let mut maps = rules.iter().filter_map(|rule| match rule {
        InitialRule::Map { from, to } => with_other_beginning(from, to, name),
        _ => None,
    });
    maps.next().unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_capture_names_and_keep_the_rest() {
        let map = |from: &str, to: &str| InitialRule::Map { from: from.to_owned(), to: to.to_owned() };
        let renamed = |from: &str, to: &str, name: &str| renamed(&[map(from, to)], name);
        assert_eq!(
            renamed("h.{i}.attn", "blocks.{i}.attention", "h.11.attn.q.weight"),
            "blocks.11.attention.q.weight"
        );
        assert_eq!(renamed("{path*}.gamma", "{path*}.weight", "a.b.norm.gamma"), "a.b.norm.weight");
        assert_eq!(renamed("{path*}.gamma", "{path*}.weight", "gamma"), "weight");
        assert_eq!(renamed("model", "", "model.head.bias"), "head.bias");
        assert_eq!(renamed("", "model", "head.bias"), "model.head.bias");
        assert_eq!(renamed("h.{i}", "blocks.{i}", "heads.0"), "heads.0");
        assert_eq!(renamed("a.layer_{i}.b", "x.{i}", "a.layer_11.b.weight"), "x.11.weight");
        assert_eq!(renamed("x.{i}", "a.layer_{i}.b", "x.11.weight"), "a.layer_11.b.weight");
        assert_eq!(renamed("layer_{i}", "x.{i}", "layer_"), "layer_");
        assert!(!begins("h.{i}.attn", "h.0"));
        for (pattern, wrong) in
            [("a.{i", "{i"), ("{a}{b}", "{a}{b}"), ("x_{i*}", "x_{i*}"), ("}{", "}{"), ("{}", "{}")]
        {
            assert_eq!(pieces(pattern), Err(wrong));
        }
    }
}
