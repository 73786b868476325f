//! Attention and biases: bits of the CPU backend at sizes around the tiles, with special values, in every format.

use super::*;
use crate::graph::{Attention, Disentangled, PositionBuckets};
use cases::mixed;

/// N, T, S, H, D.
type Sizes = [usize; 5];

fn floats(stream: u64, shape: &[usize], dtype: DType, special: bool) -> (Value, Buffer) {
    let format = dtype.format().unwrap_or(Format::F32);
    let elements = shape.iter().product();
    let values = mixed(stream, elements, special).iter().map(|x| round(format, *x)).collect();
    (value(shape, dtype), Buffer::of(values))
}

/// The operands of a forward pass.
fn operands(
    [n, t, s, h, d]: Sizes,
    bias: Option<[usize; 4]>,
    mask: bool,
    dtype: DType,
    special: bool,
) -> Vec<(Value, Buffer)> {
    let mut operands = vec![
        floats(1, &[n, t, h * d], dtype, special),
        floats(2, &[n, s, h * d], dtype, special),
        floats(3, &[n, s, h * d], dtype, special),
    ];
    if let Some(shape) = bias {
        operands.push(floats(4, &shape, DType::F32, special));
    }
    if mask {
        // The first example attends to nothing, the third to nothing that comes late.
        let hides = |at: usize| at < s || at.is_multiple_of(3) || (at / s == 2 && at % s >= s / 3);
        let flags = (0..n * s).map(|at| if hides(at) { 0.0 } else { 1.0 }).collect();
        operands.push((value(&[n, s], DType::F32), Buffer::of(flags)));
    }
    operands
}

struct Variant {
    sizes: Sizes,
    causal: bool,
    p: f32,
    bias: Option<[usize; 4]>,
    mask: bool,
    dtype: DType,
    special: bool,
}

/// Forward, then backward with what forward gave.
fn cases_of(variant: &Variant) -> [Case; 2] {
    let Variant { sizes, causal, p, bias, mask, dtype, special } = *variant;
    let [n, t, s, h, d] = sizes;
    let rule = Attention { heads: h, causal, scale: 0.3, p, stream: 5, bias: bias.is_some(), mask };
    let operands = operands(sizes, bias, mask, dtype, special);
    let result = if dtype == DType::Tf32 { DType::F32 } else { dtype };
    let outputs = vec![value(&[n, t, h * d], result), value(&[n, h, t], DType::F32)];
    let forward = Case::new(Op::Attention(rule), operands.clone(), outputs.clone());
    let mut made = forward.expected().into_iter();
    let mut inputs = vec![floats(9, &[n, t, h * d], dtype, special)];
    inputs.extend(operands);
    inputs.extend(outputs.iter().map(|output| (output.clone(), made.next().expect("two results"))));
    let mut gradients =
        vec![value(&[n, t, h * d], result), value(&[n, s, h * d], result), value(&[n, s, h * d], result)];
    gradients.extend(bias.map(|shape| value(&shape, DType::F32)));
    let backward = Op::AttentionBackward { rule, bias_gradient: bias.is_some() };
    [forward, Case::new(backward, inputs, gradients)]
}

fn check(variant: &Variant, what: &str) {
    for case in cases_of(variant) {
        case.check(what);
    }
}

const PLAIN: Variant = Variant {
    sizes: [2, 5, 7, 2, 3],
    causal: false,
    p: 0.0,
    bias: None,
    mask: false,
    dtype: DType::F32,
    special: false,
};

#[test]
fn attention_of_every_format_and_size() {
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::Tf32] {
        for (sizes, causal) in [
            ([2, 5, 7, 2, 3], false),
            ([1, 1, 1, 1, 1], true),
            ([1, 97, 97, 1, 17], true),
            ([1, 50, 130, 2, 65], false),
            ([1, 100, 49, 1, 16], true),
            ([0, 4, 4, 2, 2], false),
        ] {
            check(&Variant { sizes, causal, dtype, ..PLAIN }, &format!("{dtype:?} {sizes:?}"));
        }
    }
}

