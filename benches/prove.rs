//! Proves the portable arithmetic over all inputs: `cargo bench --bench prove -- [NAME…] [--threads N]
//! [--stride K]`.
//!
//! For `exp log tanh erf sin cos` each of the 2^32 f32 inputs goes through the single-value function and
//! through the slice function of every instruction set of this machine; all must give the f32 that an
//! independent enclosure of the exact value determines. An input whose enclosure holds a rounding border is
//! undecided, and a failure. `f16` and `bf16` check the conversions of all inputs against their definition in
//! exact binary64 arithmetic, `fma` the software fused multiply-add against the hardware's on 2^30 triples.
//! `all` is everything, and the default. `--stride K` takes every K-th input.
//!
//! Prints one line for each name; the exit status is 0 only if nothing was wrong or undecided.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its result")]
#![expect(clippy::disallowed_methods, reason = "it reads the clock to say how long a proof took")]

#[path = "prove/fixed.rs"]
mod fixed;
#[path = "prove/formats.rs"]
mod formats;
#[path = "prove/oracle.rs"]
mod oracle;

use amp::arithmetic::{Isa, functions};
use oracle::{Answer, Oracle};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Inputs that a thread takes at a time; a power of two.
const BLOCK: u64 = 1 << 16;
/// How many of the hardest inputs are kept.
const HARDEST: usize = 4;
/// Everything that can be proved.
const NAMES: [&str; 9] = ["exp", "log", "tanh", "erf", "sin", "cos", "f16", "bf16", "fma"];

/// What a run has found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Inputs that were checked.
    pub checked: u64,
    /// Inputs with a wrong result.
    pub wrong: u64,
    /// Inputs that the enclosure does not decide.
    pub undecided: u64,
    /// Some faults, in words.
    pub faults: Vec<String>,
    /// The inputs closest to a tie: (−log2 of the distance in units in the last place, bits of the input).
    pub hardest: Vec<(u32, u32)>,
}

impl Findings {
    /// Notes a fault, in words for the first few.
    pub fn fault(&mut self, text: impl FnOnce() -> String) {
        if self.faults.len() < 8 {
            self.faults.push(text());
        }
    }

    fn hard(&mut self, nearness: u32, bits: u32) {
        if self.hardest.len() < HARDEST || nearness > self.hardest[HARDEST - 1].0 {
            self.hardest.push((nearness, bits));
            self.hardest.sort_by(|a, b| b.cmp(a));
            self.hardest.truncate(HARDEST);
        }
    }

    fn join(&mut self, other: Self) {
        self.checked += other.checked;
        self.wrong += other.wrong;
        self.undecided += other.undecided;
        for fault in other.faults {
            self.fault(|| fault);
        }
        for (nearness, bits) in other.hardest {
            self.hard(nearness, bits);
        }
    }
}

