//! The compiled kernels that this build carries: what `build.rs` made of `src/exec/cuda/kernels`, or nothing.
//!
//! They are part of what a machine computes with, so their digests belong to the environment; `exec` loads them.

/// A compiled kernel file.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// The file's name without its ending.
    pub file: &'static str,
    /// What it was compiled for: `sm_80` and `sm_90` are machine code, `compute_90` is for the driver's compiler.
    pub target: &'static str,
    /// The cubin, or the PTX with a zero at its end.
    pub bytes: &'static [u8],
}

/// All of them, sorted by file.
#[cfg(feature = "cuda")]
pub static IMAGES: &[Image] = &include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// None: amp was built without CUDA.
#[cfg(not(feature = "cuda"))]
pub static IMAGES: &[Image] = &[];

/// Which images a device of this compute capability runs, and whether its driver has to compile them.
///
/// Machine code runs on every device of its major capability that is not older than it, but for that of `sm_90`, which takes what 9.0
/// alone has; PTX on every later device. Source: CUDA C++ Programming Guide, "Compilation with NVCC", binary and PTX compatibility.
///
/// # Errors
/// Nothing for devices before 8.0.
pub fn target_for(capability: (u32, u32)) -> Option<(&'static str, bool)> {
    match capability {
        (8, _) => Some(("sm_80", false)),
        (9, 0) => Some(("sm_90", false)),
        (9.., _) => Some(("compute_90", true)),
        _ => None,
    }
}
