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
#[path = "prove/tables.rs"]
mod tables;

use amp::arithmetic::{Isa, functions};
use oracle::Answer;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tables::Tables;

/// Inputs that a thread takes at a time; a power of two.
const BLOCK: u64 = 1 << 12;
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

    #[inline(always)]
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
    name: &'static str,
    single: fn(f32) -> f32,
    slice: fn(Isa, &mut [f32]),
    /// Its enclosure in narrow fixed point, and the one in wide fixed point for what that leaves undecided.
    narrow: fn(&Tables<i64>, f32) -> Answer,
    wide: fn(&Tables<i128>, f32) -> Answer,
    /// Whether f(-x) is -f(x) or f(x): then the enclosure of f(|x|) serves both signs.
    parity: Parity,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parity {
    None,
    Odd,
    Even,
}

/// Names a function in all its forms.
macro_rules! entry {
    ($name:ident, $slice:ident, $parity:ident) => {
        Function {
            name: stringify!($name),
            single: functions::$name,
            slice: functions::$slice,
            narrow: Tables::<i64>::$name,
            wide: Tables::<i128>::$name,
            parity: Parity::$parity,
        }
    };
}

const FUNCTIONS: [Function; 6] = [
    entry!(exp, exp_slice, None),
    entry!(log, log_slice, None),
    entry!(tanh, tanh_slice, Odd),
    entry!(erf, erf_slice, Odd),
    entry!(sin, sin_slice, Odd),
    entry!(cos, cos_slice, Even),
];

/// The bits of the result that the exact value determines, with its nearness to a tie.
fn decide(answer: Answer) -> Option<(u32, u32)> {
    match answer {
        Answer::Known(value) => Some((canonical(value), 0)),
        Answer::Within { negative, enclosure } => {
            enclosure.decide().map(|(bits, nearness)| (bits | u32::from(negative) << 31, nearness))
        }
    }
}

/// The bits of a value; one pattern for all NaNs.
fn canonical(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

/// Checks one form of a function: `results` for `inputs`, against the expected bits.
fn compare(
    function: &Function,
    form: &str,
    inputs: &[f32],
    results: &[f32],
    expected: &[u32],
    wrong: &mut [bool],
    found: &mut Findings,
) {
    let differs = results.iter().zip(expected).fold(0, |all, (value, bits)| all | (canonical(*value) ^ bits));
    if differs == 0 {
        return;
    }
    for (index, value) in results.iter().enumerate() {
        if canonical(*value) != expected[index] {
            wrong[index] = true;
            found.fault(|| {
                let (name, x, exact) = (function.name, inputs[index], f32::from_bits(expected[index]));
                format!("{name}({x:e}), bits {:#010x}, is {exact:e}; found {value:e} {form}", x.to_bits())
            });
        }
    }
}

/// Clears the vector registers. On x86-64 a scalar conversion merges into its target register, so without this each call
/// would wait for the one before it, which takes three times as long.
#[inline(always)]
fn forget_registers() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the registers that it writes are declared, and it touches nothing else.
    unsafe {
        std::arch::asm!(
            "xorps xmm1, xmm1", "xorps xmm2, xmm2", "xorps xmm3, xmm3", "xorps xmm4, xmm4",
            "xorps xmm5, xmm5", "xorps xmm6, xmm6", "xorps xmm7, xmm7",
            out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Checks the single form and all slice forms.
fn check_forms(function: &Function, inputs: &[f32], expected: &[u32], found: &mut Findings) {
    let mut wrong = vec![false; inputs.len()];
    let mut results: Vec<f32> = Vec::with_capacity(inputs.len());
    for x in inputs {
        results.push((function.single)(*x));
        forget_registers();
    }
    compare(function, "one at a time", inputs, &results, expected, &mut wrong, found);
    for isa in Isa::available() {
        results.copy_from_slice(inputs);
        (function.slice)(isa, &mut results);
        compare(function, &format!("as a slice on {isa}"), inputs, &results, expected, &mut wrong, found);
    }
    found.checked += inputs.len() as u64;
    found.wrong += wrong.into_iter().filter(|wrong| *wrong).count() as u64;
}

/// Checks the inputs with these bits; for functions with a parity, the bits are those of magnitudes.
fn check_block(
    function: &Function,
    tables: &(Tables<i128>, Tables<i64>),
    bits: &[u32],
    found: &mut Findings,
) {
    let (mut inputs, mut expected) = (Vec::with_capacity(bits.len()), Vec::with_capacity(bits.len()));
    for bits in bits {
        let x = f32::from_bits(*bits);
        let decided =
            decide((function.narrow)(&tables.1, x)).or_else(|| decide((function.wide)(&tables.0, x)));
        let Some((value, nearness)) = decided else {
            found.undecided += 1;
            found.fault(|| format!("{}({x:e}), bits {bits:#010x}, is undecided", function.name));
            continue;
        };
        found.hard(nearness, *bits);
        inputs.push(x);
        expected.push(value);
    }
    check_forms(function, &inputs, &expected, found);
    if function.parity != Parity::None {
        for x in &mut inputs {
            *x = -*x;
        }
        if function.parity == Parity::Odd {
            for bits in &mut expected {
                *bits = canonical(-f32::from_bits(*bits));
            }
        }
        check_forms(function, &inputs, &expected, found);
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
    if let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) {
        let wide = Tables::new();
        let narrow = wide.narrow();
        let tables = (wide, narrow);
        let limit = if function.parity == Parity::None { 1 << 32 } else { 1 << 31 };
        return in_blocks(limit, threads, stride, |bits, found| check_block(function, &tables, bits, found));
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
