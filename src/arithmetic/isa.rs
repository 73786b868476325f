//! The instruction sets that kernels are compiled for. All give the same bits; only their speed differs.

use std::fmt;

/// An instruction set that a kernel may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust, one number at a time.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    #[non_exhaustive]
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    #[non_exhaustive]
    Avx512,
    /// AArch64 with NEON, which every AArch64 machine has.
    #[non_exhaustive]
    Neon,
}

impl Isa {
    /// All, slowest first. Not public: that a value exists elsewhere means that this machine has it.
    const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Neon];

    /// The names of all that amp has kernels for, on whatever machine.
    pub const NAMES: [&str; 4] =
        [Self::ALL[0].name(), Self::ALL[1].name(), Self::ALL[2].name(), Self::ALL[3].name()];

    const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }

    /// The best one that this machine has.
    pub fn detect() -> Self {
        [Self::Avx512, Self::Avx2, Self::Neon]
            .into_iter()
            .find(|isa| isa.is_available())
            .unwrap_or(Self::Scalar)
    }

    /// All that this machine has, slowest first.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Whether this machine has it. Cheap: the processor is asked once per process.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => true,
            _ => false,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
