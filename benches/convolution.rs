//! The convolutions and, at the end, all convolutions and linear layers of a training step of two small networks: best and
//! median of many repetitions. `convolution_torch.py` beside it prints the same rows by PyTorch.
//!
//! usage: cargo bench --bench convolution [-- SECONDS_PER_ROW] [=NAME]

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints and reads the clock"
)]

use amp::arithmetic::Isa;
use amp::arithmetic::half::Format::F32;
use amp::exec::cpu::convolution::{Geometry, backward_input, backward_weight, forward};
use amp::exec::cpu::matrix::{Epilogue, MatrixRef, Product, product};
use amp::exec::cpu::threads::Threads;
use std::time::Instant;

/// Buffers of one convolution.
struct Layer {
    geometry: Geometry,
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    y: Vec<f32>,
}

/// Numbers in [-1, 1).
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + i / 7) % 251) as f32 / 126.0 - 1.0).collect()
}

impl Layer {
    fn new(batch: usize, size: usize, channels_in: usize, channels_out: usize, padding: usize) -> Self {
        Self::of(Geometry {
            batch,
            height: size,
            width: size,
            channels_in,
            channels_out,
            kernel: [3, 3],
            stride: [1, 1],
            padding: [padding; 2],
            dilation: [1, 1],
            groups: 1,
        })
    }

    fn of(geometry: Geometry) -> Self {
        let [height, width] = geometry.output_size();
        let [rows, columns] = geometry.kernel;
        Self {
            x: numbers(geometry.batch * geometry.height * geometry.width * geometry.channels_in),
            weight: numbers(geometry.channels_out * geometry.channels_in / geometry.groups * rows * columns),
            bias: numbers(geometry.channels_out),
            y: numbers(geometry.batch * height * width * geometry.channels_out),
            geometry,
        }
    }

    fn forward(&mut self, threads: &Threads) {
        let bias = Some(&self.bias[..]);
        forward(Isa::detect(), threads, &self.geometry, &self.x, &self.weight, bias, F32, &mut self.y);
    }

    /// The gradients go into buffers of their own.
    fn backward_input(&self, threads: &Threads, dx: &mut [f32]) {
        backward_input(Isa::detect(), threads, &self.geometry, &self.y, &self.weight, F32, dx);
    }

    fn backward_weight(&self, threads: &Threads, dw: &mut [f32]) {
        backward_weight(Isa::detect(), threads, &self.geometry, &self.y, &self.x, F32, dw);
    }

    fn work(&self) -> f64 {
        let per_output = self.weight.len() / self.geometry.channels_out;
        (self.y.len() * per_output) as f64 * 1e-9
    }
}

/// A linear layer of `rows` samples: y, dx and dw.
fn linear(threads: &Threads, rows: usize, inputs: usize, outputs: usize, buffers: &mut [Vec<f32>; 6]) {
    let isa = Isa::detect();
    let [x, weight, dy, y, dx, dw] = buffers;
    let (x, weight) = (MatrixRef::row_major(x, inputs), MatrixRef::row_major(weight, inputs));
    let dy = MatrixRef::row_major(dy, outputs);
    let size = Product { rows, columns: outputs, depth: inputs };
    product(isa, threads, size, x, weight.transposed(), y, Epilogue::NONE);
    let size = Product { rows, columns: inputs, depth: outputs };
    product(isa, threads, size, dy, weight, dx, Epilogue::NONE);
    let size = Product { rows: outputs, columns: inputs, depth: rows };
    product(isa, threads, size, dy.transposed(), x, dw, Epilogue::NONE);
}

fn buffers(rows: usize, inputs: usize, outputs: usize) -> [Vec<f32>; 6] {
    [rows * inputs, outputs * inputs, rows * outputs, rows * outputs, rows * inputs, outputs * inputs]
        .map(numbers)
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|word| word.parse::<f64>().ok()).unwrap_or(2.0);
    let teams = [1, 2].map(|count| Threads::new(count).expect("threads start"));
    println!("{}; ms, best (median); GMAC/s of the best", Isa::detect());
    let depthwise = Geometry { groups: 64, ..Layer::new(16, 28, 64, 64, 1).geometry };
    let layers = [
        ("mnist conv1", Layer::new(128, 28, 1, 32, 0)),
        ("mnist conv2", Layer::new(128, 26, 32, 64, 0)),
        ("digits conv1", Layer::new(64, 8, 1, 32, 1)),
        ("digits conv2", Layer::new(64, 8, 32, 64, 1)),
        ("56x56 64-64", Layer::new(8, 56, 64, 64, 1)),
        ("14x14 256-256", Layer::new(16, 14, 256, 256, 1)),
        ("28x28 depthwise", Layer::of(depthwise)),
    ];
    for (name, mut layer) in layers {
        let work = layer.work();
        let (mut dx, mut dw) = (layer.x.clone(), layer.weight.clone());
        for threads in &teams {
            row(name, "y", threads, seconds, work, || layer.forward(threads));
            row(name, "dx", threads, seconds, work, || layer.backward_input(threads, &mut dx));
            row(name, "dw", threads, seconds, work, || layer.backward_weight(threads, &mut dw));
        }
    }
    let networks = [
        ("mnist step", Layer::new(128, 28, 1, 32, 0), Layer::new(128, 26, 32, 64, 0), 9216),
        ("digits step", Layer::new(64, 8, 1, 32, 1), Layer::new(64, 8, 32, 64, 1), 1024),
    ];
    for (name, mut first, mut second, features) in networks {
        let batch = first.geometry.batch;
        let (mut wide, mut narrow) = (buffers(batch, features, 128), buffers(batch, 128, 10));
        let (mut dx, mut dw) = (second.x.clone(), second.weight.clone());
        let mut dw_first = first.weight.clone();
        let products = 3 * batch * 128 * (features + 10);
        let work = 2.0 * first.work() + 3.0 * second.work() + products as f64 * 1e-9;
        for threads in &teams {
            row(name, "all", threads, seconds, work, || {
                first.forward(threads);
                second.forward(threads);
                linear(threads, batch, features, 128, &mut wide);
                linear(threads, batch, 128, 10, &mut narrow);
                second.backward_weight(threads, &mut dw);
                second.backward_input(threads, &mut dx);
                first.backward_weight(threads, &mut dw_first);
            });
        }
    }
}

/// Measures and prints a row, unless another name was asked for.
fn row(name: &str, pass: &str, threads: &Threads, seconds: f64, work: f64, mut run: impl FnMut() + Send) {
    let only = std::env::args().find_map(|word| word.strip_prefix('=').map(String::from));
    if only.is_some_and(|only| !name.contains(&only)) {
        return;
    }
    let mut times = threads.enter(|| {
        let mut times = Vec::new();
        let begin = Instant::now();
        while times.len() < 5 || begin.elapsed().as_secs_f64() < seconds {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64());
        }
        times
    });
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    let count = threads.count();
    println!(
        "{name:16} {pass:3} {count} threads: {:8.3} ({:8.3}) ms  {:6.1} GMAC/s",
        best * 1e3,
        median * 1e3,
        work / best
    );
}
