//! What those who share the shards of a step do together.
//!
//! All that take part call the same functions in the same order, as with MPI or NCCL; the one with the first shard leads. An
//! implementation may bring numbers across in any way, as long as sums are those of the [`Tree`].

use super::Tree;
use crate::exec::backend::Seal;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::fault::ExecFault;
use std::ops::Range;

/// What the leader asks of all others.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// To take these persistent values.
    State(Vec<(String, Buffer)>),
    /// To do a step.
    Step {
        /// The step, from 0.
        number: u64,
        /// The stage of the engine: which policy is in force, and whether the batch is full.
        stage: u32,
        /// The learning rate.
        rate: f32,
        /// The learning rates of the groups that have their own.
        group_rates: Vec<(u32, f32)>,
    },
}

/// Numbers between those who share the shards of a step.
pub trait Exchange: Send {
    /// The shards that are computed here. The leader has the first one.
    fn own(&self) -> Range<u32>;

    /// Whether anybody else takes part.
    fn is_shared(&self) -> bool {
        false
    }

    /// The leader says what comes next; everybody else hears it. `None` when there is nothing more to do.
    ///
    /// # Errors
    /// Code 0717 when one of the others is gone, 0718 when what came is not what was sent.
    fn agree(&mut self, order: Option<Order>) -> Result<Option<Order>, ExecFault>;

    /// The sum over all shards in the order of the tree, the same for everybody, of which each knows its own part. `seal` is made from
    /// the parameters that the part was computed with.
    ///
    /// # Errors
    /// As [`Exchange::agree`]; code 0718 when others computed with other parameters.
    fn reduce(&mut self, step: u64, seal: Option<&Seal>, known: Tree) -> Result<Vec<f32>, ExecFault>;

    /// Gives everybody what the leader has.
    ///
    /// # Errors
    /// As [`Exchange::agree`].
    fn broadcast(&mut self, step: u64, values: Vec<f32>) -> Result<Vec<f32>, ExecFault>;
}

/// All shards here, one after another.
#[derive(Clone, Debug)]
pub struct Local(pub u32);

impl Exchange for Local {
    fn own(&self) -> Range<u32> {
        0..self.0
    }

    fn agree(&mut self, order: Option<Order>) -> Result<Option<Order>, ExecFault> {
        Ok(order)
    }

    fn reduce(&mut self, step: u64, _: Option<&Seal>, known: Tree) -> Result<Vec<f32>, ExecFault> {
        total(step, known)
    }

    fn broadcast(&mut self, _: u64, values: Vec<f32>) -> Result<Vec<f32>, ExecFault> {
        Ok(values)
    }
}

/// The sum over all shards.
pub(super) fn total(step: u64, known: Tree) -> Result<Vec<f32>, ExecFault> {
    let parts = format!("{:?}", known.known());
    known.total().ok_or_else(|| {
        ExecFault::exchange(format!("for step {} the sums of shards {parts} came, expected all", step + 1))
    })
}
