//! f16 and bf16 held in f32: one rounding to nearest, ties to even. (Placeholder bodies; the signatures are settled.)
use super::Isa;
/// The floating formats that an edge can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: binary32 with 8 significant bits.
    Bf16,
}
/// Rounds to the nearest f16 value, ties to even; overflow gives infinity, subnormals are kept.
pub fn round_f16(x: f32) -> f32 { f16_to_f32(f32_to_f16(x)) }
/// Rounds to the nearest bf16 value, ties to even.
pub fn round_bf16(x: f32) -> f32 { x }
/// f16 bits of a value.
pub fn f32_to_f16(x: f32) -> u16 { let _ = x; 0 }
/// Value of f16 bits.
pub fn f16_to_f32(bits: u16) -> f32 { f32::from(bits) }
/// bf16 bits of a value.
pub fn f32_to_bf16(x: f32) -> u16 { (x.to_bits() >> 16) as u16 }
/// Value of bf16 bits.
pub fn bf16_to_f32(bits: u16) -> f32 { f32::from_bits(u32::from(bits) << 16) }
/// Rounds every element in place to a format.
pub fn round_slice(isa: Isa, format: Format, values: &mut [f32]) { let _ = (isa, format, values); }
