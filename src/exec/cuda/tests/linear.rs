//! Linear layers and the products that everything else is made of.

use super::super::dispatch::products::{TILES, portable, product, row_major, transposed};
use super::super::launch::Product;
use super::*;

const FORMATS: [DType; 4] = [DType::F32, DType::F16, DType::Bf16, DType::Tf32];

fn operand(stream: u64, shape: &[usize], dtype: DType) -> (Value, Buffer) {
    let value = value(shape, dtype);
    let values = cases::mixed(stream, value.elements(), true);
    let values = values.iter().map(|x| round(dtype.format().unwrap_or(Format::F32), *x)).collect();
    (value, Buffer::of(values))
}

#[test]
fn linear_layers_have_the_bits_of_the_cpu() {
    for (case, [rows, inputs, outputs]) in
        [[1, 1, 1], [5, 7, 3], [33, 20, 17], [70, 68, 64], [3, 0, 4], [0, 5, 6], [130, 9, 131]]
            .into_iter()
            .enumerate()
    {
        for format in FORMATS {
            let result = format.gradient();
            let x = || operand(1, &[rows, inputs], format);
            let weight = || operand(2, &[outputs, inputs], format);
            let dy = || operand(4, &[rows, outputs], format);
            let what = format!("case {case} {format:?}");
            for bias in [None, Some(DType::F32), Some(result)] {
                let mut inputs = vec![x(), weight()];
                inputs.extend(bias.map(|dtype| operand(3, &[outputs], dtype)));
                let y = value(&[rows, outputs], result);
                Case::new(Op::Linear { bias: bias.is_some() }, inputs, vec![y]).check(&what);
            }
            let dx = value(&[rows, inputs], result);
            Case::new(Op::LinearBackwardInput, vec![dy(), weight()], vec![dx]).check(&what);
            let dw = value(&[outputs, inputs], result);
            Case::new(Op::LinearBackwardWeight, vec![dy(), x()], vec![dw]).check(&what);
        }
    }
}

#[test]
fn operands_and_results_of_other_formats_than_their_values_are_read_and_rounded_once() {
    for (x, weight, y) in [
        (DType::F16, DType::F32, DType::Bf16),
        (DType::Bf16, DType::Tf32, DType::F16),
        (DType::Tf32, DType::F16, DType::F32),
    ] {
        let inputs = vec![
            operand(1, &[19, 36], DType::F32),
            operand(2, &[40, 36], DType::F32),
            operand(3, &[40], DType::F32),
        ];
        let mut case = Case::new(Op::Linear { bias: true }, inputs, vec![value(&[19, 40], DType::F32)]);
        (case.stored, case.written) = (vec![Some(x), Some(weight), None], vec![Some(y)]);
        case.check(&format!("{x:?} {weight:?} {y:?}"));
    }
}

