//! Unique names for the edges of one graph. Names are for people and for traces; ids connect the nodes.

use super::Value;
use std::collections::BTreeSet;

/// The names that are taken.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeSet<String>);

impl Names {
    /// The names of existing edges.
    pub fn of(values: &[Value]) -> Self {
        Self(values.iter().map(|value| value.name.clone()).collect())
    }

    /// Takes a name; adds `.2`, `.3`, … where it is taken already.
    pub fn take(&mut self, name: impl Into<String>) -> String {
        let name = name.into();
        if self.0.insert(name.clone()) {
            return name;
        }
        let mut count = 2_usize;
        loop {
            let candidate = format!("{name}.{count}");
            if self.0.insert(candidate.clone()) {
                return candidate;
            }
            count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_taken_name_gets_a_number() {
        let mut names = Names::default();
        assert_eq!(names.take("a"), "a");
        assert_eq!(names.take("a"), "a.2");
        assert_eq!(names.take("a"), "a.3");
        assert_eq!(names.take("a.2"), "a.2.2");
    }
}
