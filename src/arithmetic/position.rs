//! Buckets of relative positions: near ones apart, far ones together in steps that grow by a factor.
//!
//! The published definitions take logarithms in floats; here steps that lie near an edge are found by comparing powers of
//! whole numbers, so that every distance is in the bucket that the formula names and every machine agrees.

use super::functions::log;
use std::cmp::Ordering;

/// A natural number of any size, least word first, without leading zeros.
#[derive(Clone)]
struct Natural(Vec<u32>);

impl Natural {
    fn power(base: u32, exponent: usize) -> Self {
        let mut result = Self(vec![1]);
        (0..exponent).for_each(|_| result.scale(base));
        result
    }

    fn scale(&mut self, factor: u32) {
        let mut carry = 0;
        for word in &mut self.0 {
            let product = u64::from(*word) * u64::from(factor) + carry;
            *word = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn times(mut self, base: u32, exponent: usize) -> Self {
        (0..exponent).for_each(|_| self.scale(base));
        self
    }

    fn order(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

/// How (a/e)^n compares with (m/e)^c, exactly: a^n·e^c against m^c·e^n.
fn compare(a: u32, m: u32, e: u32, n: usize, c: usize) -> Ordering {
    Natural::power(a, n).times(e, c).order(&Natural::power(m, c).times(e, n))
}

/// log(a/e) / log(m/e) · n rounded down, and rounded up; `e < m` and `e ≤ a` are positive.
///
/// Logarithms in f32 decide where they are far enough from a whole number to be sure, and exact powers elsewhere.
fn log_steps(a: u32, m: u32, e: u32, n: usize) -> (usize, usize) {
    let logarithm = |size: u32| f64::from(log((f64::from(size) / f64::from(e)) as f32));
    let (part, whole) = (logarithm(a), logarithm(m));
    let steps = part / whole * n as f64;
    // Ten times what two roundings of a quotient and two of a logarithm can amount to.
    let doubt = n as f64 * 2e-6 * (1.0 + part / whole) / whole;
    let nearest = steps.round();
    if (steps - nearest).abs() > doubt {
        return (steps.floor() as usize, steps.ceil() as usize);
    }
    let c = nearest as usize;
    match compare(a, m, e, n, c) {
        Ordering::Less => (c.saturating_sub(1), c),
        Ordering::Equal => (c, c),
        Ordering::Greater => (c, c + 1),
    }
}

/// A size as a word; the tables are for sizes of tensors that exist.
fn word(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// The bucket of every relative position key − query of `-(length - 1)..length`, in that order: the definition of T5
/// (Raffel et al. 2020; `_relative_position_bucket` in Hugging Face's modeling_t5.py).
///
/// Half of the buckets (of those of one direction) are for single distances; the others grow up to `max_distance`.
/// Wants at least 2 buckets, 4 with both directions, and a `max_distance` above the number of single distances.
pub fn t5_buckets(length: usize, buckets: usize, max_distance: usize, bidirectional: bool) -> Vec<u32> {
    let count = if bidirectional { buckets / 2 } else { buckets };
    let exact = count / 2;
    let of_distance: Vec<u32> = (0..length)
        .map(|distance| {
            if distance < exact {
                return word(distance);
            }
            if distance >= max_distance {
                return word(count - 1);
            }
            let (step, _) = log_steps(word(distance), word(max_distance), word(exact), count - exact);
            word((exact + step).min(count - 1))
        })
        .collect();
    let before = (1..length).rev().map(|distance| of_distance[distance]);
    let after = (1..length).map(|distance| match bidirectional {
        true => word(count) + of_distance[distance],
        // What lies ahead is as near as what is here.
        false => 0,
    });
    let here = (length > 0).then_some(0);
    before.chain(here).chain(after).collect()
}

/// The row, in a table of 2·`buckets`, of every relative position query − key of `-(length - 1)..length`, in that order:
/// the definition of DeBERTa-v2 and -v3 (He et al. 2021; `make_log_bucket_position` and the clamp around its use in
/// Hugging Face's modeling_deberta_v2.py, with the number of buckets as `position_buckets`).
///
/// Wants at least 4 buckets and a `max_position` of more than half of them plus 1.
pub fn deberta_rows(length: usize, buckets: usize, max_position: usize) -> Vec<u32> {
    let middle = buckets / 2;
    let of_distance = |distance: usize| {
        if distance <= middle {
            return distance;
        }
        if distance >= max_position {
            return 2 * middle;
        }
        middle + log_steps(word(distance), word(max_position - 1), word(middle), middle - 1).1
    };
    let distances: Vec<usize> = (0..length).map(of_distance).collect();
    let negative = (1..length).rev().map(|distance| buckets - distances[distance].min(buckets));
    let rest = distances.iter().map(|distance| (buckets + distance).min(2 * buckets - 1));
    negative.chain(rest).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::{deberta_rows, t5_buckets};

    #[test]
    fn t5_on_paper() {
        // 8 buckets of both directions: 4 each, 2 single; 2·(8/2)^(1/2) = 4 begins the last bucket, 3 is before it.
        assert_eq!(t5_buckets(6, 8, 8, true), [3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7]);
        // One direction: 8 buckets, 4 single; 4·2^(c/4) = 4.76, 5.66, 6.73 are the edges.
        assert_eq!(t5_buckets(9, 8, 8, false)[..9], [7, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(t5_buckets(9, 8, 8, false)[9..], [0; 8]);
    }

    #[test]
    fn deberta_on_paper() {
        // 8 buckets, 4 single; up to 16: ceil(3·log(d/4)/log(15/4)) + 4 with edges at 4·3.75^(c/3) = 6.21, 9.65, 15.
        let rows = deberta_rows(20, 8, 16);
        let after: Vec<u32> = rows[19..].to_vec();
        assert_eq!(after, [8, 9, 10, 11, 12, 13, 13, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15]);
        assert_eq!(rows[18], 7);
        // 15 is the end of the last step exactly, 16 is past it.
        assert_eq!((rows[19 - 15], rows[19 - 16]), (1, 0));
    }

    #[test]
    fn no_length_fails() {
        assert!(t5_buckets(0, 32, 128, true).is_empty());
        assert!(deberta_rows(0, 256, 512).is_empty());
        assert_eq!(t5_buckets(1, 32, 128, true), [0]);
        assert_eq!(deberta_rows(1, 256, 512), [256]);
    }
}
