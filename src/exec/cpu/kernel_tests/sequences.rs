//! Rows by index, rotary positions, means, parts of axes, RMS and group normalisation: each kernel against its reference bit
//! for bit, each backward against finite differences, and the references against PyTorch's numbers
//! (`exec/reference/testdata/sequence_torch.py` wrote them).
#![expect(clippy::disallowed_methods, reason = "the definitions here are not amp's arithmetic but its judge")]

use super::gradients::{assert_gradient, dot, normalise, wide};
use super::torch::Case;
use super::{FORMATS, Numbers, assert_same, every_setting};
use crate::arithmetic::half::Format;
use crate::exec::cpu::group_norm::{self, GroupNorm};
use crate::exec::cpu::rotary::{self, Rotary};
use crate::exec::cpu::rows::{self, Rows};
use crate::exec::cpu::{elementwise, layout, mean, rms_norm};
use crate::exec::reference;

fn case(name: &str) -> Case {
    Case::of(include_str!("../../reference/testdata/sequence_torch.json"), name)
}

/// Indices of every row, some often, and two outside of the table.
fn indices(numbers: &mut Numbers, op: &Rows) -> Vec<i32> {
    let mut index: Vec<i32> = (0..op.tables * op.picked)
        .map(|_| numbers.below(op.rows).min(numbers.below(op.rows)) as i32)
        .collect();
    if let [first, .., last] = index.as_mut_slice() {
        (*first, *last) = (op.rows as i32, -1);
    }
    index
}

#[test]
fn picked_rows_equal_the_reference() {
    let mut numbers = Numbers(70);
    let rows = |tables, rows, columns, picked, padding| Rows { tables, rows, columns, picked, padding };
    for op in [
        rows(1, 5, 3, 4, None),
        rows(1, 17, 33, 100, Some(2)),
        rows(1, 900, 40, 700, None),
        rows(4, 9, 7, 12, None),
        rows(2, 4, 8, 0, None),
        rows(1, 3, 5, 1, Some(2)),
    ] {
        let (x, index) = (numbers.hostile(op.tables * op.rows * op.columns), indices(&mut numbers, &op));
        let dy = numbers.plain(index.len() * op.columns);
        for format in FORMATS {
            let (mut y, mut dx) = (vec![9.0; dy.len()], vec![9.0; x.len()]);
            reference::rows::pick(&op, &x, &index, &mut y, format);
            reference::rows::pick_backward(&op, &dy, &index, &mut dx, format);
            every_setting(|isa, threads| {
                let (mut found, mut back) = (vec![8.0; dy.len()], vec![8.0; x.len()]);
                rows::pick(isa, threads, &op, &x, &index, &mut found, format);
                assert_same(&found, &y, &format!("{op:?}"));
                rows::pick_backward(isa, threads, &op, &dy, &index, &mut back, format);
                assert_same(&back, &dx, &format!("{op:?} backward"));
            });
        }
    }
}

#[test]
fn picked_rows_agree_with_torch() {
    for (name, table, op) in [
        ("embedding", "weight", Rows { tables: 1, rows: 6, columns: 4, picked: 9, padding: Some(0) }),
        ("gather", "x", Rows { tables: 2, rows: 5, columns: 3, picked: 4, padding: None }),
    ] {
        let case = case(name);
        let (x, dy, index) = (case.input(table), case.input("dy"), case.integers("index"));
        let (mut y, mut dx) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
        reference::rows::pick(&op, &x, &index, &mut y, Format::F32);
        case.check("y", &y);
        reference::rows::pick_backward(&op, &dy, &index, &mut dx, Format::F32);
        case.check(&format!("d{table}"), &dx);
    }
}

#[test]
fn the_gradient_of_picked_rows() {
    let mut numbers = Numbers(71);
    let op = Rows { tables: 2, rows: 4, columns: 3, picked: 5, padding: None };
    let (x, dy) = (numbers.plain(24), numbers.plain(30));
    let index = [0, 3, 3, 1, 0, 2, 2, 2, 2, 1];
    let mut dx = vec![0.0; 24];
    reference::rows::pick_backward(&op, &dy, &index, &mut dx, Format::F32);
    let picked = |x: &[f64]| {
        let row = |at: usize| at / 15 * 4 + index[at / 3] as usize;
        dot(&dy, (0..30).map(|at| x[row(at) * 3 + at % 3]).collect::<Vec<_>>())
    };
    assert_gradient(picked, &x, &dx, "picked rows");
}

