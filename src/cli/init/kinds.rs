//! The kinds of model that `amp init` writes a manifest for, and how large a small one is.

/// A kind of model.
#[derive(Debug)]
pub struct Kind {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// Its module in `std:models`.
    pub module: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// The line of the optimizer.
    pub optimizer: &'static str,
    /// What is said of a last batch that is not full.
    pub last: &'static str,
}

/// What an example is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Numbers in any shape.
    Rows,
    /// (C, H, W).
    Pictures,
    /// Tokens of a text.
    Text,
}

const PLAIN: &str = "optimizer \"std:optimizers/adamw\" lr=1e-3 weight-decay=0.01\n";
/// Norms and biases are not decayed.
const GROUPED: &str = "optimizer \"std:optimizers/adamw\" lr=1e-3 weight-decay=0.01 {\nparameters \"**.bias\" \"**.*norm*.weight\" \
                       weight-decay=0.0\n}\n";
/// Layers of a transformer that a CPU trains in seconds.
pub const SMALL: &str = "width=64 layers=2 heads=4 dropout=0.0";

/// All kinds.
pub const KINDS: [Kind; 6] = [
    Kind {
        name: "mlp",
        what: "a multilayer perceptron, for rows of numbers",
        module: "mlp",
        takes: Takes::Rows,
        optimizer: PLAIN,
        last: "",
    },
    Kind {
        name: "cnn",
        what: "a convolutional network, for pictures",
        module: "cnn",
        takes: Takes::Pictures,
        optimizer: PLAIN,
        last: "",
    },
    Kind {
        name: "resnet",
        what: "a narrow ResNet-18, for pictures",
        module: "resnet",
        takes: Takes::Pictures,
        optimizer: "optimizer \"std:optimizers/sgd\" lr=0.05 momentum=0.9\n",
        // A last batch of one example has no variance.
        last: " last=\"drop\"",
    },
    Kind {
        name: "vit",
        what: "a small vision transformer, for square pictures",
        module: "vit",
        takes: Takes::Pictures,
        optimizer: GROUPED,
        last: "",
    },
    Kind {
        name: "gpt",
        what: "a small GPT that predicts the next character of a text",
        module: "gpt2",
        takes: Takes::Text,
        optimizer: GROUPED,
        last: "",
    },
    Kind {
        name: "bert",
        what: "a small BERT that finds hidden bytes of a text",
        module: "bert",
        takes: Takes::Text,
        optimizer: GROUPED,
        last: "",
    },
];

/// Their names, as `args` lists them.
pub const NAMES: [&str; 6] = ["mlp", "cnn", "resnet", "vit", "gpt", "bert"];

impl Kind {
    /// The kind of a name.
    pub fn of(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Whether examples are pictures.
    pub fn takes_pictures(&self) -> bool {
        self.takes == Takes::Pictures
    }
}

/// The size of a model over examples of this shape.
pub fn size(kind: &Kind, shape: &[usize]) -> String {
    match (kind.name, shape) {
        ("cnn", _) => "channels=32".to_owned(),
        ("resnet", _) => "depth=18 width=8".to_owned(),
        ("vit", [_, side, _]) => format!("image={side} patch={} {SMALL}", patch(*side)),
        _ => "hidden=256 layers=2".to_owned(),
    }
}

/// The smallest patch of at least 2 pixels that cuts a picture into at most 64.
fn patch(side: usize) -> usize {
    (2..=side).find(|patch| side.is_multiple_of(*patch) && side / patch <= 8).unwrap_or(side)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stdlib;

    #[test]
    fn every_kind_has_a_template_a_module_and_a_name() {
        for (kind, name) in KINDS.iter().zip(NAMES) {
            assert_eq!(kind.name, name);
            assert!(
                stdlib::template(name)
                    .is_some_and(|text| text.contains(&format!("std:models/{}", kind.module)))
            );
        }
    }

    #[test]
    fn patches_cut_a_picture_evenly() {
        assert_eq!([8, 28, 32, 29, 224].map(patch), [2, 4, 4, 29, 28]);
    }
}
