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
