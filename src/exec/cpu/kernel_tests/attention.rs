//! The attention family: kernels against references, bit for bit.

use super::{FORMATS, Numbers, assert_same, every_setting};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::attention::{Attention, Gradients, Operands, Saved};
use crate::exec::cpu::disentangled::{Disentangled, Term};
use crate::exec::cpu::dropout::Dropout;
use crate::exec::cpu::matrix::{Batches, Epilogue, Product, batched_product};
use crate::exec::cpu::threads::Threads;
use crate::exec::cpu::{attention, disentangled, relative_position};
use crate::exec::reference;
use relative_position::PositionBuckets;

/// An attention with everything that it reads.
pub struct Case {
    /// Sizes and rule.
    pub op: Attention,
    /// Query, key, value, gradient of y.
    pub operands: [Vec<f32>; 4],
    /// Numbers and shape.
    pub bias: Option<(Vec<f32>, [usize; 4])>,
    /// One number for each key.
    pub mask: Option<Vec<f32>>,
}

impl Case {
    /// A case of plain numbers: [batch, queries, keys, heads, size].
    pub fn new(numbers: &mut Numbers, sizes: [usize; 5], causal: bool) -> Self {
        let [batch, queries, keys, heads, size] = sizes;
        let (scale, dropout) = (0.3, None);
        let op = Attention { batch, queries, keys, heads, size, causal, scale, dropout };
        let (asks, answers) = (batch * queries * heads * size, batch * keys * heads * size);
        let operands = [asks, answers, answers, asks].map(|length| numbers.plain(length));
        Self { op, operands, bias: None, mask: None }
    }

    /// With a bias of this shape.
    pub fn biased(mut self, numbers: &mut Numbers, shape: [usize; 4]) -> Self {
        self.bias = Some((numbers.plain(shape.iter().product()), shape));
        self
    }

    /// With about a third of the keys masked.
    pub fn masked(mut self, numbers: &mut Numbers) -> Self {
        let length = self.op.batch * self.op.keys;
        self.mask = Some((0..length).map(|_| f32::from(u8::from(numbers.below(3) > 0))).collect());
        self
    }

    /// What the passes read.
    pub fn operands(&self) -> Operands<'_> {
        let [query, key, value, _] = &self.operands;
        let bias = self.bias.as_ref().map(|(bias, shape)| (bias.as_slice(), *shape));
        Operands { query, key, value, bias, mask: self.mask.as_deref() }
    }

    /// y, log-sum-exp, dquery, dkey, dvalue, dbias; by the reference, or by the kernel.
    pub fn run(&self, fast: Option<(Isa, &Threads)>, format: Format) -> [Vec<f32>; 6] {
        let (op, operands) = (&self.op, self.operands());
        let dy = &self.operands[3];
        let mut y = vec![9.0; dy.len()];
        let mut log_sum_exp = vec![9.0; op.batch * op.heads * op.queries];
        match fast {
            None => reference::attention::attention(op, &operands, &mut y, &mut log_sum_exp, format),
            Some((isa, threads)) => {
                attention::attention(isa, threads, op, &operands, &mut y, &mut log_sum_exp, format);
            }
        }
        let [mut query, mut key, mut value] = [0, 1, 2].map(|index| vec![9.0; self.operands[index].len()]);
        let mut bias = vec![9.0; self.bias.as_ref().map_or(0, |(bias, _)| bias.len())];
        let saved = Saved { dy, y: &y, log_sum_exp: &log_sum_exp };
        let mut gradients = Gradients {
            query: &mut query,
            key: &mut key,
            value: &mut value,
            bias: self.bias.is_some().then_some(&mut bias),
        };
        match fast {
            None => reference::attention::attention_backward(op, &operands, &saved, &mut gradients, format),
            Some((isa, threads)) => {
                attention::attention_backward(isa, threads, op, &operands, &saved, &mut gradients, format);
            }
        }
        [y, log_sum_exp, query, key, value, bias]
    }

    fn check(&mut self, what: &str) {
        for format in FORMATS {
            self.operands.iter_mut().for_each(|values| round_slice(Isa::detect(), format, values));
            let expected = self.run(None, format);
            every_setting(|isa, threads| {
                let found = self.run(Some((isa, threads)), format);
                let names = ["y", "log-sum-exp", "dquery", "dkey", "dvalue", "dbias"];
                for ((found, expected), name) in found.iter().zip(&expected).zip(names) {
                    assert_same(found, expected, &format!("{what} {:?} {name}", self.op));
                }
            });
        }
    }
}

