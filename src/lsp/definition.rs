//! Where a name is declared.

use super::locate::{Part, locate};
use super::scene::Scene;
use super::target::target;
use crate::diag::{SourceMap, Span};

/// The span of the declaration of what stands at a byte, and the sources that it points into; `None` for the document's
/// own. From the value of a parameter one comes to the parameter.
pub fn definition(scene: &Scene<'_>, offset: usize) -> Option<(Span, Option<SourceMap>)> {
    if let Some(found) = target(scene, offset) {
        return Some((found.span, found.sources));
    }
    let located = locate(&scene.analysis.tree, offset)?;
    let Part::Property(property) = located.part else { return None };
    let on_name = property.name.span.start as usize;
    // An expression that names nothing is no way to a parameter of another.
    if property.value.annotation.is_some() {
        return None;
    }
    target(scene, on_name).map(|found| (found.span, found.sources))
}
