//! A register of floats: the few operations that the tile kernels are written in.
//!
//! Each instruction set implements [`Vector`]; `f32` itself is the scalar one. Every operation is the IEEE operation on
//! each lane, so that the width of a register never changes a bit.

use crate::arithmetic::fused_multiply_add;

/// One register of `LANES` floats.
///
/// # Safety
/// Every method needs the instruction set of the implementing type, and pointers that are valid for the lanes named.
pub trait Vector: Copy {
    /// How many floats it holds.
    const LANES: usize;
    /// All lanes +0.
    unsafe fn zero() -> Self;
    /// All lanes the float at `source`.
    unsafe fn splat(source: *const f32) -> Self;
    /// `LANES` floats from `source`, of any alignment.
    unsafe fn load(source: *const f32) -> Self;
    /// The first `count < LANES` floats from `source`; the other lanes are +0 and their memory is not touched.
    unsafe fn load_first(source: *const f32, count: usize) -> Self;
    /// `LANES` floats to `target`.
    unsafe fn store(self, target: *mut f32);
    /// The first `count < LANES` lanes to `target`; memory past them is not touched.
    unsafe fn store_first(self, target: *mut f32, count: usize);
    /// `self * factor + addend` with one rounding.
    unsafe fn fused_multiply_add(self, factor: Self, addend: Self) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
}

/// A register whose lanes fall into groups of four that can be transposed among four registers.
///
/// # Safety
/// As for [`Vector`].
pub trait Transpose: Vector {
    /// Four floats from `rows[4 * g]` into lane group `g`, for each group; `rows` has `LANES` entries from `first` on,
    /// each moved on by `offset`.
    unsafe fn load_groups(rows: &[*const f32], first: usize, offset: usize) -> Self;
    /// In each lane group the 4×4 transpose of the four registers.
    unsafe fn transpose_groups(registers: [Self; 4]) -> [Self; 4];
}

impl Vector for f32 {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn zero() -> Self {
        0.0
    }

    #[inline(always)]
    unsafe fn splat(source: *const f32) -> Self {
        // SAFETY: the caller vouches for `source`.
        unsafe { *source }
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: the caller vouches for `source`.
        unsafe { *source }
    }

    #[inline(always)]
    unsafe fn load_first(_: *const f32, _: usize) -> Self {
        0.0
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: the caller vouches for `target`.
        unsafe { *target = self }
    }

    #[inline(always)]
    unsafe fn store_first(self, _: *mut f32, _: usize) {}

    #[inline(always)]
    unsafe fn fused_multiply_add(self, factor: Self, addend: Self) -> Self {
        fused_multiply_add(self, factor, addend)
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self + other
    }
}
