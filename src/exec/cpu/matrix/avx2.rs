//! AVX2 registers: 8 floats; tiles of 6 rows by 2 registers (12 chains, 2 factors and 1 spread value fill the 16 registers).

use super::tile::{Kernels, compile};
use super::vector::{Transpose, Vector};
use std::arch::x86_64::*;

/// Eight floats.
#[derive(Clone, Copy)]
struct Lanes8(__m256);

/// The mask of the first `count` lanes: -1 in those, 0 in the others.
#[inline(always)]
unsafe fn first(count: usize) -> __m256i {
    const WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: `count < 8`, so eight entries follow; the features are the caller's.
    unsafe { _mm256_loadu_si256(WINDOW.as_ptr().add(8 - count).cast()) }
}

// SAFETY of every block below: the methods are inlined into functions with the target features of this file, and the
// pointers are as the trait demands.
impl Vector for Lanes8 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn splat(source: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_set1_ps(*source) })
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_loadu_ps(source) })
    }

    #[inline(always)]
    unsafe fn load_first(source: *const f32, count: usize) -> Self {
        // SAFETY: see above; masked lanes are not touched.
        Self(unsafe { _mm256_maskload_ps(source, first(count)) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(target, self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, target: *mut f32, count: usize) {
        // SAFETY: see above; masked lanes are not touched.
        unsafe { _mm256_maskstore_ps(target, first(count), self.0) }
    }

    #[inline(always)]
    unsafe fn fused_multiply_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_fmadd_ps(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }
}

impl Transpose for Lanes8 {
    #[inline(always)]
    unsafe fn load_groups(rows: &[*const f32], first: usize, offset: usize) -> Self {
        // SAFETY: see above; each row has four floats from `offset` on.
        unsafe {
            let group = |index: usize| _mm_loadu_ps(rows[first + 4 * index].add(offset));
            Self(_mm256_insertf128_ps::<1>(_mm256_castps128_ps256(group(0)), group(1)))
        }
    }

    #[inline(always)]
    unsafe fn transpose_groups(registers: [Self; 4]) -> [Self; 4] {
        let [a, b, c, d] = registers;
        // SAFETY: see above.
        unsafe {
            let low_ab = _mm256_castps_pd(_mm256_unpacklo_ps(a.0, b.0));
            let high_ab = _mm256_castps_pd(_mm256_unpackhi_ps(a.0, b.0));
            let low_cd = _mm256_castps_pd(_mm256_unpacklo_ps(c.0, d.0));
            let high_cd = _mm256_castps_pd(_mm256_unpackhi_ps(c.0, d.0));
            [
                Self(_mm256_castpd_ps(_mm256_unpacklo_pd(low_ab, low_cd))),
                Self(_mm256_castpd_ps(_mm256_unpackhi_pd(low_ab, low_cd))),
                Self(_mm256_castpd_ps(_mm256_unpacklo_pd(high_ab, high_cd))),
                Self(_mm256_castpd_ps(_mm256_unpackhi_pd(high_ab, high_cd))),
            ]
        }
    }
}

compile!(Lanes8, "avx2,fma,f16c");

/// The kernels.
pub static KERNELS: Kernels = Kernels {
    lanes: 8,
    tiles: &[
        &[(1, tile::<1, 1>), (2, tile::<2, 1>), (4, tile::<4, 1>), (6, tile::<6, 1>), (9, tile::<9, 1>)],
        &[(1, tile::<1, 2>), (2, tile::<2, 2>), (4, tile::<4, 2>), (6, tile::<6, 2>)],
    ],
    each: &[(1, each::<1>), (2, each::<2>), (4, each::<4>), (6, each::<6>), (9, each::<9>)],
    copy,
    transpose,
};
