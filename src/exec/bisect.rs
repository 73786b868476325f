//! The first op of a step whose bits differ between two implementations of it.
//!
//! Each node of the step runs as always, and then once more with other kernels on the very same operands; so what differs first
//! is where the difference begins, and no later op has anything to do with it. The operands of in-place ops are kept from before.

use super::backend::Backend;
use super::cpu::buffer::Buffer;
use super::cpu::dispatch::{self, Call};
use super::cpu::tap::{Seen, SharedTap, Tap};
use super::program::Layout;
use super::reference::{self, Which};
use crate::arithmetic::Isa;
use crate::graph::Op;
use crate::graph::check::writes_in_place;
use crate::record::float::{canonical_bits, ulps};
use crate::store::bytes_of;
use std::fmt;
use std::sync::{Arc, Mutex};

/// What a step is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// The kernels of an instruction set.
    Isa(Isa),
    /// The plain reference implementation; the scalar kernels for ops that it has not in this form.
    Reference,
}

impl fmt::Display for Kernels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isa(isa) => write!(formatter, "{isa}"),
            Self::Reference => formatter.write_str("reference"),
        }
    }
}

/// A number of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    /// A float of any format.
    Float(f32),
    /// An index or a counter.
    Integer(i32),
}

impl Element {
    /// Its bits, all NaNs being one.
    pub fn bits(self) -> u32 {
        match self {
            Self::Float(value) => canonical_bits(value),
            Self::Integer(value) => value.cast_unsigned(),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(value) => formatter.write_str(&crate::lock::write::float_text(*value)),
            Self::Integer(value) => write!(formatter, "{value}"),
        }
    }
}

/// An element whose bits differ.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementDifference {
    /// Its place in the result, an index for each axis.
    pub index: Vec<usize>,
    /// What the step's own kernel gave, and what the other one gave.
    pub values: [Element; 2],
    /// Distance in units in the last place, for two numbers.
    pub ulps: Option<u64>,
}

/// The first op whose bits differ.
#[derive(Clone, Debug, PartialEq)]
pub struct OpDifference {
    /// Which call of the step it is, from 0.
    pub place: usize,
    /// `micro-batch`, `update` or `evaluation`.
    pub pass: String,
    /// The op's kind.
    pub kind: String,
    /// The layer that it comes from.
    pub layer: String,
    /// Name of the result.
    pub result: String,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// How many elements differ.
    pub differing: usize,
    /// The first one.
    pub first: ElementDifference,
    /// The one that is farthest apart.
    pub farthest: ElementDifference,
    /// The kernels that computed both sides.
    pub kernels: [String; 2],
    /// Which sides have the bits of the reference, at the elements that are told here where it computes elements one by one; `None` where
    /// it was one of them, or has not this op.
    pub defined: Option<[bool; 2]>,
}

/// A comparison that goes on while the engine that it looks into runs.
pub struct Looking(Arc<Mutex<OpByOp>>);

impl Looking {
    /// Compares every call of an engine from now on with what other kernels give; `None` for a backend whose calls cannot be
    /// seen one by one.
    pub fn into(engine: &mut dyn Backend, against: Kernels) -> Option<Self> {
        let looking = Arc::new(Mutex::new(OpByOp::new(against)));
        engine.cpu()?.add_tap(Arc::clone(&looking) as SharedTap);
        Some(Self(looking))
    }

    /// Counts calls from 0 again, for the next step.
    pub fn begin(&self) {
        if let Ok(mut looking) = self.0.lock() {
            looking.calls = 0;
        }
    }

    /// How many calls were equal before the first difference, and that difference.
    pub fn seen(&self) -> (usize, Option<OpDifference>) {
        self.0.lock().map_or((0, None), |looking| (looking.calls, looking.found.clone()))
    }

    /// Ends a look that found a difference. From the op that differs on, the engine runs the kernels of an instruction set; those of the
    /// ops before it gave the same bits, so that a repeated step is the one that these kernels give from its begin.
    pub fn go_on_with(self, engine: &mut dyn Backend, isa: Isa) {
        if let (Some(engine), (calls, Some(_))) = (engine.cpu(), self.seen()) {
            engine.go_on_with(isa, calls);
        }
    }
}

