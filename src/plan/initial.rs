//! Where the first values of parameters come from, when they come from a file.
//!
//! The path takes no part in a digest; what the file gives is hashed when it is read, parameter by parameter.

use camino::Utf8PathBuf;

/// A file of first values, and how its names become those of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialWeights {
    /// A safetensors file, relative to the manifest's folder.
    pub path: Utf8PathBuf,
    /// The rules, in order.
    pub rules: Vec<InitialRule>,
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
    /// Any number of names, called so.
    Many(&'a str),
}

/// The pieces of a pattern; the text that is no piece when there is one. The empty pattern has none.
///
/// # Errors
/// The piece with braces that are not `{name}` or `{name*}`.
pub fn pieces(pattern: &str) -> Result<Vec<Piece<'_>>, &str> {
    if pattern.is_empty() {
        return Ok(Vec::new());
    }
    let piece = |text: &str| -> bool { text.bytes().all(|byte| byte.is_ascii_alphanumeric()) };
    pattern
        .split('.')
        .map(|text| {
            let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            match inner {
                Some(name) if !name.is_empty() && piece(name) => Ok(Piece::One(name)),
                Some(name) => match name.strip_suffix('*') {
                    Some(name) if !name.is_empty() && piece(name) => Ok(Piece::Many(name)),
                    _ => Err(text),
                },
                None if text.contains(['{', '}']) => Err(text),
                None => Ok(Piece::Name(text)),
            }
        })
        .collect()
}
