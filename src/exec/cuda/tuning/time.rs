//! Timing the algorithms of products: each in turn, several times, on operands of the real size; the median counts.
//!
//! A clock decides which algorithm is written down, and it decides nothing after that. What is hardly faster is left alone, so that a
//! choice is not the noise of a minute.

use super::product::Asked;
use crate::exec::cuda::device::Device;
use crate::exec::cuda::engine::widened;
use crate::exec::cuda::launch::{ALIGNMENT, Launch};
use crate::exec::cuda::rate::operands;
use crate::exec::fault::ExecFault;
use crate::graph::DType;
use crate::lock::Algorithm;
use std::collections::BTreeMap;

/// Rounds of the first comparison, and of the one that confirms the fastest.
const ROUNDS: [usize; 2] = [7, 21];
/// How much faster than what is taken without a choice an algorithm has to be, both times.
const LEAST_GAIN: f64 = 0.015;
/// After the first round, what is so much slower than the fastest is left out.
const HOPELESS: f64 = 1.3;
/// Bytes of operands that products go through in turn, so that caches hold no more of them than in a step; and the most copies.
const APART: usize = 256 << 20;
const COPIES: usize = 8;
/// Products that are timed together.
const TOGETHER: usize = 8;
/// Elements of the result that are compared, from its begin and from its end.
const COMPARED: usize = 1 << 20;

/// What was found of a product.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// The product.
    pub asked: Asked,
    /// How many algorithms were timed beside what is taken without a choice.
    pub candidates: usize,
    /// Seconds of what is taken without a choice.
    pub usual: f64,
    /// The algorithm that is faster, and its seconds.
    pub chosen: Option<(Algorithm, f64)>,
}

/// Times the algorithms of products, and tells each as it is done. Memory for their operands is taken until the device is gone;
/// products whose operands do not find room are left out.
///
/// # Errors
/// Too little memory, or the device's own.
pub fn time(
    device: &mut dyn Device,
    products: &BTreeMap<Asked, Launch>,
    tell: &mut dyn FnMut(&Timed),
) -> Result<Vec<Timed>, ExecFault> {
    let needed = |asked: &Asked, launch: &Launch| span(asked, launch) * copies(span(asked, launch));
    let most = products.iter().map(|(asked, launch)| needed(asked, launch)).max().unwrap_or(0);
    let free = device.memory_in_use().map_or(u64::MAX, |(used, whole)| whole.saturating_sub(used) / 10 * 9);
    let bytes = most.min(usize::try_from(free).unwrap_or(usize::MAX));
    let pool = Pool { address: device.allocate(bytes)?, bytes };
    let (mut all, mut filled) = (Vec::new(), None);
    for (asked, launch) in products {
        if span(asked, launch) > bytes {
            continue;
        }
        if filled.replace(asked.formats[0]) != Some(asked.formats[0]) {
            pool.fill(device, asked.formats[0])?;
        }
        let timed = one(device, &pool, asked, launch)?;
        tell(&timed);
        all.push(timed);
    }
    Ok(all)
}

/// Memory for operands.
struct Pool {
    address: u64,
    bytes: usize,
}

impl Pool {
    /// Fills it with ordinary numbers: zeros would be multiplied with less power, and so faster.
    fn fill(&self, device: &mut dyn Device, format: DType) -> Result<(), ExecFault> {
        let numbers = operands(format);
        for from in (0..self.bytes).step_by(numbers.len()) {
            device.upload(self.address + from as u64, &numbers[..numbers.len().min(self.bytes - from)])?;
        }
        Ok(())
    }

    /// Launches of a product, each on operands of its own as far as there is room; operands lie as they do in the run.
    fn launches(&self, asked: &Asked, launch: &Launch) -> Vec<Launch> {
        let span = span(asked, launch);
        let copies = copies(span).min(self.bytes / span.max(1)).max(1);
        let one = |number: usize| {
            let mut next = self.address + (number % copies * span) as u64;
            let mut place = |(bytes, offset): (usize, usize)| {
                let address = next + offset as u64;
                next += (offset + bytes).next_multiple_of(ALIGNMENT) as u64;
                address
            };
            let extents = asked.extents();
            let offsets = offsets(launch);
            asked.launch([0, 1, 2, 3].map(|part| place((extents[part], offsets[part]))), beta(launch))
        };
        (0..TOGETHER.max(copies)).map(one).collect()
    }
}

/// Where the operands of a launch begin within a block.
fn offsets(launch: &Launch) -> [usize; 4] {
    let within = |address: u64| (address % ALIGNMENT as u64) as usize;
    let (product, bias) = match launch {
        Launch::Product(product) => (product, 0),
        Launch::BiasedProduct(product, bias) => (product, within(bias.address)),
        _ => return [0; 4],
    };
    let [a, b, y] = [product.a, product.b, product.y].map(|matrix| within(matrix.tensor.address));
    [a, b, y, bias]
}

fn beta(launch: &Launch) -> f32 {
    match launch {
        Launch::Product(product) | Launch::BiasedProduct(product, _) => product.beta,
        _ => 0.0,
    }
}

