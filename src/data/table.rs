//! A data set in memory: features and labels, one row an example.
//!
//! Invariant: after [`Table::new`] features and labels have equally many examples, at least one, and every feature is
//! finite.

use super::{DataFault, codes};
use crate::diag::number::counted;

/// Features, labels and their shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// How many examples.
    pub length: usize,
    /// The shape of one example's features.
    pub shape: Vec<usize>,
    /// Features, [length, shape…], the last axis fastest.
    pub features: Vec<f32>,
    /// The shape of one example's label; empty for one class an example.
    pub label_shape: Vec<usize>,
    /// Labels, [length, label_shape…].
    pub labels: Labels,
}

/// Labels of all examples.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// Class indices.
    Classes(Vec<i32>),
    /// Numbers to be predicted.
    Targets(Vec<f32>),
}

impl Labels {
    /// How many numbers.
    pub fn len(&self) -> usize {
        match self {
            Self::Classes(labels) => labels.len(),
            Self::Targets(labels) => labels.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The labels of these examples, in this order; `width` numbers are one example's.
    #[must_use]
    pub fn select(&self, indices: &[u32], width: usize) -> Self {
        match self {
            Self::Classes(labels) => Self::Classes(rows(labels, width, indices)),
            Self::Targets(labels) => Self::Targets(rows(labels, width, indices)),
        }
    }
}

impl Table {
    /// Joins features and labels, both with the count of examples as first axis.
    ///
    /// # Errors
    /// Codes 0729 (shapes that do not fit) and 0733 (no example).
    pub fn new(features: (Vec<usize>, Vec<f32>), labels: (Vec<usize>, Labels)) -> Result<Self, DataFault> {
        let ((shape, features), (label_shape, labels)) = (features, labels);
        let (Some((&length, shape)), Some((&label_length, label_shape))) =
            (shape.split_first(), label_shape.split_first())
        else {
            return Err(DataFault::new(
                codes::SHAPE,
                format!(
                    "found features of shape {shape:?} and labels of shape {label_shape:?}, expected the examples as first axis"
                ),
            ));
        };
        if length != label_length {
            return Err(DataFault::new(
                codes::SHAPE,
                format!(
                    "found {length} with features and {label_length} with labels, expected as many of each",
                    length = counted(length, "example")
                ),
            )
            .help("name the files that belong together"));
        }
        if length == 0 || features.is_empty() || labels.is_empty() {
            return Err(DataFault::new(
                codes::EMPTY,
                format!(
                    "found {length} of shape {shape:?}, expected at least one number",
                    length = counted(length, "example")
                ),
            ));
        }
        if u32::try_from(length).is_err() {
            return Err(DataFault::new(
                codes::TOO_LARGE,
                format!("found {length}, expected at most {}", u32::MAX, length = counted(length, "example")),
            ));
        }
        Ok(Self { length, shape: shape.to_vec(), features, label_shape: label_shape.to_vec(), labels })
    }

    /// Numbers in one example's features.
    pub fn width(&self) -> usize {
        self.features.len() / self.length
    }

    /// Numbers in one example's label.
    pub fn label_width(&self) -> usize {
        self.labels.len() / self.length
    }

    /// Gives every example another shape of as many numbers.
    ///
    /// # Errors
    /// Code 0729.
    pub fn reshape(&mut self, shape: &[usize]) -> Result<(), DataFault> {
        let wanted = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        if wanted == Some(self.width()) {
            self.shape = shape.to_vec();
            return Ok(());
        }
        Err(DataFault::new(
            codes::SHAPE,
            format!(
                "found {} in an example (shape {:?}), expected {} for the shape {shape:?}",
                counted(self.width(), "number"),
                self.shape,
                wanted.map_or_else(|| "more than memory can hold".to_owned(), |count| count.to_string()),
            ),
        )
        .help("the sizes of `shape` multiply to the numbers of one example, label not counted"))
    }

    /// The examples with these indices, in this order; all indices are below the length.
    #[must_use]
    pub fn select(&self, indices: &[u32]) -> Self {
        Self {
            length: indices.len(),
            shape: self.shape.clone(),
            features: rows(&self.features, self.width(), indices),
            label_shape: self.label_shape.clone(),
            labels: self.labels.select(indices, self.label_width()),
        }
    }
}

fn rows<T: Copy>(values: &[T], width: usize, indices: &[u32]) -> Vec<T> {
    let mut chosen = Vec::with_capacity(indices.len() * width);
    for &index in indices {
        let start = index as usize * width;
        chosen.extend_from_slice(&values[start..start + width]);
    }
    chosen
}
