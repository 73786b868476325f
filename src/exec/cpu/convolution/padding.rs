//! Input rows with their zeros around them.

use super::Geometry;
use std::ops::Range;

/// The input of some output rows: in place, or a copy with the padding written out.
#[derive(Clone, Copy)]
pub struct Input {
    /// The first float of the first row.
    pub start: *const f32,
    /// Floats from one image to the next.
    pub image: usize,
    /// Floats from one row to the next.
    pub row: usize,
}

/// Whether a copy is needed.
pub fn is_padded(geometry: &Geometry) -> bool {
    geometry.padding != [0, 0]
}

/// Floats that the copy takes for so many images and output rows; 0 without padding.
pub fn floats(geometry: &Geometry, images: usize, rows: usize) -> usize {
    if is_padded(geometry) { images * input_rows(geometry, rows) * row_floats(geometry) } else { 0 }
}

/// The input under the output rows `rows` of `images`; its first row is the one under the first output row's first tap.
pub fn input(
    geometry: &Geometry,
    x: &[f32],
    images: &Range<usize>,
    rows: &Range<usize>,
    copy: &mut [f32],
) -> Input {
    let (image, row) = (geometry.input_image(), geometry.width * geometry.channels_in);
    let first = rows.start * geometry.stride[0];
    if !is_padded(geometry) {
        let start = x.as_ptr().wrapping_add(images.start * image + first * row);
        return Input { start, image, row };
    }
    let (count, padded) = (input_rows(geometry, rows.len()), row_floats(geometry));
    let left = geometry.padding[1] * geometry.channels_in;
    let mut lines = copy.chunks_exact_mut(padded.max(1));
    for number in images.clone() {
        for line in 0..count {
            let Some(target) = lines.next() else { continue };
            // The row of the image, where there is one at this height.
            let above = (first + line).checked_sub(geometry.padding[0]).filter(|row| *row < geometry.height);
            let Some(above) = above else {
                target.fill(0.0);
                continue;
            };
            target[..left].fill(0.0);
            target[left..left + row].copy_from_slice(&x[number * image + above * row..][..row]);
            target[left + row..].fill(0.0);
        }
    }
    Input { start: copy.as_ptr(), image: count * padded, row: padded }
}

/// Input rows under so many output rows.
fn input_rows(geometry: &Geometry, rows: usize) -> usize {
    (rows.max(1) - 1) * geometry.stride[0] + geometry.reach(0)
}

/// Floats of a row with its padding.
fn row_floats(geometry: &Geometry) -> usize {
    (geometry.width + 2 * geometry.padding[1]) * geometry.channels_in
}