#[test]
fn attention_with_dropout_masks_and_biases() {
    let [n, t, s, h] = [2, 50, 51, 3];
    for (bias, mask, p, causal) in [
        (None, true, 0.0, false),
        (None, false, 0.25, true),
        (Some([n, h, t, s]), true, 0.1, false),
        (Some([1, h, t, s]), false, 0.0, true),
        (Some([n, 1, 1, s]), true, 0.0, false),
        (Some([1, 1, t, 1]), false, 0.5, false),
        (Some([1, 1, 1, 1]), true, 0.0, true),
    ] {
        let variant = Variant { sizes: [n, t, s, h, 8], causal, p, bias, mask, ..PLAIN };
        check(&variant, &format!("bias {bias:?} mask {mask} p {p}"));
    }
}

#[test]
fn attention_of_special_values_and_many_keys() {
    for causal in [false, true] {
        check(&Variant { sizes: [2, 60, 60, 2, 4], causal, special: true, ..PLAIN }, "special");
    }
    check(&Variant { sizes: [1, 2, 4100, 1, 2], ..PLAIN }, "two blocks of a sum");
    check(&Variant { sizes: [1, 2, 66_000, 1, 1], ..PLAIN }, "more blocks than lanes");
}

#[test]
fn attention_of_operands_stored_otherwise() {
    for case in &mut cases_of(&Variant { sizes: [1, 20, 30, 2, 5], p: 0.1, ..PLAIN }) {
        case.stored[0] = Some(DType::F16);
        case.stored[2] = Some(DType::Bf16);
        case.written[0] = Some(DType::Bf16);
        case.written[1] = Some(DType::F16);
        case.check("stored otherwise");
    }
}

#[test]
fn relative_positions() {
    for (heads, length, bidirectional) in [(3, 1, true), (2, 70, true), (2, 70, false), (1, 200, true)] {
        let rule = PositionBuckets { buckets: 8, max_distance: 20, bidirectional };
        for dtype in [DType::F32, DType::F16] {
            let weight = floats(1, &[8, heads], dtype, true);
            let scores = value(&[1, heads, length, length], dtype);
            Case::new(Op::RelativePositionBias(rule), vec![weight], vec![scores.clone()]).check("forward");
            let dy = floats(2, &scores.shape, dtype, false);
            let backward = Op::RelativePositionBiasBackward(rule);
            Case::new(backward, vec![dy], vec![value(&[8, heads], dtype)]).check("backward");
        }
    }
}

#[test]
fn disentangled_positions() {
    for (n, length, heads, size) in [(2, 5, 2, 3), (1, 1, 1, 1), (2, 70, 2, 17), (0, 3, 1, 2)] {
        for (content_to_position, position_to_content) in [(true, true), (true, false), (false, true)] {
            for dtype in [DType::F32, DType::Bf16, DType::Tf32] {
                let (buckets, scale) = (8, 0.4);
                let rule = Disentangled {
                    heads,
                    buckets,
                    max_position: 16,
                    scale,
                    content_to_position,
                    position_to_content,
                };
                let terms = usize::from(content_to_position) + usize::from(position_to_content);
                let shapes = [vec![n, length, heads * size], vec![1, 2 * buckets, heads * size]];
                let operands: Vec<_> = (0..2 * terms)
                    .map(|index| floats(index as u64, &shapes[index % 2], dtype, false))
                    .collect();
                let y = value(&[n, heads, length, length], DType::F32);
                Case::new(Op::DisentangledBias(rule), operands.clone(), vec![y.clone()]).check("forward");
                let result = if dtype == DType::Tf32 { DType::F32 } else { dtype };
                let gradients = operands.iter().map(|(operand, _)| value(&operand.shape, result)).collect();
                let mut inputs = vec![floats(9, &y.shape, DType::F32, false)];
                inputs.extend(operands);
                Case::new(Op::DisentangledBiasBackward(rule), inputs, gradients).check("backward");
            }
        }
    }
}

#[test]
fn not_equal_to_a_value() {
    let integers = Buffer::Integer(vec![3, -1, 0, 7, 3]);
    let not = |operand| Case::new(Op::NotEqual { value: 3 }, vec![operand], vec![value(&[5], DType::F32)]);
    not((value(&[5], DType::I32), integers)).check("integers");
    let numbers = Buffer::of(vec![3.0, 3.5, f32::NAN, -0.0, f32::INFINITY]);
    not((value(&[5], DType::F32), numbers)).check("floats");
}

