//! The state of a run between two steps as one safetensors file: all that the next step reads.
//!
//! Parameters and committed buffers stand under their own names, so that the file is a checkpoint like the last one of a run;
//! moments, accumulators, pending statistics, the scaler and the counters stand under `state:NAME`. Random numbers have no
//! state: they follow from (seed, step). **Invariant: the bytes depend on nothing but the lock and the step**, so that two runs
//! that agree write the same file, and its digest belongs to the hashed part of a record.

use super::backend::Backend;
use super::cpu::buffer::Buffer;
use super::fault::ExecFault;
use crate::diag::codes;
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::graph::Role;
use crate::store::{bytes_of, numbers_of};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Where a run stands between two steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The run id of the lock.
    #[serde(with = "crate::record::event::digest")]
    pub run_id: Digest,
    /// Steps that were done.
    pub step: u64,
    /// Pass over the training split of the next step, from 0.
    pub epoch: u64,
    /// Micro-batches of that pass that were used.
    pub batch: u64,
    /// The chain after the last event.
    #[serde(with = "crate::record::event::digest")]
    pub chain: Digest,
    /// The best evaluation so far, where the manifest asks for the best state: its step and the bits of the metric.
    pub best: Option<(u64, u32)>,
}

/// The one entry of the file's metadata; several would have no order.
const METADATA: &str = "amp.state";
/// What stands before the names of all but parameters and committed buffers.
const PREFIX: &str = "state:";
/// How the names of statistics that are not committed end.
const PENDING: &str = ".pending";

/// A persistent value: its name, its name in the file, and its shape.
struct Cell {
    name: String,
    file_name: String,
    shape: Vec<usize>,
}

/// All persistent values but those that the host writes before each step, by name.
fn cells(engine: &dyn Backend) -> Vec<Cell> {
    let mut found: BTreeMap<&str, Cell> = BTreeMap::new();
    // Policies of later phases have values of their own: histories of FP8, counts of a scaler.
    let steps = (0..).map_while(|stage| engine.step_graph(stage));
    for value in steps.flat_map(|step| &step.values) {
        let own = match value.role {
            Role::Parameter => true,
            Role::Buffer => !value.name.ends_with(PENDING),
            Role::State => false,
            Role::Host | Role::Features | Role::Labels | Role::Result => continue,
        };
        let file_name = if own { value.name.clone() } else { format!("{PREFIX}{}", value.name) };
        found.insert(&value.name, Cell { name: value.name.clone(), file_name, shape: value.shape.clone() });
    }
    found.into_values().collect()
}

/// All persistent values but those that the host writes before each step, by name.
///
/// # Errors
/// The device's own.
pub fn persistent(engine: &mut dyn Backend) -> Result<Vec<(String, Buffer)>, ExecFault> {
    let mut found = Vec::new();
    for Cell { name, shape, .. } in cells(engine) {
        if let Some(mut buffer) = engine.cell(&name)? {
            let elements = shape.iter().product();
            match &mut buffer {
                Buffer::Float(values) => values.truncate(elements),
                Buffer::Integer(values) => values.truncate(elements),
            }
            found.push((name, buffer));
        }
    }
    Ok(found)
}

/// Puts persistent values into an engine for the same lock.
///
/// # Errors
/// One does not fit; the device's own.
pub fn put(engine: &mut dyn Backend, values: &[(String, Buffer)]) -> Result<(), ExecFault> {
    for (name, buffer) in values {
        let fits = match buffer {
            Buffer::Float(values) => engine.set_cell(name, values)?,
            Buffer::Integer(values) => engine.set_integers(name, values)?,
        };
        if !fits {
            return Err(unusable(format!("its `{name}` does not fit")));
        }
    }
    Ok(())
}

