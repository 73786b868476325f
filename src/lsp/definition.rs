//! Where a name is declared: modules, their parameters, the names of expressions.

use super::locate::{Part, locate};
use super::scene::{Scene, is_computed, name_at};
use crate::diag::{SourceMap, Span};
use crate::syntax::{Node, Value};

/// The span of the declaration of what stands at a byte, and the sources that it points into; `None` for the document's
/// own.
pub fn definition(scene: &Scene<'_>, offset: usize) -> Option<(Span, Option<SourceMap>)> {
    let located = locate(&scene.analysis.tree, offset)?;
    let (node, names) = (located.node(), located.names());
    if let Some(value) = located.value()
        && value.annotation.as_ref().is_some_and(|word| is_computed(&word.text))
        && let (Value::Text(text), Some(start)) = (&value.value, value.content)
        && let Some(at) = offset.checked_sub(start as usize)
    {
        let holders: &[&Node] = &located.path[..located.path.len() - 1];
        let (name, ..) = name_at(text, at)?;
        let named = scene.names(holders).into_iter().rev().find(|named| named.name == name)?;
        return Some((named.span, None));
    }
    if let (["module", "body", .., "recall"], Part::Argument(0, argument)) = (names.as_slice(), located.part)
        && let Value::Text(name) = &argument.value
    {
        let (_, span) = scene.saved().into_iter().find(|(saved, _)| saved == name)?;
        return Some((span, None));
    }
    let mut sources = SourceMap::default();
    if let Some(rule) = scene.listed(&located, &mut sources) {
        return Some((rule.span?, Some(sources)));
    }
    let module = scene.module_of(&names, node, &mut sources)?;
    let span = match located.part {
        Part::Name | Part::Argument(0, _) => module.span,
        Part::Argument(..) => return None,
        Part::Property(property) => {
            module.parameters.iter().find(|rule| rule.name == property.name.text.as_str())?.span?
        }
    };
    Some((span, Some(sources)))
}