/// Bytes of one set of operands.
fn span(asked: &Asked, launch: &Launch) -> usize {
    let parts = asked.extents().into_iter().zip(offsets(launch));
    parts.map(|(bytes, offset)| (offset + bytes).next_multiple_of(ALIGNMENT)).sum()
}

/// How many sets of operands a product of so many bytes is timed on.
fn copies(span: usize) -> usize {
    APART.div_ceil(span.max(1)).clamp(1, COPIES)
}

/// Times one product's algorithms.
fn one(device: &mut dyn Device, pool: &Pool, asked: &Asked, launch: &Launch) -> Result<Timed, ExecFault> {
    let candidates = device.algorithms(asked)?;
    let launches = pool.launches(asked, launch);
    let mut trial = Trial { device, asked, launches: &launches };
    let found = trial.contest(&candidates);
    // Whatever happened, what is launched from here on is what is launched without a choice.
    trial.device.choose(asked, None)?;
    let (usual, chosen) = found?;
    Ok(Timed { asked: *asked, candidates: candidates.len(), usual, chosen })
}

struct Trial<'a> {
    device: &'a mut dyn Device,
    asked: &'a Asked,
    launches: &'a [Launch],
}

impl Trial<'_> {
    /// Seconds of one product without a choice, and the algorithm that is faster.
    fn contest(&mut self, candidates: &[Algorithm]) -> Result<(f64, Option<(Algorithm, f64)>), ExecFault> {
        let (usual, mut others) = self.rounds(candidates, ROUNDS[0])?;
        others.sort_by(|left, right| left.1.total_cmp(&right.1));
        for (algorithm, seconds) in others {
            if !is_gain(usual, seconds) {
                break;
            }
            if !self.is_right(&algorithm)? {
                continue;
            }
            // The fastest of many is partly the luckiest: it has to win again, alone.
            let (usual, again) = self.rounds(&[algorithm], ROUNDS[1])?;
            let confirmed = again.first().filter(|(_, seconds)| is_gain(usual, *seconds));
            return Ok((usual, confirmed.copied()));
        }
        Ok((usual, None))
    }

    /// Medians of rounds in which each comes once, so that a clock that changes changes all of them. A candidate that does not run is
    /// left out.
    fn rounds(
        &mut self,
        candidates: &[Algorithm],
        rounds: usize,
    ) -> Result<(f64, Vec<(Algorithm, f64)>), ExecFault> {
        let mut usual = Vec::new();
        let mut others: Vec<(Algorithm, Vec<f64>)> =
            candidates.iter().map(|candidate| (*candidate, Vec::new())).collect();
        for _ in 0..rounds {
            self.device.choose(self.asked, None)?;
            usual.push(self.seconds()?);
            others.retain_mut(|(candidate, times)| {
                let seconds = match self.device.choose(self.asked, Some(candidate)) {
                    Ok(true) => self.seconds(),
                    _ => return false,
                };
                seconds.map(|seconds| times.push(seconds)).is_ok()
            });
            if usual.len() == 1 {
                let fastest = others.iter().map(|(_, times)| times[0]).fold(usual[0], f64::min);
                others.retain(|(_, times)| times[0] <= fastest * HOPELESS);
            }
        }
        Ok((median(&mut usual), others.into_iter().map(|(of, mut times)| (of, median(&mut times))).collect()))
    }

    /// Seconds of one product, as the device makes it now.
    fn seconds(&mut self) -> Result<f64, ExecFault> {
        Ok(self.device.seconds(self.launches)? / self.launches.len().max(1) as f64)
    }

    /// Whether an algorithm gives the product: to rounding, what is given without a choice. The library says which algorithms it has for
    /// a product; this is a second look at those that it did not offer for it.
    fn is_right(&mut self, algorithm: &Algorithm) -> Result<bool, ExecFault> {
        let [Launch::Product(product) | Launch::BiasedProduct(product, _), ..] = self.launches else {
            return Ok(false);
        };
        let mut launch = self.launches[0].clone();
        if let Launch::Product(product) | Launch::BiasedProduct(product, _) = &mut launch {
            product.beta = 0.0;
        }
        let format = self.asked.formats[1];
        let bytes = self.asked.extents()[2];
        let part = bytes.min(COMPARED * format.bytes());
        let mut results = [Vec::new(), Vec::new()];
        for (choice, result) in [None, Some(algorithm)].into_iter().zip(&mut results) {
            self.device.choose(self.asked, choice)?;
            self.device.launch(&Launch::Clear { address: product.y.tensor.address, bytes })?;
            self.device.launch(&launch)?;
            for from in [0, bytes - part] {
                let mut read = vec![0; part];
                self.device.download(product.y.tensor.address + from as u64, &mut read)?;
                result.extend(widened(&read, format));
            }
        }
        Ok(are_close(&results[0], &results[1]))
    }
}

/// Whether two results are one but for the order of their sums and the last place of bf16.
fn are_close(expected: &[f32], found: &[f32]) -> bool {
    let largest = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let close = |(expected, found): (&f32, &f32)| {
        (expected - found).abs() <= expected.abs() / 64.0 + largest / 1024.0
    };
    largest.is_finite() && expected.len() == found.len() && expected.iter().zip(found).all(close)
}

fn is_gain(usual: f64, seconds: f64) -> bool {
    seconds < usual * (1.0 - LEAST_GAIN)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}