#[test]
fn attention_equals_the_reference() {
    let mut numbers = Numbers(70);
    let sizes = [
        [2, 5, 7, 2, 3],
        [1, 1, 1, 1, 1],
        [1, 100, 100, 1, 8],
        [1, 49, 130, 1, 20],
        [1, 52, 30, 2, 65],
        [0, 4, 4, 2, 8],
        [1, 0, 4, 2, 8],
    ];
    for sizes in sizes {
        for causal in [false, true] {
            Case::new(&mut numbers, sizes, causal).check("plain");
        }
    }
}

#[test]
fn attention_with_bias_and_mask_equals_the_reference() {
    let mut numbers = Numbers(71);
    let sizes = [2, 50, 51, 3, 2];
    for shape in [[2, 3, 50, 51], [1, 3, 50, 51], [2, 1, 1, 51], [1, 1, 50, 51], [1, 3, 1, 1], [2, 3, 50, 1]]
    {
        for causal in [false, true] {
            let case = Case::new(&mut numbers, sizes, causal).biased(&mut numbers, shape);
            case.masked(&mut numbers).check("biased and masked");
        }
    }
}

#[test]
fn attention_with_dropout_equals_the_reference() {
    let mut numbers = Numbers(72);
    for causal in [false, true] {
        let mut case = Case::new(&mut numbers, [2, 61, 67, 2, 3], causal).masked(&mut numbers);
        case.op.dropout = Some(Dropout { stream: Stream::new(3, 4), step: 5, probability: 0.25 });
        case.check("dropped");
    }
}

#[test]
fn attention_of_long_rows_equals_the_reference() {
    // More keys than a block of the sum of a row.
    let mut numbers = Numbers(73);
    for causal in [false, true] {
        Case::new(&mut numbers, [1, 3, 4200, 1, 1], causal).check("long");
    }
}

#[test]
fn hostile_numbers_come_out_as_in_the_reference() {
    let mut numbers = Numbers(74);
    for causal in [false, true] {
        let mut case =
            Case::new(&mut numbers, [2, 60, 60, 2, 5], causal).biased(&mut numbers, [1, 2, 60, 60]);
        let lengths: Vec<usize> = case.operands.iter().map(Vec::len).collect();
        for (operand, length) in case.operands.iter_mut().zip(lengths) {
            *operand = numbers.plain(length);
            for _ in 0..3 {
                operand[numbers.below(length)] = numbers.hostile(40)[numbers.below(40)];
            }
        }
        if let Some((bias, _)) = &mut case.bias {
            for _ in 0..9 {
                let place = numbers.below(bias.len());
                bias[place] = f32::NEG_INFINITY;
            }
        }
        case.check("hostile");
    }
}