#[test]
fn products_of_matrices() {
    for [transpose_left, transpose_right] in [[false, false], [true, false], [false, true], [true, true]] {
        for dtype in [DType::F32, DType::F16, DType::Tf32] {
            let shape = |exchanged: bool, rows, columns| {
                if exchanged { [2, 3, columns, rows] } else { [2, 3, rows, columns] }
            };
            let a = floats(1, &shape(transpose_left, 5, 18), dtype, true);
            let b = floats(2, &shape(transpose_right, 18, 7), dtype, false);
            let result = if dtype == DType::Tf32 { DType::F32 } else { dtype };
            let op = Op::MatrixProduct { transpose_left, transpose_right };
            Case::new(op, vec![a, b], vec![value(&[2, 3, 5, 7], result)]).check("product");
        }
    }
}

/// Lets queries, keys, values and dy be read in wider rows, and gradients be written there.
fn in_parts(case: &mut Case) {
    let backward = matches!(case.op, Op::AttentionBackward { .. });
    let (operands, results) = if backward { (0..4, 0..3) } else { (0..3, 0..0) };
    let place = |index: usize, value: &Value| {
        let row = value.shape[2];
        // Each begins elsewhere, at 16 bytes where numbers have two.
        let start = 8 * index;
        (index, (start, (start + row).next_multiple_of(8) + 24))
    };
    if let ((Value { dtype: DType::F16, .. }, Buffer::Float(values)), true) = (&mut case.inputs[0], backward)
    {
        // So small that some gradients become -0.
        values.iter_mut().for_each(|x| *x = round(Format::F16, *x * 1e-6));
    }
    case.parts = operands.map(|index| place(index, &case.inputs[index].0)).collect();
    case.result_parts = results.map(|index| place(index, &case.outputs[index])).collect();
}

/// The same numbers, with +0 for each -0 in results that are parts of a sum with zeros.
fn as_sums(case: &Case, results: Vec<Buffer>) -> Vec<Buffer> {
    let sum = |(index, result): (usize, Buffer)| match result {
        Buffer::Float(values) if case.result_parts.contains_key(&index) => {
            Buffer::Float(values.iter().map(|x| x + 0.0).collect())
        }
        other => other,
    };
    results.into_iter().enumerate().map(sum).collect()
}

/// How often such a result is -0.
fn minus_zeros(case: &Case, results: &[Buffer]) -> usize {
    let floats = |index: &usize| results[*index].floats(case.outputs[*index].elements());
    let all = case.result_parts.keys().flat_map(floats);
    all.filter(|x| x.to_bits() == (-0.0_f32).to_bits()).count()
}

#[test]
fn attention_in_parts_of_rows_has_the_same_bits() {
    let mut zeros = 0;
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::Tf32] {
        for (sizes, causal, p, bias, mask) in [
            ([2, 5, 7, 2, 3], false, 0.0, None, false),
            ([1, 97, 97, 1, 17], true, 0.0, None, false),
            ([2, 50, 30, 3, 8], false, 0.0, None, true),
            ([2, 33, 40, 2, 4], false, 0.25, Some([2, 2, 33, 40]), true),
            ([0, 4, 4, 2, 2], false, 0.0, None, false),
        ] {
            for case in &mut cases_of(&Variant { sizes, causal, p, bias, mask, dtype, special: false }) {
                in_parts(case);
                let expected = case.expected();
                zeros += minus_zeros(case, &expected);
                let expected = as_sums(case, expected);
                for mut device in devices() {
                    let found = case.found(&mut *device, Arithmetic::Portable).expect("a kernel");
                    let difference = case.difference(&expected, &found);
                    assert_eq!(
                        difference,
                        None,
                        "{dtype:?} {sizes:?} causal {causal} p {p} on {}",
                        device.name()
                    );
                }
            }
        }
    }
    assert!(zeros > 0, "no gradient is -0 otherwise");
}

