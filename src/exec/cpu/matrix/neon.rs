//! NEON registers: 4 floats; tiles of 6 rows by 4 registers (24 chains of 32 registers).

use super::tile::{Kernels, compile};
use super::vector::{Transpose, Vector};
use std::arch::aarch64::*;

/// Four floats.
#[derive(Clone, Copy)]
struct Lanes4(float32x4_t);

// SAFETY of every block below: every AArch64 machine has NEON, and the pointers are as the trait demands.
impl Vector for Lanes4 {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { vdupq_n_f32(0.0) })
    }

    #[inline(always)]
    unsafe fn splat(source: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { vld1q_dup_f32(source) })
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { vld1q_f32(source) })
    }

    #[inline(always)]
    unsafe fn load_first(source: *const f32, count: usize) -> Self {
        let mut lanes = [0.0_f32; 4];
        // SAFETY: see above; only `count` floats are read.
        unsafe {
            std::ptr::copy_nonoverlapping(source, lanes.as_mut_ptr(), count);
            Self(vld1q_f32(lanes.as_ptr()))
        }
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: see above.
        unsafe { vst1q_f32(target, self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, target: *mut f32, count: usize) {
        let mut lanes = [0.0_f32; 4];
        // SAFETY: see above; only `count` floats are written.
        unsafe {
            vst1q_f32(lanes.as_mut_ptr(), self.0);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, count);
        }
    }

    #[inline(always)]
    unsafe fn fused_multiply_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { vfmaq_f32(addend.0, self.0, factor.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { vaddq_f32(self.0, other.0) })
    }
}

impl Transpose for Lanes4 {
    #[inline(always)]
    unsafe fn load_groups(rows: &[*const f32], first: usize, offset: usize) -> Self {
        // SAFETY: see above; the row has four floats from `offset` on.
        Self(unsafe { vld1q_f32(rows[first].add(offset)) })
    }

    #[inline(always)]
    unsafe fn transpose_groups(registers: [Self; 4]) -> [Self; 4] {
        let [a, b, c, d] = registers;
        // SAFETY: see above.
        unsafe {
            let even_ab = vreinterpretq_f64_f32(vtrn1q_f32(a.0, b.0));
            let odd_ab = vreinterpretq_f64_f32(vtrn2q_f32(a.0, b.0));
            let even_cd = vreinterpretq_f64_f32(vtrn1q_f32(c.0, d.0));
            let odd_cd = vreinterpretq_f64_f32(vtrn2q_f32(c.0, d.0));
            [
                Self(vreinterpretq_f32_f64(vtrn1q_f64(even_ab, even_cd))),
                Self(vreinterpretq_f32_f64(vtrn1q_f64(odd_ab, odd_cd))),
                Self(vreinterpretq_f32_f64(vtrn2q_f64(even_ab, even_cd))),
                Self(vreinterpretq_f32_f64(vtrn2q_f64(odd_ab, odd_cd))),
            ]
        }
    }
}

compile!(Lanes4);

/// The kernels.
pub static KERNELS: Kernels = Kernels {
    lanes: 4,
    tiles: &[
        &[
            (1, tile::<1, 1>),
            (2, tile::<2, 1>),
            (4, tile::<4, 1>),
            (6, tile::<6, 1>),
            (9, tile::<9, 1>),
            (12, tile::<12, 1>),
        ],
        &[
            (1, tile::<1, 2>),
            (2, tile::<2, 2>),
            (4, tile::<4, 2>),
            (6, tile::<6, 2>),
            (9, tile::<9, 2>),
            (12, tile::<12, 2>),
        ],
        &[(1, tile::<1, 3>), (2, tile::<2, 3>), (4, tile::<4, 3>), (6, tile::<6, 3>), (8, tile::<8, 3>)],
        &[(1, tile::<1, 4>), (2, tile::<2, 4>), (4, tile::<4, 4>), (6, tile::<6, 4>)],
    ],
    each: &[(1, each::<1>), (2, each::<2>), (4, each::<4>), (6, each::<6>), (9, each::<9>), (12, each::<12>)],
    copy,
    transpose,
};