#[test]
fn a_query_that_attends_to_nothing_gives_zero() {
    let mut numbers = Numbers(75);
    let mut case = Case::new(&mut numbers, [2, 3, 4, 1, 2], false).biased(&mut numbers, [2, 1, 3, 4]);
    case.mask = Some(vec![0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    let [y, log_sum_exp, query, key, value, bias] = case.run(None, Format::F32);
    assert_eq!(y[..6], [0.0; 6]);
    assert_eq!(log_sum_exp[..3], [f32::NEG_INFINITY; 3]);
    // The second example attends to its first key alone.
    assert_eq!(y[6..], case.operands[2][8..10].repeat(3));
    assert!(query[..6].iter().chain(&key[..8]).chain(&value[..8]).chain(&bias[..12]).all(|x| *x == 0.0));
    case.check("nothing attended");
}

#[test]
fn batched_products_equal_the_reference() {
    let mut numbers = Numbers(76);
    for (count, rows, columns, depth) in [
        (1, 1, 1, 1),
        (3, 5, 7, 4),
        (9, 33, 20, 17),
        (2, 70, 65, 130),
        (40, 30, 31, 64),
        (0, 2, 2, 2),
        (2, 3, 4, 0),
    ] {
        let (a, b) = (numbers.hostile(count * rows * depth), numbers.plain(count * depth * columns));
        for (transpose_left, transpose_right) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let size = Product { rows, columns, depth };
            let op = Batches { count, size, transpose_left, transpose_right };
            for format in FORMATS {
                let mut expected = vec![9.0; count * rows * columns];
                for (index, c) in expected.chunks_exact_mut((rows * columns).max(1)).enumerate() {
                    let [left, right] = op.operands(index, &a, &b);
                    reference::matrix::product(size, left, right, c, Epilogue { bias: None, format });
                }
                every_setting(|isa, threads| {
                    let mut found = vec![8.0; expected.len()];
                    batched_product(isa, threads, &op, &a, &b, &mut found, format);
                    assert_same(&found, &expected, &format!("{op:?}"));
                });
            }
        }
    }
}

#[test]
fn relative_position_bias_equals_the_reference() {
    let mut numbers = Numbers(77);
    for (heads, length, bidirectional) in [(1, 1, true), (3, 40, true), (2, 300, false)] {
        let op = PositionBuckets { buckets: 32, max_distance: 128, bidirectional };
        let (weight, dy) = (numbers.plain(32 * heads), numbers.hostile(heads * length * length));
        for format in FORMATS {
            let (mut y, mut dweight) = (vec![9.0; dy.len()], vec![9.0; weight.len()]);
            reference::relative_position::relative_position_bias(&op, heads, length, &weight, &mut y, format);
            reference::relative_position::relative_position_bias_backward(
                &op,
                heads,
                length,
                &dy,
                &mut dweight,
                format,
            );
            every_setting(|isa, threads| {
                let (mut found, mut slopes) = (vec![8.0; dy.len()], vec![8.0; weight.len()]);
                relative_position::relative_position_bias(
                    isa, threads, &op, heads, length, &weight, &mut found, format,
                );
                assert_same(&found, &y, "bias of relative positions");
                relative_position::relative_position_bias_backward(
                    isa,
                    threads,
                    &op,
                    heads,
                    length,
                    &dy,
                    &mut slopes,
                    format,
                );
                assert_same(&slopes, &dweight, "its gradient");
            });
        }
    }
}

#[test]
fn disentangled_bias_equals_the_reference() {
    let mut numbers = Numbers(78);
    for (batch, length, heads, size, buckets) in
        [(1, 1, 1, 1, 4), (2, 30, 2, 5, 8), (1, 70, 3, 33, 256), (0, 3, 1, 2, 4)]
    {
        let op = Disentangled { batch, length, heads, size, buckets, max_position: 2 * buckets, scale: 0.2 };
        let (contents, tables) = (batch * length * heads * size, 2 * buckets * heads * size);
        let [query, key] = [(); 2].map(|()| numbers.plain(contents));
        let [position_key, position_query] = [(); 2].map(|()| numbers.plain(tables));
        let dy = numbers.plain(batch * heads * length * length);
        let of_query = Term { content: &query, table: &position_key, of_key: false };
        let of_key = Term { content: &key, table: &position_query, of_key: true };
        for terms in [vec![of_query, of_key], vec![of_query], vec![of_key]] {
            for format in FORMATS {
                let run = |fast: Option<(Isa, &Threads)>| {
                    let mut y = vec![9.0; dy.len()];
                    let mut slopes = [[(); 2]; 2].map(|_| (vec![9.0; contents], vec![9.0; tables]));
                    let mut gradients: Vec<(&mut [f32], &mut [f32])> = slopes
                        .iter_mut()
                        .take(terms.len())
                        .map(|(dx, dz)| (dx.as_mut_slice(), dz.as_mut_slice()))
                        .collect();
                    match fast {
                        None => {
                            reference::disentangled::disentangled_bias(&op, &terms, &mut y);
                            reference::disentangled::disentangled_bias_backward(
                                &op,
                                &terms,
                                &dy,
                                &mut gradients,
                                format,
                            );
                        }
                        Some((isa, threads)) => {
                            disentangled::disentangled_bias(isa, threads, &op, &terms, &mut y);
                            disentangled::disentangled_bias_backward(
                                isa,
                                threads,
                                &op,
                                &terms,
                                &dy,
                                &mut gradients,
                                format,
                            );
                        }
                    }
                    let [(a, b), (c, d)] = slopes;
                    [y, a, b, c, d].concat()
                };
                let expected = run(None);
                every_setting(|isa, threads| {
                    assert_same(&run(Some((isa, threads))), &expected, &format!("{op:?}"));
                });
            }
        }
    }
}
