//! Is this thread's floating-point state the one that IEEE 754 assumes?
//!
//! A library loaded into the process may switch on flush-to-zero or another rounding mode for a thread; then
//! no bit of a run means anything. The check is by arithmetic, so that it holds on every architecture.

use std::hint::black_box;

/// Whether this thread rounds to nearest with ties to even and keeps subnormal numbers, in binary32 and
/// binary64.
///
/// Call it at the start of each worker thread and after foreign code has run; it takes some nanoseconds.
pub fn float_environment_is_ieee() -> bool {
    binary32_is_ieee() && binary64_is_ieee()
}

fn binary32_is_ieee() -> bool {
    let one = black_box(1.0f32);
    let half_unit = black_box(f32::EPSILON / 2.0);
    // A tie goes to the even neighbour, three quarters of a unit go away from one, a quarter goes back, on
    // both sides.
    let nearest = one + half_unit == 1.0
        && one + half_unit * 1.5 == 1.0 + f32::EPSILON
        && one + half_unit * 0.5 == 1.0
        && -one - half_unit * 1.5 == -1.0 - f32::EPSILON
        && -one - half_unit * 0.5 == -1.0;
    let subnormal_results = (black_box(f32::MIN_POSITIVE) * 0.5).to_bits() == 0x0040_0000;
    // 2^-149 · 2^125 = 2^-24: only if the subnormal operand is not taken for zero.
    let subnormal_operands =
        black_box(f32::from_bits(1)) * black_box(f32::from_bits((125 + 127) << 23)) == half_unit;
    nearest && subnormal_results && subnormal_operands
}

fn binary64_is_ieee() -> bool {
    let one = black_box(1.0f64);
    let half_unit = black_box(f64::EPSILON / 2.0);
    let nearest = one + half_unit == 1.0
        && one + half_unit * 1.5 == 1.0 + f64::EPSILON
        && one + half_unit * 0.5 == 1.0
        && -one - half_unit * 1.5 == -1.0 - f64::EPSILON
        && -one - half_unit * 0.5 == -1.0;
    let subnormal_results = (black_box(f64::MIN_POSITIVE) * 0.5).to_bits() == 1 << 51;
    // 2^-1074 · 2^1021 = 2^-53.
    let subnormal_operands =
        black_box(f64::from_bits(1)) * black_box(f64::from_bits((1021 + 1023) << 52)) == half_unit;
    nearest && subnormal_results && subnormal_operands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_thread_is_ieee() {
        assert!(float_environment_is_ieee());
        assert!(std::thread::spawn(float_environment_is_ieee).join().expect("the thread does not panic"));
    }

    /// Sets MXCSR, asks, and puts it back before any assertion can unwind.
    #[cfg(target_arch = "x86_64")]
    fn under_control_register(change: impl Fn(u32) -> u32) -> bool {
        let mut saved = 0u32;
        // SAFETY: MXCSR is read, changed in its rounding, FTZ and DAZ bits alone, and restored; nothing
        // between the two writes but the check itself, which is opaque to the optimiser through `black_box`,
        // depends on it.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut saved);
            let changed = change(saved);
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const changed);
            let answer = black_box(float_environment_is_ieee as fn() -> bool)();
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const saved);
            answer
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_deviation_is_seen() {
        assert!(under_control_register(|control| control));
        for (what, bits) in [
            ("denormals are zero", 1u32 << 6),
            ("flush to zero", 1 << 15),
            ("round down", 1 << 13),
            ("round up", 2 << 13),
            ("round to zero", 3 << 13),
        ] {
            assert!(!under_control_register(|control| control | bits), "{what} was not seen");
        }
    }
}
