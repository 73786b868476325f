//! Gradients that take the gradient of a bias along: the same gradients as alone, the sums near and the same again.

use super::*;
use crate::exec::cuda::fusion::Kind;
use crate::graph::Unary;

/// Ops over values by their numbers: operands, results.
struct Chain {
    values: Vec<(Value, Option<Buffer>)>,
    members: Vec<(Op, Vec<usize>, Vec<usize>)>,
    /// A value that needs no memory in a group.
    inner: Option<usize>,
}

impl Chain {
    /// What is in each value after the members ran under the guarantee `device`: one by one, or as a group.
    fn run(&self, device: &mut dyn Device, kind: Option<Kind>) -> Vec<Buffer> {
        let mut tensors = Vec::new();
        for (value, buffer) in &self.values {
            let address = device.allocate((value.elements() * 4).max(16)).expect("memory");
            let tensor = Tensor { address, format: value.dtype };
            if let Some(buffer) = buffer {
                device.upload(address, &to_bytes(buffer, value.dtype)).expect("an upload");
            }
            tensors.push(tensor);
        }
        let operands = |numbers: &[usize]| {
            numbers.iter().map(|at| Operand::new(tensors[*at], &self.values[*at].0)).collect::<Vec<_>>()
        };
        let edges: Vec<_> =
            self.members.iter().map(|(_, inputs, outputs)| (operands(inputs), operands(outputs))).collect();
        let convolutions = Convolutions::new(false);
        let calls: Vec<Call<'_>> = self
            .members
            .iter()
            .zip(&edges)
            .map(|((op, ..), (inputs, outputs))| Call {
                op,
                layout: Layout::RowMajor,
                inputs,
                outputs,
                arithmetic: Arithmetic::Device,
                tensor_cores: device.has_tensor_cores(),
                convolutions: &convolutions,
                seed: 42,
                position: 0,
                culprit: 0,
            })
            .collect();
        match kind {
            Some(kind) => launch_all(device, |launches| dispatch::run_group(kind, &calls, &[], launches)),
            None => calls.iter().try_for_each(|call| launch(device, call)),
        }
        .expect("kernels");
        let values = tensors.iter().zip(&self.values);
        values.map(|(tensor, (value, _))| from_device(device, *tensor, value)).collect()
    }

    /// Checks that as a group all values but the sums are what they are one by one, that the sums of `summed` are near those in f64, and
    /// that a second run gives the same.
    fn check(&self, kind: Kind, [summed, sums]: [usize; 2], what: &str) {
        for mut device in devices() {
            let alone = self.run(&mut *device, None);
            let [found, again] = [0; 2].map(|_| self.run(&mut *device, Some(kind)));
            assert_eq!(format!("{found:?}"), format!("{again:?}"), "{what}: a second run");
            for number in
                (0..self.values.len()).filter(|number| *number != sums && Some(*number) != self.inner)
            {
                let [alone, found] = [&alone, &found].map(|all| format!("{:?}", all[number]));
                assert_eq!(alone, found, "{what}: value {number}");
            }
            let elements = self.values[summed].0.elements();
            let columns = self.values[sums].0.elements();
            let values = found[summed].floats(elements);
            for (column, got) in found[sums].floats(columns).iter().enumerate() {
                let column = values.iter().skip(column).step_by(columns).map(|x| f64::from(*x));
                let (exact, size) =
                    column.fold((0.0, 0.0), |(sum, size): (f64, f64), x| (sum + x, size + x.abs()));
                let rows = (elements / columns) as f64;
                // Any order of n additions in f32 is within n · 2⁻²⁴ of the sum of what was added.
                let bound = size * rows * f64::from(f32::EPSILON) / 2.0;
                let near = (exact - f64::from(*got)).abs() <= bound || (exact.is_nan() && got.is_nan());
                assert!(near, "{what}: {exact} {got}");
            }
        }
    }
}

fn numbers(stream: u64, shape: &[usize], dtype: DType) -> (Value, Option<Buffer>) {
    let value = value(shape, dtype);
    let format = dtype.format().expect("a float");
    let numbers = cases::mixed(stream, value.elements(), false).into_iter().map(|x| round(format, x));
    let buffer = Buffer::Float(numbers.collect());
    (value, Some(buffer))
}

const BIAS: Op = Op::BiasBackward { axis: 1 };

#[test]
fn activations_take_the_sums_of_their_columns_along() {
    // Less than a strip of columns, several, not whole ones; few rows and many; columns that no kernel takes.
    for [rows, columns] in [[3, 8], [77, 264], [1030, 512], [20, 12]] {
        for kind in [Unary::Gelu, Unary::GeluTanh, Unary::Relu, Unary::Silu, Unary::Tanh] {
            for dtype in [DType::F16, DType::Bf16, DType::F32] {
                let shape = [rows, columns];
                let result = |shape: &[usize]| (value(shape, dtype), None);
                let sums = (value(&[columns], DType::F32), None);
                let values = vec![numbers(1, &shape, dtype), numbers(2, &shape, dtype), result(&shape), sums];
                let members = vec![(Op::UnaryBackward(kind), vec![0, 1], vec![2]), (BIAS, vec![2], vec![3])];
                let what = format!("{kind:?} of {rows} × {columns} {dtype}");
                Chain { values, members, inner: None }.check(Kind::ActivationGradient, [2, 3], &what);
            }
        }
    }
}

#[test]
fn norms_take_the_sums_of_their_copy_along() {
    for [rows, columns] in [[3, 64], [530, 512], [41, 768], [270, 1024]] {
        for dtype in [DType::F16, DType::Bf16] {
            for (centred, adds) in [(true, true), (true, false), (false, true)] {
                let (shape, row, column) = ([rows, columns], [rows], [columns]);
                let wide = |stream| numbers(stream, &shape, DType::F32);
                let mut values = vec![
                    numbers(1, &shape, dtype),
                    wide(2),
                    numbers(3, &column, DType::F32),
                    numbers(4, &row, DType::F32),
                    numbers(5, &row, DType::F32),
                    wide(6),
                ];
                let results: [(&[usize], DType); 6] = [
                    (&shape, DType::F32),
                    (&column, DType::F32),
                    (&column, DType::F32),
                    (&shape, DType::F32),
                    (&shape, dtype),
                    (&column, DType::F32),
                ];
                values.extend(results.map(|(shape, dtype)| (value(shape, dtype), None)));
                let mut members = if centred {
                    vec![(Op::LayerNormBackward, vec![0, 1, 2, 3, 4], vec![6, 7, 8])]
                } else {
                    vec![(Op::RmsNormBackward, vec![0, 1, 2, 4], vec![6, 7])]
                };
                if adds {
                    members.push((Op::Add, vec![5, 6], vec![9]));
                }
                members.push((Op::Cast, vec![if adds { 9 } else { 6 }], vec![10]));
                members.push((BIAS, vec![10], vec![11]));
                let what = format!("{rows} × {columns} {dtype}, centred {centred}, with a sum {adds}");
                // What is added inside the group is not written.
                let inner = adds.then_some(6);
                Chain { values, members, inner }.check(Kind::NormGradient, [10, 11], &what);
            }
        }
    }
}
