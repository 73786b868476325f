//! Changes, verdicts, runs and machines as text, JSON, Markdown and HTML, for people, pipelines and signers.
//!
//! Pure: values in, text out; who prints it, and where, is `cli`. Text has aligned columns and no borders, and says all
//! without colour. JSON has a versioned `schema` and null for what is absent. Markdown is for pull requests.

pub mod badge;
pub mod bisection;
pub mod findings;
pub mod json;
pub mod markdown;
pub use crate::diag::number;
pub mod page;
pub mod proof;
pub mod reference;
pub mod statement;
pub mod style;
pub mod summary;
pub mod table;
pub mod tensorboard;
pub mod text;
pub mod variations;
pub mod words;

#[cfg(test)]
mod tests;

pub use summary::RunSummary;
