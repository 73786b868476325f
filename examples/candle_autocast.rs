//! A model written by hand with Candle, trained in f16 with the region and the scaler of `amp::exec::mixed`.
//!
//! usage: cargo run --release --example candle_autocast [FOLDER [POLICY]]: the folder has MNIST's `train-images-idx3-ubyte.gz` and
//! `train-labels-idx1-ubyte.gz`; without it, the handwritten digits of `examples/digits` are taken. The policy is `amp-fp16`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its files and prints")]

use amp::exec::mixed::{Autocast, GradScaler, Region};
use candle_core::{Device, Error, Result, Tensor, Var};
use flate2::read::GzDecoder;
use std::io::Read as _;
use std::path::Path;

/// Pictures as rows of numbers near 1, and their classes.
struct Data {
    rows: Vec<f32>,
    width: usize,
    labels: Vec<u32>,
}

fn unpack(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn mnist(folder: &Path) -> Result<Data> {
    let images = unpack(&folder.join("train-images-idx3-ubyte.gz"))?;
    let labels = unpack(&folder.join("train-labels-idx1-ubyte.gz"))?;
    let rows = images.iter().skip(16).map(|pixel| f32::from(*pixel) / 255.0).collect();
    Ok(Data { rows, width: 784, labels: labels.iter().skip(8).map(|label| u32::from(*label)).collect() })
}

fn digits() -> Result<Data> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits/data/digits.csv.gz");
    let text =
        String::from_utf8(unpack(&path)?).map_err(|_| Error::Msg("the digits are no text".to_owned()))?;
    let mut data = Data { rows: Vec::new(), width: 64, labels: Vec::new() };
    for line in text.lines() {
        let numbers: Vec<f32> = line.split(',').filter_map(|word| word.trim().parse().ok()).collect();
        if let [pixels @ .., label] = numbers.as_slice()
            && pixels.len() == data.width
        {
            data.rows.extend(pixels.iter().map(|pixel| pixel / 16.0));
            data.labels.push(*label as u32);
        }
    }
    Ok(data)
}

/// Two layers with a normalisation between.
struct Model {
    first: Var,
    first_bias: Var,
    scale: Var,
    shift: Var,
    second: Var,
    second_bias: Var,
}

impl Model {
    fn new(width: usize, hidden: usize) -> Result<Self> {
        let stream = amp::arithmetic::philox::Stream::new(42, 0);
        let random = |part: u64, rows: usize, columns: usize| {
            let bound = 1.0 / (columns as f32).sqrt();
            let numbers: Vec<f32> = (0..(rows * columns) as u64)
                .map(|index| (2.0 * stream.uniform(part, index) - 1.0) * bound)
                .collect();
            Var::from_tensor(&Tensor::from_vec(numbers, (rows, columns), &Device::Cpu)?)
        };
        let filled = |value: f32, size: usize| Var::from_tensor(&Tensor::full(value, size, &Device::Cpu)?);
        Ok(Self {
            first: random(0, hidden, width)?,
            first_bias: filled(0.0, hidden)?,
            scale: filled(1.0, hidden)?,
            shift: filled(0.0, hidden)?,
            second: random(1, 10, hidden)?,
            second_bias: filled(0.0, 10)?,
        })
    }

    fn variables(&self) -> Vec<Var> {
        [&self.first, &self.first_bias, &self.scale, &self.shift, &self.second, &self.second_bias]
            .map(Var::clone)
            .into()
    }

    fn forward(&self, region: &Region<'_>, x: &Tensor) -> Result<Tensor> {
        let x = region.linear(x, &self.first, Some(&self.first_bias))?;
        let x = region.layer_norm(&x, &self.scale, &self.shift, 1e-5)?;
        let x = region.module("relu", &|x: &Tensor| x.relu(), &x)?;
        region.linear(&x, &self.second, Some(&self.second_bias))
    }
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1);
    let data = folder.map_or_else(digits, |folder| mnist(Path::new(&folder)))?;
    let autocast = Autocast::named(&std::env::args().nth(2).unwrap_or_else(|| "amp-fp16".to_owned()))?;
    let model = Model::new(data.width, 64)?;
    let variables = model.variables();
    let mut scaler = GradScaler::default();
    let (batch, epochs, rate) = (32, 4, 0.1);
    for epoch in 1..=epochs {
        let (mut losses, mut right, mut skipped) = (0.0, 0, 0);
        let steps = data.labels.len() / batch;
        for step in 0..steps {
            let examples = step * batch..(step + 1) * batch;
            let pixels = &data.rows[examples.start * data.width..examples.end * data.width];
            let x = Tensor::from_slice(pixels, (batch, data.width), &Device::Cpu)?;
            let labels = Tensor::from_slice(&data.labels[examples.clone()], batch, &Device::Cpu)?;
            let (logits, loss) = autocast.region(|region| {
                let logits = model.forward(region, &x)?;
                let loss = region.cross_entropy(&logits, &labels)?;
                Ok((logits, loss))
            })?;
            let unscaled = scaler.scale(&loss)?.backward()?.unscale(&variables)?;
            let stepped = unscaled.step(|gradients| {
                variables.iter().try_for_each(|variable| match gradients.get(variable) {
                    Some(gradient) => variable.set(&(variable.as_tensor() - (gradient * rate)?)?),
                    None => Ok(()),
                })
            })?;
            skipped += u32::from(stepped.update().skipped);
            losses += loss.to_scalar::<f32>()?;
            let answers = logits.argmax(1)?.to_vec1::<u32>()?;
            right +=
                answers.iter().zip(&data.labels[examples]).filter(|(answer, label)| answer == label).count();
        }
        let share = right as f32 / (steps * batch) as f32;
        println!(
            "epoch {epoch}: loss {:.4}, accuracy {share:.4}, {skipped} skipped, scale {}",
            losses / steps as f32,
            scaler.get()
        );
    }
    Ok(())
}
