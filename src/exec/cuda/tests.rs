//! The CUDA backend against the CPU backend: single ops on the same operands, every instruction of every sample, whole steps.
//!
//! All run on the emulated device, and on the real one where the feature `cuda` is on and a device is there.

pub(super) mod arithmetic;
mod attention;
mod batch_norm;
mod begun;
mod cases;
mod chain;
mod chains;
mod gradient_sums;
mod image;
mod layer_norm;
mod library;
mod linear;
mod loss_gradient;
mod memory;
mod near;
mod pixel_backward;
mod pixels;
mod pointwise;
mod rows;
mod samples;
mod scaled;
mod sequence;
mod shape;
mod shards;
#[cfg(feature = "cuda")]
mod shared;
mod update;
mod vectors;

use super::convolution::{Convolutions, Shape};
use super::device::Device;
use super::dispatch::{self, Arithmetic, Call, Operand};
use super::emulated::Emulated;
use super::launch::{Launch, Launches, Tensor};
use crate::arithmetic::Isa;
use crate::arithmetic::eight::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use crate::arithmetic::half::{Format, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, round};
use crate::exec::cpu;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::threads::Threads;
use crate::exec::program::Layout;
use crate::exec::schedule::decimal;
use crate::graph::{DType, Op, Role, Value};
use std::collections::BTreeMap;

/// The devices that tests run on: none where there is neither a GPU nor a C++ compiler.
fn devices() -> Vec<Box<dyn Device>> {
    let mut found: Vec<Box<dyn Device>> = Vec::new();
    found.extend(Emulated::open().map(|device| Box::new(device) as Box<dyn Device>));
    #[cfg(feature = "cuda")]
    found.extend(shared::open().map(|device| Box::new(device) as Box<dyn Device>));
    found
}

fn threads() -> Threads {
    Threads::new(1).expect("one thread")
}

/// A value of a test, by its shape and dtype.
fn value(shape: &[usize], dtype: DType) -> Value {
    Value { name: "value".to_owned(), shape: shape.to_vec(), dtype, role: Role::Result }
}

/// One op with operands.
struct Case {
    op: Op,
    layout: Layout,
    inputs: Vec<(Value, Buffer)>,
    outputs: Vec<Value>,
    /// For each result the operand that is written in place, if it is one.
    in_place: Vec<Option<usize>>,
    /// How operands are stored, where another format than the value's is to be tried; their values are rounded to it.
    stored: Vec<Option<DType>>,
    /// How results are stored, likewise.
    written: Vec<Option<DType>>,
    /// Operands, by their number, whose rows are parts of wider ones: where they begin there, and how far they are apart.
    parts: BTreeMap<usize, (usize, usize)>,
    /// The same of results.
    result_parts: BTreeMap<usize, (usize, usize)>,
    /// Operands, by their number, that are divided by a scale as they are read.
    scales: BTreeMap<usize, f32>,
    position: u64,
    /// Whether the device's library for convolutions is asked.
    convolved: bool,
}