/// The bytes of the file.
///
/// # Errors
/// Code 0707 when the tensors cannot be put into the format; the device's own.
pub fn bytes(engine: &mut dyn Backend, position: &Position) -> Result<Vec<u8>, ExecFault> {
    let mut found: Vec<(String, Vec<usize>, Buffer)> = Vec::new();
    for Cell { name, file_name, shape } in cells(engine) {
        found.extend(engine.cell(&name)?.map(|buffer| (file_name, shape, buffer)));
    }
    let mut views = BTreeMap::new();
    for (name, shape, buffer) in &found {
        let elements = shape.iter().product();
        let (dtype, bytes) = match buffer {
            Buffer::Float(_) => (Dtype::F32, bytes_of(buffer.floats(elements))),
            Buffer::Integer(_) => (Dtype::I32, bytes_of(buffer.integers(elements))),
        };
        views.insert(name, TensorView::new(dtype, shape.clone(), bytes).map_err(ExecFault::record)?);
    }
    let position = serde_json::to_string(position).map_err(ExecFault::record)?;
    let metadata = [(METADATA.to_owned(), position)].into_iter().collect();
    safetensors::serialize(&views, Some(metadata)).map_err(ExecFault::record)
}

/// Where the run stood that wrote the file; `None` for a file that is no state of a run.
pub fn position(bytes: &[u8]) -> Option<Position> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).ok()?;
    serde_json::from_str(metadata.metadata().as_ref()?.get(METADATA)?).ok()
}

/// Puts a state into an engine for the same lock. Nothing is changed before all was found to fit.
///
/// # Errors
/// Code 0712 for a file that is damaged, or the state of another run; the device's own.
pub fn restore(engine: &mut dyn Backend, bytes: &[u8], run_id: &Digest) -> Result<Position, ExecFault> {
    let file =
        SafeTensors::deserialize(bytes).map_err(|error| unusable(format!("it is damaged: {error}")))?;
    let position =
        position(bytes).ok_or_else(|| unusable("it does not say where its run stood".to_owned()))?;
    if position.run_id != *run_id {
        return Err(unusable(format!("it belongs to run id {}, expected {run_id}", position.run_id)));
    }
    let mut found: Vec<(String, TensorView<'_>)> = Vec::new();
    for Cell { name, file_name, shape } in cells(engine) {
        let Some(integer) = engine.is_integer(&name)? else { continue };
        let tensor = file.tensor(&file_name).map_err(|_| unusable(format!("it has no `{file_name}`")))?;
        let expected = if integer { Dtype::I32 } else { Dtype::F32 };
        if tensor.shape() != shape || tensor.dtype() != expected {
            let found = format!("{:?} of {}", tensor.shape(), tensor.dtype());
            return Err(unusable(format!("its `{file_name}` is {found}, expected {shape:?} of {expected}")));
        }
        found.push((name, tensor));
    }
    if found.len() != file.len() {
        return Err(unusable(format!("it has {}, expected {}", counted(file.len(), "tensor"), found.len())));
    }
    for (name, tensor) in found {
        let set = match tensor.dtype() {
            Dtype::I32 => {
                engine.set_integers(&name, &numbers(tensor.data(), numbers_of, i32::from_le_bytes))?
            }
            _ => engine.set_cell(&name, &numbers(tensor.data(), numbers_of, f32::from_le_bytes))?,
        };
        if !set {
            return Err(unusable(format!("its `{name}` does not fit")));
        }
    }
    Ok(position)
}

/// The numbers of a tensor, where they lie if they are aligned there.
fn numbers<T: Copy>(bytes: &[u8], here: fn(&[u8]) -> Option<&[T]>, number: fn([u8; 4]) -> T) -> Cow<'_, [T]> {
    let copied = || bytes.as_chunks::<4>().0.iter().map(|word| number(*word)).collect();
    here(bytes).map_or_else(|| Cow::Owned(copied()), Cow::Borrowed)
}

/// The same file with parameters and committed buffers alone, as a run leaves them at its end; any other file as it is.
///
/// # Errors
/// Code 0712 for a file that is damaged.
pub fn model_only(bytes: Vec<u8>) -> Result<Vec<u8>, ExecFault> {
    if position(&bytes).is_none() {
        return Ok(bytes);
    }
    let damaged = |error: safetensors::SafeTensorError| unusable(format!("it is damaged: {error}"));
    let file = SafeTensors::deserialize(&bytes).map_err(damaged)?;
    let views: BTreeMap<String, TensorView<'_>> =
        file.tensors().into_iter().filter(|(name, _)| !name.starts_with(PREFIX)).collect();
    safetensors::serialize(&views, None).map_err(damaged)
}

fn unusable(why: String) -> ExecFault {
    ExecFault::new(codes::RUN_CHECKPOINT, format!("the checkpoint cannot be used: {why}"))
        .help("the same lock gives the same state again: `amp run --resume` goes on from the one before")
}