/// Runs every node a second time, with other kernels, and keeps the first difference.
struct OpByOp {
    against: Kernels,
    /// What results that are written in place held before the call.
    before: Vec<Buffer>,
    /// Where results are computed again: memory that is taken once, for the system gives new memory page by page.
    again: Vec<Buffer>,
    calls: usize,
    found: Option<OpDifference>,
}

impl OpByOp {
    fn new(against: Kernels) -> Self {
        Self { against, before: Vec::new(), again: Vec::new(), calls: 0, found: None }
    }

    /// Results as they were before a call, with room for those of `outputs`.
    fn put_back(&self, op: &Op, outputs: &[Buffer], into: &mut Vec<Buffer>) {
        into.resize_with(into.len().max(outputs.len()), Buffer::default);
        for (index, (output, target)) in outputs.iter().zip(into).enumerate() {
            if writes_in_place(op, index) {
                copy(&self.before[index], target);
            } else if std::mem::discriminant(output) == std::mem::discriminant(target) {
                target.grow(output.len());
            } else {
                *target = Buffer::zeros(output.len(), matches!(output, Buffer::Integer(_)));
            }
        }
    }

    /// Computes a call by the other kernels; which those were.
    fn compute(&self, call: &Call<'_>, outputs: &mut [Buffer]) -> String {
        let isa = match self.against {
            Kernels::Isa(isa) => isa,
            Kernels::Reference => {
                if reference::run(call, outputs) {
                    return "reference".to_owned();
                }
                Isa::Scalar
            }
        };
        let Call { threads, seed, position, op, layout, inputs, results, .. } = *call;
        let other = Call { isa, threads, seed, position, op, layout, inputs, results };
        dispatch::run(&other, outputs);
        kernel(isa)
    }

    /// Which sides of a result have the bits of the reference. It runs for the op that differs alone: for a whole step it would take
    /// as long as a hundred of them. Where elements are computed one by one, those that are told are; all of a product would take as long
    /// as ten steps.
    fn defined(
        &self,
        call: &Call<'_>,
        (index, layout): (usize, Layout),
        pair: [&Buffer; 2],
        told: [&ElementDifference; 2],
    ) -> Option<[bool; 2]> {
        if self.against == Kernels::Reference {
            return None;
        }
        let shape = &call.results[index].shape;
        let alone = told.map(|told| {
            let place = place_of(row_major(&told.index, shape), &told.index, shape, layout);
            reference::element(call, &self.before, Which { result: index, place, index: &told.index })
        });
        if let [Some(first), Some(farthest)] = alone {
            let values = [first, farthest].map(|value| Element::Float(value).bits());
            let has = |side: usize| told.map(|told| told.values[side].bits()) == values;
            return Some([has(0), has(1)]);
        }
        let mut outputs = Vec::new();
        // The results of the other kernels have the form of those of the reference.
        self.put_back(call.op, &self.again[..call.results.len()], &mut outputs);
        if !reference::run(call, &mut outputs) {
            return None;
        }
        Some(pair.map(|side| compare([side, &outputs[index]], shape, layout).is_none()))
    }
}

fn kernel(isa: Isa) -> String {
    format!("cpu/{isa}")
}

impl Tap for OpByOp {
    fn before(&mut self, seen: &Seen<'_>, outputs: &[Buffer]) {
        if self.found.is_some() {
            return;
        }
        self.before.resize_with(self.before.len().max(outputs.len()), Buffer::default);
        for (index, (output, before)) in outputs.iter().zip(&mut self.before).enumerate() {
            if writes_in_place(seen.call.op, index) {
                copy(output, before);
            }
        }
    }

