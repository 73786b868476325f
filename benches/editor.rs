//! What a change costs in an editor: `cargo bench --bench editor [-- --changes N]`.
//!
//! `amp lsp` is spoken to as an editor does: a document is opened and changed (20 times, `--changes`), and each time the
//! diagnostics are waited for. What is printed is the CPU time of the server for each change, as Linux counts it (in ticks of
//! 10 ms, over all changes), and the median wait. The wait includes the pause that the server makes where a check takes more
//! than 50 ms. The exit status is 0 only if no change takes more CPU time than that.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its result")]
#![expect(clippy::disallowed_methods, reason = "it starts a process, and reads the clock and /proc")]

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Most CPU time of a change, in milliseconds.
const LIMIT: f64 = 50.0;
/// Ticks of a second, in /proc.
const TICKS: f64 = 100.0;
/// A document is told of at this place.
const URI: &str = "file:///nowhere/manifest.kdl";

/// The head of every manifest, up to the model.
const HEAD: &str = "amp 1
run \"timed\" seed=1
environment \"std:environments/h100-80gb\"
data \"d\" {
    synthetic examples=64 { tokens vocabulary=50257 length=1024 }
    labels \"next-token\"
    batch 2
}
";

/// GPT-2 XL with nothing else said.
fn largest() -> String {
    format!(
        "{HEAD}model \"std:models/gpt2\" width=1600 layers=48 heads=25\nprecision \"std:precision/amp-bf16\"\n\
         optimizer \"std:optimizers/adamw\" lr=1e-4\nschedule \"cosine\" warmup=8\ntrain epochs=1\n"
    )
}

/// Five hundred lines: a rule for each layer of as deep a model, and a group of parameters for each block.
fn longest() -> String {
    let mut text = format!(
        "{HEAD}model \"std:models/gpt2\" width=192 layers=48 heads=4\nprecision \"std:precision/amp-bf16\" {{\n"
    );
    let layers = ["norm1", "qkv", "attention", "out", "dropout1", "norm2", "up", "down", "dropout2"];
    for (block, layer) in (0..48).flat_map(|block| layers.map(|layer| (block, layer))) {
        let _ = writeln!(text, "    layer \"blocks.{block}.block.{layer}\" dtype=\"f32\"");
    }
    text.push_str("}\noptimizer \"std:optimizers/adamw\" lr=1e-4 {\n");
    for block in 0..48 {
        let _ = writeln!(text, "    parameters \"blocks.{block}.block.norm1.*\" weight-decay=0.0");
    }
    text.push_str("}\nschedule \"cosine\" warmup=8\ntrain epochs=1\nevaluate every=\"epoch\"\nallow \"AMP0410\" reason=\"measured\"\n");
    while text.lines().count() < 500 {
        text.push_str("// The end of a long manifest.\n");
    }
    text
}

/// A server that was started.
struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Result<Self, Error> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_amp"));
        let mut process = command.arg("lsp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let missing = || Error::new(ErrorKind::BrokenPipe, "the server has no streams");
        let input = process.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(process.stdout.take().ok_or_else(missing)?);
        let mut server = Self { process, input, output };
        server.send(&json!({ "id": 1, "method": "initialize", "params": { "capabilities": {} } }))?;
        let _ = server.read()?;
        Ok(server)
    }

    fn send(&mut self, message: &Value) -> Result<(), Error> {
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        self.input.flush()
    }

    fn read(&mut self) -> Result<Value, Error> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the server ended"));
            }
            match line.trim().strip_prefix("Content-Length: ") {
                Some(value) => length = value.parse().unwrap_or(0),
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Waits for the diagnostics, and says how many there are.
    fn told(&mut self) -> Result<usize, Error> {
        loop {
            let message = self.read()?;
            if message["method"] == "textDocument/publishDiagnostics" {
                return Ok(message["params"]["diagnostics"].as_array().map_or(0, Vec::len));
            }
        }
    }

    /// CPU time so far, in milliseconds.
    fn cpu(&self) -> Result<f64, Error> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // Behind the name, which ends with the last parenthesis: user time is the twelfth field, system time the next.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
        let sum = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
        sum.map(|ticks| ticks * 1e3 / TICKS).ok_or_else(|| Error::other("/proc says no CPU time"))
    }
}

/// Changes the run's length back and forth, so that advice comes and goes; CPU time of a change and median wait.
fn measure(text: &str, changes: usize) -> Result<(f64, Duration), Error> {
    let mut server = Server::start()?;
    let document = json!({ "uri": URI, "languageId": "kdl", "version": 1, "text": text });
    server.send(&json!({ "method": "textDocument/didOpen", "params": { "textDocument": document } }))?;
    let mut told = server.told()?;
    let line = text.lines().position(|line| line.starts_with("schedule")).unwrap_or_default();
    let before = server.cpu()?;
    let mut waits = Vec::new();
    for number in 0..changes.max(2) {
        // A warm-up of 8 steps or of 80; the run has 32.
        let start = "schedule \"cosine\" warmup=8".len();
        let end = if number % 2 == 0 { start } else { start + 1 };
        let range = json!({ "start": { "line": line, "character": start }, "end": { "line": line, "character": end } });
        let edits = json!([{ "range": range, "text": if number % 2 == 0 { "0" } else { "" } }]);
        let parameters =
            json!({ "textDocument": { "uri": URI, "version": number + 2 }, "contentChanges": edits });
        let watch = Instant::now();
        server.send(&json!({ "method": "textDocument/didChange", "params": parameters }))?;
        let found = server.told()?;
        waits.push(watch.elapsed());
        if found == told {
            return Err(Error::other(format!("the change {number} changed nothing")));
        }
        told = found;
    }
    let spent = (server.cpu()? - before) / waits.len() as f64;
    drop(server.input);
    let _ = server.process.wait();
    waits.sort();
    Ok((spent, waits[waits.len() / 2]))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let changes = words.iter().position(|word| word == "--changes");
    let changes = changes.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(20);
    let mut slow = false;
    for (name, text) in [("500 lines", longest()), ("gpt2-xl", largest())] {
        match measure(&text, changes) {
            Ok((spent, wait)) => {
                slow |= spent > LIMIT;
                println!(
                    "{name:<10} {spent:>6.1} ms of CPU time, {:>6.1} ms to wait",
                    wait.as_secs_f64() * 1e3
                );
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                slow = true;
            }
        }
    }
    if slow { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
