//! Shape rules of attention and of what is made for it.

use super::{Fault, Shape, elements, text};
use crate::diag::number::counted;
use crate::graph::codes;

/// The sizes of the heads that operands are cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSizes {
    /// N.
    pub batch: usize,
    /// T.
    pub queries: usize,
    /// S.
    pub keys: usize,
    /// H.
    pub heads: usize,
    /// D.
    pub size: usize,
}

/// Most buckets of relative positions: powers of so many factors are compared to find their edges.
const MOST_BUCKETS: usize = 4096;

/// The size of each of `heads` heads of the last axis.
fn head_size(heads: usize, features: usize) -> Result<usize, Fault> {
    if heads > 0 && features.is_multiple_of(heads) && features > 0 {
        return Ok(features / heads);
    }
    Err(Fault::new(
        codes::SHAPE,
        format!("{} cannot be cut into {heads} heads of one size", counted(features, "feature")),
    )
    .help("make the last axis of the operands a multiple of `heads`"))
}

/// [query: (N, T, H·D), key and value: (N, S, H·D), bias: broadcast to (N, H, T, S), mask: (N, S)].
///
/// # Errors
/// AMP0301 for other shapes.
pub fn attention(
    heads: usize,
    [query, key, value]: [&[usize]; 3],
    bias: Option<&[usize]>,
    mask: Option<&[usize]>,
) -> Result<HeadSizes, Fault> {
    let ([batch, queries, features], [other, keys, _]) = (query, key) else {
        return Err(wanted(query, key, value));
    };
    if batch != other || key[2] != *features || key != value {
        return Err(wanted(query, key, value));
    }
    let sizes = HeadSizes {
        batch: *batch,
        queries: *queries,
        keys: *keys,
        heads,
        size: head_size(heads, *features)?,
    };
    let scores = [sizes.batch, heads, sizes.queries, sizes.keys];
    elements(&scores)?;
    if let Some(bias) = bias {
        let fits =
            bias.len() == 4 && bias.iter().zip(scores).all(|(size, whole)| *size == whole || *size == 1);
        if !fits {
            let message = format!(
                "the bias is {}, and the scores that it is added to are {}",
                text(bias),
                text(&scores)
            );
            return Err(Fault::new(codes::SHAPE, message)
                .help("give the bias four axes, each of the scores' size or of size 1"));
        }
    }
    if let Some(mask) = mask
        && mask != [sizes.batch, sizes.keys]
    {
        let message = format!("the mask is {}, and must be {}", text(mask), text(&[sizes.batch, sizes.keys]));
        return Err(Fault::new(codes::SHAPE, message)
            .help("give one number for each key: 0 where it is not attended to"));
    }
    Ok(sizes)
}

fn wanted(query: &[usize], key: &[usize], value: &[usize]) -> Fault {
    let message = format!(
        "attention wants query [batch, T, features], key and value [batch, S, features], with the same features in \
         all three; they are {}, {} and {}",
        text(query),
        text(key),
        text(value)
    );
    Fault::new(codes::SHAPE, message).help("end each operand with a `linear` of one and the same `out`")
}

/// The result of [a: (…, M, K)] times [b: (…, K, P)], the last two axes of either exchanged when said so.
///
/// # Errors
/// AMP0301 when the leading axes differ or the inner sizes do.
pub fn matrix_product(
    left: &[usize],
    right: &[usize],
    transpose_left: bool,
    transpose_right: bool,
) -> Result<Shape, Fault> {
    let fault = || {
        let form =
            if transpose_right { "[…, M, K] and […, P, K]" } else { "[…, M, K] and […, K, P]" };
        let message = format!(
            "a matrix product wants {form} with equal leading axes; the operands are {} and {}",
            text(left),
            text(right)
        );
        Fault::new(codes::SHAPE, message)
    };
    let axes = left.len();
    if axes < 3 || right.len() != axes || left[..axes - 2] != right[..axes - 2] {
        return Err(fault());
    }
    let last = |shape: &[usize], exchange: bool| match exchange {
        false => (shape[axes - 2], shape[axes - 1]),
        true => (shape[axes - 1], shape[axes - 2]),
    };
    let ((rows, depth), (other, columns)) = (last(left, transpose_left), last(right, transpose_right));
    if depth != other {
        return Err(fault());
    }
    let mut shape = left[..axes - 2].to_vec();
    shape.extend([rows, columns]);
    Ok(shape)
}