/// A batch of products by every tile, with strides wider than the matrices and all transpositions.
#[test]
fn tiles_of_all_sizes_give_the_same_bits() {
    let (rows, columns, depth, batch) = (133, 70, 37, 2);
    for mut device in devices() {
        for which in 0..16 {
            let (transpose_a, transpose_b) = (which & 1 != 0, which & 2 != 0);
            // Strides that are multiples of 4 let four elements be read at once.
            let extra = if which & 4 != 0 { 3 } else { 0 };
            let format = if which & 8 != 0 { DType::F16 } else { DType::F32 };
            let mut matrix = |stream: u64, sizes: [usize; 2], turned: bool| {
                let [rows, columns] = if turned { [sizes[1], sizes[0]] } else { sizes };
                let stride = columns.next_multiple_of(4) + extra;
                let (_, buffer) = operand(stream, &[batch * rows * stride], format);
                let address = device.allocate(batch * rows * stride * 4).expect("memory");
                device.upload(address, &to_bytes(&buffer, format)).expect("an upload");
                let matrix = row_major(Tensor { address, format }, stride, rows * stride);
                (if turned { transposed(matrix) } else { matrix }, buffer)
            };
            let (a, a_values) = matrix(1, [rows, depth], transpose_a);
            let (b, b_values) = matrix(2, [depth, columns], transpose_b);
            let (y, _) = matrix(3, [rows, columns], false);
            let (bias, bias_values) = matrix(4, [1, columns], false);
            let at =
                |matrix: &crate::exec::cuda::launch::Matrix, number: usize, row: usize, column: usize| {
                    let (row, column) = if matrix.transposed { (column, row) } else { (row, column) };
                    number * matrix.batch_stride + row * matrix.stride + column
                };
            let op = Product { a, b, y, rows, columns, depth, batch, alpha: 0.3, beta: 0.0 };
            let floats = |buffer: &Buffer| match buffer {
                Buffer::Float(values) => values.to_vec(),
                Buffer::Integer(_) => Vec::new(),
            };
            let (left, right, bias_values) = (floats(&a_values), floats(&b_values), floats(&bias_values));
            let elements = batch * y.batch_stride;
            for tile in TILES {
                let mut launches = Launches::new(0, 0);
                portable(tile, &op, Some(bias.tensor), &mut launches);
                launches.list.iter().for_each(|launch| device.launch(launch).expect("a launch"));
                let found = from_device(&mut *device, y.tensor, &value(&[elements], format));
                for (number, row, column) in (0..batch * rows * columns)
                    .map(|index| (index / (rows * columns), index / columns % rows, index % columns))
                {
                    let chain = (0..depth).fold(0.0_f32, |sum, k| {
                        left[at(&a, number, row, k)].mul_add(right[at(&b, number, k, column)], sum)
                    });
                    let wanted = round(format.format().expect("a float"), chain * 0.3 + bias_values[column]);
                    let got = found.floats(elements)[at(&y, number, row, column)];
                    assert!(
                        wanted.to_bits() == got.to_bits() || (wanted.is_nan() && got.is_nan()),
                        "{which} {tile:?} [{number}, {row}, {column}]: expected {wanted:e}, found {got:e}"
                    );
                }
            }
        }
    }
}

/// The library's products round elsewhere, so only an error bound holds: that of sums in any order, and of the result's rounding.
#[test]
fn products_by_the_library_are_near() {
    for mut device in devices() {
        for (format, weight, result) in [
            (DType::F32, DType::F32, DType::F32),
            (DType::F16, DType::F16, DType::F16),
            (DType::F16, DType::F16, DType::F32),
            (DType::F16, DType::Tf32, DType::Bf16),
            (DType::Bf16, DType::F16, DType::F16),
        ] {
            for bias in [false, true] {
                let plain = |stream: u64, shape: &[usize], dtype: DType| {
                    let value = value(shape, DType::F32);
                    let values = cases::mixed(stream, value.elements(), false);
                    let format = dtype.format().expect("a float");
                    (value, Buffer::Float(values.iter().map(|x| round(format, *x)).collect()))
                };
                let mut inputs = vec![plain(1, &[21, 30], format), plain(2, &[13, 30], weight)];
                inputs.extend(bias.then(|| plain(3, &[13], DType::F32)));
                let mut case = Case::new(Op::Linear { bias }, inputs, vec![value(&[21, 13], DType::F32)]);
                case.stored = vec![Some(format), Some(weight), None];
                case.stored.truncate(case.inputs.len());
                case.written = vec![Some(result)];
                let found = case.found(&mut *device, Arithmetic::Device).expect("launches");
                let expected = case.expected();
                let bound = if result == DType::Bf16 { 1.0 / 128.0 } else { 1.0 / 1024.0 };
                for (wanted, got) in expected[0].floats(21 * 13).iter().zip(found[0].floats(21 * 13)) {
                    assert!(
                        (wanted - got).abs() <= bound * wanted.abs().max(4.0),
                        "{format:?}: {wanted} {got}"
                    );
                }
            }
        }
        // No depth: zeros, or the bias.
        let y = Tensor::f32(device.allocate(64).expect("memory"));
        device.upload(y.address, &[1; 24]).expect("an upload");
        let none = row_major(Tensor::f32(y.address), 0, 0);
        let y = row_major(y, 3, 0);
        let op = Product {
            a: none,
            b: row_major(none.tensor, 3, 0),
            y,
            rows: 2,
            columns: 3,
            depth: 0,
            batch: 1,
            alpha: 1.0,
            beta: 0.0,
        };
        let mut launches = Launches::new(0, 0);
        product(Arithmetic::Device, &op, None, &mut launches);
        launches.list.iter().for_each(|launch| device.launch(launch).expect("a launch"));
        let found = from_device(&mut *device, y.tensor, &value(&[6], DType::F32));
        assert_eq!(found.floats(6), [0.0; 6]);
    }
}
