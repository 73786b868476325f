//! Shape rules of ops on sequences and parts of axes: picking rows, turning positions, slicing, averaging.

use super::super::codes;
use super::{Fault, Shape, checked_axis, elements, planes, text, zero};
use crate::diag::number::counted;

/// y of [weight: (V, C), index: (…)].
///
/// # Errors
/// AMP0301 for a weight that is no table or an index without a batch, AMP0312 for a size of zero.
pub fn embedding(index: &[usize], weight: &[usize]) -> Result<Shape, Fault> {
    let [rows, columns] = weight else {
        let message =
            format!("the weight of an embedding has shape {}, not [vocabulary, size]", text(weight));
        return Err(Fault::new(codes::SHAPE, message));
    };
    for (name, size) in [("vocabulary", rows), ("size", columns)] {
        if *size == 0 {
            return Err(zero(name));
        }
    }
    if index.is_empty() {
        return Err(Fault::new(codes::SHAPE, "an embedding wants [batch, …], and its input is a scalar"));
    }
    let mut shape = index.to_vec();
    shape.push(*columns);
    Ok(shape)
}

/// y of [x: (N, T, C), index: (N, M)].
///
/// # Errors
/// AMP0301 for other shapes.
pub fn gather(x: &[usize], index: &[usize]) -> Result<Shape, Fault> {
    match (x, index) {
        ([batch, _, columns], [same, picked]) if batch == same => Ok(vec![*batch, *picked, *columns]),
        _ => Err(Fault::new(
            codes::SHAPE,
            format!(
                "gather wants values [batch, rows, features] and an index [batch, picked], and they are {} and {}",
                text(x),
                text(index)
            ),
        )),
    }
}

/// Takes [N, T, C] apart.
///
/// # Errors
/// AMP0301 for another number of axes.
pub fn sequence(x: &[usize], what: &str) -> Result<[usize; 3], Fault> {
    <[usize; 3]>::try_from(x).map_err(|_| {
        let message = format!("{what} wants [batch, positions, features], and its input is {}", text(x));
        Fault::new(codes::SHAPE, message)
    })
}

/// Whether learned positions reach over [x: (N, T, C)].
///
/// # Errors
/// AMP0301 for another number of axes and for a sequence that is longer than `length`, AMP0312 for a length of 0.
pub fn position_embedding(x: &[usize], length: usize) -> Result<[usize; 3], Fault> {
    let sizes = sequence(x, "a position embedding")?;
    if length == 0 {
        return Err(zero("length"));
    }
    if sizes[1] > length {
        let message = format!("its input {} has {} positions, and {length} are learned", text(x), sizes[1]);
        return Err(Fault::new(codes::SHAPE, message).help(format!("write `length={}`", sizes[1])));
    }
    Ok(sizes)
}

/// Whether the features of [x: (N, T, heads·D)] are pairs in every head.
///
/// # Errors
/// AMP0301 for another number of axes or an odd D, AMP0312 for no head.
pub fn rotary_position(x: &[usize], heads: usize) -> Result<(), Fault> {
    let [_, _, features] = sequence(x, "a rotary position")?;
    if heads == 0 {
        return Err(zero("heads"));
    }
    if features.is_multiple_of(heads) && (features / heads).is_multiple_of(2) {
        return Ok(());
    }
    let message = format!(
        "{} in {} are no pairs: each head must have an even number",
        counted(features, "feature"),
        counted(heads, "head")
    );
    Err(Fault::new(codes::SHAPE, message)
        .help("choose heads so that twice their number divides the features"))
}

/// The shape with `length` indices of an axis, from `start` on; the axis may be the batch.
///
/// # Errors
/// AMP0302 for an axis out of range, AMP0312 for no index, AMP0301 for indices beyond the axis.
pub fn slice(x: &[usize], axis: usize, start: usize, length: usize) -> Result<Shape, Fault> {
    let Some(size) = x.get(axis) else {
        let message = format!("axis {axis} is out of range for the input {}", text(x));
        return Err(Fault::new(codes::AXIS, message));
    };
    if length == 0 {
        return Err(zero("length"));
    }
    if start.checked_add(length).is_none_or(|end| end > *size) {
        let asked = match length {
            1 => format!("index {start} is"),
            _ => format!("indices {start} to {} are", start.saturating_add(length) - 1),
        };
        let message = format!(
            "axis {axis} of the input {} has indices 0 to {}, and {asked} asked for",
            text(x),
            size.saturating_sub(1)
        );
        return Err(Fault::new(codes::SHAPE, message));
    }
    let mut shape = x.to_vec();
    shape[axis] = length;
    Ok(shape)
}

/// The shape without the axes `start..end`.
///
/// # Errors
/// AMP0302 for axes out of range or the batch, AMP0312 for a mean of nothing.
pub fn mean(x: &[usize], start: usize, end: usize) -> Result<Shape, Fault> {
    checked_axis(x, start, "mean")?;
    if end <= start || end > x.len() {
        let message = format!("axes {start}..{end} are out of range for the input {}", text(x));
        return Err(Fault::new(codes::AXIS, message));
    }
    if elements(&x[start..end])? == 0 {
        return Err(zero("the number of elements of a mean"));
    }
    Ok([&x[..start], &x[end..]].concat())
}

/// y of an enlargement of [x: (N, C, H, W)].
///
/// # Errors
/// AMP0301 for another number of axes, AMP0312 for a factor or a picture of 0, AMP0308 for overflow.
pub fn upsample2d(x: &[usize], scale: [usize; 2]) -> Result<Shape, Fault> {
    let [batch, channels, height, width] = planes(x, "an upsampling")?;
    if scale.contains(&0) {
        return Err(zero("scale"));
    }
    if height == 0 || width == 0 {
        return Err(zero("the height or width of the picture"));
    }
    let large = |size: usize, factor: usize| {
        size.checked_mul(factor)
            .ok_or_else(|| Fault::new(codes::TOO_LARGE, format!("scale {factor} is too large")))
    };
    Ok(vec![batch, channels, large(height, scale[0])?, large(width, scale[1])?])
}
