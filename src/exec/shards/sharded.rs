//! A backend that computes shards and has them combined.

use super::exchange::{Exchange, Order};
use super::tree::{Place, Tree};
use crate::arithmetic::Isa;
use crate::exec::backend::{Backend, Batch, DeviceUse, Exponents, MatrixRate, OpTime, Seal, StepResult};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::engine::Engine;
use crate::exec::cpu::threads::Threads;
use crate::exec::fault::ExecFault;
use crate::exec::scaling::NonFinite;
use crate::exec::state;
use crate::graph::{Node, Op, StepGraph, ValueId};
use crate::plan::Train;
use std::collections::BTreeMap;
use std::ops::Range;

/// Runs the step graph of a shard once for each shard that is its own, and has the sums over all shards before it updates.
pub struct Sharded {
    inner: Box<dyn Backend>,
    exchange: Box<dyn Exchange>,
    shards: u32,
    accumulate: u32,
    group_rates: BTreeMap<u32, f32>,
    /// Whether the others have the persistent values that are here.
    told: bool,
    /// That of the parameters as they are, once it was made.
    seal: Option<Seal>,
    done: Option<StepResult>,
}

/// The persistent values that travel, each with its number of elements.
#[derive(Default)]
struct Names {
    gradients: Vec<(String, usize)>,
    /// The greatest magnitudes of FP8 tensors over the micro-batches so far, which are of all shards where the scaling is delayed.
    maxima: Vec<(String, usize)>,
    /// Running statistics where a shard leaves them.
    statistics: Vec<(String, usize)>,
    /// Running statistics where the update takes them from.
    committed: Vec<(String, usize)>,
}

impl Sharded {
    /// Over a backend whose step graphs are those of a shard.
    pub fn new(inner: Box<dyn Backend>, exchange: Box<dyn Exchange>, train: &Train) -> Self {
        let (shards, accumulate) = (train.shards.max(1), train.accumulate.max(1));
        let group_rates = BTreeMap::new();
        Self { inner, exchange, shards, accumulate, group_rates, told: false, seal: None, done: None }
    }

    /// Hears what comes next; for those who do not lead.
    ///
    /// # Errors
    /// Those of the exchange.
    pub(super) fn hear(&mut self) -> Result<Option<Order>, ExecFault> {
        self.exchange.agree(None)
    }

    fn names(&self, stage: usize) -> Names {
        let Some(step) = self.inner.step_graph(stage) else { return Names::default() };
        let name = |id: &ValueId| (step.value(*id).name.clone(), step.value(*id).elements());
        let commits: Vec<&Node> =
            step.update.iter().filter(|node| matches!(node.op, Op::CommitBuffer { .. })).collect();
        let records = step.update.iter().filter(|node| matches!(node.op, Op::RecordMaximum { .. }));
        Names {
            maxima: records.map(|node| name(&node.inputs[0])).collect(),
            gradients: step.gradients.iter().map(name).collect(),
            statistics: commits.iter().map(|node| name(&node.inputs[1])).collect(),
            committed: commits.iter().map(|node| name(&node.inputs[0])).collect(),
        }
    }

    /// Tells the others of a step, and first of what they do not have yet.
    fn tell(&mut self, stage: usize, number: u64, rate: f32) -> Result<(), ExecFault> {
        if !self.exchange.is_shared() {
            return Ok(());
        }
        if !self.told {
            let state = state::persistent(&mut *self.inner)?;
            self.exchange.agree(Some(Order::State(state)))?;
            self.told = true;
        }
        let group_rates = self.group_rates.iter().map(|(group, rate)| (*group, *rate)).collect();
        let stage = u32::try_from(stage).unwrap_or(u32::MAX);
        self.exchange.agree(Some(Order::Step { number, stage, rate, group_rates }))?;
        Ok(())
    }

    /// A step, at the same time as all others.
    pub(super) fn together(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
        rate: f32,
    ) -> Result<StepResult, ExecFault> {
        let seal = match self.exchange.is_shared() {
            true => Some(self.seal()?),
            false => None,
        };
        let names = self.names(stage);
        let (tree, statistics) = self.shards(stage, batches, number, &names)?;
        let mut sums = self.exchange.reduce(number, seal.as_ref(), tree)?;
        // The losses' sum travels behind the gradients, the greatest magnitudes behind it.
        let maxima = sums.split_off(sums.len().saturating_sub(names.maxima.len()));
        self.write(&names.maxima, &maxima)?;
        let losses = sums.pop().unwrap_or(f32::NAN);
        self.write(&names.gradients, &sums)?;
        if !names.committed.is_empty() {
            let statistics = self.exchange.broadcast(number, statistics)?;
            self.write(&names.committed, &statistics)?;
        }
        self.seal = None;
        let result = self.inner.step(stage, &[], number, rate)?;
        Ok(StepResult { loss: losses / self.shards.saturating_mul(self.accumulate) as f32, ..result })
    }

