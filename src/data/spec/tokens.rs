//! The part of a data set's description that is about tokens, labels that follow from them, and computed examples.
//!
//! Invariant: as in [`super`], everything that can change a number is hashed; data without tokens hashes nothing of this.

use crate::digest::{ContentHash, Hasher};

/// How wide a token in a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenWidth {
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
}

/// Features that are indices of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Which tokens there are.
    pub vocabulary: Vocabulary,
    /// How a stream of tokens is cut; `None` where each row of an array is an example.
    pub windows: Option<Windows>,
}

/// Which tokens there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// 0 to this, this not included.
    Size(u32),
    /// The 256 bytes.
    Bytes,
    /// The characters of the text, sorted by their scalar values.
    Characters,
}

/// How examples are cut out of a stream of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Tokens of an example.
    pub length: usize,
    /// From the begin of an example to the begin of the next.
    pub stride: usize,
}

/// What labels are.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelRule {
    /// Those that the data holds.
    Given,
    /// At each position the token after it.
    NextToken,
    /// At some positions the token that was hidden there, everywhere else [`IGNORED`].
    Masked(Masking),
}

/// The label of positions that count for nothing, as in PyTorch.
pub const IGNORED: i32 = -100;

/// Which positions are hidden, and what takes their place (BERT's rule, section 3.1 of its paper).
#[derive(Clone, Debug, PartialEq)]
pub struct Masking {
    /// The share of positions that are chosen, each on its own.
    pub probability: f32,
    /// The token that stands for a hidden one.
    pub mask_token: u32,
    /// Tokens that are never chosen: padding, begin, end.
    pub kept: Vec<u32>,
}

/// Examples computed from a seed; example i of one seed is always the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// The seed of all examples.
    pub seed: u64,
    /// How many.
    pub examples: usize,
    /// What the features are.
    pub features: SyntheticFeatures,
    /// What the labels are, unless they follow from tokens.
    pub labels: SyntheticLabels,
}

/// What computed features are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntheticFeatures {
    /// Standard normal numbers of this shape.
    Normal(Vec<usize>),
    /// Uniform numbers in [0, 1) of this shape.
    Uniform(Vec<usize>),
    /// Tokens, each as likely as another.
    Tokens {
        /// How many there are.
        vocabulary: u32,
        /// Tokens of an example.
        length: usize,
    },
}

/// What computed labels are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntheticLabels {
    /// Classes, each as likely as another.
    Classes {
        /// How many there are.
        classes: u32,
        /// Empty for one an example.
        shape: Vec<usize>,
    },
    /// Standard normal numbers of this shape.
    Targets(Vec<usize>),
    /// Those of the label rule.
    FromTokens,
}

impl ContentHash for Vocabulary {
    fn content_hash(&self, hasher: &mut Hasher) {
        match self {
            Self::Size(size) => {
                hasher.tag("vocabulary");
                size.content_hash(hasher);
            }
            Self::Bytes => hasher.tag("bytes"),
            Self::Characters => hasher.tag("characters"),
        }
    }
}

impl ContentHash for LabelRule {
    /// Nothing for labels that the data holds.
    fn content_hash(&self, hasher: &mut Hasher) {
        match self {
            Self::Given => {}
            Self::NextToken => hasher.tag("next-token"),
            Self::Masked(masking) => {
                hasher.tag("masked");
                masking.probability.content_hash(hasher);
                masking.mask_token.content_hash(hasher);
                masking.kept.content_hash(hasher);
            }
        }
    }
}

impl ContentHash for Synthetic {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("synthetic");
        self.seed.content_hash(hasher);
        self.examples.content_hash(hasher);
        match &self.features {
            SyntheticFeatures::Normal(shape) => {
                hasher.tag("normal");
                shape.content_hash(hasher);
            }
            SyntheticFeatures::Uniform(shape) => {
                hasher.tag("uniform");
                shape.content_hash(hasher);
            }
            SyntheticFeatures::Tokens { vocabulary, length } => {
                hasher.tag("tokens");
                vocabulary.content_hash(hasher);
                length.content_hash(hasher);
            }
        }
        match &self.labels {
            SyntheticLabels::Classes { classes, shape } => {
                hasher.tag("classes");
                classes.content_hash(hasher);
                shape.content_hash(hasher);
            }
            SyntheticLabels::Targets(shape) => {
                hasher.tag("targets");
                shape.content_hash(hasher);
            }
            SyntheticLabels::FromTokens => hasher.tag("from-tokens"),
        }
    }
}
