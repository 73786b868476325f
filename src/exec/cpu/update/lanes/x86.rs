//! Vectors in the registers of x86-64: one of 512 bits, or two of 256.

use super::{Add, Div, LANES, Lanes, Mul, Number, RUN, Rule, Sub, hold_subnormal_among_zeros};
use std::arch::x86_64::*;

/// A register of AVX-512; to be inlined into code for machines that have it.
#[derive(Clone, Copy)]
pub struct Lanes16(__m512);

/// Two registers of AVX2; to be inlined into code for machines that have it.
#[derive(Clone, Copy)]
pub struct Lanes8Twice(__m256, __m256);

/// [`Lanes::otherwise`] with these features, which whoever inlines it has.
macro_rules! otherwise_with {
    ($features:literal) => {
        #[inline(always)]
        fn otherwise<const N: usize, R: Rule<N>>(
            rule: R,
            run: &mut [&mut [f32; RUN]; N],
            gradients: &[f32; RUN],
        ) {
            #[target_feature(enable = $features)]
            #[inline(never)]
            fn apart<const N: usize>(
                rule: impl Rule<N>,
                run: &mut [&mut [f32; RUN]; N],
                gradients: &[f32; RUN],
            ) {
                rule.otherwise::<true>(run, gradients);
            }
            // SAFETY: whoever inlines this has the features.
            unsafe { apart(rule, run, gradients) }
        }
    };
}

impl Number for Lanes16 {
    #[inline(always)]
    fn of(number: f32) -> Self {
        // SAFETY: whoever inlines this has AVX-512.
        Self(unsafe { _mm512_set1_ps(number) })
    }

    #[inline(always)]
    fn square_root(self) -> Self {
        // SAFETY: as before.
        Self(unsafe { _mm512_sqrt_ps(self.0) })
    }
}

impl Lanes for Lanes16 {
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        // SAFETY: whoever inlines this has AVX-512; a register has as many lanes.
        Self(unsafe { _mm512_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        // SAFETY: as before.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    otherwise_with!("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

    #[inline(always)]
    fn hold_subnormal<const M: usize>(signed: &[f32; RUN], plain: [&[f32; RUN]; M]) -> bool {
        /// The class of subnormal numbers.
        const SUBNORMAL: i32 = 1 << 5;
        let mut found = 0;
        for vector in 0..RUN / LANES {
            // SAFETY: as before; DQ, which this instruction is of, belongs to what is asked of a machine.
            let look = |run: &[f32; RUN]| unsafe {
                _mm512_fpclass_ps_mask::<SUBNORMAL>(Self::load(&run.as_chunks().0[vector]).0)
            };
            found |= look(signed);
            for run in plain {
                found |= look(run);
            }
        }
        found != 0
    }
}

impl Number for Lanes8Twice {
    #[inline(always)]
    fn of(number: f32) -> Self {
        // SAFETY: whoever inlines this has AVX2.
        let lanes = unsafe { _mm256_set1_ps(number) };
        Self(lanes, lanes)
    }

    #[inline(always)]
    fn square_root(self) -> Self {
        // SAFETY: as before.
        unsafe { Self(_mm256_sqrt_ps(self.0), _mm256_sqrt_ps(self.1)) }
    }
}

impl Lanes for Lanes8Twice {
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        // SAFETY: whoever inlines this has AVX2; two registers have as many lanes.
        unsafe { Self(_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(LANES / 2))) }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        // SAFETY: as before.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), self.0);
            _mm256_storeu_ps(to.as_mut_ptr().add(LANES / 2), self.1);
        }
    }

    otherwise_with!("avx2,fma,f16c");

    #[inline(always)]
    fn hold_subnormal<const M: usize>(signed: &[f32; RUN], plain: [&[f32; RUN]; M]) -> bool {
        // SAFETY: whoever inlines this has AVX2; eight words from each place are inside of a run.
        let small = unsafe {
            let load = |run: &[f32; RUN], from: usize| _mm256_loadu_si256(run.as_ptr().add(from).cast());
            let (mut twice, mut once) = (_mm256_set1_epi32(-1), _mm256_set1_epi32(-1));
            for from in (0..RUN).step_by(LANES / 2) {
                let bits = load(signed, from);
                // Twice the bits have no sign.
                twice = _mm256_min_epu32(twice, _mm256_add_epi32(bits, bits));
                for run in plain {
                    once = _mm256_min_epu32(once, load(run, from));
                }
            }
            let [twice_bound, bound] =
                [2, 1].map(|factor| _mm256_set1_epi32(factor * f32::MIN_POSITIVE.to_bits() as i32 - 1));
            // What is no more than a bound is the lesser of the two.
            let twice = _mm256_cmpeq_epi32(_mm256_min_epu32(twice, twice_bound), twice);
            let once = _mm256_cmpeq_epi32(_mm256_min_epu32(once, bound), once);
            _mm256_movemask_epi8(_mm256_or_si256(twice, once)) != 0
        };
        // Zeros are found with them, and told apart only then: most runs have neither.
        small && hold_subnormal_among_zeros(signed, plain)
    }
}

macro_rules! operations {
    ($($operation:ident $function:ident $wide:ident $narrow:ident),*) => {$(
        impl $operation for Lanes16 {
            type Output = Self;

            #[inline(always)]
            fn $function(self, other: Self) -> Self {
                // SAFETY: whoever inlines this has AVX-512.
                Self(unsafe { $wide(self.0, other.0) })
            }
        }

        impl $operation for Lanes8Twice {
            type Output = Self;

            #[inline(always)]
            fn $function(self, other: Self) -> Self {
                // SAFETY: whoever inlines this has AVX2.
                unsafe { Self($narrow(self.0, other.0), $narrow(self.1, other.1)) }
            }
        }
    )*};
}
operations!(
    Add add _mm512_add_ps _mm256_add_ps,
    Sub sub _mm512_sub_ps _mm256_sub_ps,
    Mul mul _mm512_mul_ps _mm256_mul_ps,
    Div div _mm512_div_ps _mm256_div_ps
);
