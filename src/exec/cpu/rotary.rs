//! Rotary positions; equal to `exec::reference::rotary` bit for bit. The angles' cosines and sines are computed once for
//! all sequences and heads.

use super::threads::Threads;
use super::vector::{CHEAP, COSTLY, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::functions::{cos_slice, pow, sin_slice};
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::rotary::Rotary;

for_each_isa! {
    /// One head whose pairs are halves apart.
    fn turn_halves(x: &[f32], cos: &[f32], sin: &[f32], y: &mut [f32]) {
        let half = cos.len();
        let (first, second) = x.split_at(half);
        let (low, high) = y.split_at_mut(half);
        let (second, sin) = (&second[..half], &sin[..half]);
        let high = &mut high[..half];
        for pair in 0..half {
            low[pair] = first[pair] * cos[pair] - second[pair] * sin[pair];
            high[pair] = second[pair] * cos[pair] + first[pair] * sin[pair];
        }
    }

    /// One head whose pairs are neighbours.
    fn turn_neighbours(x: &[f32], cos: &[f32], sin: &[f32], y: &mut [f32]) {
        let pairs = x.as_chunks::<2>().0.iter().zip(y.as_chunks_mut::<2>().0);
        for (([a, b], y), (cos, sin)) in pairs.zip(cos.iter().zip(sin)) {
            *y = [a * cos - b * sin, b * cos + a * sin];
        }
    }
}

/// The cosine and the sine of every position's pairs: positions × width / 2 of each.
fn angles(isa: Isa, threads: &Threads, op: &Rotary) -> (Vec<f32>, Vec<f32>) {
    let half = op.width / 2;
    // As `Rotary::angle`, whose power does not depend on the position.
    let rates: Vec<f32> =
        (0..half).map(|pair| 1.0 / pow(op.base, (2 * pair) as f32 / op.width as f32)).collect();
    let (mut cos, mut sin) = (vec![0.0; op.positions * half], vec![0.0; op.positions * half]);
    let outputs = (Units::new(&mut cos, half), Units::new(&mut sin, half));
    parallel(threads, op.positions, grain(COSTLY, half), outputs, |range, (cos, sin)| {
        for (position, cos) in range.zip(cos.slice.chunks_exact_mut(half)) {
            for (angle, rate) in cos.iter_mut().zip(&rates) {
                *angle = position as f32 * rate;
            }
        }
        sin.slice.copy_from_slice(cos.slice);
        cos_slice(isa, cos.slice);
        sin_slice(isa, sin.slice);
        if op.inverse {
            sin.slice.iter_mut().for_each(|sin| *sin = -*sin);
        }
    });
    (cos, sin)
}

/// For each pair (a, b) of each head: (round(a·cos - b·sin), round(b·cos + a·sin)); undone with the sine's sign turned.
pub fn rotary(isa: Isa, threads: &Threads, op: &Rotary, x: &[f32], y: &mut [f32], format: Format) {
    let (features, half) = (op.heads * op.width, op.width / 2);
    if y.is_empty() {
        return;
    }
    let (cos, sin) = angles(isa, threads, op);
    parallel(threads, y.len() / features, grain(CHEAP, features), Units::new(y, features), |range, y| {
        for (row, y) in range.zip(y.slice.chunks_exact_mut(features)) {
            let angles = row % op.positions * half..(row % op.positions + 1) * half;
            let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
            let heads = x[row * features..(row + 1) * features].chunks_exact(op.width);
            for (x, y) in heads.zip(y.chunks_exact_mut(op.width)) {
                if op.interleaved {
                    turn_neighbours(isa, x, cos, sin, y);
                } else {
                    turn_halves(isa, x, cos, sin, y);
                }
            }
            round_slice(isa, format, y);
        }
    });
}
