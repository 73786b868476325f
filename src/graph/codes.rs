//! The permanent codes of model faults. Invariant: a number is never used again for another fault.

use crate::diag::{Code, codes};

/// A layer's input has a shape that the layer cannot take.
pub const SHAPE: Code = codes::GRAPH_SHAPE;
/// An axis is out of range, named twice, or the batch.
pub const AXIS: Code = codes::GRAPH_AXIS;
/// A reshape changes the number of elements.
pub const RESHAPE: Code = codes::GRAPH_RESHAPE;
/// A kernel is larger than its padded input.
pub const KERNEL: Code = codes::GRAPH_KERNEL;
/// Groups do not divide the channels.
pub const GROUPS: Code = codes::GRAPH_GROUPS;
/// Parallel chains end with shapes that cannot meet.
pub const MEETING: Code = codes::GRAPH_MEETING;
/// The model's output is not one row of classes an example.
pub const CLASSES: Code = codes::GRAPH_CLASSES;
/// A tensor is too large.
pub const TOO_LARGE: Code = codes::GRAPH_TOO_LARGE;
/// A model, or a block of parallel chains, holds nothing.
pub const EMPTY: Code = codes::GRAPH_EMPTY;
/// Two layers that own parameters or random numbers have one path.
pub const DUPLICATE: Code = codes::GRAPH_DUPLICATE;
/// The model's output does not have the target's shape.
pub const TARGET: Code = codes::GRAPH_TARGET;
/// A size is zero.
pub const ZERO: Code = codes::GRAPH_ZERO;
/// The model has no parameters.
pub const UNTRAINABLE: Code = codes::GRAPH_UNTRAINABLE;
/// Batch normalisation has one value a channel.
pub const ONE_VALUE: Code = codes::GRAPH_ONE_VALUE;
/// A pooling window can lie in the border alone.
pub const POOL_PADDING: Code = codes::GRAPH_POOL_PADDING;
/// A number is out of its range.
pub const NUMBER: Code = codes::GRAPH_NUMBER;
/// A shared parameter is not there, or of another shape.
pub const SHARE: Code = codes::GRAPH_SHARE;
/// Nothing uses a layer's result.
pub const UNUSED: Code = codes::GRAPH_UNUSED;
/// A glob over parameters matches none.
pub const GLOB: Code = codes::GRAPH_GLOB;
/// Every parameter is frozen.
pub const FROZEN: Code = codes::GRAPH_FROZEN;
