//! Memory of values: floats or integers, owned.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Bytes of a line of a cache.
const LINE: usize = 64;

/// Floats whose first one begins a line of a cache where they were made here: a vector register of such memory is read and written in one
/// piece, where memory as the allocator gives it has every register of 64 bytes in two lines, and an update takes a tenth longer.
#[derive(Default)]
pub struct Floats {
    memory: Vec<f32>,
    start: usize,
    length: usize,
}

impl Floats {
    /// Zeros. They are taken as such, and cost nothing until somebody touches them.
    pub fn zeros(length: usize) -> Self {
        if length == 0 {
            return Self::default();
        }
        let memory = vec![0.0; length + LINE / size_of::<f32>() - 1];
        // Nowhere is a valid answer, and then nothing is aligned.
        let start = memory.as_ptr().align_offset(LINE);
        let start = if start + length <= memory.len() { start } else { 0 };
        Self { memory, start, length }
    }

    /// Forgets all but the first so many.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Makes room for at least this many, zeros behind those that are there.
    pub fn grow(&mut self, length: usize) {
        if self.length < length {
            let mut grown = Self::zeros(length);
            grown[..self.length].copy_from_slice(self);
            *self = grown;
        }
    }

    /// Becomes a copy of others, in the memory that is there if it is enough.
    pub fn copy_from(&mut self, others: &[f32]) {
        if self.memory.len() - self.start < others.len() {
            *self = Self::zeros(others.len());
        }
        self.length = others.len();
        self.copy_from_slice(others);
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl Clone for Floats {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.length);
        copy.copy_from_slice(self);
        copy
    }
}

impl PartialEq for Floats {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Floats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// As they lie, wherever that is.
impl From<Vec<f32>> for Floats {
    fn from(memory: Vec<f32>) -> Self {
        let length = memory.len();
        Self { memory, start: 0, length }
    }
}

impl FromIterator<f32> for Floats {
    fn from_iter<I: IntoIterator<Item = f32>>(values: I) -> Self {
        values.into_iter().collect::<Vec<f32>>().into()
    }
}

/// Elements of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// Floats of any format, held in f32.
    Float(Floats),
    /// Labels, pool indices, counters.
    Integer(Vec<i32>),
}

impl Default for Buffer {
    fn default() -> Self {
        Self::Float(Floats::default())
    }
}

impl Buffer {
    /// These floats, as they lie.
    pub fn of(values: Vec<f32>) -> Self {
        Self::Float(values.into())
    }

    /// Zeros.
    pub fn zeros(elements: usize, integer: bool) -> Self {
        if integer { Self::Integer(vec![0; elements]) } else { Self::Float(Floats::zeros(elements)) }
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Integer(values) => values.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for at least this many elements.
    pub fn grow(&mut self, elements: usize) {
        match self {
            Self::Float(values) => values.grow(elements),
            Self::Integer(values) if values.len() < elements => values.resize(elements, 0),
            Self::Integer(_) => {}
        }
    }

    /// The first `elements` floats; empty for integers, which the lowering never mixes up.
    pub fn floats(&self, elements: usize) -> &[f32] {
        match self {
            Self::Float(values) => values.get(..elements).unwrap_or_default(),
            Self::Integer(_) => &[],
        }
    }

    /// The first `elements` floats, to write.
    pub fn floats_mut(&mut self, elements: usize) -> &mut [f32] {
        match self {
            Self::Float(values) => values.get_mut(..elements).unwrap_or_default(),
            Self::Integer(_) => &mut [],
        }
    }

    /// The first `elements` integers; empty for floats.
    pub fn integers(&self, elements: usize) -> &[i32] {
        match self {
            Self::Integer(values) => values.get(..elements).unwrap_or_default(),
            Self::Float(_) => &[],
        }
    }

    /// The first `elements` integers, to write.
    pub fn integers_mut(&mut self, elements: usize) -> &mut [i32] {
        match self {
            Self::Integer(values) => values.get_mut(..elements).unwrap_or_default(),
            Self::Float(_) => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Floats, LINE};

    #[test]
    fn floats_begin_a_line_and_keep_their_numbers() {
        let is_aligned = |floats: &Floats| floats.as_ptr().addr().is_multiple_of(LINE);
        for length in [1, 15, 16, 17, 1000] {
            let mut floats = Floats::zeros(length);
            assert!(is_aligned(&floats) && *floats == vec![0.0; length]);
            let numbers: Vec<f32> = (0..length).map(|number| number as f32).collect();
            floats.copy_from(&numbers);
            let copy = floats.clone();
            floats.grow(2 * length);
            assert!(is_aligned(&floats) && is_aligned(&copy) && *copy == numbers);
            assert_eq!(floats[..length], numbers);
            assert_eq!(floats[length..], vec![0.0; length]);
            floats.truncate(length);
            assert_eq!(floats, copy);
            floats.copy_from(&[]);
            assert_eq!(floats, Floats::default());
            assert_eq!(Floats::from(numbers), copy);
        }
    }
}
