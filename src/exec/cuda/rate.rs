//! How fast a device multiplies matrices: what the use that a training step makes of it is compared with.

use super::device::Device;
use super::launch::{Launch, Matrix, Product, Tensor};
use crate::arithmetic::philox::Stream;
use crate::exec::clock::Stopwatch;
use crate::exec::fault::ExecFault;
use crate::graph::DType;

/// Rows and columns of the matrices: large enough that nothing but the matrix units counts.
pub const SIDE: usize = 8192;
/// Products that are timed together.
const TIMES: usize = 20;
/// Numbers that are drawn; matrices repeat them. Zeros, or numbers of one exponent and mantissa, would be multiplied with less power and thus
/// faster than what training multiplies.
const DRAWN: usize = 1 << 20;

/// Multiply-adds a second of square products of a format, sums in f32. Memory of three matrices is taken until the device is gone.
///
/// # Errors
/// Too little memory, or the device's own.
pub fn multiply_adds_per_second(
    device: &mut dyn Device,
    format: DType,
    side: usize,
) -> Result<f64, ExecFault> {
    let bytes = operands(format);
    let mut matrix = || -> Result<Matrix, ExecFault> {
        let whole = side * side * format.bytes();
        let address = device.allocate(whole)?;
        for from in (0..whole).step_by(bytes.len()) {
            device.upload(address + from as u64, &bytes[..bytes.len().min(whole - from)])?;
        }
        Ok(Matrix { tensor: Tensor { address, format }, stride: side, transposed: false, batch_stride: 0 })
    };
    let (a, b, y) = (matrix()?, matrix()?, matrix()?);
    let product =
        Product { a, b, y, rows: side, columns: side, depth: side, batch: 1, alpha: 1.0, beta: 0.0 };
    let mut run = |times: usize| -> Result<f64, ExecFault> {
        device.synchronise()?;
        let watch = Stopwatch::start();
        for _ in 0..times {
            device.launch(&Launch::Product(product))?;
        }
        device.synchronise()?;
        Ok(watch.seconds())
    };
    run(2)?;
    let seconds = run(TIMES)?;
    Ok((side * side * side * TIMES) as f64 / seconds.max(f64::MIN_POSITIVE))
}

/// Bytes of drawn numbers in ±[0.5, 1).
pub(super) fn operands(format: DType) -> Vec<u8> {
    let mut words = vec![0_u32; DRAWN];
    Stream::new(0, 0).fill_words(0, 0, &mut words);
    let half = |word: u32, exponent: u16, mantissa: u32| {
        ((word >> 16) as u16 & 0x8000) | exponent | (word as u16 & ((1 << mantissa) - 1))
    };
    let number = |word: &u32| match format {
        DType::F16 => half(*word, 0x3800, 10).to_le_bytes().to_vec(),
        DType::Bf16 => half(*word, 0x3f00, 7).to_le_bytes().to_vec(),
        _ => (word & 0x807f_ffff | 0x3f00_0000).to_le_bytes().to_vec(),
    };
    words.iter().flat_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::operands;
    use crate::arithmetic::half::{bf16_to_f32, f16_to_f32};
    use crate::graph::DType;

    #[test]
    fn operands_are_of_both_signs_and_between_a_half_and_one() {
        let [f16, bf16] = [DType::F16, DType::Bf16].map(operands);
        let pairs = |bytes: &[u8]| -> Vec<u16> {
            bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect()
        };
        let f32s: Vec<f32> =
            operands(DType::F32).as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
        let f16s: Vec<f32> = pairs(&f16).into_iter().map(f16_to_f32).collect();
        let bf16s: Vec<f32> = pairs(&bf16).into_iter().map(bf16_to_f32).collect();
        for numbers in [f32s, f16s, bf16s] {
            assert!(numbers.iter().all(|number| (0.5..1.0).contains(&number.abs())));
            let negative = numbers.iter().filter(|number| **number < 0.0).count();
            // A fair coin: 2^20 draws, six deviations of 512.
            assert!(negative.abs_diff(numbers.len() / 2) < 6 * 512, "{negative}");
        }
    }
}