impl Case {
    /// Row-major operands, nothing in place, native formats.
    fn new(op: Op, inputs: Vec<(Value, Buffer)>, outputs: Vec<Value>) -> Self {
        let (stored, written) = (vec![None; inputs.len()], vec![None; outputs.len()]);
        let in_place = vec![None; outputs.len()];
        let (layout, position, convolved) = (Layout::RowMajor, 3, true);
        let (parts, result_parts, scales) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            op,
            layout,
            inputs,
            outputs,
            in_place,
            stored,
            written,
            parts,
            result_parts,
            scales,
            position,
            convolved,
        }
    }

    /// Runs the op on the CPU backend: the bits to expect.
    fn expected(&self) -> Vec<Buffer> {
        self.called(Isa::detect(), cpu::dispatch::run).1
    }

    /// Has the op computed by something that takes a call of the CPU backend; what that answers, and the results.
    fn called<T>(
        &self,
        isa: Isa,
        run: impl FnOnce(&cpu::dispatch::Call<'_>, &mut [Buffer]) -> T,
    ) -> (T, Vec<Buffer>) {
        let mut rounded: Vec<Buffer> = self.inputs.iter().zip(&self.stored).map(rounded).collect();
        for (index, scale) in &self.scales {
            let inverse = (1.0 / f64::from(*scale)) as f32;
            let elements = self.inputs[*index].0.elements();
            rounded[*index].floats_mut(elements).iter_mut().for_each(|x| *x *= inverse);
        }
        let mut outputs: Vec<Buffer> = self
            .outputs
            .iter()
            .zip(&self.in_place)
            .map(|(value, place)| match place {
                Some(input) => rounded[*input].clone(),
                None => Buffer::zeros(value.elements(), value.dtype == DType::I32),
            })
            .collect();
        let empty = Buffer::default();
        let inputs: Vec<cpu::dispatch::Operand<'_>> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(index, (value, _))| {
                let taken = self.in_place.contains(&Some(index));
                let buffer = if taken { &empty } else { &rounded[index] };
                cpu::dispatch::Operand { buffer, elements: value.elements(), value }
            })
            .collect();
        let results: Vec<&Value> = self.outputs.iter().collect();
        let threads = threads();
        let call = cpu::dispatch::Call {
            isa,
            threads: &threads,
            seed: 42,
            position: self.position,
            op: &self.op,
            layout: self.layout,
            inputs: &inputs,
            results: &results,
        };
        let answer = run(&call, &mut outputs);
        (answer, outputs)
    }

    /// Runs the op on a device; `None` when it has no kernel yet.
    fn found(&self, device: &mut dyn Device, arithmetic: Arithmetic) -> Option<Vec<Buffer>> {
        let mut place = |value: &Value, format: DType, bytes: &[u8]| {
            let size = (value.elements() * format.bytes()).max(bytes.len()).max(16);
            let address = device.allocate(size).expect("memory");
            device.upload(address, bytes).expect("an upload");
            Tensor { address, format }
        };
        let inputs: Vec<(Tensor, &Value)> = self
            .inputs
            .iter()
            .zip(&self.stored)
            .map(|(operand, stored)| {
                let format = stored.unwrap_or(operand.0.dtype);
                let mut bytes = to_bytes(&operand.1, format);
                if operand.0.role == Role::Host {
                    bytes.resize(8, 0);
                    bytes.extend(decimal(operand.1.floats(1)[0]).to_le_bytes());
                }
                (place(&operand.0, format, &bytes), &operand.0)
            })
            .collect();
        let outputs: Vec<(Tensor, &Value)> = self
            .outputs
            .iter()
            .enumerate()
            .map(|(index, value)| match self.in_place[index] {
                Some(input) => (inputs[input].0, value),
                None => (place(value, self.written[index].unwrap_or(value.dtype), &[]), value),
            })
            .collect();
        let position = device.allocate(256).expect("memory");
        device.upload(position, &self.position.to_le_bytes()).expect("an upload");
        let mut ins = as_operands(&inputs);
        self.parts.iter().for_each(|(index, place)| scatter(device, &mut ins[*index], *place));
        for (index, scale) in &self.scales {
            let address = device.allocate(4).expect("memory");
            device.upload(address, &scale.to_le_bytes()).expect("an upload");
            ins[*index].scale = Tensor::f32(address);
        }
        let mut outs = as_operands(&outputs);
        self.result_parts.iter().for_each(|(index, place)| scatter(device, &mut outs[*index], *place));
        let asked = self.convolved && device.has_convolutions();
        let all = Convolutions::new(asked);
        let mut call = Call {
            op: &self.op,
            layout: self.layout,
            inputs: &ins,
            outputs: &outs,
            arithmetic,
            units: device.units(),
            convolutions: &all,
            seed: 42,
            position,
            culprit: position + 128,
        };
        let refused = Convolutions::without(refused(device, &call));
        if asked {
            call.convolutions = &refused;
        }
        launch(device, &call)?;
        let read = |(index, operand): (usize, &Operand<'_>)| match self.result_parts.get(&index) {
            Some((start, _)) => gather(device, operand, *start),
            None => from_device(device, operand.tensor, operand.value),
        };
        Some(outs.iter().enumerate().map(read).collect())
    }

    /// Checks the bits on every device.
    ///
    /// # Panics
    /// When they differ, or there is no kernel.
    fn check(&self, what: &str) {
        for mut device in devices() {
            let found = self.found(&mut *device, Arithmetic::Portable);
            let found = found.unwrap_or_else(|| panic!("{what}: no kernel for {}", self.op.kind()));
            if let Some(difference) = self.difference(&self.expected(), &found) {
                panic!("{what} on {}: {difference}", device.name());
            }
        }
    }

    /// The first element whose bits differ.
    fn difference(&self, expected: &[Buffer], found: &[Buffer]) -> Option<String> {
        for (index, value) in self.outputs.iter().enumerate() {
            let format = self.written[index].and_then(DType::format).unwrap_or(Format::F32);
            for element in 0..value.elements() {
                let (wanted, got) = match (&expected[index], &found[index]) {
                    (Buffer::Integer(wanted), Buffer::Integer(got)) => {
                        (wanted[element] as u32, got[element] as u32)
                    }
                    (wanted, got) => {
                        let bits = |buffer: &Buffer| {
                            let x = buffer.floats(value.elements())[element];
                            if x.is_nan() { 0x7fc0_0000 } else { round(format, x).to_bits() }
                        };
                        (bits(wanted), bits(got))
                    }
                };
                if wanted != got {
                    let kind = self.op.kind();
                    let shape = &value.shape;
                    let [w, g] = [wanted, got].map(f32::from_bits);
                    return Some(format!(
                        "{kind} result {index} {shape:?} element {element}: expected {w:e} ({wanted:#010x}), found {g:e} ({got:#010x})"
                    ));
                }
            }
        }
        None
    }
}

