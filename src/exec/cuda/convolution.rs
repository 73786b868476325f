//! Convolutions by the vendor's library, as data: what is asked for, and which of them a device makes.
//!
//! Images lie channels last, filters (output channel, kernel row, kernel column, channel of the group); all dense and in one format.
//! **Invariant: how a convolution is made is settled before the first launch**, from its shape and the library alone: nothing is timed.

use crate::exec::cpu::convolution::Geometry;
use crate::graph::DType;
use std::fmt;

/// Which of the three tensors is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The output from input and filter.
    Forward,
    /// The gradient of the input, from filter and gradient of the output.
    Input,
    /// The gradient of the filter, from input and gradient of the output.
    Weight,
}

/// A convolution without its addresses: all that the choice of an algorithm may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What is asked for.
    pub direction: Direction,
    /// Sizes.
    pub geometry: Geometry,
    /// Of all three tensors in memory. `Tf32` is f32 memory that tensor cores may round; `F32` is computed in f32.
    pub format: DType,
    /// Bytes that an algorithm may use beside; one that needs more is not taken.
    pub workspace: usize,
}

/// A library convolution. Sums are in f32 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// What is asked for.
    pub shape: Shape,
    /// Address of the input or of its gradient: (N, H, W, C).
    pub x: u64,
    /// Address of the filter or of its gradient: (K, kernel rows, kernel columns, C / groups).
    pub filter: u64,
    /// Address of the output or of its gradient: (N, output rows, output columns, K).
    pub y: u64,
    /// Whether what is in the result is added before it is rounded.
    pub accumulate: bool,
    /// Address of the workspace.
    pub workspace: u64,
}

impl Shape {
    /// Elements of input, filter and output.
    pub fn elements(&self) -> [usize; 3] {
        let Geometry { batch, height, width, channels_in, channels_out, kernel, groups, .. } = self.geometry;
        let [rows, columns] = self.geometry.output_size();
        [
            batch * height * width * channels_in,
            channels_out * kernel[0] * kernel[1] * (channels_in / groups.max(1)),
            batch * rows * columns * channels_out,
        ]
    }

    /// What is computed, without the sizes.
    pub fn name(&self) -> &'static str {
        match self.direction {
            Direction::Forward => "library convolution",
            Direction::Input => "library convolution, input gradient",
            Direction::Weight => "library convolution, weight gradient",
        }
    }
}

impl fmt::Display for Shape {
    /// Images and input, output channels, filter, steps other than the usual ones, format.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry { batch, height, width, channels_in, channels_out, kernel, .. } = self.geometry;
        let Geometry { stride, padding, dilation, groups, .. } = self.geometry;
        write!(formatter, "{batch}×{height}×{width}×{channels_in} to {channels_out}")?;
        write!(formatter, " {}×{}", kernel[0], kernel[1])?;
        for (name, steps, usual) in
            [("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)]
        {
            match steps {
                [down, right] if down == usual && right == usual => {}
                [down, right] if down == right => write!(formatter, " {name} {down}")?,
                [down, right] => write!(formatter, " {name} {down}, {right}")?,
            }
        }
        if groups != 1 {
            write!(formatter, " groups {groups}")?;
        }
        write!(formatter, " {}", self.format)
    }
}

/// Which convolutions a device's library makes; the others are made of products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolutions {
    there: bool,
    refused: Vec<Shape>,
}

impl Convolutions {
    /// Those of a device that has a library for them and has not been asked, or that has none.
    pub fn new(there: bool) -> Self {
        Self { there, refused: Vec::new() }
    }

    /// All but these, which the library has no algorithm for that repeats its bits and keeps to its workspace.
    pub fn without(refused: Vec<Shape>) -> Self {
        Self { there: true, refused }
    }

    /// Whether the library makes it.
    pub fn take(&self, shape: &Shape) -> bool {
        self.there && !self.refused.contains(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_says_its_sizes() {
        let geometry = Geometry {
            batch: 2,
            height: 9,
            width: 11,
            channels_in: 8,
            channels_out: 16,
            kernel: [3, 3],
            stride: [2, 2],
            padding: [1, 0],
            dilation: [1, 1],
            groups: 2,
        };
        let shape = Shape { direction: Direction::Input, geometry, format: DType::F16, workspace: 0 };
        assert_eq!(shape.to_string(), "2×9×11×8 to 16 3×3 stride 2 padding 1, 0 groups 2 f16");
        // The output has (9 + 2 - 3) / 2 + 1 rows and (11 - 3) / 2 + 1 columns.
        assert_eq!(shape.elements(), [2 * 9 * 11 * 8, 16 * 9 * 4, 2 * 5 * 5 * 16]);
        let refusing = Convolutions::without(vec![shape]);
        assert!(!refusing.take(&shape) && refusing.take(&Shape { format: DType::Bf16, ..shape }));
        assert!(Convolutions::new(true).take(&shape) && !Convolutions::new(false).take(&shape));
    }
}
