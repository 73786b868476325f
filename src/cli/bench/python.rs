//! A Python process that serves a PyTorch program: a JSON object a line in, one out.

use super::super::{Exit, Failure};
use crate::diag::codes;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// Most lines of what a process said that a message shows.
const LINES: usize = 12;

/// A process that answers; it ends with this value.
pub struct Python {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    said: Option<JoinHandle<String>>,
}

/// Asks a Python for its torch: the version, and whether it can reach a GPU.
///
/// # Errors
/// AMP0806: no such program, or no torch in it.
pub fn version(python: &str) -> Result<(String, bool), Failure> {
    const PROGRAM: &str = "import torch; print(torch.__version__, torch.cuda.is_available())";
    let output = command(python).args(["-c", PROGRAM]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| missing(&format!("`{python}` could not be started: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        [version, cuda] if output.status.success() => Ok(((*version).to_owned(), *cuda == "True")),
        _ => {
            let said = last_lines(&String::from_utf8_lossy(&output.stderr), 1);
            let why = if said.is_empty() { output.status.to_string() } else { said };
            Err(missing(&format!("`{python}` has no PyTorch that can be imported: {why}")))
        }
    }
}

/// AMP0806 with these words.
pub fn missing(what: &str) -> Failure {
    Failure::new(Exit::Machine, what).code(codes::TORCH_MISSING).help(
        "`python3 -m venv torch && torch/bin/pip install torch` makes one; name it with `--python torch/bin/python3`",
    )
}

#[expect(clippy::disallowed_methods, reason = "PyTorch is another program")]
fn command(python: &str) -> Command {
    Command::new(python)
}

impl Python {
    /// Starts a program with these arguments and reads how it greets.
    ///
    /// # Errors
    /// AMP0807.
    pub fn start(python: &str, arguments: &[&str]) -> Result<(Self, Value), Failure> {
        let streams = || (Stdio::piped(), Stdio::piped(), Stdio::piped());
        let (stdin, stdout, stderr) = streams();
        let child = command(python).args(arguments).stdin(stdin).stdout(stdout).stderr(stderr).spawn();
        let mut child =
            child.map_err(|error| missing(&format!("`{python}` could not be started: {error}")))?;
        let (Some(to), Some(from), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure::new(Exit::Machine, format!("`{python}` has no standard streams")));
        };
        let said = Some(std::thread::spawn(move || tail(errors)));
        let mut process = Self { child, to, from: BufReader::new(from), said };
        let greeting = process.answer()?;
        Ok((process, greeting))
    }

    /// Asks for one thing and waits for the answer.
    ///
    /// # Errors
    /// AMP0807.
    pub fn ask(&mut self, what: &str, count: u64) -> Result<Value, Failure> {
        // A process that is gone is told of by its answer, which is none.
        let _ = writeln!(self.to, "{}", json!({ what: count })).and_then(|()| self.to.flush());
        self.answer()
    }

    fn answer(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        let read = self.from.read_line(&mut line);
        match serde_json::from_str(&line) {
            Ok(answer) if read.is_ok() => Ok(answer),
            _ => Err(self.failed(line.is_empty())),
        }
    }

    /// What a process that did not answer said.
    fn failed(&mut self, ended: bool) -> Failure {
        if !ended {
            let _ = self.child.kill();
        }
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        let mut message = format!("PyTorch's step ended ({status})");
        if !said.is_empty() {
            message.push_str(&format!(":\n  {}", said.replace('\n', "\n  ")));
        }
        let help = if said.contains("out of memory") {
            "both programs are on the device at once; lower `data batch=`, or `--device-memory` for amp's part"
        } else {
            "keep the program with `--keep-script FILE.py`, run it by itself, and try another `--torch-mode`"
        };
        Failure::new(Exit::Machine, message).code(codes::TORCH_FAILED).help(help)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a stream, read to its end so that nobody waits for room in the pipe.
fn tail(stream: impl Read) -> String {
    let mut last = VecDeque::new();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        last.push_back(String::from_utf8_lossy(&line).into_owned());
        if last.len() > LINES {
            last.pop_front();
        }
    }
    Vec::from(last).join("\n").trim().to_owned()
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::{last_lines, tail};

    #[test]
    fn of_much_that_was_said_the_end_is_told() {
        let text: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let found = tail(text.as_bytes());
        assert!(found.starts_with("line 88\n") && found.ends_with("line 99"), "{found}");
        assert_eq!(last_lines("a\nb\n", 1), "b");
    }
}