fn as_operands<'a>(edges: &[(Tensor, &'a Value)]) -> Vec<Operand<'a>> {
    edges.iter().map(|(tensor, value)| Operand::new(*tensor, value)).collect()
}

/// What memory that nobody writes holds.
const UNTOUCHED: u8 = 0xa5;

/// Moves an operand to rows of wider ones, (first column, columns), whose other columns hold what is no number to compute with.
fn scatter(device: &mut dyn Device, operand: &mut Operand<'_>, (start, pitch): (usize, usize)) {
    let (width, (rows, row)) = (operand.tensor.format.bytes(), operand.rows_and_columns());
    let mut close = vec![0; rows * row * width];
    device.download(operand.tensor.address, &mut close).expect("a download");
    let mut bytes = vec![UNTOUCHED; (rows * pitch).max(1) * width];
    for (from, to) in close.chunks(row * width).zip(bytes.chunks_mut(pitch * width)) {
        to[start * width..][..from.len()].copy_from_slice(from);
    }
    let address = device.allocate(bytes.len()).expect("memory");
    device.upload(address, &bytes).expect("an upload");
    operand.tensor.address = address + (start * width) as u64;
    operand.pitch = pitch;
}

/// Reads a result from wider rows, of which nothing else was written.
fn gather(device: &mut dyn Device, operand: &Operand<'_>, start: usize) -> Buffer {
    let (width, (rows, row)) = (operand.tensor.format.bytes(), operand.rows_and_columns());
    let mut bytes = vec![0; rows * operand.pitch * width];
    device.download(operand.tensor.address - (start * width) as u64, &mut bytes).expect("a download");
    let mut close = Vec::new();
    for line in bytes.chunks(operand.pitch * width) {
        let (before, rest) = line.split_at(start * width);
        let (own, after) = rest.split_at(row * width);
        assert!(before.iter().chain(after).all(|byte| *byte == UNTOUCHED), "written beside a part");
        close.extend_from_slice(own);
    }
    let address = device.allocate(close.len().max(1)).expect("memory");
    device.upload(address, &close).expect("an upload");
    from_device(device, Tensor { address, format: operand.tensor.format }, operand.value)
}

