//! What a split looks like to those who train on it: examples by their index, however they are kept.
//!
//! Examples are stored as tables, cut out of a stream of tokens, or computed; [`SplitView::gather`] is the one way to all
//! of them. Invariant: what it gives is a function of the split, the indices, the seed and the epoch.

use super::masking::MASKING_STREAM;
use super::spec::{LabelRule, Synthetic, SyntheticLabels};
use super::tokens::TokenSlice;
use crate::arithmetic::philox::Stream;
use rayon::prelude::*;

/// The epoch that evaluation counts as, so that what it hides stays the same.
pub const EVALUATION_EPOCH: u64 = u64::MAX;

/// What may make one use of an example differ from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The run's seed.
    pub seed: u64,
    /// Counted from 0; [`EVALUATION_EPOCH`] for evaluation.
    pub epoch: u64,
}

/// One split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitView<'a> {
    /// How many examples.
    pub length: usize,
    /// The shape of one example's features.
    pub shape: &'a [usize],
    /// How many tokens there are, when features are tokens.
    pub vocabulary: Option<u32>,
    /// The shape of one example's label; empty for one class an example.
    pub label_shape: &'a [usize],
    /// What labels are.
    pub rule: &'a LabelRule,
    /// Where examples come from.
    pub examples: Examples<'a>,
}

/// Where examples come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Examples<'a> {
    /// A table, features \[length, shape…\] and labels \[length, label_shape…\].
    Stored {
        /// All features.
        features: FeatureView<'a>,
        /// All labels.
        labels: LabelView<'a>,
    },
    /// A stream of tokens: example i begins at token i · stride.
    Windows {
        /// The stream.
        tokens: TokenSlice<'a>,
        /// From one begin to the next.
        stride: usize,
    },
    /// Computed: example i is number `first + i` of the declaration.
    Computed {
        /// The declaration.
        synthetic: &'a Synthetic,
        /// The number of the split's first example.
        first: u64,
    },
}

/// The features of a stored split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeatureView<'a> {
    /// Numbers.
    Numbers(&'a [f32]),
    /// Indices of tokens.
    Tokens(&'a [i32]),
}

/// The labels of a stored split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LabelView<'a> {
    /// Class indices.
    Classes(&'a [i32]),
    /// Numbers to be predicted.
    Targets(&'a [f32]),
}

/// Numbers of one of two kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// f32.
    Floats(Vec<f32>),
    /// Tokens, classes.
    Integers(Vec<i32>),
}

/// Features and labels of some examples, one row an example.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered {
    /// \[examples, shape…\].
    pub features: Values,
    /// \[examples, label_shape…\].
    pub labels: Values,
}

impl<'a> SplitView<'a> {
    /// Numbers in one example's features.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// Numbers in one example's label.
    pub fn label_width(&self) -> usize {
        self.label_shape.iter().product()
    }

    /// Whether labels name one of several classes or tokens, and are not numbers to be predicted.
    pub fn has_classes(&self) -> bool {
        match self.examples {
            Examples::Stored { labels, .. } => matches!(labels, LabelView::Classes(_)),
            Examples::Windows { .. } => true,
            Examples::Computed { synthetic, .. } => !matches!(synthetic.labels, SyntheticLabels::Targets(_)),
        }
    }

    /// All features and labels of a split that is stored as a table of numbers.
    pub fn table(&self) -> Option<(&'a [f32], LabelView<'a>)> {
        match self.examples {
            Examples::Stored { features: FeatureView::Numbers(features), labels } => Some((features, labels)),
            _ => None,
        }
    }

