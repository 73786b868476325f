//! Dropout, vectorised; equal to `exec::reference::dropout` bit for bit.

use super::layout::transpose;
use super::threads::Threads;
use super::vector::{COSTLY, TILE, Units, change_tile, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::dropout::Dropout;

/// Pixels whose numbers are drawn together in the NHWC form: a whole group of blocks of the generator.
const BAND: usize = 64;

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
    let image_size = pixels * channels;
    if image_size == 0 {
        return;
    }
    let images = out.len() / image_size;
    let (probability, scale) = (op.probability, op.scale());
    parallel(threads, images, grain(COSTLY, image_size), Units::new(out, image_size), |range, out| {
        // The numbers of a band of pixels are neighbours in each channel: they are drawn there and then transposed.
        let mut uniforms = vec![0.0; BAND * channels];
        for (image, out) in range.zip(out.slice.chunks_exact_mut(image_size)) {
            for (band, out) in out.chunks_mut(BAND * channels).enumerate() {
                let count = out.len() / channels;
                for (channel, uniforms) in uniforms.chunks_exact_mut(BAND).enumerate() {
                    let element = (image * channels + channel) * pixels + band * BAND;
                    op.stream.fill_uniform_on(isa, op.step, element as u64, &mut uniforms[..count]);
                }
                transpose(isa, &uniforms, BAND, channels, out);
                let start = image * image_size + band * BAND * channels;
                change_tile(isa, out, [&x[start..start + out.len()]], |uniform, [x]| {
                    if uniform >= probability { x * scale } else { 0.0 }
                });
                round_slice(isa, format, out);
            }
        }
    });
}
