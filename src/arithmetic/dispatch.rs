//! One portable body, compiled once for each instruction set, and the choice between them at run time.
//!
//! The bodies use IEEE operations that are not contracted or reordered, so all the copies give the same bits.

/// Calls `$body` (an `#[inline(always)]` function that returns nothing) with the arguments, in the copy that
/// is compiled for `$isa`. An instruction set that this machine lacks falls back to the portable copy, which
/// has the same bits; so a wrong `Isa` can cost time, never soundness.
macro_rules! dispatch {
    ($isa:expr, $body:path, $($argument:ident: $kind:ty),+ $(,)?) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2($($argument: $kind),+) {
            $body($($argument),+);
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512($($argument: $kind),+) {
            $body($($argument),+);
        }
        let isa: $crate::arithmetic::Isa = $isa;
        match isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor was asked for these features.
            $crate::arithmetic::Isa::Avx2 if isa.is_available() => unsafe { avx2($($argument),+) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor was asked for these features.
            $crate::arithmetic::Isa::Avx512 if isa.is_available() => unsafe { avx512($($argument),+) },
            // Scalar, and Neon, which is in every AArch64 target and thus in the portable copy.
            _ => $body($($argument),+),
        }
    }};
}

pub(crate) use dispatch;
