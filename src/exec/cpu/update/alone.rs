//! Updates alone, in the vectors of an instruction set.

use super::lanes::PlainLanes;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Lanes8Twice, Lanes16};
use super::rule::{Rule, update_all};
use crate::arithmetic::Isa;

/// One step by a rule: of values of as many elements as there are gradients.
pub fn update_by<const N: usize>(isa: Isa, rule: impl Rule<N>, values: [&mut [f32]; N], gradients: &[f32]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa::available` gives this value only where the machine has AVX2.
        Isa::Avx2 => unsafe { avx2(rule, values, gradients) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa::available` gives this value only where the machine has these features.
        Isa::Avx512 => unsafe { avx512(rule, values, gradients) },
        _ => update_all::<PlainLanes, N>(rule, values, gradients),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn avx2<const N: usize>(rule: impl Rule<N>, values: [&mut [f32]; N], gradients: &[f32]) {
    update_all::<Lanes8Twice, N>(rule, values, gradients);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<const N: usize>(rule: impl Rule<N>, values: [&mut [f32]; N], gradients: &[f32]) {
    update_all::<Lanes16, N>(rule, values, gradients);
}