/// The convolutions of a node that the device's library does not make.
fn refused(device: &mut dyn Device, call: &Call<'_>) -> Vec<Shape> {
    let shapes = convolutions_of(call).into_iter();
    shapes.filter(|shape| !device.prepares(shape).expect("an answer")).collect()
}

/// The library convolutions of a node.
fn convolutions_of(call: &Call<'_>) -> Vec<Shape> {
    let mut launches = Launches::new(0, 0);
    dispatch::run(call, &mut launches);
    let shapes = launches.list.iter().filter_map(|launch| match launch {
        Launch::Convolution(convolution) => Some(convolution.shape),
        _ => None,
    });
    shapes.collect()
}

/// Makes the launches of a node and runs them; `None` when it has no kernel.
fn launch(device: &mut dyn Device, call: &Call<'_>) -> Option<()> {
    launch_all(device, |launches| dispatch::run(call, launches))
}

/// Makes launches twice, as the engine does, and runs them.
fn launch_all(device: &mut dyn Device, make: impl Fn(&mut Launches) -> bool) -> Option<()> {
    let mut probe = Launches::new(0, 0);
    if !make(&mut probe) {
        return None;
    }
    let scratch = device.allocate(probe.scratch_bytes().max(1)).expect("memory");
    let constants = device.allocate(probe.constant_bytes.len().max(1)).expect("memory");
    let mut launches = Launches::new(scratch, constants);
    assert!(make(&mut launches));
    assert_eq!(probe.scratch_bytes(), launches.scratch_bytes(), "scratch does not depend on addresses");
    device.upload(constants, &launches.constant_bytes).expect("an upload");
    launches.list.iter().for_each(|launch| device.launch(launch).expect("a launch"));
    Some(())
}

/// The operand's values, rounded to what it is stored as.
fn rounded(((_, buffer), stored): (&(Value, Buffer), &Option<DType>)) -> Buffer {
    match (buffer, stored.and_then(DType::format)) {
        (Buffer::Float(values), Some(format)) => {
            Buffer::Float(values.iter().map(|value| round(format, *value)).collect())
        }
        _ => buffer.clone(),
    }
}

fn to_bytes(buffer: &Buffer, format: DType) -> Vec<u8> {
    match (buffer, format) {
        (Buffer::Integer(values), _) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        (Buffer::Float(values), DType::F16) => {
            values.iter().flat_map(|value| f32_to_f16(*value).to_le_bytes()).collect()
        }
        (Buffer::Float(values), DType::Bf16) => {
            values.iter().flat_map(|value| f32_to_bf16(*value).to_le_bytes()).collect()
        }
        (Buffer::Float(values), DType::E4m3) => values.iter().map(|value| f32_to_e4m3(*value)).collect(),
        (Buffer::Float(values), DType::E5m2) => values.iter().map(|value| f32_to_e5m2(*value)).collect(),
        (Buffer::Float(values), _) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

fn from_device(device: &mut dyn Device, tensor: Tensor, value: &Value) -> Buffer {
    let mut bytes = vec![0; value.elements() * tensor.format.bytes()];
    device.download(tensor.address, &mut bytes).expect("a download");
    let pairs = || bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    let words = || bytes.as_chunks::<4>().0.iter();
    match tensor.format {
        DType::I32 => Buffer::Integer(words().map(|word| i32::from_le_bytes(*word)).collect()),
        DType::F16 => Buffer::Float(pairs().map(f16_to_f32).collect()),
        DType::Bf16 => Buffer::Float(pairs().map(bf16_to_f32).collect()),
        DType::E4m3 => Buffer::Float(bytes.iter().copied().map(e4m3_to_f32).collect()),
        DType::E5m2 => Buffer::Float(bytes.iter().copied().map(e5m2_to_f32).collect()),
        _ => Buffer::Float(words().map(|word| f32::from_le_bytes(*word)).collect()),
    }
}
