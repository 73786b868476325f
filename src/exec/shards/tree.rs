//! The tree in which what shards gave is summed.
//!
//! Leaves are the shards by their number. A place of level l and index i stands for the shards from i·2^l to below (i+1)·2^l, as far
//! as there are any; its sum is that of its left half plus that of its right half, or the left one's alone where the right half has
//! no shards. So the order of additions follows from the number of shards, and no one needs more than one sum a level at a time.
//! Greatest magnitudes stand behind what is summed: the greater of two is exact, in whatever order.

use crate::exec::cpu::scaled::greater;
use std::collections::BTreeMap;
use std::ops::Range;

/// A place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// 0 for a shard.
    pub level: u32,
    /// From the left.
    pub index: u32,
}

impl Place {
    /// The place of a shard.
    pub fn leaf(shard: u32) -> Self {
        Self { level: 0, index: shard }
    }

    /// The shards below it, of `shards` in all.
    pub fn shards(self, shards: u32) -> Range<u32> {
        let edge = |index: u64| u32::try_from(index << self.level).unwrap_or(u32::MAX).min(shards);
        edge(u64::from(self.index))..edge(u64::from(self.index) + 1)
    }
}

/// What is known of a tree: the sums at places whose siblings are not known yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    shards: u32,
    /// How many of the last values are greatest magnitudes.
    maxima: usize,
    sums: BTreeMap<Place, Vec<f32>>,
}

impl Tree {
    /// A tree of which nothing is known.
    pub fn new(shards: u32) -> Self {
        Self { shards, ..Self::default() }
    }

    /// The same where so many of the last values are greatest magnitudes.
    #[must_use]
    pub fn with_maxima(self, maxima: usize) -> Self {
        Self { maxima, ..self }
    }

    /// Takes the sum at a place, and adds up what can be added up with it.
    pub fn add(&mut self, mut place: Place, mut values: Vec<f32>) {
        while place.shards(self.shards) != (0..self.shards) {
            let sibling = Place { level: place.level, index: place.index ^ 1 };
            if sibling.shards(self.shards).is_empty() {
                // Nothing is added, not even 0, which would turn -0 into +0.
            } else if let Some(mut other) = self.sums.remove(&sibling) {
                if place.index < sibling.index {
                    add(&mut values, &other, self.maxima);
                } else {
                    add(&mut other, &values, self.maxima);
                    values = other;
                }
            } else {
                break;
            }
            place = Place { level: place.level + 1, index: place.index / 2 };
        }
        self.sums.insert(place, values);
    }

    /// Takes what somebody else knows.
    pub fn join(&mut self, other: Self) {
        other.sums.into_iter().for_each(|(place, values)| self.add(place, values));
    }

    /// The sums that are known, from the left.
    pub fn sums(&self) -> impl Iterator<Item = (Place, &[f32])> {
        let mut sums: Vec<(Place, &[f32])> =
            self.sums.iter().map(|(place, values)| (*place, values.as_slice())).collect();
        sums.sort_by_key(|(place, _)| place.shards(self.shards).start);
        sums.into_iter()
    }

    /// The shards whose sums are known, from the left.
    pub fn known(&self) -> Vec<Range<u32>> {
        self.sums().map(|(place, _)| place.shards(self.shards)).collect()
    }

    /// The sum over all shards, once it is known.
    pub fn total(mut self) -> Option<Vec<f32>> {
        let (place, values) = self.sums.pop_first()?;
        (place.shards(self.shards) == (0..self.shards)).then_some(values)
    }
}

/// left += right, each element rounded once; of the last `maxima` elements the greater one.
fn add(left: &mut [f32], right: &[f32], maxima: usize) {
    let (sums, greatest) = left.split_at_mut(left.len().saturating_sub(maxima));
    let (added, others) = right.split_at(sums.len().min(right.len()));
    for (left, right) in sums.iter_mut().zip(added) {
        *left += right;
    }
    for (left, right) in greatest.iter_mut().zip(others) {
        *left = greater(*left, *right);
    }
}