fn turns() -> [Rotary; 5] {
    let turn = |positions, heads, width, interleaved, inverse| Rotary {
        positions,
        heads,
        width,
        base: 10_000.0,
        interleaved,
        inverse,
    };
    [
        turn(5, 2, 8, false, false),
        turn(5, 2, 8, true, false),
        turn(700, 3, 64, false, true),
        turn(33, 1, 6, true, true),
        turn(1, 1, 2, false, false),
    ]
}

#[test]
fn rotary_positions_equal_the_reference() {
    let mut numbers = Numbers(72);
    for op in turns() {
        let x = numbers.hostile(3 * op.positions * op.heads * op.width);
        for format in FORMATS {
            let mut y = vec![9.0; x.len()];
            reference::rotary::rotary(&op, &x, &mut y, format);
            every_setting(|isa, threads| {
                let mut found = vec![8.0; x.len()];
                rotary::rotary(isa, threads, &op, &x, &mut found, format);
                assert_same(&found, &y, &format!("{op:?}"));
            });
        }
    }
}

#[test]
fn rotary_positions_agree_with_torch_and_their_gradient_is_the_inverse_turn() {
    for (name, op) in [("rotary", turns()[0]), ("rotary_interleaved", turns()[1])] {
        let case = case(name);
        let (x, dy) = (case.input("x"), case.input("dy"));
        let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        reference::rotary::rotary(&op, &x, &mut y, Format::F32);
        case.check("y", &y);
        reference::rotary::rotary(&Rotary { inverse: true, ..op }, &dy, &mut dx, Format::F32);
        case.check("dx", &dx);
        let turned = |x: &[f64]| {
            let mut y = vec![0.0; x.len()];
            for at in (0..x.len()).filter(|at| (0..4).any(|pair| op.pair(pair)[0] == at % 8)) {
                let pair = (0..4).find(|pair| op.pair(*pair)[0] == at % 8).expect("filtered");
                let angle = (at / 16 % 5) as f64 / 10_000_f64.powf(pair as f64 / 4.0);
                let other = at + op.pair(pair)[1] - op.pair(pair)[0];
                y[at] = x[at] * angle.cos() - x[other] * angle.sin();
                y[other] = x[other] * angle.cos() + x[at] * angle.sin();
            }
            y
        };
        assert_gradient(|x| dot(&dy, turned(x)), &x, &dx, name);
    }
}

#[test]
fn means_equal_the_reference() {
    let mut numbers = Numbers(73);
    for (outer, length, inner) in
        [(1, 1, 1), (3, 7, 5), (2, 600, 33), (40, 49, 64), (5, 3000, 1), (0, 4, 2), (300, 257, 16)]
    {
        let (x, dy) = (numbers.hostile(outer * length * inner), numbers.plain(outer * inner));
        for format in FORMATS {
            let (mut y, mut dx) = (vec![9.0; dy.len()], vec![9.0; x.len()]);
            reference::mean::mean(length, inner, &x, &mut y, format);
            reference::mean::mean_backward(length, inner, &dy, &mut dx, format);
            every_setting(|isa, threads| {
                let (mut found, mut back) = (vec![8.0; dy.len()], vec![8.0; x.len()]);
                mean::mean(isa, threads, length, inner, &x, &mut found, format);
                assert_same(&found, &y, &format!("mean {outer}×{length}×{inner}"));
                mean::mean_backward(isa, threads, length, inner, &dy, &mut back, format);
                assert_same(&back, &dx, "mean backward");
            });
        }
    }
}

#[test]
fn means_agree_with_torch_and_have_their_gradient() {
    let case = case("mean");
    let (x, dy) = (case.input("x"), case.input("dy"));
    let (mut y, mut dx) = (vec![0.0; 6], vec![0.0; 42]);
    reference::mean::mean(7, 3, &x, &mut y, Format::F32);
    case.check("y", &y);
    reference::mean::mean_backward(7, 3, &dy, &mut dx, Format::F32);
    case.check("dx", &dx);
    let means = |x: &[f64]| -> Vec<f64> {
        (0..6).map(|at| (0..7).map(|l| x[at / 3 * 21 + l * 3 + at % 3]).sum::<f64>() / 7.0).collect()
    };
    assert_gradient(|x| dot(&dy, means(x)), &x, &dx, "mean");
}

