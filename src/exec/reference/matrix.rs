//! The matrix product by its definition: C\[i,j\] = Σ_k A\[i,k\]·B\[k,j\] as one chain of fused multiply-adds from +0 over
//! ascending k, then the bias, then the rounding.

use crate::arithmetic::eight::{round_e4m3, round_e5m2};
use crate::arithmetic::fused_multiply_add;
use crate::arithmetic::half::{Format, round_bf16, round_f16, round_tf32};
use crate::exec::cpu::matrix::{Epilogue, MatrixRef, Product};

/// C = A·B (+ bias), `c` being row-major `rows × columns` and overwritten.
pub fn product(size: Product, a: MatrixRef, b: MatrixRef, c: &mut [f32], epilogue: Epilogue) {
    for row in 0..size.rows {
        for column in 0..size.columns {
            c[row * size.columns + column] = element(size.depth, a, b, epilogue, [row, column]);
        }
    }
}

/// C\[i,j\] alone.
pub fn element(depth: usize, a: MatrixRef, b: MatrixRef, epilogue: Epilogue, [i, j]: [usize; 2]) -> f32 {
    let mut sum = 0.0;
    for k in 0..depth {
        let left = a.data[i * a.row_stride + k * a.column_stride];
        let right = b.data[k * b.row_stride + j * b.column_stride];
        sum = fused_multiply_add(left, right, sum);
    }
    if let Some(bias) = epilogue.bias {
        sum += bias[j];
    }
    rounded(epilogue.format, sum)
}

/// `value` rounded to `format`.
pub fn rounded(format: Format, value: f32) -> f32 {
    match format {
        Format::F32 => value,
        Format::F16 => round_f16(value),
        Format::Bf16 => round_bf16(value),
        Format::Tf32 => round_tf32(value),
        Format::E4m3 => round_e4m3(value),
        Format::E5m2 => round_e5m2(value),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The inputs of the files in `testdata`: see the script there.
    pub(in crate::exec::reference) fn values(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| (((i * 7 + i / 5 * 3 + seed * 13) % 11) as f32 - 5.0) / 8.0).collect()
    }

    /// The cases of a file: the sizes, then named results, which are stored times 64.
    pub(in crate::exec::reference) fn cases(text: &str) -> Vec<(Vec<usize>, Vec<Vec<f32>>)> {
        let mut cases: Vec<(Vec<usize>, Vec<Vec<f32>>)> = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            if words.next() == Some("case") {
                cases.push((words.map(|word| word.parse().expect("a size")).collect(), Vec::new()));
            } else {
                let results = words.map(|word| word.parse::<f32>().expect("a number") / 64.0).collect();
                cases.last_mut().expect("a case comes first").1.push(results);
            }
        }
        cases
    }

    #[test]
    fn a_linear_layer_and_its_gradients_are_those_of_pytorch() {
        let cases = cases(include_str!("testdata/linear.txt"));
        assert_eq!(cases.len(), 4);
        for (sizes, results) in cases {
            let [rows, inputs, outputs] = sizes[..] else { panic!("a case has three sizes") };
            let (x, weight) = (values(1, rows * inputs), values(2, outputs * inputs));
            let (bias, dy) = (values(3, outputs), values(4, rows * outputs));
            let x = MatrixRef::row_major(&x, inputs);
            let weight = MatrixRef::row_major(&weight, inputs);
            let dy = MatrixRef::row_major(&dy, outputs);

            let mut found = vec![0.0; rows * outputs];
            let size = Product { rows, columns: outputs, depth: inputs };
            let epilogue = Epilogue { bias: Some(&bias), format: Format::F32 };
            product(size, x, weight.transposed(), &mut found, epilogue);
            assert_eq!(found, results[0], "y {sizes:?}");

            let mut found = vec![0.0; rows * inputs];
            let size = Product { rows, columns: inputs, depth: outputs };
            product(size, dy, weight, &mut found, Epilogue::NONE);
            assert_eq!(found, results[1], "dx {sizes:?}");

            let mut found = vec![0.0; outputs * inputs];
            let size = Product { rows: outputs, columns: inputs, depth: rows };
            product(size, dy.transposed(), x, &mut found, Epilogue::NONE);
            assert_eq!(found, results[2], "dw {sizes:?}");
        }
    }
}