    fn after(&mut self, seen: &Seen<'_>, outputs: &mut [Buffer]) {
        if self.found.is_some() {
            return;
        }
        let mut again = std::mem::take(&mut self.again);
        self.put_back(seen.call.op, outputs, &mut again);
        let name = self.compute(seen.call, &mut again[..outputs.len()]);
        self.again = again;
        for (index, value) in seen.call.results.iter().enumerate() {
            let pair = [&outputs[index], &self.again[index]];
            let Some((differing, first, farthest)) = compare(pair, &value.shape, seen.layouts[index]) else {
                continue;
            };
            let told = [&first, &farthest];
            let defined = self.defined(seen.call, (index, seen.layouts[index]), pair, told);
            self.found = Some(OpDifference {
                place: self.calls,
                pass: seen.pass.to_owned(),
                kind: seen.node.op.kind().to_owned(),
                layer: seen.node.layer.clone(),
                result: value.name.clone(),
                shape: value.shape.clone(),
                differing,
                first,
                farthest,
                kernels: [kernel(seen.call.isa), name],
                defined,
            });
            return;
        }
        self.calls += 1;
    }
}

/// Copies a buffer into the memory of another one.
fn copy(from: &Buffer, target: &mut Buffer) {
    match (from, target) {
        (Buffer::Float(from), Buffer::Float(target)) => target.copy_from(from),
        (from, target) => *target = from.clone(),
    }
}

/// Whether the first elements of two results are equal in every bit, in whichever order they lie: nearly always, so that where an
/// element stands is found out only if they are not.
fn same_bits(pair: [&Buffer; 2], elements: usize) -> bool {
    match pair {
        // The usual case, and the fastest.
        [Buffer::Float(left), Buffer::Float(right)]
            if left.get(..elements).map(bytes_of) == right.get(..elements).map(bytes_of) =>
        {
            true
        }
        [Buffer::Float(left), Buffer::Float(right)] => {
            let both = left.iter().zip(right.iter()).take(elements);
            both.fold(0, |differ, (left, right)| differ | (canonical_bits(*left) ^ canonical_bits(*right)))
                == 0
        }
        [Buffer::Integer(left), Buffer::Integer(right)] => {
            left.iter().zip(right).take(elements).all(|(left, right)| left == right)
        }
        _ => false,
    }
}

/// How many elements differ, the first in row-major order and the farthest; `None` when none differs.
fn compare(
    pair: [&Buffer; 2],
    shape: &[usize],
    layout: Layout,
) -> Option<(usize, ElementDifference, ElementDifference)> {
    let elements: usize = shape.iter().product();
    if same_bits(pair, elements) {
        return None;
    }
    let at = |buffer: &Buffer, place: usize| match buffer {
        Buffer::Float(values) => values.get(place).copied().map(Element::Float),
        Buffer::Integer(values) => values.get(place).copied().map(Element::Integer),
    };
    let mut found: Option<(usize, ElementDifference, ElementDifference)> = None;
    for element in 0..elements {
        let index = index_of(element, shape);
        let place = place_of(element, &index, shape, layout);
        let (Some(left), Some(right)) = (at(pair[0], place), at(pair[1], place)) else { continue };
        if left.bits() == right.bits() {
            continue;
        }
        let distance = match (left, right) {
            (Element::Float(left), Element::Float(right)) => ulps(left, right),
            _ => None,
        };
        let difference = ElementDifference { index, values: [left, right], ulps: distance };
        match &mut found {
            None => found = Some((1, difference.clone(), difference)),
            Some((count, _, farthest)) => {
                *count += 1;
                // A NaN against a number is farther than any two numbers.
                let rank = |difference: &ElementDifference| difference.ulps.unwrap_or(u64::MAX);
                if rank(&difference) > rank(farthest) {
                    *farthest = difference;
                }
            }
        }
    }
    found
}

/// Where an element lies, from its row-major place and its index of each axis.
pub(super) fn place_of(element: usize, index: &[usize], shape: &[usize], layout: Layout) -> usize {
    match (layout, shape, index) {
        (Layout::ChannelsLast, [_, channels, height, width], [n, c, h, w]) => {
            ((n * height + h) * width + w) * channels + c
        }
        _ => element,
    }
}

/// The row-major place of an index of each axis.
fn row_major(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |place, (index, size)| place * size + index)
}

/// The index of each axis of a row-major place.
pub(super) fn index_of(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, size) in shape.iter().enumerate().rev() {
        let size = (*size).max(1);
        index[axis] = place % size;
        place /= size;
    }
    index
}
