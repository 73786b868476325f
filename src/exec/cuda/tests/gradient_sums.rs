//! Gradients that take the gradient of a bias along: the same gradients as alone, the sums near and the same again.

use super::chain::{Chain, Link};
use super::*;
use crate::exec::cuda::fusion::Kind;
use crate::graph::Unary;

const BIAS: Op = Op::BiasBackward { axis: 1 };

/// Checks that under the guarantee `device` the values of a group, but for the sums, are what they are one by one, that the sums of
/// `summed` are near those in f64, and that a second run gives the same.
fn check(chain: &Chain<'_>, kind: Kind, [summed, sums]: [usize; 2], what: &str) {
    for mut device in devices() {
        let mut run = |kind| chain.run(&mut *device, kind, Arithmetic::Device);
        let (alone, found, again) = (run(None), run(Some(kind)), run(Some(kind)));
        assert_eq!(format!("{found:?}"), format!("{again:?}"), "{what}: a second run");
        for (number, alone) in alone.iter().filter(|(number, _)| **number != sums) {
            assert_eq!(format!("{alone:?}"), format!("{:?}", found[number]), "{what}: value {number}");
        }
        let [elements, columns] = [summed, sums].map(|number| chain.values[number].elements());
        let values = found[&summed].floats(elements);
        for (column, got) in found[&sums].floats(columns).iter().enumerate() {
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

fn numbers(stream: u64, shape: &[usize], dtype: DType) -> (Value, Buffer) {
    let value = value(shape, dtype);
    let format = dtype.format().expect("a float");
    let numbers = cases::mixed(stream, value.elements(), false).into_iter().map(|x| round(format, x));
    let buffer = Buffer::Float(numbers.collect());
    (value, buffer)
}

#[test]
fn activations_take_the_sums_of_their_columns_along() {
    // Less than a strip of columns, several, not whole ones; few rows and many; columns that no kernel takes.
    for [rows, columns] in [[3, 8], [77, 264], [1030, 512], [20, 12]] {
        for kind in [Unary::Gelu, Unary::GeluTanh, Unary::Relu, Unary::Silu, Unary::Tanh] {
            for dtype in [DType::F16, DType::Bf16, DType::F32] {
                let shape = [rows, columns];
                let (mut values, given): (Vec<Value>, Vec<Buffer>) =
                    [numbers(1, &shape, dtype), numbers(2, &shape, dtype)].into_iter().unzip();
                values.extend([value(&shape, dtype), value(&[columns], DType::F32), value(&shape, dtype)]);
                let gradient: Link<'_> = (Op::UnaryBackward(kind), &[0, 1], &[2]);
                let again: Link<'_> = (Op::Unary(kind), &[1], &[4]);
                let sums: Link<'_> = (BIAS, &[2], &[3]);
                let kept = [gradient.clone(), sums.clone()];
                let made_again = [gradient, again, sums];
                let chains: [(&[Link<'_>], &[usize]); 2] = [(&kept, &[4]), (&made_again, &[])];
                for (links, inner) in chains {
                    let (values, given) = (values.clone(), given.clone());
                    let chain = Chain { layout: Layout::RowMajor, values, given, links, beside: &[], inner };
                    let what = format!("{kind:?} of {rows} × {columns} {dtype}, {} links", links.len());
                    check(&chain, Kind::ActivationGradient, [2, 3], &what);
                }
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
                let (mut values, given): (Vec<Value>, Vec<Buffer>) = [
                    numbers(1, &shape, dtype),
                    wide(2),
                    numbers(3, &column, DType::F32),
                    numbers(4, &row, DType::F32),
                    numbers(5, &row, DType::F32),
                    wide(6),
                ]
                .into_iter()
                .unzip();
                let results: [(&[usize], DType); 6] = [
                    (&shape, DType::F32),
                    (&column, DType::F32),
                    (&column, DType::F32),
                    (&shape, DType::F32),
                    (&shape, dtype),
                    (&column, DType::F32),
                ];
                values.extend(results.map(|(shape, dtype)| value(shape, dtype)));
                let mut links: Vec<Link<'_>> = vec![if centred {
                    (Op::LayerNormBackward, &[0, 1, 2, 3, 4], &[6, 7, 8])
                } else {
                    (Op::RmsNormBackward, &[0, 1, 2, 4], &[6, 7])
                }];
                if adds {
                    links.push((Op::Add, &[5, 6], &[9]));
                }
                links.push((Op::Cast, if adds { &[9] } else { &[6] }, &[10]));
                links.push((BIAS, &[10], &[11]));
                // What is added inside the group is not written; without means there is no β, without a sum no sum.
                let gone = [(6, adds), (8, !centred), (9, !adds)];
                let inner: Vec<usize> =
                    gone.iter().filter(|(_, gone)| *gone).map(|(number, _)| *number).collect();
                let (links, inner) = (links.as_slice(), inner.as_slice());
                let chain = Chain { layout: Layout::RowMajor, values, given, links, beside: &[], inner };
                let what = format!("{rows} × {columns} {dtype}, centred {centred}, with a sum {adds}");
                check(&chain, Kind::NormGradient, [10, 11], &what);
            }
        }
    }
}