#[test]
fn parts_of_axes_equal_the_reference() {
    let mut numbers = Numbers(74);
    for (outer, sizes, inner) in
        [(1, [5, 1, 3], 4), (700, [9, 0, 2], 33), (3, [4, 3, 1], 1), (0, [2, 0, 1], 3), (2, [6, 0, 6], 5)]
    {
        let [whole, _, length] = sizes;
        let x = numbers.hostile(outer * whole * inner);
        let (mut part, mut back) = (vec![9.0; outer * length * inner], vec![9.0; x.len()]);
        reference::layout::slice(&x, sizes, inner, &mut part);
        reference::layout::pad(&part, sizes, inner, &mut back);
        for (at, (x, back)) in x.iter().zip(&back).enumerate() {
            let inside = (sizes[1]..sizes[1] + length).contains(&(at / inner % whole));
            assert_eq!(back.to_bits(), if inside { x.to_bits() } else { 0 });
        }
        every_setting(|_, threads| {
            let (mut found, mut padded) = (vec![8.0; part.len()], vec![8.0; x.len()]);
            layout::slice(threads, &x, sizes, inner, &mut found);
            assert_same(&found, &part, "slice");
            layout::pad(threads, &part, sizes, inner, &mut padded);
            assert_same(&padded, &back, "pad");
        });
    }
}

#[test]
fn expansion_equals_the_reference() {
    let mut numbers = Numbers(75);
    for (from, shape) in [
        (&[1, 5][..], &[7, 1, 5][..]),
        (&[4, 1, 3], &[4, 600, 3]),
        (&[3, 1], &[3, 40_000]),
        (&[], &[2, 3]),
        (&[2, 2], &[2, 2]),
        (&[1], &[0]),
    ] {
        let x = numbers.hostile(from.iter().product());
        let mut y = vec![9.0; shape.iter().product()];
        reference::elementwise::expand(&x, from, &mut y, shape);
        every_setting(|_, threads| {
            let mut found = vec![8.0; y.len()];
            elementwise::expand(threads, &x, from, &mut found, shape);
            assert_same(&found, &y, &format!("{from:?} to {shape:?}"));
        });
    }
}

#[test]
fn rms_norm_equals_the_reference() {
    let mut numbers = Numbers(76);
    for (rows, columns) in [(1, 1), (0, 5), (3, 7), (40, 64), (700, 300), (5, 9000)] {
        let x = if rows == 40 { numbers.hostile(rows * columns) } else { numbers.plain(rows * columns) };
        let (dy, gamma) = (numbers.plain(rows * columns), numbers.plain(columns));
        for format in FORMATS {
            let results = || [vec![9.0; x.len()], vec![9.0; rows], vec![9.0; x.len()], vec![9.0; columns]];
            let [mut y, mut rstd, mut dx, mut dgamma] = results();
            reference::rms_norm::rms_norm(columns, 1e-6, &x, &gamma, &mut y, &mut rstd, format);
            reference::rms_norm::rms_norm_backward(
                columns,
                &x,
                &dy,
                &gamma,
                &rstd,
                &mut dx,
                &mut dgamma,
                format,
            );
            let expected = [y, rstd, dx, dgamma].concat();
            every_setting(|isa, threads| {
                let [mut y, mut rstd, mut dx, mut dgamma] = results();
                rms_norm::rms_norm(isa, threads, columns, 1e-6, &x, &gamma, &mut y, &mut rstd, format);
                rms_norm::rms_norm_backward(
                    isa,
                    threads,
                    columns,
                    &x,
                    &dy,
                    &gamma,
                    &rstd,
                    &mut dx,
                    &mut dgamma,
                    format,
                );
                assert_same(&[y, rstd, dx, dgamma].concat(), &expected, &format!("{rows}×{columns}"));
            });
        }
    }
}

#[test]
fn rms_norm_agrees_with_torch_and_has_its_gradients() {
    let case = case("rms_norm");
    let [x, dy, gamma] = ["x", "dy", "gamma"].map(|key| case.input(key));
    let (mut y, mut rstd, mut dx, mut dgamma) = (vec![0.0; 60], vec![0.0; 5], vec![0.0; 60], vec![0.0; 12]);
    reference::rms_norm::rms_norm(12, 1e-6, &x, &gamma, &mut y, &mut rstd, Format::F32);
    reference::rms_norm::rms_norm_backward(12, &x, &dy, &gamma, &rstd, &mut dx, &mut dgamma, Format::F32);
    for (key, found) in [("y", &y), ("dx", &dx), ("dgamma", &dgamma)] {
        case.check(key, found);
    }
    let loss = |x: &[f64], gamma: &[f64]| {
        let rows = x.chunks(12).flat_map(|x| {
            let root = (x.iter().map(|x| x * x).sum::<f64>() / 12.0 + 1e-6).sqrt();
            x.iter().zip(gamma).map(|(x, gamma)| x / root * gamma).collect::<Vec<_>>()
        });
        dot(&dy, rows)
    };
    assert_gradient(|x| loss(x, &wide(&gamma)), &x, &dx, "RMS norm, x");
    assert_gradient(|gamma| loss(&wide(&x), gamma), &gamma, &dgamma, "RMS norm, γ");
}

