//! Axes: where a number lies, and which round numbers are written beside it.
//!
//! No function of the platform's library is used, so that a page has the same bytes everywhere.

use crate::arithmetic::functions::log;

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Evenly.
    Linear,
    /// By powers of ten where the values span more than a factor of fifty, evenly otherwise.
    Wide,
    /// By powers of two.
    Doubling,
}

/// An axis from its least to its greatest value.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    least: f64,
    greatest: f64,
    /// The base of the powers that it is divided by; 0 where it is divided evenly.
    base: f64,
    /// The round numbers and their texts.
    pub ticks: Vec<(f64, String)>,
}

/// Values that span more than this are shown by powers.
const WIDE: f64 = 50.0;

impl Axis {
    /// The axis that holds these values; those that are not finite do not count.
    pub fn of(values: impl Iterator<Item = f64> + Clone, division: Division) -> Option<Self> {
        let finite = values.filter(|value| value.is_finite());
        let least = finite.clone().reduce(f64::min)?;
        let greatest = finite.reduce(f64::max)?;
        let base = match division {
            Division::Wide if least > 0.0 && greatest / least > WIDE => 10.0,
            Division::Doubling if least > 0.0 && greatest >= 2.0 * least => 2.0,
            _ => 0.0,
        };
        let single = (least == greatest).then_some(least);
        let (least, greatest) =
            if base > 0.0 { (least / 1.1, greatest * 1.1) } else { padded(least, greatest) };
        let ticks = match single {
            Some(value) => vec![(value, short(value))],
            None if base > 0.0 => powers(least, greatest, base),
            None => even(least, greatest, 5),
        };
        Some(Self { least, greatest, base, ticks })
    }

    /// The axis of steps.
    pub fn steps(first: u64, last: u64) -> Self {
        let (least, greatest) = (first as f64, if last > first { last as f64 } else { first as f64 + 1.0 });
        let mut ticks = even(least, greatest, 5);
        ticks.retain(|(value, _)| value.fract() == 0.0);
        ticks.iter_mut().for_each(|(value, words)| *words = text(*value, 0));
        Self { least, greatest, base: 0.0, ticks }
    }

    /// The place of a finite value: 0 at the least, 1 at the greatest.
    pub fn place(&self, value: f64) -> f64 {
        let place = if self.base > 0.0 {
            let (least, greatest) = (logarithm(self.least), logarithm(self.greatest));
            (logarithm(value.max(self.least)) - least) / (greatest - least)
        } else {
            // Halves, since the span of the widest floats would overflow.
            (value / 2.0 - self.least / 2.0) / (self.greatest / 2.0 - self.least / 2.0)
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// True when it is divided by powers.
    pub fn is_by_powers(&self) -> bool {
        self.base > 0.0
    }
}

/// Good to seven digits, which a picture does not show.
fn logarithm(value: f64) -> f64 {
    // Beyond f32 the axis would be of numbers that no record has.
    f64::from(log(value.clamp(1e-44, 3e38) as f32))
}

/// A little room on both sides; a line of one value lies in the middle.
fn padded(least: f64, greatest: f64) -> (f64, f64) {
    if least == greatest {
        let room = if least == 0.0 { 1.0 } else { least.abs() * 0.1 };
        return (least - room, greatest + room);
    }
    let room = greatest * 0.04 - least * 0.04;
    let low = least - room;
    // What is never negative is not shown as if it could be.
    (if least >= 0.0 { low.max(0.0) } else { low }, greatest + room)
}

/// Round numbers at even distances, about `count` of them.
fn even(least: f64, greatest: f64, count: u32) -> Vec<(f64, String)> {
    let raw = greatest / f64::from(count) - least / f64::from(count);
    let (step, decimals) = round_up(raw);
    let (first, last) = ((least / step).ceil(), (greatest / step).floor());
    if !(first.is_finite() && last.is_finite()) || last - first > 20.0 {
        return Vec::new();
    }
    let mut ticks = Vec::new();
    let mut number = first;
    while number <= last {
        let value = number * step;
        ticks.push((value, text(value, decimals)));
        number += 1.0;
    }
    ticks
}

/// The next of 1, 2, 5, 10, … times a power of ten, with the digits after the point that it takes.
fn round_up(raw: f64) -> (f64, i32) {
    if !raw.is_finite() || raw <= 0.0 {
        return (1.0, 0);
    }
    let (mut power, mut decimals) = (1.0, 0);
    while power * 10.0 <= raw {
        power *= 10.0;
        decimals -= 1;
    }
    while power > raw {
        power /= 10.0;
        decimals += 1;
    }
    for factor in [1.0, 2.0, 5.0] {
        if power * factor >= raw {
            return (power * factor, decimals);
        }
    }
    (power * 10.0, decimals - 1)
}

/// Powers of a base within the range, every second or third where they are many.
fn powers(least: f64, greatest: f64, base: f64) -> Vec<(f64, String)> {
    let mut all = Vec::new();
    let mut value = 1.0_f64;
    while value > least {
        value /= base;
    }
    while value <= greatest {
        if value >= least {
            all.push(value);
        }
        value *= base;
    }
    let stride = all.len().div_ceil(6).max(1);
    all.into_iter().rev().step_by(stride).map(|value| (value, short(value))).collect()
}

/// A round number with so many digits after the point; powers of ten where it would be long.
fn text(value: f64, decimals: i32) -> String {
    let size = value.abs();
    if value != 0.0 && !(1e-4..1e6).contains(&size) {
        return exponent(value);
    }
    let text = format!("{value:.*}", decimals.clamp(0, 9) as usize);
    if text.trim_start_matches('-').bytes().all(|byte| b"0.".contains(&byte)) { "0".to_owned() } else { text }
}

/// A number for people: five significant digits at most.
pub fn short(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let size = value.abs();
    if value != 0.0 && !(1e-4..1e6).contains(&size) {
        return exponent(value);
    }
    let decimals = match size {
        _ if size >= 10_000.0 => 0,
        _ if size >= 1000.0 => 1,
        _ if size >= 100.0 => 2,
        _ if size >= 10.0 => 3,
        _ if size >= 1.0 => 4,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

fn exponent(value: f64) -> String {
    let text = format!("{value:.2e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}e{power}")
}
