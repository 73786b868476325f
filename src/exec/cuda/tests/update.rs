//! The update's ops, in place.

use super::pointwise::floats;
use super::*;
use crate::arithmetic::half::Format;
use crate::exec::reference::fingerprint::Keys;
use crate::graph::{ScaleGuard, Stored};
use crate::plan::Optimizer;

fn scalar(number: f32) -> (Value, Buffer) {
    (value(&[], DType::F32), Buffer::of(vec![number]))
}

fn integer(number: i32) -> (Value, Buffer) {
    (value(&[], DType::I32), Buffer::Integer(vec![number]))
}

/// Numbers without special ones.
fn plain(stream: u64, shape: &[usize]) -> (Value, Buffer) {
    (value(shape, DType::F32), Buffer::of(cases::mixed(stream, shape.iter().product(), false)))
}

/// An op whose results are these operands, written in place.
fn in_place(op: Op, inputs: Vec<(Value, Buffer)>, places: &[usize]) -> Case {
    let outputs = places.iter().map(|place| inputs[*place].0.clone()).collect();
    let mut case = Case::new(op, inputs, outputs);
    case.in_place = places.iter().copied().map(Some).collect();
    case
}

#[test]
fn accumulating_and_staging() {
    for elements in [0, 1, 13, 4000] {
        for format in [DType::F32, DType::F16, DType::Bf16] {
            let operands = || vec![floats(1, &[elements]), floats(2, &[elements])];
            let mut case = in_place(Op::Accumulate, operands(), &[1]);
            case.stored[0] = Some(format);
            case.check("accumulate");
        }
        let operands = vec![floats(1, &[elements]), floats(2, &[elements])];
        in_place(Op::StageBuffer, operands, &[1]).check("stage");
        in_place(Op::Clear, vec![floats(1, &[elements])], &[0]).check("clear");
    }
}

#[test]
fn unscaling_finds_the_first_that_is_not_finite() {
    for (after, bad) in
        [None, Some(0), Some(2), Some(3)].into_iter().flat_map(|bad| [(false, bad), (true, bad)])
    {
        let sizes = [20_000, 5, 0, 8192, 8193];
        let mut inputs = vec![scalar(1024.0)];
        inputs.extend((1..).zip(sizes).map(|(stream, size)| plain(stream, &[size])));
        if let Some(bad) = bad {
            for (gradient, at) in [(bad, 1), (4, 8192)] {
                if let Buffer::Float(values) = &mut inputs[gradient + 1].1
                    && let Some(place) = values.get_mut(at)
                {
                    *place = f32::NEG_INFINITY;
                }
            }
        }
        let mut outputs = vec![value(&[], DType::F32)];
        outputs.extend(inputs[1..].iter().map(|(value, _)| value.clone()));
        let mut case = Case::new(Op::Unscale { after }, inputs, outputs);
        case.in_place = std::iter::once(None).chain((1..=sizes.len()).map(Some)).collect();
        case.check("unscale");
    }
}

