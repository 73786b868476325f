//! Rotary positions: "RoFormer", Su et al. 2021, arXiv 2104.09864, equation 34, with the pairs of either convention.

use crate::arithmetic::functions::{cos, pow, sin};
use crate::arithmetic::half::{Format, round};

/// Sequences of positions × (heads · width) features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// Positions of a sequence.
    pub positions: usize,
    /// Heads.
    pub heads: usize,
    /// Features of a head; even.
    pub width: usize,
    /// Of the angles.
    pub base: f32,
    /// Whether pair i is features 2i and 2i + 1, or i and i + width/2.
    pub interleaved: bool,
    /// Whether the turn is undone.
    pub inverse: bool,
}

impl Rotary {
    /// The angle of a pair at a position, as Hugging Face's Llama computes it: t · (1 / base^(2i/width)), each operation
    /// rounded to f32.
    pub fn angle(&self, position: usize, pair: usize) -> f32 {
        let exponent = (2 * pair) as f32 / self.width as f32;
        position as f32 * (1.0 / pow(self.base, exponent))
    }

    /// The two features of a pair, in their head.
    pub fn pair(&self, pair: usize) -> [usize; 2] {
        if self.interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + self.width / 2] }
    }
}

/// For each pair (a, b) of each head: (round(a·cos - b·sin), round(b·cos + a·sin)); undone with the sine's sign turned.
pub fn rotary(op: &Rotary, x: &[f32], y: &mut [f32], format: Format) {
    let features = op.heads * op.width;
    for row in 0..x.len() / features {
        for head in 0..op.heads {
            for pair in 0..op.width / 2 {
                let angle = op.angle(row % op.positions, pair);
                let (cos, sin) = (cos(angle), if op.inverse { -sin(angle) } else { sin(angle) });
                let [a, b] = op.pair(pair).map(|feature| row * features + head * op.width + feature);
                y[a] = round(format, x[a] * cos - x[b] * sin);
                y[b] = round(format, x[b] * cos + x[a] * sin);
            }
        }
    }
}
