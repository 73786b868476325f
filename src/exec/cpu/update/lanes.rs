//! Numbers that an optimizer's rule is written in: one, or a vector of sixteen. Every operation is the IEEE operation on each lane, so
//! that a rule gives the same bits in all of them.
//!
//! A rule in vectors leaves it to nobody whether its loop becomes vector code, and between two vectors other work can be done.

use super::rule::{RUN, Rule};
use std::ops::{Add, Div, Mul, Sub};

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Lanes8Twice, Lanes16};

/// Elements of a vector.
pub(super) const LANES: usize = 16;

/// What a rule reckons with.
pub trait Number:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// A number, in all lanes.
    fn of(number: f32) -> Self;

    /// √x, correctly rounded.
    fn square_root(self) -> Self;
}

impl Number for f32 {
    #[inline(always)]
    fn of(number: f32) -> Self {
        number
    }

    #[inline(always)]
    fn square_root(self) -> Self {
        self.sqrt()
    }
}

/// A vector.
pub trait Lanes: Number {
    /// From memory.
    fn load(from: &[f32; LANES]) -> Self;

    /// To memory.
    fn store(self, to: &mut [f32; LANES]);

    /// [`Rule::otherwise`] with the instructions that the vector needs, in a function of its own: what it keeps in registers is nothing to
    /// the loop of usual runs.
    fn otherwise<const N: usize, R: Rule<N>>(rule: R, run: &mut [&mut [f32; RUN]; N], gradients: &[f32; RUN]);

    /// Whether any of these runs holds a subnormal number, which need not be seen where it is negative and in `plain`, of which none is
    /// expected to be. It may be true without one.
    #[inline(always)]
    fn hold_subnormal<const M: usize>(signed: &[f32; RUN], plain: [&[f32; RUN]; M]) -> bool {
        // Zeros are found with them, and told apart only then: most runs have neither.
        let is_small = |bits: u32| (bits as i32) < f32::MIN_POSITIVE.to_bits() as i32;
        let small = signed.iter().fold(false, |found, x| found | is_small(x.to_bits() & !SIGN));
        let small = plain
            .into_iter()
            .fold(small, |found, run| run.iter().fold(found, |found, x| found | is_small(x.to_bits())));
        small && hold_subnormal_among_zeros(signed, plain)
    }
}

/// The bit of the sign.
pub(super) const SIGN: u32 = 0x8000_0000;

/// Whether any of these runs holds a subnormal number.
#[inline(always)]
pub(super) fn hold_subnormal_among_zeros<const M: usize>(
    signed: &[f32; RUN],
    plain: [&[f32; RUN]; M],
) -> bool {
    let of_run = |run: &[f32; RUN]| run.iter().fold(false, |found, x| found | is_subnormal(*x));
    plain.into_iter().fold(of_run(signed), |found, run| found | of_run(run))
}

/// One more than twice the bits of the largest subnormal number of each sign, less one.
const NORMAL: u32 = (f32::MIN_POSITIVE.to_bits() << 1) - 1;

/// Whether a number is subnormal, and not zero.
#[inline(always)]
pub(super) fn is_subnormal(x: f32) -> bool {
    (x.to_bits() << 1).wrapping_sub(1) < NORMAL
}

/// A vector in plain Rust.
#[derive(Clone, Copy)]
pub(super) struct PlainLanes([f32; LANES]);

impl Number for PlainLanes {
    #[inline(always)]
    fn of(number: f32) -> Self {
        Self([number; LANES])
    }

    #[inline(always)]
    fn square_root(mut self) -> Self {
        self.0.iter_mut().for_each(|x| *x = x.sqrt());
        self
    }
}

impl Lanes for PlainLanes {
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        Self(*from)
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        *to = self.0;
    }

    fn otherwise<const N: usize, R: Rule<N>>(
        rule: R,
        run: &mut [&mut [f32; RUN]; N],
        gradients: &[f32; RUN],
    ) {
        rule.otherwise::<false>(run, gradients);
    }
}

macro_rules! plain_operations {
    ($($operation:ident $function:ident $operator:tt),*) => {$(
        impl $operation for PlainLanes {
            type Output = Self;

            #[inline(always)]
            fn $function(mut self, other: Self) -> Self {
                self.0.iter_mut().zip(other.0).for_each(|(x, y)| *x $operator y);
                self
            }
        }
    )*};
}
plain_operations!(Add add +=, Sub sub -=, Mul mul *=, Div div /=);
