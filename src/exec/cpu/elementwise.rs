//! Ops whose output element depends on one element of each input, vectorised; equal to `exec::reference::elementwise`.

use super::threads::Threads;
use super::vector::{self, CHEAP, TILE, Units, change_tile, grain, map, map_tile, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::elementwise::Binary;

/// out = round(a ∘ b); all of one length.
pub fn binary(
    isa: Isa,
    threads: &Threads,
    op: Binary,
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    format: Format,
) {
    match op {
        Binary::Add => map(isa, threads, [a, b], out, format, |[a, b]| a + b),
        Binary::Subtract => map(isa, threads, [a, b], out, format, |[a, b]| a - b),
        Binary::Multiply => map(isa, threads, [a, b], out, format, |[a, b]| a * b),
    }
}

/// out = round(x · factor).
pub fn scale_by_scalar(isa: Isa, threads: &Threads, x: &[f32], factor: f32, out: &mut [f32], format: Format) {
    map(isa, threads, [x], out, format, |[x]| x * factor);
}

/// sum = round(sum + x), in place: how gradients of several uses meet.
pub fn add_into(isa: Isa, threads: &Threads, sum: &mut [f32], x: &[f32], format: Format) {
    vector::tiles(threads, CHEAP, [x], sum, |[x], sum| {
        change_tile(isa, sum, [x], |sum, [x]| sum + x);
        round_slice(isa, format, sum);
    });
}

/// out = round(x).
pub fn cast(isa: Isa, threads: &Threads, x: &[f32], out: &mut [f32], format: Format) {
    vector::tiles(threads, CHEAP, [x], out, |[x], out| {
        out.copy_from_slice(x);
        round_slice(isa, format, out);
    });
}

/// An axis of a broadcast, after neighbours that behave alike have been joined: its length and the distance of
/// neighbours on it in a and in b (0 where the input is repeated).
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: usize,
    strides: [usize; 2],
}

/// The axes of the output, outermost first, as few as the two inputs allow. Never empty.
fn axes(shape: &[usize], inputs: [&[usize]; 2]) -> Vec<Axis> {
    let mut found: Vec<Axis> = Vec::new();
    let mut strides = [1, 1];
    for (position, &extent) in shape.iter().enumerate().rev() {
        let mut axis = Axis { extent, strides: [0, 0] };
        for (input, stride) in strides.iter_mut().enumerate() {
            let missing = shape.len() - inputs[input].len();
            if position >= missing && inputs[input][position - missing] != 1 {
                axis.strides[input] = *stride;
                *stride *= extent;
            }
        }
        match found.last_mut() {
            _ if extent == 1 => {}
            Some(inner) if (0..2).all(|i| axis.strides[i] == inner.strides[i] * inner.extent) => {
                inner.extent *= extent;
            }
            _ => found.push(axis),
        }
    }
    if found.is_empty() {
        found.push(Axis { extent: 1, strides: [1, 1] });
    }
    found.reverse();
    found
}

/// out = round(a ∘ b) with numpy broadcasting of `a_shape` and `b_shape` to `shape`.
pub fn binary_broadcast(
    isa: Isa,
    threads: &Threads,
    op: Binary,
    a: &[f32],
    a_shape: &[usize],
    b: &[f32],
    b_shape: &[usize],
    out: &mut [f32],
    shape: &[usize],
    format: Format,
) {
    if out.is_empty() {
        return;
    }
    let axes = axes(shape, [a_shape, b_shape]);
    let (outer, inner) = axes.split_at(axes.len() - 1);
    let row = inner[0].extent;
    let rows = out.len() / row;
    parallel(threads, rows, grain(CHEAP, row), Units::new(out, row), |range, out| {
        // Short rows are rounded together, long ones tile by tile.
        let together = (TILE / row).max(1);
        for (group, part) in out.slice.chunks_mut(together * row).enumerate() {
            for (index, out) in part.chunks_exact_mut(row).enumerate() {
                let [a_start, b_start] = starts(outer, range.start + group * together + index);
                binary_row(isa, op, &a[a_start..], &b[b_start..], inner[0].strides, out);
            }
            round_slice(isa, format, part);
        }
    });
}

/// out = x stretched from `from` to `shape`, as in numpy broadcasting.
pub fn expand(threads: &Threads, x: &[f32], from: &[usize], out: &mut [f32], shape: &[usize]) {
    if out.is_empty() {
        return;
    }
    let axes = axes(shape, [from, from]);
    let (outer, inner) = axes.split_at(axes.len() - 1);
    let row = inner[0].extent;
    parallel(threads, out.len() / row, grain(CHEAP, row), Units::new(out, row), |range, out| {
        for (index, out) in range.zip(out.slice.chunks_exact_mut(row)) {
            let start = starts(outer, index)[0];
            match inner[0].strides[0] {
                0 => out.fill(x[start]),
                _ => out.copy_from_slice(&x[start..start + row]),
            }
        }
    });
}

/// Where row `row` of the output begins in a and in b.
fn starts(outer: &[Axis], mut row: usize) -> [usize; 2] {
    let mut starts = [0, 0];
    for axis in outer.iter().rev() {
        let coordinate = row % axis.extent;
        row /= axis.extent;
        for (start, stride) in starts.iter_mut().zip(axis.strides) {
            *start += coordinate * stride;
        }
    }
    starts
}

/// One row of the output; each input runs along (stride 1) or stands still (stride 0).
fn binary_row(isa: Isa, op: Binary, a: &[f32], b: &[f32], strides: [usize; 2], out: &mut [f32]) {
    match (op, strides) {
        (Binary::Add, [1, 1]) => map_tile(isa, [a, b], out, |[a, b]| a + b),
        (Binary::Subtract, [1, 1]) => map_tile(isa, [a, b], out, |[a, b]| a - b),
        (Binary::Multiply, [1, 1]) => map_tile(isa, [a, b], out, |[a, b]| a * b),
        (Binary::Add, [1, _]) => with_scalar(isa, a, b[0], out, |a, b| a + b),
        (Binary::Subtract, [1, _]) => with_scalar(isa, a, b[0], out, |a, b| a - b),
        (Binary::Multiply, [1, _]) => with_scalar(isa, a, b[0], out, |a, b| a * b),
        (Binary::Add, _) => with_scalar(isa, b, a[0], out, |b, a| a + b),
        (Binary::Subtract, _) => with_scalar(isa, b, a[0], out, |b, a| a - b),
        (Binary::Multiply, _) => with_scalar(isa, b, a[0], out, |b, a| a * b),
    }
}

/// out = function(x, scalar).
fn with_scalar(isa: Isa, x: &[f32], scalar: f32, out: &mut [f32], function: impl Fn(f32, f32) -> f32) {
    map_tile(isa, [x], out, |[x]| function(x, scalar));
}
