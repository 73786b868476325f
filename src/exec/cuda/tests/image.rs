//! Convolutions, forward and backward.

use super::super::dispatch::Units;
use super::super::dispatch::image::{tiled_forward, tiled_input, tiled_weight};
use super::super::dispatch::products::TILES;
use super::*;
use crate::exec::cpu::convolution::Geometry;

/// Images, height, width, channels, output channels; kernel, stride, padding, dilation; groups.
type Sizes = ([usize; 5], [[usize; 2]; 4], usize);

const CASES: [Sizes; 16] = [
    ([1, 1, 1, 1, 1], [[1, 1], [1, 1], [0, 0], [1, 1]], 1),
    // The first layer of a network: three channels, a large filter.
    ([2, 9, 11, 3, 10], [[7, 7], [2, 2], [3, 3], [1, 1]], 1),
    ([2, 6, 5, 8, 12], [[3, 3], [1, 1], [1, 1], [1, 1]], 1),
    ([2, 7, 6, 20, 18], [[3, 3], [2, 2], [1, 1], [1, 1]], 1),
    ([1, 8, 7, 5, 33], [[3, 2], [1, 3], [2, 0], [2, 1]], 1),
    // Plain products, and filters of one pixel that are none.
    ([2, 3, 4, 9, 7], [[1, 1], [1, 1], [0, 0], [1, 1]], 1),
    ([2, 5, 4, 8, 7], [[1, 1], [2, 2], [0, 0], [1, 1]], 1),
    ([1, 3, 3, 4, 5], [[1, 1], [1, 1], [1, 1], [1, 1]], 1),
    // Patches of a vision transformer.
    ([2, 8, 8, 3, 17], [[4, 4], [4, 4], [0, 0], [1, 1]], 1),
    // Groups: few channels, many, one each.
    ([1, 5, 6, 6, 9], [[3, 3], [1, 1], [1, 1], [1, 1]], 3),
    ([2, 5, 4, 16, 32], [[3, 3], [2, 1], [1, 1], [1, 1]], 2),
    ([2, 6, 6, 5, 5], [[3, 3], [1, 1], [1, 1], [1, 1]], 5),
    ([1, 7, 5, 4, 8], [[3, 3], [2, 2], [1, 2], [2, 1]], 4),
    // Strides beyond the image and the filter, no output, no images.
    ([1, 2, 3, 4, 5], [[1, 2], [5, 4], [1, 1], [1, 1]], 1),
    ([1, 2, 2, 4, 5], [[3, 3], [1, 1], [0, 0], [1, 1]], 1),
    ([0, 4, 4, 8, 8], [[3, 3], [1, 1], [1, 1], [1, 1]], 1),
];

fn geometry(([batch, height, width, channels_in, channels_out], steps, groups): Sizes) -> Geometry {
    let [kernel, stride, padding, dilation] = steps;
    Geometry { batch, height, width, channels_in, channels_out, kernel, stride, padding, dilation, groups }
}

/// The forward op and its gradients.
fn cases_of(geometry: &Geometry, format: DType, special: bool) -> [Case; 4] {
    let Geometry {
        batch,
        height,
        width,
        channels_in,
        channels_out,
        kernel,
        stride,
        padding,
        dilation,
        groups,
    } = *geometry;
    let operand = |stream: u64, shape: &[usize], dtype: DType| {
        let value = value(shape, dtype);
        let values = cases::mixed(stream, value.elements(), special);
        let rounded = values.iter().map(|x| round(dtype.format().unwrap_or(Format::F32), *x));
        (value, Buffer::Float(rounded.collect()))
    };
    let [out_height, out_width] = geometry.output_size();
    let result = format.gradient();
    let weight_shape = [channels_out, channels_in / groups, kernel[0], kernel[1]];
    let x = || operand(1, &[batch, channels_in, height, width], format);
    let weight = || operand(2, &weight_shape, format);
    let bias = || operand(3, &[channels_out], DType::F32);
    let y = value(&[batch, channels_out, out_height, out_width], result);
    let dy = || operand(4, &y.shape, format);
    let forward = |bias| Op::Conv2d { stride, padding, dilation, groups, bias };
    let backward = [
        (Op::Conv2dBackwardInput { stride, padding, dilation, groups }, weight(), x().0.shape),
        (Op::Conv2dBackwardWeight { stride, padding, dilation, groups }, x(), weight_shape.to_vec()),
    ];
    let [input, weights] =
        backward.map(|(op, other, shape)| Case::new(op, vec![dy(), other], vec![value(&shape, result)]));
    let all = [
        Case::new(forward(false), vec![x(), weight()], vec![y.clone()]),
        Case::new(forward(true), vec![x(), weight(), bias()], vec![y.clone()]),
        input,
        weights,
    ];
    all.map(|case| Case { layout: Layout::ChannelsLast, ..case })
}