/// y, mean, rstd, dx, dγ, dβ of a group normalisation, to be filled in.
fn group_results(op: &GroupNorm, examples: usize) -> [Vec<f32>; 6] {
    let elements = examples * op.channels * op.pixels;
    [elements, examples * op.groups, examples * op.groups, elements, op.channels, op.channels]
        .map(|length| vec![9.0; length])
}

/// All results of the reference for x, dy, γ, β.
fn group_reference(op: &GroupNorm, [x, dy, gamma, beta]: [&[f32]; 4], format: Format) -> [Vec<f32>; 6] {
    let [mut y, mut mean, mut rstd, mut dx, mut dgamma, mut dbeta] =
        group_results(op, x.len() / (op.channels * op.pixels));
    reference::group_norm::group_norm(op, x, gamma, beta, &mut y, &mut mean, &mut rstd, format);
    reference::group_norm::group_norm_backward(
        op,
        x,
        dy,
        gamma,
        &mean,
        &rstd,
        &mut dx,
        &mut dgamma,
        &mut dbeta,
        format,
    );
    [y, mean, rstd, dx, dgamma, dbeta]
}

#[test]
fn group_norm_equals_the_reference() {
    let mut numbers = Numbers(77);
    for (examples, channels, pixels, groups) in
        [(1, 1, 1, 1), (3, 6, 10, 3), (2, 64, 300, 32), (5, 8, 1, 2), (300, 4, 9, 4), (2, 4, 5000, 1)]
    {
        let op = GroupNorm { channels, pixels, groups, epsilon: 1e-5 };
        let size = examples * channels * pixels;
        let x = if pixels == 10 { numbers.hostile(size) } else { numbers.plain(size) };
        let (dy, gamma, beta) = (numbers.plain(size), numbers.plain(channels), numbers.plain(channels));
        for format in FORMATS {
            let expected = group_reference(&op, [&x, &dy, &gamma, &beta], format).concat();
            every_setting(|isa, threads| {
                let [mut y, mut mean, mut rstd, mut dx, mut dgamma, mut dbeta] = group_results(&op, examples);
                group_norm::group_norm(
                    isa, threads, &op, &x, &gamma, &beta, &mut y, &mut mean, &mut rstd, format,
                );
                group_norm::group_norm_backward(
                    isa,
                    threads,
                    &op,
                    &x,
                    &dy,
                    &gamma,
                    &mean,
                    &rstd,
                    &mut dx,
                    &mut dgamma,
                    &mut dbeta,
                    format,
                );
                assert_same(&[y, mean, rstd, dx, dgamma, dbeta].concat(), &expected, &format!("{op:?}"));
            });
        }
    }
}

#[test]
fn group_norm_agrees_with_torch_and_has_its_gradients() {
    let case = case("group_norm");
    let [x, dy, gamma, beta] = ["x", "dy", "gamma", "beta"].map(|key| case.input(key));
    let op = GroupNorm { channels: 6, pixels: 10, groups: 3, epsilon: 1e-5 };
    let [y, _, _, dx, dgamma, dbeta] = group_reference(&op, [&x, &dy, &gamma, &beta], Format::F32);
    for (key, found) in [("y", &y), ("dx", &dx), ("dgamma", &dgamma), ("dbeta", &dbeta)] {
        case.check(key, found);
    }
    let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| {
        dot(&dy, normalise(x, |at| at / 20, |at| at / 10 % 6, gamma, beta))
    };
    let (x64, gamma64, beta64) = (wide(&x), wide(&gamma), wide(&beta));
    assert_gradient(|x| loss(x, &gamma64, &beta64), &x, &dx, "group norm, x");
    assert_gradient(|gamma| loss(&x64, gamma, &beta64), &gamma, &dgamma, "group norm, γ");
    assert_gradient(|beta| loss(&x64, &gamma64, beta), &beta, &dbeta, "group norm, β");
}
