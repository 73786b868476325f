//! One array as a file holds it: shape, kind of number, bytes; and its way to features and labels.
//!
//! IDX, NPY and safetensors all end here. Invariant: a number becomes an f32 feature only if it is finite, and an
//! integer only if f32 holds it exactly; a floating number is rounded once, to nearest.

use super::table::Labels;
use super::tokens::{TokenVec, outside};
use super::{DataFault, codes};
use crate::arithmetic::half;

/// A kind of number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// One byte, 0 or not.
    Bool,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Number {
    /// Bytes of one.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A value of any kind, without loss.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Integer(i128),
    Single(f32),
    Double(f64),
}

/// An array in a file, the last axis fastest unless `columns_first`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    /// Sizes of the axes; the first counts examples.
    pub shape: Vec<usize>,
    /// The kind of its numbers.
    pub number: Number,
    /// True when the numbers' bytes are big endian.
    pub big_endian: bool,
    /// True when the first axis is fastest (Fortran order).
    pub columns_first: bool,
    /// Its bytes: the product of the shape times the size of a number.
    pub bytes: &'a [u8],
}

/// The product of a shape times the size of a number; `None` on overflow.
pub fn bytes_of_shape(shape: &[usize], number: Number) -> Option<usize> {
    shape.iter().try_fold(number.size(), |product, size| product.checked_mul(*size))
}

impl Array<'_> {
    /// All numbers as features, the last axis fastest.
    ///
    /// # Errors
    /// Code 0724 with the example, counted from 0, and the number found.
    pub fn features(&self) -> Result<(Vec<usize>, Vec<f32>), DataFault> {
        let per_example = self.per_example();
        if self.number == Number::U8 && !self.columns_first {
            // Pictures: every byte is an f32, and there are many of them.
            return Ok((self.shape.clone(), self.bytes.iter().map(|byte| f32::from(*byte)).collect()));
        }
        let mut features = Vec::with_capacity(self.count());
        for (index, value) in self.values().enumerate() {
            features.push(feature(value).map_err(|found| {
                DataFault::new(
                    codes::NUMBER,
                    format!(
                        "found {found} at element {} of example {} (counted from 0), expected a finite number that f32 holds",
                        index % per_example,
                        index / per_example
                    ),
                )
            })?);
        }
        Ok((self.shape.clone(), features))
    }

    /// All numbers as tokens below `vocabulary`, the last axis fastest.
    ///
    /// # Errors
    /// Code 0738 with the position, and for numbers that are no integers.
    pub fn tokens(&self, vocabulary: u32) -> Result<(Vec<usize>, TokenVec), DataFault> {
        let mut tokens = TokenVec::for_vocabulary(vocabulary);
        for (position, value) in self.values().enumerate() {
            match value {
                Value::Integer(token) if (0..i128::from(vocabulary)).contains(&token) => {
                    tokens.push(token as u32)
                }
                value => return Err(outside(written(value), position, vocabulary)),
            }
        }
        Ok((self.shape.clone(), tokens))
    }

    /// All numbers as labels: class indices below `classes`, or targets when that is `None`.
    ///
    /// # Errors
    /// Codes 0724 (targets) and 0725 (classes), with the example and the number found.
    pub fn labels(&self, classes: Option<u32>) -> Result<(Vec<usize>, Labels), DataFault> {
        let Some(classes) = classes else {
            let (shape, targets) = self.features()?;
            // One target an example is a vector of one, as a model's output is.
            let shape = if shape.len() == 1 { vec![shape[0], 1] } else { shape };
            return Ok((shape, Labels::Targets(targets)));
        };
        let per_example = self.per_example();
        let mut labels = Vec::with_capacity(self.count());
        for (index, value) in self.values().enumerate() {
            labels.push(class(value, classes).ok_or_else(|| {
                DataFault::new(
                    codes::LABEL,
                    format!(
                        "found the label {} for example {} (counted from 0), expected an integer in 0..{classes}",
                        written(value),
                        index / per_example
                    ),
                )
                .help(LABEL_HELP)
            })?);
        }
        // A column of classes is a list of classes.
        let shape = if self.shape.get(1..) == Some(&[1]) { vec![self.shape[0]] } else { self.shape.clone() };
        Ok((shape, Labels::Classes(labels)))
    }

    fn count(&self) -> usize {
        self.bytes.len() / self.number.size()
    }

    fn per_example(&self) -> usize {
        self.shape.iter().skip(1).product::<usize>().max(1)
    }

    fn values(&self) -> impl Iterator<Item = Value> {
        let positions = self.columns_first.then(|| columns_first_positions(&self.shape, self.count()));
        (0..self.count())
            .map(move |index| self.value(positions.as_ref().map_or(index, |positions| positions[index])))
    }

    /// The number at a position in the file.
    fn value(&self, position: usize) -> Value {
        let size = self.number.size();
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.bytes[position * size..(position + 1) * size]);
        if self.big_endian {
            bytes[..size].reverse();
        }
        let word = u64::from_le_bytes(bytes);
        match self.number {
            Number::Bool => Value::Integer(i128::from(word != 0)),
            Number::U8 | Number::U16 | Number::U32 | Number::U64 => Value::Integer(i128::from(word)),
            Number::I8 => Value::Integer(i128::from(word as i8)),
            Number::I16 => Value::Integer(i128::from(word as i16)),
            Number::I32 => Value::Integer(i128::from(word as i32)),
            Number::I64 => Value::Integer(i128::from(word as i64)),
            Number::F16 => Value::Single(half::f16_to_f32(word as u16)),
            Number::Bf16 => Value::Single(half::bf16_to_f32(word as u16)),
            Number::F32 => Value::Single(f32::from_bits(word as u32)),
            Number::F64 => Value::Double(f64::from_bits(word)),
        }
    }
}

/// What to do about a wrong label.
pub(super) const LABEL_HELP: &str =
    "labels are counted from 0; raise `classes`, or leave it out to predict numbers";

/// A class index from a number; `None` unless it is an integer below `classes`.
pub(super) fn class_of(value: f64, classes: u32) -> Option<i32> {
    let inside = value >= 0.0 && value < f64::from(classes) && value.fract() == 0.0;
    inside.then_some(value as i64).and_then(|class| i32::try_from(class).ok())
}

fn class(value: Value, classes: u32) -> Option<i32> {
    match value {
        Value::Integer(value) if (0..i128::from(classes)).contains(&value) => i32::try_from(value).ok(),
        Value::Integer(_) => None,
        Value::Single(value) => class_of(f64::from(value), classes),
        Value::Double(value) => class_of(value, classes),
    }
}

/// The f32 for a number, or how it is shown in a fault.
fn feature(value: Value) -> Result<f32, String> {
    let single = match value {
        Value::Integer(integer) => {
            let single = integer as f32;
            return if single as i128 == integer { Ok(single) } else { Err(written(value)) };
        }
        Value::Single(single) => single,
        Value::Double(double) => double as f32,
    };
    if single.is_finite() { Ok(single) } else { Err(written(value)) }
}

fn written(value: Value) -> String {
    match value {
        Value::Integer(value) => value.to_string(),
        Value::Single(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
    }
}

/// For each element in last-axis-fastest order, its position in first-axis-fastest order.
fn columns_first_positions(shape: &[usize], count: usize) -> Vec<usize> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for size in shape {
        strides.push(stride);
        stride *= size;
    }
    let mut index = vec![0; shape.len()];
    let mut positions = Vec::with_capacity(count);
    for _ in 0..count {
        positions.push(index.iter().zip(&strides).map(|(index, stride)| index * stride).sum());
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    positions
}
