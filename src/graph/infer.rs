//! Shape rules: from the shapes of an op's operands to the shapes of its results, one function for each op.
//!
//! All arithmetic is checked. A fault is a value with a code and words, never a panic; the caller adds the place.

mod attention;
mod sequence;

pub use attention::{HeadSizes, attention, disentangled_bias, matrix_product, relative_position_bias};
pub use sequence::{
    embedding, gather, mean, position_embedding, rotary_position, sequence, slice, upsample2d,
};

use super::codes;
use crate::diag::Code;
use crate::diag::number::counted;

/// Sizes, batch first.
pub type Shape = Vec<usize>;

/// More elements than this in one tensor is a fault: 2^40, four tebibytes of f32.
pub const LARGEST_TENSOR: usize = 1 << 40;

/// Why operands do not fit an op; the layer and its place are added by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The permanent code.
    pub code: Code,
    /// What was found and what was expected.
    pub message: String,
    /// What to type next, if that is known.
    pub help: Option<String>,
}

impl Fault {
    /// A fault without advice.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// `[64, 1, 8, 8]`.
pub fn text(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Number of elements of a shape.
///
/// # Errors
/// AMP0308 when it overflows or exceeds [`LARGEST_TENSOR`].
pub fn elements(shape: &[usize]) -> Result<usize, Fault> {
    shape
        .iter()
        .try_fold(1_usize, |product, size| product.checked_mul(*size))
        .filter(|count| *count <= LARGEST_TENSOR)
        .ok_or_else(|| {
            Fault::new(
                codes::TOO_LARGE,
                format!("a tensor of shape {} has more than 2^40 elements", text(shape)),
            )
            .help("make the layer, its input or the batch smaller")
        })
}

/// Geometry of a window that slides over H and W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Height and width.
    pub kernel: [usize; 2],
    /// Step.
    pub stride: [usize; 2],
    /// Added on each side.
    pub padding: [usize; 2],
    /// Distance between taps.
    pub dilation: [usize; 2],
}

/// Results of a window along H and W: floor((size + 2·padding − dilation·(kernel − 1) − 1) / stride) + 1.
///
/// # Errors
/// AMP0312 for a size of zero, AMP0304 for a kernel that is larger than its padded input, AMP0308 for overflow.
pub fn window(height_width: [usize; 2], window: Window) -> Result<[usize; 2], Fault> {
    let Window { kernel, stride, padding, dilation } = window;
    for (name, sizes) in [("kernel", kernel), ("stride", stride), ("dilation", dilation)] {
        if sizes.contains(&0) {
            return Err(zero(name));
        }
    }
    let mut result = [0; 2];
    for axis in 0..2 {
        let too_large = || {
            Fault::new(
                codes::TOO_LARGE,
                format!(
                    "kernel {}, padding {} or dilation {} is too large",
                    kernel[axis], padding[axis], dilation[axis]
                ),
            )
        };
        let padded = padding[axis]
            .checked_mul(2)
            .and_then(|both| both.checked_add(height_width[axis]))
            .ok_or_else(too_large)?;
        let reach = dilation[axis]
            .checked_mul(kernel[axis] - 1)
            .and_then(|reach| reach.checked_add(1))
            .ok_or_else(too_large)?;
        if reach > padded {
            let [height, width] = height_width;
            return Err(Fault::new(
                codes::KERNEL,
                format!(
                    "the kernel reaches over {reach} {} but the input of {height}×{width} has {padded} with its padding",
                    ["rows", "columns"][axis],
                ),
            )
            .help("use a smaller kernel, more padding, or fewer layers that shrink the picture before it"));
        }
        result[axis] = (padded - reach) / stride[axis] + 1;
    }
    Ok(result)
}

fn zero(name: &str) -> Fault {
    Fault::new(codes::ZERO, format!("{name} is 0, and must be at least 1"))
}

/// Takes [N, C, H, W] apart.
///
/// # Errors
/// AMP0301 for another number of axes.
pub fn planes(x: &[usize], what: &str) -> Result<[usize; 4], Fault> {
    <[usize; 4]>::try_from(x).map_err(|_| {
        Fault::new(
            codes::SHAPE,
            format!("{what} wants [batch, channels, height, width], and its input is {}", text(x)),
        )
        .help("give `data` a `shape CHANNELS HEIGHT WIDTH`, or put a `reshape` before the layer")
    })
}

/// y of [x: (…, in), weight: (out, in)].
///
/// # Errors
/// AMP0301 when the last axis is not the weight's, AMP0312 for a size of zero.
pub fn linear(x: &[usize], weight: &[usize]) -> Result<Shape, Fault> {
    let [out, input] = weight else {
        return Err(Fault::new(
            codes::SHAPE,
            format!("the weight of a linear layer has shape {}, not [out, in]", text(weight)),
        ));
    };
    if *out == 0 {
        return Err(zero("the number of output features"));
    }
    match x.split_last() {
        Some((last, rest)) if !rest.is_empty() && last == input => {
            let mut shape = rest.to_vec();
            shape.push(*out);
            Ok(shape)
        }
        _ => Err(Fault::new(
            codes::SHAPE,
            format!(
                "a linear layer with a weight of shape {} wants [batch, …, {input}], and its input is {}",
                text(weight),
                text(x)
            ),
        )),
    }
}

/// y of [x: (N, C, H, W), weight: (O, C/groups, KH, KW)].
///
/// # Errors
/// AMP0301 for shapes that do not fit, AMP0305 for groups that do not divide, and those of [`window`].
pub fn conv2d(
    x: &[usize],
    weight: &[usize],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
) -> Result<Shape, Fault> {
    let [batch, channels, height, width] = planes(x, "a convolution")?;
    let [out, per_group, kernel_height, kernel_width] = planes(weight, "the weight of a convolution")?;
    if groups == 0 {
        return Err(zero("groups"));
    }
    if out == 0 {
        return Err(zero("the number of output channels"));
    }
    if !channels.is_multiple_of(groups) || !out.is_multiple_of(groups) {
        return Err(Fault::new(
            codes::GROUPS,
            format!(
                "{groups} groups do not divide {} and {} evenly",
                counted(channels, "input channel"),
                counted(out, "output channel")
            ),
        )
        .help("choose groups that divide both numbers"));
    }
    if per_group.checked_mul(groups) != Some(channels) {
        return Err(Fault::new(
            codes::SHAPE,
            format!(
                "a weight of shape {} in {} does not fit {}",
                text(weight),
                counted(groups, "group"),
                counted(channels, "channel")
            ),
        ));
    }
    let kernel = [kernel_height, kernel_width];
    let [height, width] = window([height, width], Window { kernel, stride, padding, dilation })?;
    Ok(vec![batch, out, height, width])
}

/// y of a pooling layer on [x: (N, C, H, W)].
///
/// # Errors
/// AMP0301 for another number of axes, AMP0315 for padding that a window could lie in wholly, and those of [`window`].
pub fn pool2d(
    x: &[usize],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
) -> Result<Shape, Fault> {
    let [batch, channels, height, width] = planes(x, "a pooling layer")?;
    for axis in 0..2 {
        if kernel[axis] > 0 && padding[axis] > kernel[axis] / 2 {
            return Err(Fault::new(
                codes::POOL_PADDING,
                format!("padding {} is more than half of the kernel {}", padding[axis], kernel[axis]),
            )
            .help("a window would lie in the border alone and have no value; use less padding"));
        }
    }
    let [height, width] = window([height, width], Window { kernel, stride, padding, dilation: [1, 1] })?;
    Ok(vec![batch, channels, height, width])
}

/// Number of channels that batch normalisation of [x: (N, C, …)] has.
///
/// # Errors
/// AMP0301 for a missing channel axis.
pub fn batch_norm(x: &[usize]) -> Result<usize, Fault> {
    match x {
        [_, channels, ..] => Ok(*channels),
        _ => Err(Fault::new(
            codes::SHAPE,
            format!("batch normalisation wants [batch, channels, …], and its input is {}", text(x)),
        )),
    }
}

/// Whether each channel has more than one value to normalise over in training.
///
/// # Errors
/// AMP0314 when it has not: the variance of one value is 0 and its unbiased form is 0/0.
pub fn batch_norm_training(x: &[usize]) -> Result<(), Fault> {
    let channels = batch_norm(x)?.max(1);
    if elements(x)? / channels > 1 {
        return Ok(());
    }
    Err(Fault::new(
        codes::ONE_VALUE,
        format!(
            "batch normalisation in training wants more than one value a channel, and its input is {}",
            text(x)
        ),
    )
    .help("use a batch of at least 2, or `layer-norm`"))
}

/// Number of features that layer normalisation over the last axis has.
///
/// # Errors
/// AMP0301 for a missing feature axis.
pub fn layer_norm(x: &[usize]) -> Result<usize, Fault> {
    match x {
        [_, .., features] => Ok(*features),
        _ => Err(Fault::new(
            codes::SHAPE,
            format!("layer normalisation wants [batch, …, features], and its input is {}", text(x)),
        )),
    }
}

/// Number of channels that group normalisation of [x: (N, C, …)] has.
///
/// # Errors
/// AMP0301 for a missing channel axis, AMP0305 for groups that do not divide the channels, AMP0312 for no group or nothing
/// to normalise.
pub fn group_norm(x: &[usize], groups: usize) -> Result<usize, Fault> {
    let [_, channels, ..] = x else {
        let message = format!("group normalisation wants [batch, channels, …], and its input is {}", text(x));
        return Err(Fault::new(codes::SHAPE, message));
    };
    if groups == 0 {
        return Err(zero("groups"));
    }
    if x[1..].contains(&0) {
        return Err(zero("a size of the input"));
    }
    if !channels.is_multiple_of(groups) {
        let message = format!("{groups} groups do not divide {} evenly", counted(*channels, "channel"));
        return Err(Fault::new(codes::GROUPS, message).help("choose groups that divide the channels"));
    }
    Ok(*channels)
}

/// The shape that two operands are stretched to, aligned at their last axes.
///
/// # Errors
/// AMP0306 when two sizes differ and neither is 1.
pub fn broadcast(left: &[usize], right: &[usize]) -> Result<Shape, Fault> {
    let rank = left.len().max(right.len());
    let size =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    (0..rank)
        .map(|axis| match (size(left, axis), size(right, axis)) {
            (one, other) | (other, one) if one == other || one == 1 => Ok(other),
            _ => Err(Fault::new(codes::MEETING, format!("{} and {} cannot be combined element by element", text(left), text(right)))
                .help("make the chains end with the same shape, for example with a `linear` or a 1×1 `conv2d` on the shorter one")),
        })
        .collect()
}

/// The joined shape of several operands.
///
/// # Errors
/// AMP0309 for no operand, AMP0302 for an axis out of range or the batch axis, AMP0306 when another axis differs.
pub fn concatenate(shapes: &[&[usize]], axis: usize) -> Result<Shape, Fault> {
    let Some((first, rest)) = shapes.split_first() else {
        return Err(Fault::new(codes::EMPTY, "there is nothing to concatenate"));
    };
    checked_axis(first, axis, "concatenation")?;
    let mut joined = first.to_vec();
    for shape in rest {
        let fits = shape.len() == first.len()
            && (0..first.len()).all(|other| other == axis || shape[other] == first[other]);
        if !fits {
            return Err(Fault::new(
                codes::MEETING,
                format!("{} and {} cannot be joined along axis {axis}", text(first), text(shape)),
            )
            .help("all axes but the joined one must have the same size"));
        }
        joined[axis] = joined[axis]
            .checked_add(shape[axis])
            .ok_or_else(|| Fault::new(codes::TOO_LARGE, format!("axis {axis} becomes too large")))?;
    }
    Ok(joined)
}

/// Checks an axis that may not be the batch.
///
/// # Errors
/// AMP0302 for an axis out of range, and for axis 0.
pub fn checked_axis(shape: &[usize], axis: usize, what: &str) -> Result<(), Fault> {
    if axis == 0 {
        return Err(Fault::new(codes::AXIS, format!("{what} cannot use axis 0, which is the batch"))
            .help("count axes from the batch: the first axis of an example is 1"));
    }
    if axis >= shape.len() {
        return Err(Fault::new(
            codes::AXIS,
            format!(
                "axis {axis} is out of range: the input {} has axes 0 to {}",
                text(shape),
                shape.len().saturating_sub(1)
            ),
        ));
    }
    Ok(())
}

/// The shape after all axes from `start` on were joined.
///
/// # Errors
/// AMP0302 for an axis out of range or the batch axis, AMP0308 for overflow.
pub fn flatten(x: &[usize], start: usize) -> Result<Shape, Fault> {
    checked_axis(x, start, "flatten")?;
    let mut shape = x[..start].to_vec();
    shape.push(elements(&x[start..])?);
    Ok(shape)
}

/// The shape [batch, shape…] of a reshape.
///
/// # Errors
/// AMP0303 when the number of elements changes, AMP0308 for overflow.
pub fn reshape(x: &[usize], shape: &[usize]) -> Result<Shape, Fault> {
    let (batch, rest) =
        x.split_first().ok_or_else(|| Fault::new(codes::SHAPE, "a scalar cannot be reshaped"))?;
    let (found, wanted) = (elements(rest)?, elements(shape)?);
    if found != wanted {
        return Err(Fault::new(
            codes::RESHAPE,
            format!(
                "an example of shape {} has {found} elements, and the new shape {} has {wanted}",
                text(rest),
                text(shape)
            ),
        ));
    }
    let mut result = vec![*batch];
    result.extend_from_slice(shape);
    Ok(result)
}

/// The shape with permuted axes.
///
/// # Errors
/// AMP0302 when `axes` is not a permutation of the input's axes.
pub fn transpose(x: &[usize], axes: &[usize]) -> Result<Shape, Fault> {
    let mut seen = vec![false; x.len()];
    for axis in axes {
        match seen.get_mut(*axis) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => {
                return Err(Fault::new(codes::AXIS, format!("axis {axis} is named twice in {}", text(axes))));
            }
            None => {
                return Err(Fault::new(
                    codes::AXIS,
                    format!("axis {axis} is out of range for the input {}", text(x)),
                ));
            }
        }
    }
    if axes.len() != x.len() {
        return Err(Fault::new(
            codes::AXIS,
            format!("{} names {} axes, and the input {} has {}", text(axes), axes.len(), text(x), x.len()),
        ));
    }
    Ok(axes.iter().map(|axis| x[*axis]).collect())
}

/// Rows of [logits: (N, …, C)] with one label a row: N·….
///
/// # Errors
/// AMP0307 for other shapes.
pub fn cross_entropy(logits: &[usize], labels: &[usize]) -> Result<usize, Fault> {
    match logits.split_last() {
        Some((classes, rows)) if !rows.is_empty() && rows == labels && *classes > 0 => elements(rows),
        _ => {
            let wanted = if labels.len() < 2 { "[batch, classes]" } else { "[batch, positions, classes]" };
            let help = match labels.len() {
                _ if !logits.is_empty() && logits.first() != labels.first() => {
                    "axis 0 is the batch, and a layer has replaced it: what stands for all examples, such as `learned`, \
                     belongs in a chain of `parallel` beside what comes from the input"
                }
                0 | 1 => "end the model with `flatten` and a `linear` layer whose outputs are the classes",
                _ => "end the model with a `linear` layer over the last axis whose outputs are the classes",
            };
            let message = format!(
                "cross-entropy wants a model output of shape {wanted} with one label a row; the output is {} and the labels are {}",
                text(logits),
                text(labels)
            );
            Err(Fault::new(codes::CLASSES, message).help(help))
        }
    }
}

#[cfg(test)]
mod tests;
