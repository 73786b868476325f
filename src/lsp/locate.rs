//! The piece of a tree that stands at a byte.

use crate::syntax::{Argument, Node, Property, Tree};

/// What stands there.
#[derive(Clone, Copy, Debug)]
pub enum Part<'tree> {
    /// The node's name.
    Name,
    /// An argument, by its number.
    Argument(usize, &'tree Argument),
    /// A property, name or value.
    Property(&'tree Property),
}

/// A piece and the nodes that hold it.
#[derive(Clone, Debug)]
pub struct Located<'tree> {
    /// From the outermost node to the node that the piece belongs to.
    pub path: Vec<&'tree Node>,
    /// The piece.
    pub part: Part<'tree>,
}

impl<'tree> Located<'tree> {
    /// The node that the piece belongs to.
    pub fn node(&self) -> &'tree Node {
        self.path[self.path.len() - 1]
    }

    /// The names along the path.
    pub fn names(&self) -> Vec<&'tree str> {
        self.path.iter().map(|node| node.name.text.as_str()).collect()
    }

    /// The value at hand, if the piece has one.
    pub fn value(&self) -> Option<&'tree Argument> {
        match self.part {
            Part::Name => None,
            Part::Argument(_, argument) => Some(argument),
            Part::Property(property) => Some(&property.value),
        }
    }
}

/// Looks for the piece at a byte; its last byte's end belongs to it.
pub fn locate(tree: &Tree, offset: usize) -> Option<Located<'_>> {
    let mut path = Vec::new();
    let part = search(&tree.nodes, offset as u32, &mut path)?;
    Some(Located { path, part })
}

fn search<'tree>(nodes: &'tree [Node], offset: u32, path: &mut Vec<&'tree Node>) -> Option<Part<'tree>> {
    // Nodes stand in order, so that only the last that begins before the place can hold it.
    let index = nodes.partition_point(|node| node.span.start <= offset).checked_sub(1)?;
    let node = &nodes[index];
    path.push(node);
    let inside = |start: u32, end: u32| start <= offset && offset <= end;
    if !inside(node.span.start, node.span.end) {
        return search(node.nodes(), offset, path);
    }
    if inside(node.name.span.start, node.name.span.end) {
        return Some(Part::Name);
    }
    let property = node.properties.iter().find(|property| inside(property.span().start, property.span().end));
    if let Some(property) = property {
        return Some(Part::Property(property));
    }
    let mut arguments = node.arguments.iter().enumerate();
    arguments
        .find(|(_, argument)| inside(argument.span.start, argument.span.end))
        .map(|(index, argument)| Part::Argument(index, argument))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::FileId;
    use crate::syntax::parse;

    #[test]
    fn every_piece_is_found() {
        let marked = "a \"x\" k=1 { b { c 2 } }\nd\n";
        let (tree, _) = parse(FileId(0), marked);
        let at = |needle: &str| locate(&tree, marked.find(needle).expect("there"));
        let names = |located: &Option<Located<'_>>| located.as_ref().map(|found| found.names().join("."));
        assert_eq!(names(&at("a ")), Some("a".to_owned()));
        assert!(matches!(at("x\"").map(|found| found.part), Some(Part::Argument(0, _))));
        assert!(matches!(at("=1").map(|found| found.part), Some(Part::Property(_))));
        assert_eq!(names(&at("2")), Some("a.b.c".to_owned()));
        assert!(at("} }").is_none());
        assert_eq!(names(&at("d\n")), Some("d".to_owned()));
        assert!(locate(&parse(FileId(0), "").0, 0).is_none());
    }
}