    /// What is known of the tree when all own shards were computed, and the statistics of the first shard where that is one of them.
    fn shards(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
        names: &Names,
    ) -> Result<(Tree, Vec<f32>), ExecFault> {
        let own = self.exchange.own();
        let tree = Tree::new(self.shards).with_maxima(names.maxima.len());
        let (mut tree, mut statistics) = (tree, Vec::new());
        let zeros = vec![0.0; names.gradients.iter().map(|(_, elements)| elements).sum()];
        for (shard, batches) in own.zip(batches.chunks(self.accumulate as usize)) {
            let position = (number * u64::from(self.shards) + u64::from(shard)) * u64::from(self.accumulate);
            let losses = self.inner.accumulate(stage, batches, position)?;
            let mut values = self.read(&names.gradients)?;
            values.push(losses);
            values.extend(self.read(&names.maxima)?);
            self.write(&names.gradients, &zeros)?;
            if shard == 0 {
                statistics = self.read(&names.statistics)?;
            }
            tree.add(Place::leaf(shard), values);
        }
        Ok((tree, statistics))
    }

    /// Persistent values, one behind another.
    fn read(&mut self, names: &[(String, usize)]) -> Result<Vec<f32>, ExecFault> {
        // Room for what is put behind them, so that nothing is copied for it.
        let mut values = Vec::with_capacity(1 + names.iter().map(|(_, elements)| elements).sum::<usize>());
        for (name, elements) in names {
            let cell = self.inner.cell(name)?.unwrap_or_default();
            values.extend_from_slice(cell.floats(*elements));
        }
        Ok(values)
    }

    /// Puts them back.
    fn write(&mut self, names: &[(String, usize)], mut values: &[f32]) -> Result<(), ExecFault> {
        for (name, elements) in names {
            let Some((cell, rest)) = values.split_at_checked(*elements) else {
                return Err(ExecFault::exchange(format!("there are too few numbers for `{name}`")));
            };
            values = rest;
            self.inner.set_cell(name, cell)?;
        }
        Ok(())
    }

    /// Something that persists was written from outside.
    fn changed(&mut self) {
        (self.told, self.seal) = (false, None);
    }
}

impl Backend for Sharded {
    fn shards(&self) -> Range<u32> {
        self.exchange.own()
    }

    fn begin(&mut self, stage: usize, batches: &[Batch], number: u64, rate: f32) -> Result<(), ExecFault> {
        self.tell(stage, number, rate)?;
        self.done = Some(self.together(stage, batches, number, rate)?);
        Ok(())
    }

    fn finish(&mut self) -> Result<StepResult, ExecFault> {
        self.done.take().ok_or_else(ExecFault::no_step_begun)
    }

    fn set_group_rate(&mut self, group: usize, rate: f32) -> Result<(), ExecFault> {
        self.group_rates.insert(u32::try_from(group).unwrap_or(u32::MAX), rate);
        self.inner.set_group_rate(group, rate)
    }

    fn evaluate_as(&mut self, stage: usize) -> Result<(), ExecFault> {
        self.inner.evaluate_as(stage)
    }

    fn set_scale(&mut self, scale: f32) -> Result<(), ExecFault> {
        self.changed();
        self.inner.set_scale(scale)
    }

    fn set_cell(&mut self, name: &str, values: &[f32]) -> Result<bool, ExecFault> {
        self.changed();
        self.inner.set_cell(name, values)
    }

    fn set_integers(&mut self, name: &str, values: &[i32]) -> Result<bool, ExecFault> {
        self.changed();
        self.inner.set_integers(name, values)
    }

    fn seal(&mut self) -> Result<Seal, ExecFault> {
        if self.seal.is_none() {
            self.seal = Some(self.inner.seal()?);
        }
        self.seal.clone().map_or_else(|| self.inner.seal(), Ok)
    }

    fn first_non_finite(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
        scale: f32,
    ) -> Result<Option<NonFinite>, ExecFault> {
        self.inner.first_non_finite(stage, batches, number, scale)
    }

    fn exponents(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
    ) -> Result<Option<Vec<Exponents>>, ExecFault> {
        self.inner.exponents(stage, batches, number)
    }

    fn scale(&mut self) -> Result<f32, ExecFault> {
        self.inner.scale()
    }

    fn first_non_finite_gradient(&self) -> Option<String> {
        self.inner.first_non_finite_gradient()
    }

    fn accumulate(&mut self, stage: usize, batches: &[Batch], position: u64) -> Result<f32, ExecFault> {
        self.inner.accumulate(stage, batches, position)
    }

    fn predict(&mut self, batch: &Batch) -> Result<Vec<f32>, ExecFault> {
        self.inner.predict(batch)
    }

    fn cell(&mut self, name: &str) -> Result<Option<Buffer>, ExecFault> {
        self.inner.cell(name)
    }

    fn is_integer(&mut self, name: &str) -> Result<Option<bool>, ExecFault> {
        self.inner.is_integer(name)
    }

    fn step_graph(&self, stage: usize) -> Option<&StepGraph> {
        self.inner.step_graph(stage)
    }

    fn measure(&mut self, on: bool) -> BTreeMap<String, OpTime> {
        self.inner.measure(on)
    }

    fn cpu(&mut self) -> Option<&mut Engine> {
        // Whoever has the engine may write into it.
        self.changed();
        self.inner.cpu()
    }

    fn matrix_rate(&mut self) -> Result<MatrixRate, ExecFault> {
        self.inner.matrix_rate()
    }

    fn device_use(&self) -> Option<DeviceUse> {
        self.inner.device_use()
    }

    fn threads(&self) -> &Threads {
        self.inner.threads()
    }

    fn isa(&self) -> Isa {
        self.inner.isa()
    }
}