#[test]
fn convolutions_have_the_bits_of_the_cpu() {
    for (number, sizes) in CASES.into_iter().enumerate() {
        for format in [DType::F32, DType::F16, DType::Bf16, DType::Tf32] {
            for special in [false, true] {
                for case in cases_of(&geometry(sizes), format, special) {
                    case.check(&format!("case {number} {format:?} {special}"));
                }
            }
        }
    }
}

#[test]
fn operands_and_results_of_other_formats_are_read_and_rounded_once() {
    for (left, right, written) in
        [(DType::F16, DType::F32, DType::Bf16), (DType::Tf32, DType::Bf16, DType::F32)]
    {
        for number in [1, 2, 3, 5, 10, 11] {
            for mut case in cases_of(&geometry(CASES[number]), DType::F32, true) {
                case.stored = vec![Some(left), Some(right), None];
                case.stored.truncate(case.inputs.len());
                case.written = vec![Some(written)];
                case.check(&format!("case {number} {left:?} {right:?} {written:?}"));
            }
        }
    }
}

#[test]
fn tiles_of_all_sizes_give_the_same_bits() {
    let larger = ([2, 9, 10, 36, 70], [[3, 3], [2, 1], [1, 1], [1, 1]], 1);
    for sizes in [larger, CASES[1], CASES[4], CASES[10]] {
        let geometry = geometry(sizes);
        for mut device in devices() {
            for tile in TILES {
                for (which, case) in cases_of(&geometry, DType::F32, true).into_iter().enumerate() {
                    let mut tensors: Vec<Tensor> = Vec::new();
                    for (_, buffer) in &case.inputs {
                        let bytes = to_bytes(buffer, DType::F32);
                        let address = device.allocate(bytes.len()).expect("memory");
                        device.upload(address, &bytes).expect("an upload");
                        tensors.push(Tensor::f32(address));
                    }
                    let elements = case.outputs[0].elements();
                    let out = Tensor::f32(device.allocate(elements * 4).expect("memory"));
                    let make = |launches: &mut Launches| match (which, &tensors[..]) {
                        (0, [x, weight]) => {
                            tiled_forward(tile, &geometry, [*x, *weight, Tensor::NONE, out], launches);
                        }
                        (1, [x, weight, bias]) => {
                            tiled_forward(tile, &geometry, [*x, *weight, *bias, out], launches);
                        }
                        (2, [dy, weight]) => tiled_input(tile, &geometry, [*dy, *weight, out], launches),
                        (_, operands) => {
                            tiled_weight(tile, &geometry, [operands[0], operands[1], out], launches)
                        }
                    };
                    let mut probe = Launches::new(0, 0);
                    make(&mut probe);
                    let scratch = device.allocate(probe.scratch_bytes().max(1)).expect("memory");
                    let mut launches = Launches::new(scratch, 0);
                    make(&mut launches);
                    launches.list.iter().for_each(|launch| device.launch(launch).expect("a launch"));
                    let found = from_device(&mut *device, out, &case.outputs[0]);
                    let difference = case.difference(&case.expected(), &[found]);
                    assert_eq!(difference, None, "{tile:?} {geometry:?}");
                }
            }
        }
    }
}

