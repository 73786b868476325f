//! The part of a worker that does not lead: it does what it hears, until there is nothing more to hear.

use super::exchange::Order;
use super::sharded::Sharded;
use crate::data::Prepared;
use crate::exec::backend::Backend as _;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::fault::ExecFault;
use crate::exec::session::Feed;
use crate::plan::Plan;

/// Does the steps that the leader orders.
///
/// # Errors
/// Those of the exchange and of the device.
pub fn follow(plan: &Plan, prepared: &Prepared, engine: &mut Sharded) -> Result<(), ExecFault> {
    let threads = engine.threads().clone();
    threads.enter(|| {
        let feed = Feed::new(plan, prepared)?.of(engine.shards());
        let mut order = None;
        while let Some(next) = engine.hear()? {
            match next {
                Order::State(cells) => take(engine, cells)?,
                Order::Step { number, stage, rate, group_rates } => {
                    for (group, rate) in group_rates {
                        engine.set_group_rate(group as usize, rate)?;
                    }
                    let (_, batches) = feed.batches(number, &mut order);
                    engine.together(stage as usize, &batches, number, rate)?;
                }
            }
        }
        Ok(())
    })
}

fn take(engine: &mut Sharded, cells: Vec<(String, Buffer)>) -> Result<(), ExecFault> {
    for (name, buffer) in cells {
        let set = match &buffer {
            Buffer::Float(values) => engine.set_cell(&name, values)?,
            Buffer::Integer(values) => engine.set_integers(&name, values)?,
        };
        if !set {
            return Err(ExecFault::exchange(format!("`{name}` does not fit here")));
        }
    }
    Ok(())
}
