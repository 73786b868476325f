//! Scaling pictures: a triangle filter that is as wide as what it scales down, and cutting.
//!
//! The definition is that of Pillow's `Image.resize` with `BILINEAR` (`src/libImaging/Resample.c`), which torchvision's
//! `Resize` uses for pictures: for output `i` of `n` over `m` inputs, with scale `s = m / n`, width `f = max(s, 1)` and
//! centre `c = (i + 1/2) s`, input `x` from `⌊c - f + 1/2⌋` up to before `⌊c + f + 1/2⌋`, both within the picture, weighs
//! `max(0, 1 - |x + 1/2 - c| / f)`, divided by the sum of the weights; weights are rounded, halves away from 0, to
//! multiples of 2^-22; the sum of the products is rounded, halves up, to a byte. Columns first, then rows, with bytes
//! between; a direction that keeps its size is left alone.
//!
//! Invariant: weights are IEEE operations on f64 in the order written here, and all else is integers, so the bytes are one on
//! every machine. They are those of Pillow 11.3.0 (`tests/pictures/pillow.py` records them); Pillow 13 takes
//! rows first where height shrinks by far more than width, and then has a byte that differs by one now and then.

use std::ops::Range;

/// Bits behind the point of a weight: a byte and two bits for sums besides.
const BITS: u32 = 32 - 8 - 2;

/// The weights of some outputs of one direction.
struct Weights {
    /// For each output the first of its inputs and how many there are.
    spans: Vec<(usize, usize)>,
    /// The weights of all outputs, one after the other.
    weights: Vec<i32>,
}

impl Weights {
    /// Those of the outputs `wanted` of `outputs`, over `inputs`.
    fn new(inputs: usize, outputs: usize, wanted: Range<usize>) -> Self {
        let scale = inputs as f64 / outputs as f64;
        let width = scale.max(1.0);
        let inverse = 1.0 / width;
        let mut made = Self { spans: Vec::new(), weights: Vec::new() };
        let mut real = Vec::new();
        for output in wanted {
            let centre = (output as f64 + 0.5) * scale;
            // Casts cut towards 0, and those of numbers below 0 give 0.
            let first = (centre - width + 0.5) as usize;
            let end = ((centre + width + 0.5) as usize).min(inputs);
            real.clear();
            let mut sum = 0.0;
            for input in first..end {
                let distance = ((input as f64 - centre + 0.5) * inverse).abs();
                let weight = if distance < 1.0 { 1.0 - distance } else { 0.0 };
                real.push(weight);
                sum += weight;
            }
            made.spans.push((first, real.len()));
            made.weights.extend(real.iter().map(|weight| {
                let part = if sum == 0.0 { *weight } else { weight / sum };
                (0.5 + part * f64::from(1 << BITS)) as i32
            }));
        }
        made
    }

    /// Each output's first input and its weights.
    fn iter(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let mut rest = self.weights.as_slice();
        self.spans.iter().map(move |(first, count)| {
            let (weights, after) = rest.split_at(*count);
            rest = after;
            (*first, weights)
        })
    }

    /// The inputs that any output weighs.
    fn inputs(&self) -> Range<usize> {
        let first = self.spans.iter().map(|(first, _)| *first).min().unwrap_or(0);
        first..self.spans.iter().map(|(first, count)| first + count).max().unwrap_or(0)
    }
}

fn byte(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

/// A part of a picture, scaled: \[rows, columns, channels\] bytes of the picture that would have `size` as a whole.
///
/// `pixels` are \[`from`, channels\]; sizes are height and width.
pub fn scale(
    pixels: &[u8],
    from: [usize; 2],
    channels: usize,
    size: [usize; 2],
    rows: Range<usize>,
    columns: Range<usize>,
) -> Vec<u8> {
    let vertical = (from[0] != size[0]).then(|| Weights::new(from[0], size[0], rows.clone()));
    // Rows that nothing weighs need no columns.
    let needed = vertical.as_ref().map_or(rows.clone(), Weights::inputs);
    let lines = pixels.chunks_exact(from[1] * channels).skip(needed.start).take(needed.len());
    let mut between = Vec::with_capacity(needed.len() * columns.len() * channels);
    if from[1] == size[1] {
        lines.for_each(|line| between.extend(&line[columns.start * channels..columns.end * channels]));
    } else {
        let horizontal = Weights::new(from[1], size[1], columns.clone());
        for line in lines {
            for (first, weights) in horizontal.iter() {
                let inputs = &line[first * channels..(first + weights.len()) * channels];
                for channel in 0..channels {
                    let terms = inputs.iter().skip(channel).step_by(channels).zip(weights);
                    let half = 1 << (BITS - 1);
                    between.push(byte(
                        terms.fold(half, |sum, (input, weight)| sum + i32::from(*input) * weight),
                    ));
                }
            }
        }
    }
    let Some(vertical) = vertical else { return between };
    let width = columns.len() * channels;
    let mut out = Vec::with_capacity(rows.len() * width);
    let mut sums = vec![0; width];
    for (first, weights) in vertical.iter() {
        sums.fill(1 << (BITS - 1));
        for (line, weight) in between.chunks_exact(width.max(1)).skip(first - needed.start).zip(weights) {
            for (sum, input) in sums.iter_mut().zip(line) {
                *sum += i32::from(*input) * weight;
            }
        }
        out.extend(sums.iter().map(|sum| byte(*sum)));
    }
    out
}

/// The longer side when the shorter one becomes `shorter`: in proportion, rounded down, as torchvision's `Resize` does.
pub fn in_proportion([height, width]: [usize; 2], shorter: usize) -> [usize; 2] {
    if width <= height { [shorter * height / width, shorter] } else { [shorter, shorter * width / height] }
}

/// Where the middle `length` of `whole` begins: half of what is left, halves to even, as torchvision's `CenterCrop` has it.
pub fn middle(whole: usize, length: usize) -> usize {
    let left = whole - length;
    left / 2 + usize::from(left % 4 == 3)
}
