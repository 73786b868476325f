//! Attention forward and backward: best and median of many repetitions. `attention_torch.py` beside it prints the same rows
//! by PyTorch.
//!
//! usage: cargo bench --bench attention [-- SECONDS_PER_ROW] [=NAME]

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints and reads the clock"
)]

use amp::arithmetic::Isa;
use amp::arithmetic::half::Format::F32;
use amp::exec::cpu::attention::{Attention, Gradients, Operands, Saved, attention, attention_backward};
use amp::exec::cpu::threads::Threads;
use std::time::Instant;

/// Numbers in [-1, 1).
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + i / 7) % 251) as f32 / 126.0 - 1.0).collect()
}

/// Best and median seconds.
fn times(seconds: f64, mut run: impl FnMut()) -> (f64, f64) {
    run();
    let (begin, mut found) = (Instant::now(), Vec::new());
    while found.len() < 5 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        run();
        found.push(start.elapsed().as_secs_f64());
    }
    found.sort_by(f64::total_cmp);
    (found[0], found[found.len() / 2])
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|word| word.parse::<f64>().ok()).unwrap_or(2.0);
    let only = std::env::args().find_map(|word| word.strip_prefix('=').map(String::from));
    let isa = Isa::detect();
    println!("{isa}; ms, best (median)");
    let rows = [
        ("gpt2 causal", [2, 256, 12, 64], true, false),
        ("bert", [2, 256, 12, 64], false, false),
        ("deberta bias", [2, 256, 12, 64], false, true),
        ("long causal", [1, 1024, 12, 64], true, false),
        ("small", [8, 64, 4, 32], false, false),
    ];
    for (name, [batch, length, heads, size], causal, biased) in rows {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let scale = 1.0 / (size as f32).sqrt();
        let (queries, keys) = (length, length);
        let op = Attention { batch, queries, keys, heads, size, causal, scale, dropout: None };
        let count = batch * length * heads * size;
        let [query, key, value, dy] = [0, 1, 2, 3].map(|shift| numbers(count + shift)[shift..].to_vec());
        let shape = [batch, heads, length, length];
        let bias = numbers(if biased { shape.iter().product() } else { 0 });
        let bias = biased.then_some((bias.as_slice(), shape));
        let operands = Operands { query: &query, key: &key, value: &value, bias, mask: None };
        let (mut y, mut log_sum_exp) = (vec![0.0; count], vec![0.0; batch * heads * length]);
        let mut slopes = [(); 3].map(|()| vec![0.0; count]);
        let mut dbias = vec![0.0; bias.map_or(0, |(bias, _)| bias.len())];
        for count in [1, 2] {
            let threads = Threads::new(count).expect("threads start");
            let (best, median) = times(seconds, || {
                attention(isa, &threads, &op, &operands, &mut y, &mut log_sum_exp, F32);
            });
            println!("{name:16} y   {count} threads: {:8.3} ({:8.3}) ms", best * 1e3, median * 1e3);
            let (best, median) = times(seconds, || {
                let [query, key, value] = &mut slopes;
                let bias = biased.then_some(dbias.as_mut_slice());
                let mut gradients = Gradients { query, key, value, bias };
                let saved = Saved { dy: &dy, y: &y, log_sum_exp: &log_sum_exp };
                attention_backward(isa, &threads, &op, &operands, &saved, &mut gradients, F32);
            });
            println!("{name:16} dx  {count} threads: {:8.3} ({:8.3}) ms", best * 1e3, median * 1e3);
        }
    }
}
