//! Memory of values: floats or integers, owned.

/// Elements of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// Floats of any format, held in f32.
    Float(Vec<f32>),
    /// Labels, pool indices, counters.
    Integer(Vec<i32>),
}

impl Default for Buffer {
    fn default() -> Self {
        Self::Float(Vec::new())
    }
}

impl Buffer {
    /// Zeros.
    pub fn zeros(elements: usize, integer: bool) -> Self {
        if integer { Self::Integer(vec![0; elements]) } else { Self::Float(vec![0.0; elements]) }
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
            Self::Float(values) if values.len() < elements => values.resize(elements, 0.0),
            Self::Integer(values) if values.len() < elements => values.resize(elements, 0),
            _ => {}
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