/// One of the six functions in its three forms.
struct Function {
    single: fn(f32) -> f32,
    slice: fn(Isa, &mut [f32]),
    exact: fn(&Oracle, f32) -> Answer,
    /// f(-x) = -f(x) or f(x): then the enclosure of f(|x|) serves both signs.
    parity: Parity,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parity {
    None,
    Odd,
    Even,
}

fn function(name: &str) -> Option<Function> {
    let entry = |single, slice, exact, parity| Some(Function { single, slice, exact, parity });
    match name {
        "exp" => entry(
            functions::exp as fn(f32) -> f32,
            functions::exp_slice as fn(Isa, &mut [f32]),
            Oracle::exp as fn(&Oracle, f32) -> Answer,
            Parity::None,
        ),
        "log" => entry(functions::log, functions::log_slice, Oracle::log, Parity::None),
        "tanh" => entry(functions::tanh, functions::tanh_slice, Oracle::tanh, Parity::Odd),
        "erf" => entry(functions::erf, functions::erf_slice, Oracle::erf, Parity::Odd),
        "sin" => entry(functions::sin, functions::sin_slice, Oracle::sin, Parity::Odd),
        "cos" => entry(functions::cos, functions::cos_slice, Oracle::cos, Parity::Even),
        _ => None,
    }
}

/// The result that the exact value determines, with its nearness to a tie.
fn expected(answer: Answer) -> Option<(f32, u32)> {
    match answer {
        Answer::Known(value) => Some((value, 0)),
        Answer::Within { negative, enclosure } => enclosure
            .decide()
            .map(|(bits, nearness)| (f32::from_bits(bits | u32::from(negative) << 31), nearness)),
    }
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Checks inputs that are all of one sign, in the single form and in all slice forms.
fn check_values(
    name: &str,
    function: &Function,
    inputs: &[f32],
    expected: &[Option<(f32, u32)>],
    found: &mut Findings,
) {
    let mut results: Vec<(String, Vec<f32>)> = Vec::new();
    results.push(("one at a time".to_owned(), inputs.iter().map(|x| (function.single)(*x)).collect()));
    for isa in Isa::available() {
        let mut values = inputs.to_vec();
        (function.slice)(isa, &mut values);
        results.push((format!("as a slice on {isa}"), values));
    }
    for (index, x) in inputs.iter().enumerate() {
        found.checked += 1;
        let Some((value, nearness)) = expected[index] else {
            found.undecided += 1;
            found.fault(|| format!("{name}({x:e}), bits {:#010x}, is undecided", x.to_bits()));
            continue;
        };
        found.hard(nearness, x.to_bits());
        if let Some((form, values)) = results.iter().find(|(_, values)| !same(values[index], value)) {
            found.wrong += 1;
            found.fault(|| {
                format!(
                    "{name}({x:e}), bits {:#010x}, is {value:e}; found {:e} {form}",
                    x.to_bits(),
                    values[index]
                )
            });
        }
    }
}

/// Checks the inputs with these bits; for functions with a parity, the bits are those of magnitudes.
fn check_block(name: &str, function: &Function, oracle: &Oracle, bits: &[u32], found: &mut Findings) {
    let inputs: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
    let mut values: Vec<_> = inputs.iter().map(|x| expected((function.exact)(oracle, *x))).collect();
    check_values(name, function, &inputs, &values, found);
    if function.parity != Parity::None {
        let negated: Vec<f32> = inputs.iter().map(|x| -x).collect();
        if function.parity == Parity::Odd {
            for (value, _) in values.iter_mut().flatten() {
                *value = -*value;
            }
        }
        check_values(name, function, &negated, &values, found);
    }
}

/// Runs `check` on blocks of 0..limit with a stride, on several threads.
fn in_blocks(
    limit: u64,
    threads: usize,
    stride: u64,
    check: impl Fn(&[u32], &mut Findings) + Sync,
) -> Findings {
    let next = AtomicU64::new(0);
    let total = Mutex::new(Findings::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut found = Findings::default();
                let mut bits = Vec::new();
                loop {
                    let start = next.fetch_add(BLOCK * stride, Ordering::Relaxed);
                    if start >= limit {
                        break;
                    }
                    bits.clear();
                    let end = limit.min(start + BLOCK * stride);
                    bits.extend((start..end).step_by(stride as usize).map(|index| index as u32));
                    check(&bits, &mut found);
                }
                total.lock().expect("no thread panics while it holds the lock").join(found);
            });
        }
    });
    total.into_inner().expect("no thread panics while it holds the lock")
}

fn prove(name: &str, threads: usize, stride: u64) -> Findings {
    if let Some(function) = function(name) {
        let oracle = Oracle::new();
        let limit = if function.parity == Parity::None { 1 << 32 } else { 1 << 31 };
        return in_blocks(limit, threads, stride, |bits, found| {
            check_block(name, &function, &oracle, bits, found)
        });
    }
    match name {
        "f16" => in_blocks(1 << 32, threads, stride, formats::check_f16),
        "bf16" => in_blocks(1 << 32, threads, stride, formats::check_bf16),
        _ => in_blocks(1 << 28, threads, stride, formats::check_fma),
    }
}

/// The command line: names, threads, stride.
fn arguments() -> Result<(Vec<String>, usize, u64), String> {
    let (mut names, mut threads, mut stride) =
        (Vec::new(), std::thread::available_parallelism().map_or(1, usize::from), 1);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, String> {
            let text = words.next().unwrap_or_default();
            text.parse()
                .ok()
                .filter(|n| *n > 0)
                .ok_or(format!("{word} wants a positive number, found `{text}`"))
        };
        match word.as_str() {
            // `cargo bench` adds it.
            "--bench" => {}
            "--threads" => threads = number()? as usize,
            "--stride" => stride = number()?,
            "all" => names.extend(NAMES.map(str::to_owned)),
            name if NAMES.contains(&name) => names.push(word),
            _ => {
                return Err(format!(
                    "`{word}` is unknown; there are {} all --threads N --stride K",
                    NAMES.join(" ")
                ));
            }
        }
    }
    if names.is_empty() {
        names.extend(NAMES.map(str::to_owned));
    }
    Ok((names, threads, stride))
}

fn main() -> ExitCode {
    let (names, threads, stride) = match arguments() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let mut good = true;
    for name in names {
        let start = Instant::now();
        let found = prove(&name, threads, stride);
        println!(
            "{name:5} {} inputs, {} wrong, {} undecided, {:.1} s",
            found.checked,
            found.wrong,
            found.undecided,
            start.elapsed().as_secs_f64()
        );
        for (nearness, bits) in &found.hardest {
            println!("      hard: {bits:#010x}, 2^-{nearness} units in the last place from a tie");
        }
        for fault in &found.faults {
            println!("      fault: {fault}");
        }
        good &= found.wrong == 0 && found.undecided == 0 && found.checked > 0;
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
