//! Dropout, vectorised; equal to `exec::reference::dropout` bit for bit.

use super::threads::Threads;
use super::vector::{COSTLY, TILE, Units, change_tile, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::dropout::Dropout;

/// Pixels and channels of a tile of the NHWC form.
const SIDE: usize = 32;

/// out = x·scale where kept, +0 where dropped; element i of the slice is element i of the tensor. The same function of dy is
/// the backward.
pub fn dropout(isa: Isa, threads: &Threads, op: &Dropout, x: &[f32], out: &mut [f32], format: Format) {
    let (probability, scale) = (op.probability, op.scale());
    parallel(threads, out.len(), COSTLY, Units::new(out, 1), |range, out| {
        for (index, tile) in out.slice.chunks_mut(TILE).enumerate() {
            let start = range.start + index * TILE;
            op.stream.fill_uniform_on(isa, op.step, start as u64, tile);
            change_tile(isa, tile, [&x[start..start + tile.len()]], |uniform, [x]| {
                if uniform >= probability { x * scale } else { 0.0 }
            });
            round_slice(isa, format, tile);
        }
    });
}

/// The same on images in NHWC, whose elements are numbered as in NCHW.
pub fn dropout_nhwc(
    isa: Isa,
    threads: &Threads,
    op: &Dropout,
    channels: usize,
    pixels: usize,
    x: &[f32],
    out: &mut [f32],
    format: Format,
) {
    // A unit is a band of pixels of one image, so that the numbers of a band's channel are neighbours.
    let bands = pixels.div_ceil(SIDE);
    let image_size = pixels * channels;
    if image_size == 0 {
        return;
    }
    let images = out.len() / image_size;
    parallel(threads, images, grain(COSTLY, image_size), Units::new(out, image_size), |range, out| {
        let mut uniforms = vec![0.0; SIDE * channels];
        for (image, out) in range.zip(out.slice.chunks_exact_mut(image_size)) {
            for (band, out) in (0..bands).zip(out.chunks_mut(SIDE * channels)) {
                let first = band * SIDE;
                let count = out.len() / channels;
                for (channel, uniforms) in uniforms.chunks_exact_mut(SIDE).enumerate() {
                    let element = (image * channels + channel) * pixels + first;
                    op.stream.fill_uniform_on(isa, op.step, element as u64, &mut uniforms[..count]);
                }
                let start = image * image_size + first * channels;
                keep(isa, op, &uniforms, channels, &x[start..start + out.len()], out);
                round_slice(isa, format, out);
            }
        }
    });
}

for_each_isa! {
    /// out\[pixel, channel\] = x·scale where uniforms\[channel, pixel\] is not below the probability.
    fn keep(op: &Dropout, uniforms: &[f32], channels: usize, x: &[f32], out: &mut [f32]) {
        let (probability, scale) = (op.probability, op.scale());
        for (pixel, (x, out)) in x.chunks_exact(channels).zip(out.chunks_exact_mut(channels)).enumerate() {
            for (channel, (x, out)) in x.iter().zip(out).enumerate() {
                let kept = uniforms[channel * SIDE + pixel] >= probability;
                *out = if kept { x * scale } else { 0.0 };
            }
        }
    }
}