/// (1, H, T, T) for an input of T positions.
///
/// # Errors
/// AMP0301 for an input without positions; AMP0316 for buckets that have no steps.
pub fn relative_position_bias(
    x: &[usize],
    heads: usize,
    buckets: usize,
    max_distance: usize,
    bidirectional: bool,
) -> Result<Shape, Fault> {
    let [_, length, ..] = x else {
        let message =
            format!("a bias of relative positions wants [batch, T, …], and its input is {}", text(x));
        return Err(Fault::new(codes::SHAPE, message));
    };
    let least = if bidirectional { 4 } else { 2 };
    let even = !bidirectional || buckets.is_multiple_of(2);
    if heads == 0 || !even || !(least..=MOST_BUCKETS).contains(&buckets) {
        let message = format!(
            "{} of {} are too few, too many, or cannot be halved",
            counted(heads, "head"),
            counted(buckets, "bucket")
        );
        return Err(Fault::new(codes::NUMBER, message).help(format!(
            "use at least 1 head and {least} to {MOST_BUCKETS} buckets, an even number of them for both directions"
        )));
    }
    let single = buckets / least;
    if max_distance <= single {
        let own = if single == 1 { "has a bucket of its own" } else { "have buckets of their own" };
        let message = format!("max-distance is {max_distance}, and {} {own}", counted(single, "distance"));
        return Err(Fault::new(codes::NUMBER, message).help(format!("make it at least {}", single + 1)));
    }
    Ok(vec![1, heads, *length, *length])
}

/// The sizes of the heads of pairs of [content: (N, T, H·D), positions: (1, 2·buckets, H·D)].
///
/// # Errors
/// AMP0301 for other shapes; AMP0316 for buckets that have no steps; AMP0309 for no pair.
pub fn disentangled_bias(
    heads: usize,
    buckets: usize,
    max_position: usize,
    pairs: &[(&[usize], &[usize])],
) -> Result<HeadSizes, Fault> {
    let even = buckets.is_multiple_of(2) && (4..=MOST_BUCKETS).contains(&buckets);
    if !even || max_position <= buckets / 2 + 1 {
        let message = format!(
            "{} up to position {max_position} {} no steps",
            counted(buckets, "bucket"),
            if buckets == 1 { "leaves" } else { "leave" }
        );
        return Err(Fault::new(codes::NUMBER, message).help(format!(
            "use an even number of 4 to {MOST_BUCKETS} buckets, and a `max-position` above half of it plus 1"
        )));
    }
    let Some(((content, _), _)) = pairs.split_first() else {
        return Err(Fault::new(
            codes::EMPTY,
            "neither content to position nor position to content is asked for",
        ));
    };
    let [batch, length, features] = **content else {
        let message =
            format!("a disentangled bias wants [batch, T, features], and its operand is {}", text(content));
        return Err(Fault::new(codes::SHAPE, message));
    };
    let positions = [1, 2 * buckets, features];
    for (other, table) in pairs {
        if other != content || **table != positions {
            let message = format!(
                "a disentangled bias wants content {} with positions {}; they are {} and {}",
                text(content),
                text(&positions),
                text(other),
                text(table)
            );
            return Err(Fault::new(codes::SHAPE, message)
                .help("the positions have 2·buckets rows, for example of a `learned` table"));
        }
    }
    let sizes = HeadSizes { batch, queries: length, keys: length, heads, size: head_size(heads, features)? };
    elements(&[batch, heads, length, length])?;
    Ok(sizes)
}
