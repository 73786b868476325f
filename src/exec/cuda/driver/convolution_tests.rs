//! Convolutions of the library on a real device, against sums in f64. Ignored where there may be no device.

use super::super::dispatch::{self, Arithmetic, Call, Operand, Units};
use super::super::emulated::each_product;
use super::super::launch::{Launches, Tensor};
use super::tests::{floats, placed};
use super::*;
use crate::arithmetic::half::{Format, round};
use crate::exec::clock::Stopwatch;
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::convolution::{Convolution, Convolutions as Made, Direction};
use crate::exec::program::Layout;
use crate::graph::{DType, Op, Role, Value};

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::Input, Direction::Weight];
const WORKSPACE: usize = 64 << 20;

/// Images, height, width, channels, output channels; kernel, stride, padding, dilation; groups.
type Sizes = ([usize; 5], [[usize; 2]; 4], usize);

/// All channels are multiples of 8, but for the last case's, which f32 alone is asked for.
const CASES: [Sizes; 11] = [
    ([2, 14, 14, 64, 64], [[3, 3], [1, 1], [1, 1], [1, 1]], 1),
    ([2, 15, 13, 64, 32], [[3, 3], [2, 2], [1, 1], [1, 1]], 1),
    ([3, 8, 10, 8, 16], [[1, 1], [2, 2], [0, 0], [1, 1]], 1),
    ([2, 7, 7, 32, 64], [[1, 1], [1, 1], [0, 0], [1, 1]], 1),
    // The first layer of a network, its channels filled up.
    ([2, 33, 31, 8, 64], [[7, 7], [2, 2], [3, 3], [1, 1]], 1),
    ([1, 9, 12, 16, 24], [[3, 3], [1, 1], [2, 2], [2, 2]], 1),
    ([2, 11, 6, 24, 40], [[3, 2], [1, 2], [2, 0], [1, 1]], 1),
    ([1, 8, 8, 512, 512], [[3, 3], [1, 1], [1, 1], [1, 1]], 1),
    ([2, 9, 9, 32, 64], [[3, 3], [1, 1], [1, 1], [1, 1]], 2),
    ([40, 5, 5, 16, 16], [[3, 3], [2, 1], [1, 1], [1, 1]], 1),
    ([2, 9, 8, 3, 10], [[3, 3], [1, 1], [1, 1], [1, 1]], 1),
];

fn geometry(([batch, height, width, channels_in, channels_out], steps, groups): Sizes) -> Geometry {
    let [kernel, stride, padding, dilation] = steps;
    Geometry { batch, height, width, channels_in, channels_out, kernel, stride, padding, dilation, groups }
}

