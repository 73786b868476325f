//! Moved elements.

use super::pointwise::{check, floats};
use super::*;

#[test]
fn transpositions() {
    for (shape, axes) in [
        (vec![5], vec![0]),
        (vec![3, 4], vec![1, 0]),
        (vec![70, 33], vec![1, 0]),
        (vec![2, 3, 8], vec![1, 0, 2]),
        (vec![2, 3, 5], vec![1, 0, 2]),
        (vec![2, 3, 4, 8], vec![0, 2, 1, 3]),
        (vec![2, 3, 40, 35], vec![0, 1, 3, 2]),
        (vec![3, 4, 5, 6], vec![3, 1, 0, 2]),
        (vec![2, 1, 3, 1, 2, 3], vec![5, 0, 4, 2, 1, 3]),
        (vec![2, 2, 2, 2, 2, 2, 2, 2], vec![7, 5, 6, 0, 2, 1, 4, 3]),
        (vec![0, 4], vec![1, 0]),
        (vec![1, 1], vec![1, 0]),
    ] {
        let moved: Vec<usize> = axes.iter().map(|axis| shape[*axis]).collect();
        let op = Op::Transpose { axes };
        check("transpose", &op, Layout::RowMajor, &[floats(1, &shape)], &moved);
    }
}

#[test]
fn joining_and_cutting() {
    for (shape, axis, cut) in [
        (vec![5], 0, 2),
        (vec![3, 16, 8], 1, 8),
        (vec![3, 7, 2], 1, 4),
        (vec![24, 3], 0, 8),
        (vec![2, 9], 1, 0),
    ] {
        let part = |size: usize| {
            let mut shape = shape.clone();
            shape[axis] = size;
            shape
        };
        let (first, second) = (part(cut), part(shape[axis] - cut));
        let parts = [floats(1, &first), floats(2, &second)];
        check("concatenate", &Op::Concatenate { axis }, Layout::RowMajor, &parts, &shape);
        let (slice, pad) = (Op::Slice { axis, start: cut }, Op::SliceBackward { axis, start: cut });
        check("slice", &slice, Layout::RowMajor, &[floats(3, &shape)], &second);
        check("slice backward", &pad, Layout::RowMajor, &[floats(4, &second)], &shape);
    }
}

#[test]
fn relayouts_of_all_sizes() {
    for mut device in devices() {
        for shape in [
            [2, 3, 4, 5],
            [2, 3, 4, 6],
            [3, 2, 1, 8],
            [1, 4, 8, 40],
            [1, 70, 6, 6],
            [3, 1, 2, 2],
            [2, 33, 1, 31],
            [0, 3, 2, 2],
        ] {
            for format in [DType::F32, DType::F16, DType::Bf16] {
                let described = value(&shape, format);
                let (channels, pixels) = (shape[1], shape[2] * shape[3]);
                let elements = described.elements();
                let from: Vec<f32> = (0..elements).map(|number| number as f32).collect();
                let last = |at: usize| {
                    let (image, rest) = (at / (channels * pixels), at % (channels * pixels));
                    (image * channels + rest % channels) * pixels + rest / channels
                };
                let to: Vec<f32> = (0..elements).map(|at| from[last(at)]).collect();
                for (to_last, from, to) in [(true, &from, &to), (false, &to, &from)] {
                    let [source, target] = [0; 2].map(|_| {
                        let address = device.allocate((elements * 4).max(16)).expect("memory");
                        Tensor { address, format }
                    });
                    let bytes = to_bytes(&Buffer::of(from.clone()), format);
                    device.upload(source.address, &bytes).expect("an upload");
                    let mut probe = Launches::new(0, 0);
                    let operands = [source, target].map(|tensor| Operand::new(tensor, &described));
                    assert!(dispatch::relayout(to_last, &operands[0], &operands[1], &mut probe));
                    let constants = device.allocate(probe.constant_bytes.len().max(1)).expect("memory");
                    device.upload(constants, &probe.constant_bytes).expect("an upload");
                    let mut launches = Launches::new(0, constants);
                    assert!(dispatch::relayout(to_last, &operands[0], &operands[1], &mut launches));
                    launches.list.iter().for_each(|launch| device.launch(launch).expect("a launch"));
                    let found = from_device(&mut *device, target, &described);
                    let rounded: Vec<f32> =
                        to.iter().map(|x| round(format.format().expect("a float"), *x)).collect();
                    assert_eq!(found, Buffer::of(rounded), "{shape:?} {format:?} {to_last}");
                }
            }
        }
    }
}
