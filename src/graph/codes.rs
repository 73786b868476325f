//! The permanent codes of model faults. Invariant: a number is never used again for another fault.

use crate::diag::Code;

/// A layer's input has a shape that the layer cannot take.
pub const SHAPE: Code = Code(301);
/// An axis is out of range, named twice, or the batch.
pub const AXIS: Code = Code(302);
/// A reshape changes the number of elements.
pub const RESHAPE: Code = Code(303);
/// A kernel is larger than its padded input.
pub const KERNEL: Code = Code(304);
/// Groups do not divide the channels.
pub const GROUPS: Code = Code(305);
/// Parallel chains end with shapes that cannot meet.
pub const MEETING: Code = Code(306);
/// The model's output is not one row of classes an example.
pub const CLASSES: Code = Code(307);
/// A tensor is too large.
pub const TOO_LARGE: Code = Code(308);
/// A model, or a block of parallel chains, holds nothing.
pub const EMPTY: Code = Code(309);
/// Two layers that own parameters or random numbers have one path.
pub const DUPLICATE: Code = Code(310);
/// The model's output does not have the target's shape.
pub const TARGET: Code = Code(311);
/// A size is zero.
pub const ZERO: Code = Code(312);
/// The model has no parameters.
pub const UNTRAINABLE: Code = Code(313);
/// Batch normalisation has one value a channel.
pub const ONE_VALUE: Code = Code(314);
/// A pooling window can lie in the border alone.
pub const POOL_PADDING: Code = Code(315);
/// A number is out of its range.
pub const NUMBER: Code = Code(316);