/// What the library for convolutions is asked for in half precision, and with its channels how often: forward, with a bias, input
/// gradient, weight gradient. It takes 8 channels at a time.
const LIBRARY_CASES: [(Sizes, [bool; 4]); 12] = [
    // Few channels become eight, or those of the pixels of a stride together, but for the input's gradient.
    (([2, 9, 11, 3, 16], [[7, 7], [2, 2], [3, 3], [1, 1]], 1), [true, true, false, true]),
    (([2, 10, 9, 3, 16], [[5, 3], [2, 1], [1, 0], [1, 1]], 1), [true, true, false, true]),
    (([1, 13, 12, 3, 8], [[7, 7], [3, 3], [2, 1], [1, 1]], 1), [true, true, false, true]),
    (([2, 9, 8, 1, 8], [[3, 3], [2, 2], [1, 1], [1, 1]], 1), [true, true, false, true]),
    (([1, 3, 3, 20, 8], [[1, 1], [1, 1], [1, 1], [1, 1]], 1), [false, false, false, false]),
    (([1, 5, 4, 20, 8], [[2, 2], [1, 1], [1, 1], [1, 1]], 1), [true, true, false, true]),
    (([2, 6, 5, 8, 24], [[3, 3], [1, 1], [1, 1], [1, 1]], 1), [true; 4]),
    (([2, 7, 6, 24, 16], [[3, 3], [2, 2], [1, 1], [1, 1]], 1), [true; 4]),
    (([1, 8, 7, 16, 32], [[3, 2], [1, 3], [2, 0], [2, 1]], 1), [true; 4]),
    (([2, 5, 4, 8, 16], [[1, 1], [2, 2], [0, 0], [1, 1]], 1), [true; 4]),
    (([2, 5, 4, 16, 32], [[3, 3], [2, 1], [1, 1], [1, 1]], 2), [true; 4]),
    // Patches of three channels stay products.
    (([2, 8, 8, 3, 16], [[4, 4], [4, 4], [0, 0], [1, 1]], 1), [false; 4]),
];

#[test]
fn the_library_is_asked_for_what_tensor_cores_take_whole() {
    for (sizes, asked) in LIBRARY_CASES {
        for (case, asked) in cases_of(&geometry(sizes), DType::F16, false).into_iter().zip(asked) {
            let operand = |value| Operand::new(Tensor { address: 0, format: DType::F16 }, value);
            let inputs: Vec<Operand<'_>> = case.inputs.iter().map(|(value, _)| operand(value)).collect();
            let outputs: Vec<Operand<'_>> = case.outputs.iter().map(operand).collect();
            let shapes = |arithmetic, there| {
                convolutions_of(&Call {
                    op: &case.op,
                    layout: case.layout,
                    inputs: &inputs,
                    outputs: &outputs,
                    arithmetic,
                    units: Units::HOPPER,
                    convolutions: &Convolutions::new(there),
                    seed: 0,
                    position: 0,
                    culprit: 0,
                })
            };
            let found = shapes(Arithmetic::Device, true);
            assert_eq!(found.len(), usize::from(asked), "{} {sizes:?}", case.op.kind());
            assert!(found.iter().all(|shape| shape.geometry.channels_in % 8 == 0), "{found:?}");
            assert_eq!(shapes(Arithmetic::Device, false), []);
            assert_eq!(shapes(Arithmetic::Portable, true), []);
        }
    }
}

/// The library adds in an order of its own, so only an error bound holds. With convolutions by the library and without.
#[test]
fn convolutions_by_the_library_are_near() {
    let all = CASES.into_iter().chain(LIBRARY_CASES.into_iter().map(|(sizes, _)| sizes));
    for mut device in devices() {
        for (number, sizes) in all.clone().enumerate() {
            for (format, convolved) in [
                (DType::F32, true),
                (DType::F32, false),
                (DType::F16, true),
                (DType::F16, false),
                (DType::Bf16, true),
                (DType::Tf32, true),
            ] {
                for case in cases_of(&geometry(sizes), format, false) {
                    let case = Case { convolved, ..case };
                    let found = case.found(&mut *device, Arithmetic::Device).expect("launches");
                    let elements = case.outputs[0].elements();
                    let expected = case.expected();
                    // Half of a place of the format for the result and as much for a bias, or sums in f32 in another order.
                    let bound = match format {
                        DType::F16 => 1.0 / 1024.0,
                        DType::Bf16 => 1.0 / 128.0,
                        _ => 1e-5,
                    };
                    for (wanted, got) in expected[0].floats(elements).iter().zip(found[0].floats(elements)) {
                        assert!(
                            (wanted - got).abs() <= bound * wanted.abs().max(8.0),
                            "case {number} {} {format} {convolved}: {wanted} {got}",
                            case.op.kind()
                        );
                    }
                }
            }
        }
    }
}