/// A gradient that is unscaled as it is read, from the format that it was made in, gives the bits of one that was unscaled in place.
#[test]
fn gradients_are_unscaled_as_they_are_read() {
    let (mut described, number) = scalar(3e-4);
    described.role = Role::Host;
    let sgd = Optimizer::Sgd { lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.01 };
    let adam = Optimizer::AdamW { lr: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    // The second is no power of two, the third makes some quotients subnormal.
    for scale in [65_536.0, 3.7, 1e38] {
        for format in [DType::F32, DType::F16, DType::Bf16] {
            for (rule, states) in [(sgd.clone(), 1), (adam.clone(), 2)] {
                for clip in [None, Some(0.3)] {
                    let rate = (described.clone(), number.clone());
                    let mut inputs = vec![plain(1, &[5003]), plain(2, &[5003]), rate, integer(41)];
                    inputs.extend([scalar(0.0)]);
                    inputs.extend(clip.map(scalar));
                    let first = inputs.len();
                    // Second moments are not negative.
                    inputs.extend((0..states).map(|state| {
                        let (value, numbers) = plain(3 + state, &[5003]);
                        let numbers = numbers.floats(5003).iter().map(|x| x.abs()).collect();
                        (value, Buffer::of(numbers))
                    }));
                    let places: Vec<usize> =
                        std::iter::once(0).chain(first..first + states as usize).collect();
                    let rule = rule.clone();
                    let op = Op::Update { rule, found: true, clipped: clip.is_some(), stored: None };
                    let mut case = in_place(op, inputs, &places);
                    case.stored[1] = Some(format);
                    case.scales = BTreeMap::from([(1, scale)]);
                    case.check(&format!("an update of {format:?} divided by {scale}"));
                }
            }
            let inputs = vec![plain(1, &[5003]), plain(2, &[7]), plain(3, &[0])];
            let mut case = Case::new(Op::GlobalNorm, inputs, vec![value(&[], DType::F32)]);
            case.stored = vec![Some(format), Some(DType::F16), None];
            case.scales = (0..3).map(|index| (index, scale)).collect();
            case.check(&format!("a norm of {format:?} divided by {scale}"));
        }
    }
}

/// The check for what is not finite alone, of gradients of any format.
#[test]
fn unscaling_that_writes_nothing_finds_the_same() {
    for (scale, after) in [(1024.0, false), (0.25, true), (0.25, false)] {
        for (bad, format) in
            [(1.0, DType::F16), (f32::NAN, DType::F16), (3e38, DType::Bf16), (f32::INFINITY, DType::F32)]
        {
            let mut inputs = vec![scalar(scale), plain(1, &[9000]), plain(2, &[11])];
            if let Buffer::Float(values) = &mut inputs[2].1 {
                values[10] = bad;
            }
            let product = round(format.format().expect("a float"), bad) * (1.0 / scale);
            let finite = if after { product.is_finite() } else { bad.is_finite() };
            let mut case = Case::new(Op::Unscale { after }, inputs, vec![value(&[], DType::F32)]);
            case.stored[2] = Some(format);
            for mut device in devices() {
                let found = case.found(&mut *device, Arithmetic::Portable).expect("a kernel");
                assert_eq!(found[0].floats(1), [f32::from(!finite)], "{bad} of {format:?} / {scale}");
            }
        }
    }
}

#[test]
fn norms_are_summed_in_the_declared_order() {
    for sizes in [vec![1], vec![4096, 4097, 0, 3], vec![100_000, 16], vec![4096 * 4097 + 5]] {
        let inputs = (1..).zip(&sizes).map(|(stream, size)| plain(stream, &[*size])).collect();
        Case::new(Op::GlobalNorm, inputs, vec![value(&[], DType::F32)]).check(&format!("norm of {sizes:?}"));
    }
    for norm in [0.0, 0.5, 1.0, 7.3, f32::INFINITY, f32::NAN] {
        let op = Op::ClipCoefficient { max_norm: 1.0 };
        Case::new(op, vec![scalar(norm)], vec![value(&[], DType::F32)]).check("clip");
    }
}

#[test]
fn optimizers() {
    let rate = || {
        let (mut described, number) = scalar(3e-4);
        described.role = Role::Host;
        (described, number)
    };
    let sgd = |momentum, nesterov, weight_decay| Optimizer::Sgd { lr: 0.1, momentum, nesterov, weight_decay };
    let adam = |beta1| Optimizer::AdamW { lr: 0.1, beta1, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    let rules = [sgd(0.0, false, 0.0), sgd(0.0, false, 0.1), sgd(0.9, false, 0.0), sgd(0.9, true, 0.01)];
    for rule in rules.into_iter().chain([adam(0.9), adam(0.3)]) {
        for elements in [0, 1, 1000, 5003] {
            for (found, clip) in [(None, None), (Some(0.0), None), (Some(1.0), Some(0.7)), (None, Some(0.3))]
            {
                for format in [DType::F32, DType::F16] {
                    let mut inputs =
                        vec![floats(1, &[elements]), floats(2, &[elements]), rate(), integer(41)];
                    inputs.extend(found.map(scalar));
                    inputs.extend(clip.map(scalar));
                    let states = match &rule {
                        Optimizer::Sgd { momentum, .. } => usize::from(*momentum != 0.0),
                        Optimizer::AdamW { .. } => 2,
                    };
                    let first = inputs.len();
                    inputs.extend((0..states as u64).map(|state| floats(3 + state, &[elements])));
                    let places: Vec<usize> = std::iter::once(0).chain(first..first + states).collect();
                    let (found, clipped) = (found.is_some(), clip.is_some());
                    let mut case = in_place(
                        Op::Update { rule: rule.clone(), found, clipped, stored: None },
                        inputs,
                        &places,
                    );
                    case.stored[1] = Some(format);
                    case.check(&format!("{rule:?}"));
                }
            }
        }
    }
}

#[test]
fn commits_steps_and_the_scaler() {
    for found in [None, Some(0.0), Some(1.0)] {
        let mut inputs = vec![floats(1, &[9]), floats(2, &[9]), floats(3, &[9])];
        inputs.extend(found.map(scalar));
        in_place(Op::CommitBuffer { found: found.is_some() }, inputs, &[2, 1]).check("commit");
        for step in [0, 7, i32::MAX] {
            let inputs = std::iter::once(integer(step)).chain(found.map(scalar)).collect();
            in_place(Op::AdvanceStep { found: found.is_some() }, inputs, &[0]).check("step");
        }
        for (scale, tracker) in [(65_536.0, 0), (65_536.0, 2), (f32::MAX, 2), (1e-45, 1), (1.0, i32::MAX)] {
            let inputs = vec![scalar(scale), integer(tracker), scalar(found.unwrap_or(0.0))];
            let op = Op::ScalerUpdate { growth: 1.1, backoff: 0.5, interval: 3, guard: None };
            in_place(op, inputs, &[0, 1]).check("scaler");
        }
    }
}

#[test]
fn the_scaler_with_a_guard() {
    let guards = [(1, false, false), (2, false, false), (3, true, true), (i32::MAX as u32, true, false)];
    for (hysteresis, refill_on_good, late) in guards {
        for (floor, ceiling) in [(0.0, f32::INFINITY), (0.75, 70_000.0), (1e-45, f32::MAX)] {
            for (scale, tracker, tolerated, skips) in
                [(65_536.0, 0, 0, 0), (65_536.0, 2, 1, 7), (f32::MAX, 3, 2, 0), (1.0, i32::MAX, 1, i32::MAX)]
            {
                for found in [0.0, 1.0] {
                    let inputs = vec![
                        scalar(scale),
                        integer(tracker),
                        scalar(found),
                        integer(tolerated),
                        integer(skips),
                    ];
                    let guard = Some(ScaleGuard { hysteresis, refill_on_good, late, floor, ceiling });
                    let op = Op::ScalerUpdate { growth: 1.1, backoff: 0.5, interval: 3, guard };
                    in_place(op, inputs, &[0, 1, 3, 4]).check("guarded scaler");
                }
            }
        }
    }
}

#[test]
fn parameters_are_stored_rounded() {
    let rule = Optimizer::Sgd { lr: 0.1, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
    for (format, stream) in [(Format::F16, None), (Format::Bf16, None), (Format::Bf16, Some(77))] {
        for elements in [0, 1, 1000, 5003] {
            for found in [None, Some(0.0), Some(1.0)] {
                let (mut described, number) = scalar(3e-4);
                described.role = Role::Host;
                let mut inputs =
                    vec![floats(1, &[elements]), floats(2, &[elements]), (described, number), integer(41)];
                inputs.extend(found.map(scalar));
                let stored = Some(Stored { format, stream });
                let op = Op::Update { rule: rule.clone(), found: found.is_some(), clipped: false, stored };
                in_place(op, inputs, &[0]).check(&format!("{stored:?}"));
            }
        }
    }
}

#[test]
fn unscaling_finds_what_overflows_by_it() {
    for after in [false, true] {
        let gradient = (value(&[3], DType::F32), Buffer::of(vec![1.0, 3e38, -2.0]));
        let inputs = vec![scalar(0.25), gradient];
        let outputs = vec![value(&[], DType::F32), inputs[1].0.clone()];
        let mut case = Case::new(Op::Unscale { after }, inputs, outputs);
        case.in_place = vec![None, Some(1)];
        case.check("unscale");
    }
}

#[test]
fn fingerprints() {
    let keys = Keys::new();
    let key_bytes: Vec<u8> = keys.0.iter().flatten().flat_map(|key| key.to_le_bytes()).collect();
    for mut device in devices() {
        let keys_at = device.allocate(key_bytes.len()).expect("memory");
        device.upload(keys_at, &key_bytes).expect("an upload");
        let constants = device.allocate(4096).expect("memory");
        let mut launches = Launches::new(0, constants);
        let (mut tensors, mut expected) = (Vec::new(), Vec::new());
        for elements in [1, 1023, 1024, 1025, 5000] {
            let values = cases::mixed(9, elements, true);
            crate::exec::reference::fingerprint::fingerprint(&keys, &values, &mut expected);
            let at = device.allocate(elements * 4).expect("memory");
            device.upload(at, &to_bytes(&Buffer::of(values), DType::F32)).expect("an upload");
            tensors.push((at, elements));
        }
        let out = device.allocate(expected.len()).expect("memory");
        dispatch::fingerprint(&tensors, keys_at, out, &mut launches);
        device.upload(constants, &launches.constant_bytes).expect("an upload");
        launches.list.iter().for_each(|launch| device.launch(launch).expect("a launch"));
        let mut found = vec![0; expected.len()];
        device.download(out, &mut found).expect("a download");
        assert_eq!(expected, found);
    }
}

#[test]
fn skipped_steps_in_a_row_have_the_counts_of_the_cpu() {
    for (row, longest) in [(0, 0), (2, 2), (2, 7), (i32::MAX, i32::MAX)] {
        for found in [None, Some(0.0), Some(1.0)] {
            let mut inputs = vec![integer(row), integer(longest)];
            inputs.extend(found.map(scalar));
            let op = Op::CountSkips { found: found.is_some() };
            in_place(op, inputs, &[0, 1]).check(&format!("{row} {longest} {found:?}"));
        }
    }
}
