//! Checkpoints: parameters and buffers as one safetensors file, under the names that PyTorch gives them.
//!
//! The bytes depend on nothing but names, shapes and numbers: no metadata, sorted by name.

use super::cpu::engine::Engine;
use super::fault::ExecFault;
use candle_core::{Device, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;

/// Name, shape and values of one tensor.
type Named<'a> = (&'a str, Vec<usize>, &'a [f32]);

/// Parameters and committed buffers, sorted by name.
fn tensors(engine: &Engine) -> Vec<Named<'_>> {
    let mut found: Vec<Named<'_>> =
        engine.parameters().into_iter().map(|(name, shape, values)| (name, shape.to_vec(), values)).collect();
    if let Some(step) = engine.step_graph(0) {
        for buffer in &step.buffers {
            let value = &step.values[buffer.value.index()];
            if !value.name.ends_with(".pending")
                && let Some(cell) = engine.cell(&value.name)
            {
                found.push((&value.name, value.shape.clone(), cell.floats(value.elements())));
            }
        }
    }
    found.sort_by_key(|(name, _, _)| *name);
    found
}

/// The bytes of a checkpoint.
///
/// # Errors
/// Code 0707 when the tensors cannot be put into the format.
pub fn bytes(engine: &Engine) -> Result<Vec<u8>, ExecFault> {
    let tensors = tensors(engine);
    let raw: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let mut views = BTreeMap::new();
    for ((name, shape, _), raw) in tensors.iter().zip(&raw) {
        let view = TensorView::new(Dtype::F32, shape.clone(), raw).map_err(ExecFault::record)?;
        views.insert((*name).to_owned(), view);
    }
    safetensors::serialize(&views, None).map_err(ExecFault::record)
}

/// The same as Candle tensors, for programs that go on with them.
///
/// # Errors
/// Candle's own.
pub fn candle_tensors(engine: &Engine) -> candle_core::Result<BTreeMap<String, Tensor>> {
    tensors(engine)
        .into_iter()
        .map(|(name, shape, values)| Ok((name.to_owned(), Tensor::from_slice(values, shape, &Device::Cpu)?)))
        .collect()
}
