//! The matrix product beside the `gemm` crate: best and median of many repetitions, the two in turn.
//!
//! usage: cargo bench --bench matrix [-- SECONDS_PER_ROW] [=NAME]

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints and reads the clock"
)]

use amp::arithmetic::Isa;
use amp::exec::cpu::matrix::{Epilogue, MatrixRef, Product, product};
use amp::exec::cpu::threads::Threads;
use std::time::Instant;

/// One operand layout: what is multiplied, as strides of B (and of A).
#[derive(Clone, Copy)]
enum Layout {
    /// A and B stored row by row.
    Plain,
    /// B stored as its transpose: the forward pass of a linear layer.
    RightTransposed,
    /// A stored as its transpose: the weight gradient of a linear layer.
    LeftTransposed,
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|word| word.parse::<f64>().ok()).unwrap_or(2.0);
    let only = std::env::args().find_map(|word| word.strip_prefix('=').map(String::from));
    let teams = [1, 2].map(|count| Threads::new(count).expect("threads start"));
    let isa = Isa::detect();
    let rayon = gemm::Parallelism::Rayon;
    println!("{isa}; GMAC/s, best (median); ratio = amp / gemm");
    let rows = [
        ("512", 512, 512, 512, Layout::Plain),
        ("1024", 1024, 1024, 1024, Layout::Plain),
        ("2048", 2048, 2048, 2048, Layout::Plain),
        ("1024 x·wT", 1024, 1024, 1024, Layout::RightTransposed),
        ("1024 yT·x", 1024, 1024, 1024, Layout::LeftTransposed),
        ("mnist fc1 y", 128, 128, 9216, Layout::RightTransposed),
        ("mnist fc1 dx", 128, 9216, 128, Layout::Plain),
        ("mnist fc1 dw", 128, 9216, 128, Layout::LeftTransposed),
        ("mnist fc2 y", 128, 10, 128, Layout::RightTransposed),
        ("mlp 64-256 y", 64, 256, 64, Layout::RightTransposed),
        ("mlp 256-256 y", 64, 256, 256, Layout::RightTransposed),
        ("mlp 256-256 dx", 64, 256, 256, Layout::Plain),
        ("mlp 256-256 dw", 256, 256, 64, Layout::LeftTransposed),
        ("gpt qkv y", 768, 384, 128, Layout::RightTransposed),
        ("gpt fc dw", 512, 128, 768, Layout::LeftTransposed),
        ("batch 1 y", 1, 256, 256, Layout::RightTransposed),
        ("batch 1 dx", 1, 256, 256, Layout::Plain),
    ];
    for (name, m, n, k, layout) in rows {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let a: Vec<f32> = (0..m * k).map(|i| (i % 251) as f32 * 0.01 - 1.0).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i % 241) as f32 * 0.01 - 1.0).collect();
        let mut left = MatrixRef::row_major(&a, k);
        let mut right = MatrixRef::row_major(&b, n);
        match layout {
            Layout::Plain => {}
            Layout::RightTransposed => right = MatrixRef::row_major(&b, k).transposed(),
            Layout::LeftTransposed => left = MatrixRef::row_major(&a, m).transposed(),
        }
        let size = Product { rows: m, columns: n, depth: k };
        let (mut ours, mut theirs) = (vec![0.0; m * n], vec![0.0; m * n]);
        for threads in &teams {
            let count = threads.count();
            let mut amp = || product(isa, threads, size, left, right, &mut ours, Epilogue::NONE);
            let mut other = || {
                let parallelism = if count == 1 { gemm::Parallelism::None } else { rayon(count) };
                // SAFETY: the strides describe the three slices.
                unsafe {
                    gemm::gemm(
                        m,
                        n,
                        k,
                        theirs.as_mut_ptr(),
                        1,
                        n as isize,
                        false,
                        left.data.as_ptr(),
                        left.column_stride as isize,
                        left.row_stride as isize,
                        right.data.as_ptr(),
                        right.column_stride as isize,
                        right.row_stride as isize,
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        parallelism,
                    );
                }
            };
            let (mut mine, mut its) = (Vec::new(), Vec::new());
            let begin = Instant::now();
            while mine.len() < 5 || begin.elapsed().as_secs_f64() < seconds {
                mine.push(time(&mut amp));
                its.push(time(&mut other));
            }
            let work = (m * n * k) as f64 * 1e-9;
            let (mine, its) = (sorted(mine), sorted(its));
            println!(
                "{name:15} {count} threads: amp {:6.1} ({:6.1})  gemm {:6.1} ({:6.1})  ratio {:.2} ({:.2})  {:9.1} us",
                work / mine.0,
                work / mine.1,
                work / its.0,
                work / its.1,
                its.0 / mine.0,
                its.1 / mine.1,
                mine.0 * 1e6,
            );
        }
    }
}

/// Seconds of one call; of several for a short one.
fn time(work: &mut impl FnMut()) -> f64 {
    let begin = Instant::now();
    work();
    let once = begin.elapsed().as_secs_f64();
    if once > 1e-3 {
        return once;
    }
    let times = (1e-3 / once) as usize + 1;
    let begin = Instant::now();
    (0..times).for_each(|_| work());
    begin.elapsed().as_secs_f64() / times as f64
}

/// The least and the median.
fn sorted(mut seconds: Vec<f64>) -> (f64, f64) {
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[seconds.len() / 2])
}
