//! The driver on a real device. They are ignored where there may be none: `cargo test --features cuda --lib driver -- --ignored`.

use super::*;
use crate::arithmetic::half::{f32_to_bf16, f32_to_f16};
use crate::exec::cuda::launch::{Arguments, Matrix, Product, Tensor};
use crate::exec::cuda::tests::arithmetic::FUNCTIONS;
use crate::graph::DType;

pub(super) fn floats(device: &mut Driver, address: u64, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; count * 4];
    device.download(address, &mut bytes).expect("a download");
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// Memory with these values in a format.
pub(super) fn placed(device: &mut Driver, values: &[f32], format: DType) -> Tensor {
    let bytes: Vec<u8> = match format {
        DType::F16 => values.iter().flat_map(|value| f32_to_f16(*value).to_le_bytes()).collect(),
        DType::Bf16 => values.iter().flat_map(|value| f32_to_bf16(*value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    let address = device.allocate(bytes.len()).expect("memory");
    device.upload(address, &bytes).expect("an upload");
    Tensor { address, format }
}

/// Small whole numbers, so that every format and order of sums is exact.
fn whole_numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7 + seed * 5) % 11) as f32 - 5.0).collect()
}

#[test]
fn the_lack_of_a_driver_is_told() {
    let fault = absent(DriverError(sys::CUresult::CUDA_ERROR_STUB_LIBRARY));
    assert_eq!(fault.code, codes::RUN_DEVICE);
    assert!(fault.message.contains("stub") && fault.help.is_some_and(|help| help.contains("--device cpu")));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn memory_holds_what_is_written() {
    let mut device = Driver::open().expect("a device");
    assert!(device.platform().starts_with("cuda-sm") && device.units().tensor_cores);
    // More than all slots of the staging memory, and no multiple of one.
    let pattern: Vec<u8> = (0..(33 << 20) + 5).map(|index: usize| (index * 31 % 251) as u8).collect();
    let before = device.memory_in_use().expect("numbers").0;
    let address = device.allocate(pattern.len()).expect("memory");
    assert_eq!(address % 256, 0);
    device.upload(address, &pattern).expect("an upload");
    let mut back = vec![0; pattern.len()];
    device.download(address, &mut back).expect("a download");
    assert!(back == pattern);
    assert!(device.memory_in_use().expect("numbers").0 >= before + pattern.len() as u64);
    device.launch(&Launch::Clear { address: address + 3, bytes: 5 }).expect("a launch");
    device.download(address, &mut back[..10]).expect("a download");
    assert_eq!(back[..10], [pattern[0], pattern[1], pattern[2], 0, 0, 0, 0, 0, pattern[8], pattern[9]]);
    let fault = device.allocate(1 << 50).expect_err("a petabyte");
    assert_eq!(fault.code, codes::RUN_MEMORY);
    // Nothing is wrong after that.
    device.synchronise().expect("a device that works");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_kernel_that_is_not_there_is_a_fault() {
    let mut device = Driver::open().expect("a device");
    let launch = Launch::Kernel {
        name: "no_such_kernel",
        grid: [1; 3],
        block: 32,
        shared: 0,
        arguments: Arguments::new(),
    };
    let fault = device.launch(&launch).expect_err("no kernel");
    assert!(fault.message.contains("no_such_kernel"), "{}", fault.message);
    assert!(device.capture(&[launch]).is_err());
    device.synchronise().expect("a device that works");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn products_are_those_of_row_major_matrices() {
    let mut device = Driver::open().expect("a device");
    let (rows, columns, depth, batch) = (24, 40, 16, 3);
    let formats = [DType::F32, DType::Tf32, DType::F16, DType::Bf16];
    for (case, format) in formats.into_iter().cycle().take(16).enumerate() {
        let (a_transposed, b_transposed) = (case / 4 % 2 == 1, case / 8 % 2 == 1);
        let batch = if case % 3 == 0 { 1 } else { batch };
        // Rows lie further apart than they are long.
        let side = |[rows, columns]: [usize; 2], transposed: bool| match transposed {
            false => (rows, columns + 8),
            true => (columns, rows + 8),
        };
        let (a_rows, a_stride) = side([rows, depth], a_transposed);
        let (b_rows, b_stride) = side([depth, columns], b_transposed);
        let a_values = whole_numbers(batch * a_rows * a_stride, 1);
        let b_values = whole_numbers(batch * b_rows * b_stride, 2);
        let y_values = whole_numbers(batch * rows * columns, 3);
        let matrix =
            |tensor, stride, transposed, batch_stride| Matrix { tensor, stride, transposed, batch_stride };
        let product = Product {
            a: matrix(placed(&mut device, &a_values, format), a_stride, a_transposed, a_rows * a_stride),
            b: matrix(placed(&mut device, &b_values, format), b_stride, b_transposed, b_rows * b_stride),
            y: matrix(placed(&mut device, &y_values, DType::F32), columns, false, rows * columns),
            rows,
            columns,
            depth,
            batch,
            alpha: 2.0,
            beta: -1.0,
        };
        device.launch(&Launch::Product(product)).expect("a product");
        let found = floats(&mut device, product.y.tensor.address, batch * rows * columns);
        let at = |values: &[f32], matrix: Matrix, index: usize, row: usize, column: usize| {
            let (row, column) = if matrix.transposed { (column, row) } else { (row, column) };
            values[index * matrix.batch_stride + row * matrix.stride + column]
        };
        for index in 0..batch {
            for row in 0..rows {
                for column in 0..columns {
                    let sum: f32 = (0..depth)
                        .map(|inner| {
                            at(&a_values, product.a, index, row, inner)
                                * at(&b_values, product.b, index, inner, column)
                        })
                        .sum();
                    let place = (index * rows + row) * columns + column;
                    assert_eq!(
                        found[place],
                        2.0 * sum - y_values[place],
                        "case {case}: {index} {row} {column}"
                    );
                }
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_recorded_graph_does_what_its_launches_do() {
    let mut device = Driver::open().expect("a device");
    let side = 256;
    let values: Vec<f32> = whole_numbers(side * side, 4).iter().map(|value| value / 3.0).collect();
    let matrix = |tensor| Matrix { tensor, stride: side, transposed: false, batch_stride: side * side };
    let (a, b) = (placed(&mut device, &values, DType::F32), placed(&mut device, &values, DType::F32));
    let y = device.allocate(side * side * 4).expect("memory");
    let (rows, columns, depth) = (side, side, side);
    let product = |beta| {
        let (a, b, y) = (matrix(a), matrix(b), matrix(Tensor::f32(y)));
        Launch::Product(Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta })
    };
    let launches = [Launch::Clear { address: y, bytes: side * side * 4 }, product(1.0), product(1.0)];
    // Recorded before the library's first product, as the engine does it.
    let graph = device.capture(&launches).expect("a recording").expect("a device that records");
    launches.iter().try_for_each(|launch| device.launch(launch)).expect("launches");
    let expected = floats(&mut device, y, side * side);
    assert!(expected.iter().any(|value| *value != 0.0));
    for _ in 0..20 {
        device.replay(graph).expect("a replay");
        let found = floats(&mut device, y, side * side);
        assert!(found.iter().zip(&expected).all(|(found, expected)| found.to_bits() == expected.to_bits()));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn candle_runs_on_the_same_device() {
    let device = Driver::open().expect("a device");
    let candle = candle_core::Device::Cuda(device.candle().clone());
    let ones = candle_core::Tensor::ones((4, 8), candle_core::DType::F32, &candle).expect("a tensor");
    let sum = (&ones + &ones).and_then(|two| two.sum_all()).and_then(|sum| sum.to_scalar::<f32>());
    assert_eq!(sum.expect("a sum"), 64.0);
}

/// The functions of the kernels equal those of the host, which are proved, for each of the 2^32 numbers: minutes on many cores.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn functions_have_the_bits_of_the_host_for_every_number() {
    const PIECE: usize = 1 << 26;
    let mut device = Driver::open().expect("a device");
    let [x, y] = [0; 2].map(|_| device.allocate(PIECE * 4).expect("memory"));
    let mut bytes = vec![0; PIECE * 4];
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for piece in 0..(1_u64 << 32) / PIECE as u64 {
        let first = (piece * PIECE as u64) as u32;
        for (word, bits) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(first..=u32::MAX) {
            *word = bits.to_le_bytes();
        }
        device.upload(x, &bytes).expect("an upload");
        for (number, (name, function)) in (0..).zip(FUNCTIONS) {
            let arguments =
                Arguments::new().int(number).tensor(Tensor::f32(x)).tensor(Tensor::f32(y)).size(PIECE);
            let grid = [(PIECE / 256) as u32, 1, 1];
            device
                .launch(&Launch::Kernel { name: "test_function", grid, block: 256, shared: 0, arguments })
                .expect("a launch");
            device.download(y, &mut bytes).expect("a download");
            let part = PIECE / cores + 1;
            std::thread::scope(|scope| {
                for (found, start) in bytes.as_chunks::<4>().0.chunks(part).zip((first..).step_by(part)) {
                    scope.spawn(move || {
                        for (found, bits) in found.iter().zip(start..=u32::MAX) {
                            let (found, expected) =
                                (f32::from_le_bytes(*found), function(f32::from_bits(bits)));
                            let same =
                                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                            assert!(
                                same,
                                "{name} of the bits {bits:#x} is {expected:e}, the kernel has {found:e}"
                            );
                        }
                    });
                }
            });
        }
    }
}