/// Numbers between −1 and 1 that sums of are not exact, rounded to a format.
fn numbers(count: usize, seed: usize, format: DType) -> Vec<f32> {
    let number = |index: usize| ((index * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
    (0..count).map(|index| round(format.format().unwrap_or(Format::F32), number(index))).collect()
}

/// Reads values of a format back.
fn values(device: &mut Driver, tensor: Tensor, count: usize) -> Vec<f32> {
    use crate::arithmetic::half::{bf16_to_f32, f16_to_f32};
    if !matches!(tensor.format, DType::F16 | DType::Bf16) {
        return floats(device, tensor.address, count);
    }
    let mut bytes = vec![0; count * 2];
    device.download(tensor.address, &mut bytes).expect("a download");
    let pairs = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    if tensor.format == DType::F16 {
        pairs.map(f16_to_f32).collect()
    } else {
        pairs.map(bf16_to_f32).collect()
    }
}

/// A convolution's operands and result on the device.
struct Placed {
    convolution: Convolution,
    result: Tensor,
    /// Of the result: what it should be, and the sum of the products' sizes.
    expected: Vec<(f64, f64)>,
    /// The most products that an element is a sum of.
    most: usize,
}

fn place(device: &mut Driver, shape: Shape, accumulate: bool) -> Placed {
    let counts = shape.elements();
    let host: Vec<Vec<f32>> =
        counts.iter().enumerate().map(|(seed, count)| numbers(*count, seed + 1, shape.format)).collect();
    let [x, filter, y] = [0, 1, 2].map(|index: usize| placed(device, &host[index], shape.format));
    let (result, which) = match shape.direction {
        Direction::Forward => (y, 2),
        Direction::Input => (x, 0),
        Direction::Weight => (filter, 1),
    };
    let before = |value: &f32| if accumulate { f64::from(*value) } else { 0.0 };
    let mut expected: Vec<(f64, f64)> =
        host[which].iter().map(|value| (before(value), before(value).abs())).collect();
    let mut terms = vec![0_usize; expected.len()];
    each_product(&shape.geometry, |x_at, filter_at, y_at| {
        let at = [x_at, filter_at, y_at];
        let product: f64 =
            (0..3).filter(|index| *index != which).map(|index| f64::from(host[index][at[index]])).product();
        let (sum, size) = &mut expected[at[which]];
        *sum += product;
        *size += product.abs();
        terms[at[which]] += 1;
    });
    let most = terms.into_iter().max().unwrap_or(0);
    let workspace = device.allocate(shape.workspace).expect("memory");
    let (x, filter, y) = (x.address, filter.address, y.address);
    Placed { convolution: Convolution { shape, x, filter, y, accumulate, workspace }, result, expected, most }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
#[expect(clippy::print_stderr, reason = "what the library refuses is looked at by a person")]
fn convolutions_are_near_sums_in_f64_and_repeat() {
    let mut device = Driver::open().expect("a device");
    assert!(device.has_convolutions(), "cuDNN is not found");
    let (mut made, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for format in [DType::F16, DType::Bf16, DType::Tf32, DType::F32] {
        for sizes in CASES.into_iter().filter(|sizes| format == DType::F32 || sizes.0[3] % 8 == 0) {
            for direction in DIRECTIONS {
                let shape = Shape { direction, geometry: geometry(sizes), format, workspace: WORKSPACE };
                if !device.prepares(&shape).expect("an answer") {
                    refused.push(format!("{} {shape}", shape.name()));
                    continue;
                }
                made += 1;
                let Placed { convolution, result, expected, most } =
                    place(&mut device, shape, direction == Direction::Forward && sizes.0[0] == 2);
                let launch = Launch::Convolution(convolution);
                let before = values(&mut device, result, expected.len());
                let mut rounds = Vec::new();
                for _ in 0..3 {
                    put_back(&mut device, result, &before);
                    device.launch(&launch).expect("a launch");
                    rounds.push(values(&mut device, result, expected.len()));
                }
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                if !rounds.iter().all(|round| bits(round) == bits(&rounds[0])) {
                    wrong.push(format!("{} {shape}: bits differ", shape.name()));
                }
                // Half a place of the result, twice where what was there is added to a sum that was rounded before.
                let half = match format {
                    DType::F16 => 1.0 / 2048.0,
                    DType::Bf16 => 1.0 / 256.0,
                    _ => 0.0,
                };
                let place = if convolution.accumulate { 2.0 * half } else { half };
                // Matrix units add sixteen products at a time to a sum in f32, and cut off what does not fit; fewer on ordinary cores.
                let terms = most as f64;
                let sums = (terms / 16.0).max(4.0) * f64::from(f32::EPSILON);
                let far = expected.iter().zip(&rounds[0]).position(|((wanted, size), got)| {
                    let off = (wanted - f64::from(*got)).abs();
                    off.is_nan() || off > place * wanted.abs() + sums * size + 1e-7
                });
                if let Some(at) = far {
                    let (wanted, got) = (expected[at].0, rounds[0][at]);
                    let added = convolution.accumulate;
                    wrong.push(format!("{} {shape} added {added} at {at}: {wanted} {got}", shape.name()));
                }
            }
        }
    }
    eprintln!("{made} convolutions are made; refused: {refused:#?}");
    assert!(made > 0 && wrong.is_empty(), "{wrong:#?}");
}

/// Puts values back where they were.
fn put_back(device: &mut Driver, tensor: Tensor, values: &[f32]) {
    use crate::arithmetic::half::{f32_to_bf16, f32_to_f16};
    let bytes: Vec<u8> = match tensor.format {
        DType::F16 => values.iter().flat_map(|value| f32_to_f16(*value).to_le_bytes()).collect(),
        DType::Bf16 => values.iter().flat_map(|value| f32_to_bf16(*value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    device.upload(tensor.address, &bytes).expect("an upload");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_recorded_convolution_does_what_its_launch_does() {
    let mut device = Driver::open().expect("a device");
    for direction in DIRECTIONS {
        let geometry = geometry(([8, 28, 28, 64, 128], [[3, 3], [2, 2], [1, 1], [1, 1]], 1));
        let shape = Shape { direction, geometry, format: DType::F16, workspace: WORKSPACE };
        let Placed { convolution, result, expected, .. } = place(&mut device, shape, false);
        let clear = Launch::Clear { address: result.address, bytes: expected.len() * 2 };
        let launches = [clear, Launch::Convolution(convolution)];
        // Recorded before the library's first convolution, as the engine does it.
        let graph = device.capture(&launches).expect("a recording").expect("a device that records");
        launches.iter().try_for_each(|launch| device.launch(launch)).expect("launches");
        let first = values(&mut device, result, expected.len());
        assert!(first.iter().any(|value| *value != 0.0));
        for _ in 0..5 {
            device.replay(graph).expect("a replay");
            let again = values(&mut device, result, expected.len());
            assert!(first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "{shape}");
        }
    }
}

/// Height (and width), channels, output channels, kernel, stride; how many of them ResNet-50 has.
const RESNET50: [([usize; 5], usize); 23] = [
    ([224, 3, 64, 7, 2], 1),
    ([56, 64, 64, 1, 1], 1),
    ([56, 64, 64, 3, 1], 3),
    ([56, 64, 256, 1, 1], 4),
    ([56, 256, 64, 1, 1], 2),
    ([56, 256, 128, 1, 1], 1),
    ([56, 128, 128, 3, 2], 1),
    ([56, 256, 512, 1, 2], 1),
    ([28, 128, 512, 1, 1], 4),
    ([28, 512, 128, 1, 1], 3),
    ([28, 128, 128, 3, 1], 3),
    ([28, 512, 256, 1, 1], 1),
    ([28, 256, 256, 3, 2], 1),
    ([28, 512, 1024, 1, 2], 1),
    ([14, 256, 1024, 1, 1], 6),
    ([14, 1024, 256, 1, 1], 5),
    ([14, 256, 256, 3, 1], 5),
    ([14, 1024, 512, 1, 1], 1),
    ([14, 512, 512, 3, 2], 1),
    ([14, 1024, 2048, 1, 2], 1),
    ([7, 512, 2048, 1, 1], 3),
    ([7, 2048, 512, 1, 1], 2),
    ([7, 512, 512, 3, 1], 2),
];

/// Times each convolution of ResNet-50 at batch 256 in f16: as a step makes it, without the library, and by the library alone.
#[test]
#[ignore = "needs an NVIDIA GPU, and says times alone"]
#[expect(clippy::print_stderr, reason = "times are for a person")]
fn convolutions_of_resnet50_by_the_library_and_by_products() {
    let mut device = Driver::open().expect("a device");
    let most = 256 * 56 * 56 * 256;
    let [x, filter, y] = [most, 2048 * 1024 * 4, most].map(|elements| filled(&mut device, elements));
    let scratch = device.allocate(2 << 30).expect("memory");
    let mut totals = [0.0; 3];
    eprintln!(
        "in ms: a step's launches, without the library, the library's call alone (0: refused or not asked)"
    );
    for ([side, channels_in, channels_out, kernel, stride], count) in RESNET50 {
        let padding = [kernel / 2; 2];
        let (kernel, stride, dilation) = ([kernel; 2], [stride; 2], [1, 1]);
        let sizes = ([256, side, side, channels_in, channels_out], [kernel, stride, padding, dilation], 1);
        for direction in DIRECTIONS {
            if side == 224 && direction == Direction::Input {
                continue;
            }
            let geometry = geometry(sizes);
            let shape = Shape { direction, geometry, format: DType::F16, workspace: 256 << 20 };
            let mut times = [true, false].map(|there| {
                let launches = step_launches(&shape, [x, filter, y], scratch, there);
                milliseconds(&mut device, &launches)
            });
            let alone = match device.prepares(&shape).expect("an answer") {
                true => {
                    let convolution =
                        Convolution { shape, x, filter, y, accumulate: false, workspace: scratch };
                    milliseconds(&mut device, &[Launch::Convolution(convolution)])
                }
                false => 0.0,
            };
            let bytes = device.convolutions.workspace_of(&shape).unwrap_or(0);
            eprintln!(
                "{count} × {:?} {shape}: {:.3} {:.3} {alone:.3}, workspace {bytes}",
                direction, times[0], times[1]
            );
            if times[0] == 0.0 {
                times[0] = times[1];
            }
            times.iter_mut().for_each(|time| *time *= count as f64);
            totals[0] += times[0];
            totals[1] += times[1];
            totals[2] += times[0].min(if alone > 0.0 { alone * count as f64 } else { times[0] });
        }
    }
    eprintln!(
        "all of a step: {:.2} ms, without the library {:.2}, the best of each {:.2}",
        totals[0], totals[1], totals[2]
    );
    assert!(totals[0] > 0.0);
}

/// Memory of f16 numbers between −1 and 1.
fn filled(device: &mut Driver, elements: usize) -> u64 {
    use crate::arithmetic::half::f32_to_f16;
    let address = device.allocate(elements * 2).expect("memory");
    let some: Vec<u8> =
        numbers(1 << 20, 3, DType::F16).iter().flat_map(|value| f32_to_f16(*value).to_le_bytes()).collect();
    for from in (0..elements * 2).step_by(some.len()) {
        let bytes = some.len().min(elements * 2 - from);
        device.upload(address + from as u64, &some[..bytes]).expect("an upload");
    }
    address
}

/// The launches of a convolution in a step, with scratch from an address on.
fn step_launches(shape: &Shape, [x, filter, y]: [u64; 3], scratch: u64, there: bool) -> Vec<Launch> {
    let Geometry { batch, height, width, channels_in, channels_out, kernel, .. } = shape.geometry;
    let Geometry { stride, padding, dilation, groups, .. } = shape.geometry;
    let [rows, columns] = shape.geometry.output_size();
    let value = |shape: [usize; 4]| Value {
        name: "value".to_owned(),
        shape: shape.to_vec(),
        dtype: DType::F16,
        role: Role::Result,
    };
    let image = value([batch, channels_in, height, width]);
    let weight = value([channels_out, channels_in / groups, kernel[0], kernel[1]]);
    let output = value([batch, channels_out, rows, columns]);
    let operand = |address, value| Operand::new(Tensor { address, format: DType::F16 }, value);
    let (x, weight, y) = (operand(x, &image), operand(filter, &weight), operand(y, &output));
    let (op, inputs, outputs) = match shape.direction {
        Direction::Forward => {
            (Op::Conv2d { stride, padding, dilation, groups, bias: false }, [x, weight], [y])
        }
        Direction::Input => (Op::Conv2dBackwardInput { stride, padding, dilation, groups }, [y, weight], [x]),
        Direction::Weight => {
            (Op::Conv2dBackwardWeight { stride, padding, dilation, groups }, [y, x], [weight])
        }
    };
    let mut launches = Launches::new(scratch, 0);
    let call = Call {
        op: &op,
        layout: Layout::ChannelsLast,
        inputs: &inputs,
        outputs: &outputs,
        arithmetic: Arithmetic::Device,
        units: Units::HOPPER,
        convolutions: &Made::new(there),
        seed: 0,
        position: 0,
        culprit: 0,
    };
    assert!(dispatch::run(&call, &mut launches));
    assert!(launches.scratch_bytes() <= 2 << 30, "{}", launches.scratch_bytes());
    launches.list
}

/// The time of launches, once they are warm; 0 when the library refuses one.
fn milliseconds(device: &mut Driver, launches: &[Launch]) -> f64 {
    for launch in launches {
        if let Launch::Convolution(convolution) = launch
            && !device.prepares(&convolution.shape).expect("an answer")
        {
            return 0.0;
        }
    }
    let run =
        |device: &mut Driver| launches.iter().try_for_each(|launch| device.launch(launch)).expect("launches");
    run(device);
    device.synchronise().expect("a device that works");
    let watch = Stopwatch::start();
    let times = 10;
    for _ in 0..times {
        run(device);
    }
    device.synchronise().expect("a device that works");
    watch.seconds() * 1000.0 / f64::from(times)
}