/// Where operands lie changes no bit of the fused kernels.
#[test]
fn fused_attention_in_parts_of_rows_has_the_same_bits() {
    let mut zeros = 0;
    for dtype in [DType::F16, DType::Bf16] {
        for (sizes, causal, p, bias, mask) in [
            ([2, 70, 130, 2, 64], false, 0.0, None, false),
            ([1, 150, 150, 3, 32], true, 0.0, None, false),
            ([1, 197, 197, 1, 64], false, 0.0, None, false),
            ([3, 40, 200, 1, 64], false, 0.0, None, true),
            ([3, 70, 70, 1, 128], true, 0.0, None, true),
            ([2, 40, 70, 2, 64], false, 0.1, Some([1, 2, 40, 70]), true),
            ([2, 40, 64, 2, 64], false, 0.1, Some([1, 2, 40, 64]), true),
            ([2, 33, 33, 2, 32], true, 0.25, Some([2, 2, 33, 33]), false),
        ] {
            for case in &mut cases_of(&Variant { sizes, causal, p, bias, mask, dtype, special: false }) {
                for mut device in devices().into_iter().filter(|device| device.units().tensor_cores) {
                    in_parts(case);
                    let found = case.found(&mut *device, Arithmetic::Device).expect("a kernel");
                    let whole = std::mem::take(&mut case.result_parts);
                    case.parts.clear();
                    let expected = case.found(&mut *device, Arithmetic::Device).expect("a kernel");
                    case.result_parts = whole;
                    zeros += minus_zeros(case, &expected);
                    let difference = case.difference(&as_sums(case, expected), &found);
                    assert_eq!(difference, None, "{dtype:?} {sizes:?} causal {causal} p {p}");
                }
            }
        }
    }
    assert!(zeros > 0 || devices().is_empty(), "no gradient is -0 otherwise");
}

/// The fused kernels round weights and slopes to 16 bits before they multiply them, and the results once; sums are f32 in another
/// order. Each rounding moves a result by at most half an epsilon of the terms, which are about as large as the greatest result, so
/// four epsilons of that bound the difference from the portable result.
#[test]
fn fused_attention_is_near_the_portable_one() {
    const LIMIT: f32 = 4.0;
    let mut faults = Vec::new();
    for (dtype, epsilon) in [(DType::F16, 1.0 / 1024.0), (DType::Bf16, 1.0 / 128.0)] {
        for (sizes, causal, p, bias, mask) in [
            ([2, 70, 130, 2, 64], false, 0.0, None, false),
            ([1, 150, 150, 2, 32], true, 0.0, None, false),
            ([1, 197, 197, 1, 64], false, 0.0, None, false),
            ([3, 40, 200, 1, 64], false, 0.0, None, true),
            ([3, 70, 70, 1, 128], true, 0.0, None, true),
            ([2, 65, 65, 1, 128], true, 0.25, None, true),
            ([2, 40, 70, 2, 64], false, 0.1, Some([1, 2, 40, 70]), true),
            ([2, 40, 64, 2, 64], false, 0.1, Some([1, 2, 40, 64]), true),
            ([2, 33, 33, 2, 32], true, 0.0, Some([2, 2, 33, 33]), false),
            ([2, 33, 40, 2, 32], true, 0.0, Some([2, 1, 1, 40]), false),
        ] {
            let variant = Variant { sizes, causal, p, bias, mask, dtype, special: false };
            for case in cases_of(&variant) {
                for mut device in devices().into_iter().filter(|device| device.units().tensor_cores) {
                    let found = case.found(&mut *device, Arithmetic::Device).expect("a kernel");
                    for (index, (expected, found)) in case.expected().iter().zip(&found).enumerate() {
                        let elements = case.outputs[index].elements();
                        let (expected, found) = (expected.floats(elements), found.floats(elements));
                        let finite = expected.iter().filter(|x| x.is_finite());
                        let greatest = finite.fold(0.0_f32, |most, x| most.max(x.abs()));
                        let far = far(expected, found, LIMIT * epsilon * greatest);
                        if let Some(first) = far.first() {
                            faults.push(format!(
                                "{} {dtype:?} {sizes:?} p {p} bias {bias:?} result {index}: {} of {elements} are far, [{first}]: {} {}; {:?}",
                                case.op.kind(),
                                far.len(),
                                expected[*first],
                                found[*first],
                                &far[..far.len().min(160)]
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Where numbers are further apart than a limit, or one of them is no number.
fn far(expected: &[f32], found: &[f32], limit: f32) -> Vec<usize> {
    let near = |(expected, found): (&f32, &f32)| expected == found || (expected - found).abs() <= limit;
    let pairs = expected.iter().zip(found).enumerate();
    pairs.filter_map(|(element, pair)| (!near(pair)).then_some(element)).collect()
}
