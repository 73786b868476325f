//! Names for values that are alive.
//!
//! A value that nobody reads any more gives its name to the next one, as a person writes `x = f(x)`; what ends without an heir is deleted.

use super::autocast::Context;
use super::names::plain;
use crate::graph::ValueId;
use std::collections::{BTreeMap, BTreeSet};

/// Stands around the id of a value in an expression, until the value has a name.
const MARK: char = '§';

/// Names of values, in the order in which they are taken.
pub const NAMES: [&str; 7] = ["x", "y", "z", "u", "v", "w", "q"];

/// One assignment.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it stands.
    pub context: Context,
    /// The values of the expression, in order.
    pub gives: Vec<ValueId>,
    /// The expression, with [`marked`] values.
    pub text: String,
    /// Whose it is.
    pub layer: String,
}

/// How an expression reads a value.
pub fn marked(id: ValueId) -> String {
    format!("{MARK}{}{MARK}", id.0)
}

/// The lines with names, each with what it lets go; that of `loss` returns it.
pub fn named(lines: &[Line], loss: ValueId) -> Vec<Vec<String>> {
    let last = last_reads(lines);
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    let mut free: BTreeSet<usize> = (0..=lines.iter().map(|line| line.gives.len()).sum()).collect();
    let mut written = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        let text = substituted(&line.text, &names);
        if line.gives.contains(&loss) {
            written.push(vec![format!("return {text}")]);
            continue;
        }
        let ends = marks(&line.text).into_iter().filter(|id| last.get(id) == Some(&index));
        let mut left: BTreeSet<usize> =
            ends.filter_map(|id| names.remove(&id)).map(|name| place(&name)).collect();
        let mut given = Vec::with_capacity(line.gives.len());
        for id in &line.gives {
            let name = called(left.pop_first().or_else(|| free.pop_first()).unwrap_or(0));
            names.insert(id.0, name.clone());
            given.push(name);
        }
        let mut lines = vec![format!("{} = {text}  # {}", given.join(", "), plain(&line.layer))];
        if !left.is_empty() {
            let left: Vec<String> = left.iter().map(|place| called(*place)).collect();
            lines.push(format!("del {}", left.join(", ")));
        }
        free.extend(left);
        written.push(lines);
    }
    written
}

/// For each value the last line that reads it.
fn last_reads(lines: &[Line]) -> BTreeMap<u32, usize> {
    let reads = lines.iter().enumerate();
    reads.flat_map(|(index, line)| marks(&line.text).into_iter().map(move |id| (id, index))).collect()
}

/// The ids in an expression, each once.
fn marks(text: &str) -> BTreeSet<u32> {
    text.split(MARK).skip(1).step_by(2).filter_map(|id| id.parse().ok()).collect()
}

fn substituted(text: &str, names: &BTreeMap<u32, String>) -> String {
    let part = |(index, part): (usize, &str)| match part.parse().ok().filter(|_| index % 2 == 1) {
        Some(id) => names.get(&id).cloned().unwrap_or_default(),
        None => part.to_owned(),
    };
    text.split(MARK).enumerate().map(part).collect()
}

fn called(place: usize) -> String {
    NAMES.get(place).map_or_else(|| format!("x{place}"), |name| (*name).to_owned())
}

fn place(name: &str) -> usize {
    let known = NAMES.iter().position(|known| *known == name);
    known.or_else(|| name.trim_start_matches('x').parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::autocast::Context;
    use super::{Line, called, marked, named, place};
    use crate::graph::ValueId;

    #[test]
    fn a_name_passes_on_when_its_value_was_read_last() {
        let of = ValueId;
        let line = |gives: &[u32], text: String| Line {
            context: Context::Either,
            gives: gives.iter().copied().map(ValueId).collect(),
            text,
            layer: "l".to_owned(),
        };
        let lines = [
            line(&[0], "f(features)".to_owned()),
            line(&[1, 2], format!("g({})", marked(of(0)))),
            line(&[3], format!("{} + {}", marked(of(1)), marked(of(0)))),
            line(&[4], format!("h({}, {})", marked(of(2)), marked(of(3)))),
            line(&[5], format!("loss({0}, {0})", marked(of(4)))),
        ];
        let expected = [
            &["x = f(features)  # l"][..],
            &["y, z = g(x)  # l"],
            &["x = y + x  # l", "del y"],
            &["x = h(z, x)  # l", "del z"],
            &["return loss(x, x)"],
        ];
        assert_eq!(named(&lines, of(5)), expected);
        assert!((0..40).all(|number| place(&called(number)) == number));
    }
}
