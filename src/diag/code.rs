//! The catalogue of permanent codes. Ranges by stage: 01xx syntax, 02xx resolve, 03xx graph, 04xx precision, 05xx lock,
//! 06xx probe, 07xx exec and data, 08xx verify. A number is never used again.

use std::fmt;

/// A permanent code, shown as `AMP0214`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AMP{:04}", self.0)
    }
}

/// A code with its title and its page (Markdown), for `amp explain`.
#[derive(Clone, Copy, Debug)]
pub struct CodePage {
    /// The code.
    pub code: Code,
    /// One line.
    pub title: &'static str,
    /// What it means, why it matters, a wrong and a right example.
    pub page: &'static str,
}

/// Every code that amp can print, in order.
pub const CATALOGUE: &[CodePage] = &[];
