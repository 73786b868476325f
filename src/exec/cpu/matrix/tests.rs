//! The fast product against the definition, bit for bit, and against f64 by an error bound.

use super::*;
use crate::exec::reference::matrix as reference;

/// Numbers without a library: a 64-bit linear congruential generator (Knuth's MMIX constants), top bits used.
pub(in crate::exec::cpu) struct Draw(pub u64);

impl Draw {
    pub(in crate::exec::cpu) fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    pub(in crate::exec::cpu) fn below(&mut self, count: usize) -> usize {
        self.word() as usize % count
    }

    /// In [-1, 1).
    pub(in crate::exec::cpu) fn number(&mut self) -> f32 {
        (self.word() >> 8) as f32 * (1.0 / 8_388_608.0) - 1.0
    }

    /// Plain numbers, or now and then one of those that make arithmetic hard.
    pub(in crate::exec::cpu) fn numbers(&mut self, count: usize, hard: bool) -> Vec<f32> {
        const HARD: [f32; 9] =
            [0.0, -0.0, 1e-40, -1e-45, 3e38, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        (0..count)
            .map(|_| if hard && self.below(12) == 0 { HARD[self.below(HARD.len())] } else { self.number() })
            .collect()
    }
}

/// The first element whose bits differ; all NaN are one value.
pub(in crate::exec::cpu) fn difference(found: &[f32], expected: &[f32]) -> Option<(usize, f32, f32)> {
    assert_eq!(found.len(), expected.len());
    let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    (0..found.len()).find(|&i| !same(found[i], expected[i])).map(|i| (i, found[i], expected[i]))
}

pub(in crate::exec::cpu) fn teams() -> Vec<Threads> {
    [1, 2, 4].map(|count| Threads::new(count).expect("threads start")).into()
}

/// A matrix of `rows × columns` in one of several layouts.
fn matrix(draw: &mut Draw, rows: usize, columns: usize, hard: bool) -> (Vec<f32>, usize, usize) {
    let gap = draw.below(3);
    let (row_stride, column_stride) = match draw.below(4) {
        0 => (columns + gap, 1),
        1 => (1, rows + gap),
        2 => (2 * columns + gap, 2),
        _ => (columns, 1),
    };
    let length = (rows.max(1) - 1) * row_stride + (columns.max(1) - 1) * column_stride + 1;
    (draw.numbers(length, hard), row_stride, column_stride)
}

fn check(draw: &mut Draw, size: Product, teams: &[Threads], hard: bool) {
    let a = matrix(draw, size.rows, size.depth, hard);
    let b = matrix(draw, size.depth, size.columns, hard);
    let bias = draw.numbers(size.columns, hard);
    let a = MatrixRef { data: &a.0, row_stride: a.1, column_stride: a.2 };
    let b = MatrixRef { data: &b.0, row_stride: b.1, column_stride: b.2 };
    let strides = (a.row_stride, a.column_stride, b.row_stride, b.column_stride);
    let format = [Format::F32, Format::F16, Format::Bf16][draw.below(3)];
    let epilogue = Epilogue { bias: (draw.below(2) == 0).then_some(&bias[..]), format };
    let mut expected = vec![7.0; size.rows * size.columns];
    reference::product(size, a, b, &mut expected, epilogue);
    for isa in Isa::available() {
        for threads in teams {
            let mut found = vec![-7.0; expected.len()];
            product(isa, threads, size, a, b, &mut found, epilogue);
            let wrong = difference(&found, &expected);
            assert_eq!(wrong, None, "{isa} {} threads {size:?} {format:?} {strides:?}", threads.count());
        }
    }
}

#[test]
fn random_products_equal_the_definition_bit_for_bit() {
    let teams = teams();
    let mut draw = Draw(1);
    for case in 0..300 {
        let mut side = |most: usize| if draw.below(12) == 0 { draw.below(2) } else { draw.below(most) };
        let size = Product { rows: side(70), columns: side(110), depth: side(90) };
        check(&mut draw, size, &teams, case % 3 == 0);
    }
}

#[test]
fn products_that_are_blocked_and_shared_equal_the_definition() {
    let teams = teams();
    let mut draw = Draw(2);
    for (rows, columns, depth) in
        [(250, 70, 600), (37, 801, 300), (241, 300, 257), (5, 33, 2000), (1, 900, 700)]
    {
        check(&mut draw, Product { rows, columns, depth }, &teams, false);
        check(&mut draw, Product { rows, columns, depth }, &teams, true);
    }
}

#[test]
fn the_error_is_that_of_a_chain() {
    // |fl(Σ) - Σ| ≤ k·u/(1 - k·u)·Σ|a·b| (Higham, Accuracy and Stability, §3.1), u = 2^-24.
    let mut draw = Draw(3);
    let size = Product { rows: 40, columns: 50, depth: 700 };
    let (a, b) = (draw.numbers(40 * 700, false), draw.numbers(700 * 50, false));
    let mut c = vec![0.0; 40 * 50];
    let threads = Threads::new(2).expect("threads start");
    let (left, right) = (MatrixRef::row_major(&a, 700), MatrixRef::row_major(&b, 50));
    product(Isa::detect(), &threads, size, left, right, &mut c, Epilogue::NONE);
    for row in 0..40 {
        for column in 0..50 {
            let terms = (0..700).map(|k| f64::from(a[row * 700 + k]) * f64::from(b[k * 50 + column]));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            let bound = 700.0 / 16_777_216.0 / (1.0 - 700.0 / 16_777_216.0) * size;
            assert!((f64::from(c[row * 50 + column]) - sum).abs() <= bound, "{row} {column}");
        }
    }
}

#[test]
fn without_depth_the_outputs_are_the_bias() {
    let threads = Threads::new(1).expect("threads start");
    let mut c = [9.0; 6];
    let size = Product { rows: 2, columns: 3, depth: 0 };
    let none = MatrixRef { data: &[], row_stride: 0, column_stride: 1 };
    let epilogue = Epilogue { bias: Some(&[1.0, 2.0, 3.0]), format: Format::F32 };
    product(Isa::detect(), &threads, size, none, none, &mut c, epilogue);
    assert_eq!(c, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
}
