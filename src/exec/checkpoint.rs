//! Checkpoints: parameters and buffers as one safetensors file, under the names that PyTorch gives them.
//!
//! The bytes depend on nothing but names, shapes and numbers: no metadata, sorted by name.

use super::backend::Backend;
use super::fault::ExecFault;
use candle_core::{Device, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;

/// Name, shape and values of one tensor.
type Named = (String, Vec<usize>, Vec<f32>);

/// Parameters and committed buffers, sorted by name.
fn tensors(engine: &mut dyn Backend) -> Result<Vec<Named>, ExecFault> {
    let mut shapes = engine.parameter_shapes();
    if let Some(step) = engine.step_graph(0) {
        let buffers = step.buffers.iter().map(|buffer| step.value(buffer.value));
        let committed = buffers.filter(|value| !value.name.ends_with(".pending"));
        shapes.extend(committed.map(|value| (value.name.clone(), value.shape.clone())));
    }
    shapes.sort();
    let mut found = Vec::new();
    for (name, shape) in shapes {
        if let Some(cell) = engine.cell(&name)? {
            let values = cell.floats(shape.iter().product()).to_vec();
            found.push((name, shape, values));
        }
    }
    Ok(found)
}

/// The bytes of a checkpoint.
///
/// # Errors
/// Code 0707 when the tensors cannot be put into the format; the device's own.
pub fn bytes(engine: &mut dyn Backend) -> Result<Vec<u8>, ExecFault> {
    let tensors = tensors(engine)?;
    let raw: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let mut views = BTreeMap::new();
    for ((name, shape, _), raw) in tensors.iter().zip(&raw) {
        let view = TensorView::new(Dtype::F32, shape.clone(), raw).map_err(ExecFault::record)?;
        views.insert(name.clone(), view);
    }
    safetensors::serialize(&views, None).map_err(ExecFault::record)
}

/// The same as Candle tensors, for programs that go on with them.
///
/// # Errors
/// Candle's own, and the device's.
pub fn candle_tensors(engine: &mut dyn Backend) -> candle_core::Result<BTreeMap<String, Tensor>> {
    tensors(engine)
        .map_err(|fault| candle_core::Error::Msg(fault.message))?
        .into_iter()
        .map(|(name, shape, values)| Ok((name, Tensor::from_slice(&values, shape, &Device::Cpu)?)))
        .collect()
}
