//! What training begins with, for another program to begin with: parameters, statistics and the batches of the first steps as one
//! safetensors file.
//!
//! Tensors are `start.NAME` for a parameter or statistic, and `features.STEP.MICRO` and `labels.STEP.MICRO`, all counted from 0.

use super::backend::{Backend, Batch};
use super::cpu::buffer::Buffer;
use super::fault::ExecFault;
use crate::store::bytes_of;
use serde_json::{Map, Value, json};

/// The tensors of the file, with its header.
pub struct Start {
    header: Vec<u8>,
    tensors: Vec<Buffer>,
}

impl Start {
    /// Reads them from an engine that has not begun. `batches` has the micro-batches of each step.
    ///
    /// # Errors
    /// The device's own.
    pub fn of(engine: &mut dyn Backend, batches: &[Vec<Batch>]) -> Result<Self, ExecFault> {
        let mut start = Self { header: Vec::new(), tensors: Vec::new() };
        let (mut entries, mut end) = (Map::new(), 0);
        let mut shapes = engine.parameter_shapes();
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        if let Some(step) = engine.step_graph(0) {
            let buffers = step.buffers.iter().map(|buffer| step.value(buffer.value));
            let committed = buffers.filter(|value| !value.name.ends_with(".pending"));
            shapes.extend(committed.map(|value| (value.name.clone(), value.shape.clone())));
            features.clone_from(&step.value(step.features).shape);
            labels.clone_from(&step.value(step.labels).shape);
        }
        for (name, shape) in shapes {
            if let Some(cell) = engine.cell(&name)? {
                let values = Buffer::of(cell.floats(shape.iter().product()).to_vec());
                start.add(&mut entries, &mut end, format!("start.{name}"), &shape, values);
            }
        }
        for (step, micro) in batches.iter().enumerate() {
            for (index, batch) in micro.iter().enumerate() {
                let of = |what: &str| format!("{what}.{step}.{index}");
                start.add(&mut entries, &mut end, of("features"), &features, batch.features.clone());
                start.add(&mut entries, &mut end, of("labels"), &labels, batch.labels.clone());
            }
        }
        start.header = header(&Value::Object(entries));
        Ok(start)
    }

    fn add(
        &mut self,
        entries: &mut Map<String, Value>,
        end: &mut usize,
        name: String,
        shape: &[usize],
        tensor: Buffer,
    ) {
        let first = *end;
        *end += 4 * tensor.len();
        let dtype = if matches!(tensor, Buffer::Float(_)) { "F32" } else { "I32" };
        entries.insert(name, json!({ "dtype": dtype, "shape": shape, "data_offsets": [first, *end] }));
        self.tensors.push(tensor);
    }

    /// The bytes of the file, in pieces.
    pub fn parts(&self) -> Vec<&[u8]> {
        let tensors = self.tensors.iter().map(|tensor| match tensor {
            Buffer::Float(values) => bytes_of(values),
            Buffer::Integer(values) => bytes_of(values),
        });
        std::iter::once(self.header.as_slice()).chain(tensors).collect()
    }
}

/// The length of the header as eight bytes, and the header, filled up with blanks so that tensors are aligned.
fn header(entries: &Value) -> Vec<u8> {
    let mut text = entries.to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut text);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Buffer, Map, Start, Value, header};
    use safetensors::SafeTensors;

    #[test]
    fn another_reader_finds_every_tensor() {
        let mut start = Start { header: Vec::new(), tensors: Vec::new() };
        let (mut entries, mut end) = (Map::new(), 0);
        start.add(&mut entries, &mut end, "start.w".to_owned(), &[2, 1], Buffer::of(vec![1.5, -2.0]));
        start.add(&mut entries, &mut end, "labels.0.0".to_owned(), &[3], Buffer::Integer(vec![7, 0, 9]));
        start.header = header(&Value::Object(entries));
        let file = start.parts().concat();
        let read = SafeTensors::deserialize(&file).expect("a whole file");
        let (weight, labels) =
            (read.tensor("start.w").expect("w"), read.tensor("labels.0.0").expect("labels"));
        assert_eq!((weight.shape(), weight.data()), (&[2, 1][..], &[0, 0, 192, 63, 0, 0, 0, 192][..]));
        assert_eq!((labels.shape(), labels.data()), (&[3][..], &[7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0][..]));
    }
}
