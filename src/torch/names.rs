//! Names and literals of Python.

use crate::graph::{Graph, Parameter, ValueId};
use crate::plan::Initialiser;
use std::collections::{BTreeMap, BTreeSet};

/// The attributes of the module that parameters and buffers are.
#[derive(Debug)]
pub struct Attributes(BTreeMap<ValueId, String>);

impl Attributes {
    /// An attribute for every parameter and buffer: its name with `_` for what no identifier has. One that is taken gets a number; a
    /// name of one word gets `_` at its end, because modules have methods of one word.
    pub fn of(graph: &Graph) -> Self {
        let parameters = graph.parameters.iter().map(|parameter| parameter.value);
        let all = parameters.chain(graph.buffers.iter().map(|buffer| buffer.value));
        let (mut taken, mut attributes) = (BTreeSet::new(), BTreeMap::new());
        for id in all {
            let name = identifier(&graph.value(id).name);
            let mut candidate = name.clone();
            let mut count = 2_usize;
            while !taken.insert(candidate.clone()) {
                candidate = format!("{name}_{count}");
                count += 1;
            }
            attributes.insert(id, candidate);
        }
        Self(attributes)
    }

    /// The attribute of a parameter or buffer; empty for any other value.
    pub fn of_value(&self, id: ValueId) -> &str {
        self.0.get(&id).map_or("", String::as_str)
    }

    /// How `forward` reads it; `None` for any other value.
    pub fn read(&self, id: ValueId) -> Option<String> {
        self.0.get(&id).map(|name| format!("self.{name}"))
    }
}

fn identifier(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let mut text: String = name.chars().map(letter).collect();
    if !text.contains('_') {
        text.push('_');
    }
    if text.starts_with(|first: char| first.is_ascii_digit() || first == '_') {
        text.insert(0, 'p');
    }
    text
}

/// A float; every f32 as the shortest text that is it.
pub fn number(value: f32) -> String {
    match value {
        value if value.is_finite() => format!("{value:?}"),
        value => format!("float(\"{value}\")"),
    }
}

/// A tuple of whole numbers.
pub fn shape(sizes: &[usize]) -> String {
    let list: Vec<String> = sizes.iter().map(usize::to_string).collect();
    match list.as_slice() {
        [one] => format!("({one},)"),
        list => format!("({})", list.join(", ")),
    }
}

/// A pair, or its one number where both are the same.
pub fn pair([high, wide]: [usize; 2]) -> String {
    if high == wide { high.to_string() } else { format!("({high}, {wide})") }
}

/// `True` or `False`.
pub fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// A string literal.
pub fn text(value: &str) -> String {
    let mut literal = String::from("\"");
    for letter in value.chars() {
        match letter {
            '"' | '\\' => literal.extend(['\\', letter]),
            letter if letter.is_control() => literal.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => literal.push(letter),
        }
    }
    literal.push('"');
    literal
}

/// A text that stands in a docstring or a comment.
pub fn plain(value: &str) -> String {
    value.chars().filter(|letter| !letter.is_control() && !"\"\\".contains(*letter)).collect()
}

/// The distribution that a parameter begins with; the one row of an embedding that begins at 0 is left to it.
pub fn beginning(parameter: &Parameter) -> String {
    let (inputs, outputs) = (parameter.fan_in.max(1) as f32, parameter.fan_out.max(1) as f32);
    let (rule, value) = match parameter.initialiser {
        Initialiser::Constant(value) => ("constant", value),
        Initialiser::FanInUniform => ("uniform", 1.0 / inputs.sqrt()),
        Initialiser::KaimingUniform => ("uniform", (6.0 / inputs).sqrt()),
        Initialiser::XavierUniform => ("uniform", (6.0 / (inputs + outputs)).sqrt()),
        Initialiser::KaimingNormal => ("normal", (2.0 / inputs).sqrt()),
        Initialiser::KaimingNormalFanOut => ("normal", (2.0 / outputs).sqrt()),
        Initialiser::XavierNormal => ("normal", (2.0 / (inputs + outputs)).sqrt()),
        Initialiser::Normal { std } | Initialiser::TruncatedNormal { std } => ("normal", std),
    };
    format!("(\"{rule}\", {})", number(value))
}

#[cfg(test)]
mod tests {
    use super::{identifier, number, shape, text};

    #[test]
    fn names_and_numbers_are_those_of_python() {
        assert_eq!(identifier("blocks.0.residual-2.weight"), "blocks_0_residual_2_weight");
        assert_eq!((identifier("half").as_str(), identifier("0.bias").as_str()), ("half_", "p0_bias"));
        assert_eq!([1e-5, 0.1, 64.0].map(number), ["1e-5", "0.1", "64.0"]);
        assert_eq!(number(f32::INFINITY), "float(\"inf\")");
        assert_eq!(
            (shape(&[3]).as_str(), shape(&[]).as_str(), shape(&[2, 3]).as_str()),
            ("(3,)", "()", "(2, 3)")
        );
        assert_eq!(text("a\"b\n"), "\"a\\\"b\\u000a\"");
    }
}
