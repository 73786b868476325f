//! AVX-512 registers: 16 floats; tiles of 12 rows by 2 registers (24 chains hide the latency of 4 cycles on 2 ports).

use super::tile::{Kernels, compile};
use super::vector::{Transpose, Vector};
use std::arch::x86_64::*;

/// Sixteen floats.
#[derive(Clone, Copy)]
struct Lanes16(__m512);

/// The mask of the first `count` lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

// SAFETY of every block below: the methods are inlined into functions with the target features of this file, and the
// pointers are as the trait demands.
impl Vector for Lanes16 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn splat(source: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_set1_ps(*source) })
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_loadu_ps(source) })
    }

    #[inline(always)]
    unsafe fn load_first(source: *const f32, count: usize) -> Self {
        // SAFETY: see above; masked lanes are not touched.
        Self(unsafe { _mm512_maskz_loadu_ps(first(count), source) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(target, self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, target: *mut f32, count: usize) {
        // SAFETY: see above; masked lanes are not touched.
        unsafe { _mm512_mask_storeu_ps(target, first(count), self.0) }
    }

    #[inline(always)]
    unsafe fn fused_multiply_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_fmadd_ps(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }
}

impl Transpose for Lanes16 {
    #[inline(always)]
    unsafe fn load_groups(rows: &[*const f32], first: usize, offset: usize) -> Self {
        // SAFETY: see above; each row has four floats from `offset` on.
        unsafe {
            let group = |index: usize| _mm_loadu_ps(rows[first + 4 * index].add(offset));
            let low = _mm512_castps128_ps512(group(0));
            let low = _mm512_insertf32x4::<1>(low, group(1));
            let low = _mm512_insertf32x4::<2>(low, group(2));
            Self(_mm512_insertf32x4::<3>(low, group(3)))
        }
    }

    #[inline(always)]
    unsafe fn transpose_groups(registers: [Self; 4]) -> [Self; 4] {
        let [a, b, c, d] = registers;
        // SAFETY: see above.
        unsafe {
            let low_ab = _mm512_castps_pd(_mm512_unpacklo_ps(a.0, b.0));
            let high_ab = _mm512_castps_pd(_mm512_unpackhi_ps(a.0, b.0));
            let low_cd = _mm512_castps_pd(_mm512_unpacklo_ps(c.0, d.0));
            let high_cd = _mm512_castps_pd(_mm512_unpackhi_ps(c.0, d.0));
            [
                Self(_mm512_castpd_ps(_mm512_unpacklo_pd(low_ab, low_cd))),
                Self(_mm512_castpd_ps(_mm512_unpackhi_pd(low_ab, low_cd))),
                Self(_mm512_castpd_ps(_mm512_unpacklo_pd(high_ab, high_cd))),
                Self(_mm512_castpd_ps(_mm512_unpackhi_pd(high_ab, high_cd))),
            ]
        }
    }
}

compile!(Lanes16, "avx512f,avx512bw,avx512dq,avx512vl");

/// The kernels.
pub static KERNELS: Kernels = Kernels {
    lanes: 16,
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
