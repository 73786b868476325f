//! The language server: what the compiler knows, shown while a manifest or a module is typed.
//!
//! One loop, no locks: a thread reads messages, the loop answers them in order, and diagnostics are told when no message
//! waits, so that a burst of typing is checked once; where the last check took long, a pause in the typing is waited for.
//! Documents that are open override the disk. The server ends when the client says so or goes away, and at nothing else:
//! what cannot be read is answered with an error, and a panic of the compiler (a bug) becomes one too.

mod actions;
mod analysis;
mod answers;
mod capabilities;
mod compiled;
mod completion;
mod definition;
mod documents;
mod faults;
mod hover;
mod library;
mod locate;
mod position;
mod references;
mod rename;
mod scene;
mod server;
mod symbols;
mod target;
mod transport;
mod uri;

use crate::exec::clock::Stopwatch;
use crate::world::World;
use serde_json::Value;
use server::Server;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Duration;
use transport::Incoming;

/// Most messages that wait.
const MAX_WAITING: usize = 1024;
/// A check that takes longer, in seconds, waits for a pause in the typing.
const QUICK: f64 = 0.05;
/// That pause.
const PAUSE: Duration = Duration::from_millis(250);
/// The message cannot be read.
const PARSE_ERROR: i64 = -32700;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As the protocol says: `shutdown`, then `exit`.
    Orderly,
    /// `exit` without `shutdown`, or the client went away.
    Abrupt,
}

/// Speaks with a client until it ends the session. Files are read from `world` and never written, but for a temporary
/// folder with the library's texts.
pub fn serve(input: impl BufRead + Send + 'static, mut output: impl Write, world: &dyn World) -> Ended {
    let (sender, receiver) = sync_channel(MAX_WAITING);
    std::thread::spawn(move || {
        let mut input = input;
        loop {
            let incoming = transport::read(&mut input);
            let end = incoming == Incoming::End;
            if sender.send(incoming).is_err() || end {
                return;
            }
        }
    });
    let mut server = Server::new(world);
    let mut slow = false;
    while let Some(incoming) = next(&receiver, &mut server, &mut output, &mut slow) {
        let replies = match incoming {
            Incoming::Message(message) => server.handle(&message),
            Incoming::Malformed(reason) => {
                vec![transport::answer(&Value::Null, Err((PARSE_ERROR, reason)))]
            }
            Incoming::End => return server.ended().unwrap_or(Ended::Abrupt),
        };
        if !send(&mut output, &replies) {
            return Ended::Abrupt;
        }
        if let Some(ended) = server.ended() {
            return ended;
        }
    }
    Ended::Abrupt
}

/// The next message; when none waits, diagnostics are told first, and `slow` becomes whether finding them took long.
fn next(
    receiver: &Receiver<Incoming>,
    server: &mut Server<'_>,
    output: &mut impl Write,
    slow: &mut bool,
) -> Option<Incoming> {
    let waiting = match receiver.try_recv() {
        Err(TryRecvError::Empty) if *slow && server.has_news() => match receiver.recv_timeout(PAUSE) {
            Err(RecvTimeoutError::Timeout) => Err(TryRecvError::Empty),
            Err(RecvTimeoutError::Disconnected) => Err(TryRecvError::Disconnected),
            Ok(incoming) => Ok(incoming),
        },
        waiting => waiting,
    };
    match waiting {
        Ok(incoming) => Some(incoming),
        Err(TryRecvError::Disconnected) => None,
        Err(TryRecvError::Empty) => {
            if server.has_news() {
                let watch = Stopwatch::start();
                let told = server.publish();
                *slow = watch.seconds() > QUICK;
                if !send(output, &told) {
                    return None;
                }
            }
            receiver.recv().ok()
        }
    }
}

fn send(output: &mut impl Write, messages: &[Value]) -> bool {
    messages.iter().all(|message| transport::write(output, message).is_ok())
}

/// A value as JSON; what cannot be written (which no type of the protocol is) is nothing.
fn to_json(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests;
