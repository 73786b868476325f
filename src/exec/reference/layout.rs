//! Moving elements without changing them: permutations of axes, concatenation and splitting.

/// out = x with its axes permuted: axis i of out is axis `permutation[i]` of x, which has `shape`.
pub fn permute(x: &[f32], shape: &[usize], permutation: &[usize], out: &mut [f32]) {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    for (position, out) in out.iter_mut().enumerate() {
        let (mut rest, mut index) = (position, 0);
        for &axis in permutation.iter().rev() {
            index += rest % shape[axis] * strides[axis];
            rest /= shape[axis];
        }
        *out = x[index];
    }
}

/// out = the inputs, one after the other along one axis. Input i is outer × extents\[i\] × inner.
pub fn concatenate(inputs: &[&[f32]], extents: &[usize], outer: usize, inner: usize, out: &mut [f32]) {
    let mut position = 0;
    for outer in 0..outer {
        for (input, extent) in inputs.iter().zip(extents) {
            let size = extent * inner;
            out[position..position + size].copy_from_slice(&input[outer * size..(outer + 1) * size]);
            position += size;
        }
    }
}

/// out = `length` indices of an axis of x from `start` on. x is outer × whole × inner, out is outer × length × inner.
pub fn slice(x: &[f32], [whole, start, length]: [usize; 3], inner: usize, out: &mut [f32]) {
    for (position, out) in out.iter_mut().enumerate() {
        let (outer, at) = (position / (length * inner), position % (length * inner));
        *out = x[outer * whole * inner + start * inner + at];
    }
}

/// out = x in its place on an axis, +0 around it: the inverse of [`slice()`] with its sizes.
pub fn pad(x: &[f32], [whole, start, length]: [usize; 3], inner: usize, out: &mut [f32]) {
    for (position, out) in out.iter_mut().enumerate() {
        let (outer, at) = (position / (whole * inner), position % (whole * inner));
        let inside = (start * inner..(start + length) * inner).contains(&at);
        *out = if inside { x[outer * length * inner + at - start * inner] } else { 0.0 };
    }
}

/// The outputs = x cut along one axis, the inverse of [`concatenate`].
pub fn split(x: &[f32], extents: &[usize], outer: usize, inner: usize, outs: &mut [&mut [f32]]) {
    let mut position = 0;
    for outer in 0..outer {
        for (out, extent) in outs.iter_mut().zip(extents) {
            let size = extent * inner;
            out[outer * size..(outer + 1) * size].copy_from_slice(&x[position..position + size]);
            position += size;
        }
    }
}
