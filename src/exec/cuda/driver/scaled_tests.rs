//! cublasLt's FP8 products on a real device: `cargo test --features cuda --lib scaled -- --ignored`.

use super::*;
use crate::arithmetic::eight::{e4m3_to_f32, e5m2_to_f32};
use crate::exec::cuda::driver::tests::{floats, placed};
use crate::exec::cuda::launch::{ScaledProduct, Tensor};
use crate::graph::DType;

/// Every code that is a number, in a fixed mixture.
fn codes(count: usize, seed: usize, format: DType) -> (Vec<u8>, Vec<f32>) {
    let value = |code: u8| if format == DType::E4m3 { e4m3_to_f32(code) } else { e5m2_to_f32(code) };
    // Large exponents are left out, so that no sum overflows.
    let code = |index: usize| {
        let code = ((index * 97 + seed * 31 + index / 7) % 251) as u8;
        if value(code).abs() < 64.0 { code } else { code & 0x8f | 0x30 }
    };
    let codes: Vec<u8> = (0..count).map(code).collect();
    let values = codes.iter().map(|code| value(*code)).collect();
    (codes, values)
}

#[test]
#[ignore = "needs an NVIDIA GPU with FP8"]
fn fp8_products_are_near_the_chain_of_the_cpu() {
    let mut device = Driver::open().expect("a device");
    for (case, [rows, columns, depth]) in
        [[16, 16, 16], [64, 48, 32], [128, 256, 512], [1024, 768, 3072]].into_iter().enumerate()
    {
        for first in [DType::E4m3, DType::E5m2] {
            for y_format in [DType::F32, DType::Bf16] {
                let (a_codes, a) = codes(rows * depth, case, first);
                let (b_codes, b) = codes(columns * depth, case + 1, DType::E4m3);
                let mut upload = |bytes: &[u8], format| {
                    let address = device.allocate(bytes.len()).expect("memory");
                    device.upload(address, bytes).expect("an upload");
                    Tensor { address, format }
                };
                let (a_at, b_at) = (upload(&a_codes, first), upload(&b_codes, DType::E4m3));
                let y = upload(&vec![0; rows * columns * y_format.bytes()], y_format);
                let inverses = [0.37_f32, 1.0 / 448.0];
                let scales = inverses.map(|inverse| placed(&mut device, &[inverse], DType::F32).address);
                let bias_values: Vec<f32> =
                    (0..columns).map(|column| column as f32 / 8.0 % 3.0 - 1.0).collect();
                let bias_values: Vec<f32> =
                    bias_values.into_iter().map(crate::arithmetic::half::round_bf16).collect();
                let bias = (y_format == DType::Bf16).then(|| placed(&mut device, &bias_values, DType::Bf16));
                let product = ScaledProduct { a: a_at, b: b_at, y, rows, columns, depth, scales, bias };
                device.launch(&Launch::ScaledProduct(product)).expect("a product");
                let found = match y_format {
                    DType::F32 => floats(&mut device, y.address, rows * columns),
                    _ => {
                        let mut bytes = vec![0; rows * columns * 2];
                        device.download(y.address, &mut bytes).expect("a download");
                        let pairs = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
                        pairs.map(crate::arithmetic::half::bf16_to_f32).collect()
                    }
                };
                let (factor, sampled) = (inverses[0] * inverses[1], rows * columns / 997 + 1);
                for place in (0..rows * columns).step_by(sampled) {
                    let (row, column) = (place / columns, place % columns);
                    let terms = (0..depth).map(|k| a[row * depth + k] * b[column * depth + k]);
                    let (chain, greatest) = terms.fold((0.0_f32, 0.0_f32), |(sum, greatest), term| {
                        (sum + term, greatest.max(term.abs()).max((sum + term).abs()))
                    });
                    let bias = if bias.is_some() { bias_values[column] } else { 0.0 };
                    let wanted = chain * factor + bias;
                    // Tensor cores of Hopper align the terms of a group, and the sum so far, to the greatest of them and cut what lies
                    // behind its 13th bit: each term, and each group's sum, is off by up to so much.
                    let sums = (depth + depth / 16 + 1) as f32 * greatest * factor / 8192.0;
                    let rounding = if y_format == DType::F32 { 0.0 } else { wanted.abs() / 128.0 };
                    assert!(
                        (wanted - found[place]).abs() <= sums + rounding,
                        "{first} to {y_format} {rows}×{columns}×{depth} [{row}, {column}]: expected {wanted}, found {}",
                        found[place]
                    );
                }
                // The same launch gives the same bits.
                let again = |device: &mut Driver| {
                    device.launch(&Launch::ScaledProduct(product)).expect("a product");
                    let mut bytes = vec![0; rows * columns * y_format.bytes()];
                    device.download(y.address, &mut bytes).expect("a download");
                    bytes
                };
                assert!(again(&mut device) == again(&mut device));
            }
        }
    }
}