    /// Features and labels of these examples, in this order.
    ///
    /// # Panics
    /// When an index is not below the length: a fault of the caller.
    pub fn gather(&self, indices: &[u32], draw: Draw) -> Gathered {
        match self.examples {
            Examples::Stored { features, labels } => {
                let width = self.width();
                let features = match features {
                    FeatureView::Numbers(values) => Values::Floats(rows(values, width, indices)),
                    FeatureView::Tokens(values) => Values::Integers(rows(values, width, indices)),
                };
                let width = self.label_width();
                let labels = match labels {
                    LabelView::Classes(values) => Values::Integers(rows(values, width, indices)),
                    LabelView::Targets(values) => Values::Floats(rows(values, width, indices)),
                };
                Gathered { features, labels }
            }
            Examples::Windows { tokens, stride } => self.tokens(indices, draw, |index, first, out| {
                tokens.copy(index as usize * stride + first, out);
            }),
            Examples::Computed { synthetic, first } => self.computed(synthetic, first, indices, draw),
        }
    }

    fn computed(&self, synthetic: &Synthetic, first: u64, indices: &[u32], draw: Draw) -> Gathered {
        let number = |index: u32| {
            assert!((index as usize) < self.length, "example {index} of {}", self.length);
            first + u64::from(index)
        };
        if synthetic.labels == SyntheticLabels::FromTokens {
            return self.tokens(indices, draw, |index, first, out| {
                synthetic.tokens(number(index), first as u64, out);
            });
        }
        let features = match self.vocabulary {
            Some(_) => Values::Integers(fill(indices, self.width(), |index, out| {
                synthetic.tokens(number(index), 0, out);
            })),
            None => Values::Floats(fill(indices, self.width(), |index, out| {
                synthetic.numbers(number(index), out);
            })),
        };
        let labels = match &synthetic.labels {
            SyntheticLabels::Classes { classes, .. } => {
                Values::Integers(fill(indices, self.label_width(), |index, out| {
                    synthetic.classes(*classes, number(index), out);
                }))
            }
            _ => Values::Floats(fill(indices, self.label_width(), |index, out| {
                synthetic.targets(number(index), out);
            })),
        };
        Gathered { features, labels }
    }

    /// Examples whose labels follow from their tokens; `copy` gives the tokens of an example from a position on.
    fn tokens(&self, indices: &[u32], draw: Draw, copy: impl Fn(u32, usize, &mut [i32]) + Sync) -> Gathered {
        let width = self.width();
        let mut features = fill(indices, width, |index, out| copy(index, 0, out));
        let labels = match self.rule {
            LabelRule::Masked(masking) => {
                let stream = Stream::new(draw.seed, MASKING_STREAM);
                let vocabulary = self.vocabulary.unwrap_or_default();
                let mut labels = vec![0; features.len()];
                let examples =
                    features.chunks_exact_mut(width.max(1)).zip(labels.chunks_exact_mut(width.max(1)));
                for ((tokens, labels), &index) in examples.zip(indices) {
                    masking.apply(&stream, draw.epoch, u64::from(index), vocabulary, tokens, labels);
                }
                labels
            }
            LabelRule::NextToken | LabelRule::Given => fill(indices, width, |index, out| copy(index, 1, out)),
        };
        Gathered { features: Values::Integers(features), labels: Values::Integers(labels) }
    }
}

/// Numbers from which on the rows of a batch are shared among workers.
const SHARED: usize = 1 << 16;

/// One row of `width` for each index. Workers take whole rows, so that how many they are changes nothing.
fn fill<T: Copy + Default + Send>(
    indices: &[u32],
    width: usize,
    row: impl Fn(u32, &mut [T]) + Sync,
) -> Vec<T> {
    let mut out = vec![T::default(); indices.len() * width];
    if out.len() < SHARED {
        out.chunks_exact_mut(width.max(1)).zip(indices).for_each(|(out, index)| row(*index, out));
    } else {
        out.par_chunks_exact_mut(width.max(1)).zip(indices).for_each(|(out, index)| row(*index, out));
    }
    out
}

fn rows<T: Copy + Default + Send + Sync>(values: &[T], width: usize, indices: &[u32]) -> Vec<T> {
    fill(indices, width, |index, out| {
        let start = index as usize * width;
        out.copy_from_slice(&values[start..start + width]);
    })
}
