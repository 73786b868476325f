//! An exchange between processes over pipes or sockets: a star, whose middle is the leader.
//!
//! A frame is its kind, the step, the length, the content, and the SHA-256 of all these: what was damaged on its way is refused and
//! enters no sum. The leader adds up what comes in the order of the tree, whoever was first, and sends the sums back.

use super::exchange::{Exchange, Order, total};
use super::message::{Content, Frame, Kind, order, read_order};
use super::tree::{Place, Tree};
use crate::diag::Code;
use crate::digest::Digest;
use crate::exec::backend::Seal;
use crate::exec::fault::ExecFault;
use std::io::{Read, Write};
use std::ops::Range;

/// The shards of a worker: they are shared out in order, as evenly as they go.
pub fn share(shards: u32, workers: u32, worker: u32) -> Range<u32> {
    let edge = |worker: u32| (u64::from(worker) * u64::from(shards) / u64::from(workers.max(1))) as u32;
    edge(worker)..edge(worker + 1)
}

/// Both directions to somebody else.
pub struct Pipe {
    /// Where frames go.
    pub to: Box<dyn Write + Send>,
    /// Where they come from.
    pub from: Box<dyn Read + Send>,
}

/// A worker, as the leader has it.
pub struct Link {
    /// Its number, from 1.
    pub worker: u32,
    /// Both directions.
    pub pipe: Pipe,
    /// Says how it ended, when it is gone.
    pub ended: Box<dyn FnMut() -> String + Send>,
}

/// The one that has the first shards and adds up.
pub struct Leader {
    shards: u32,
    links: Vec<Link>,
}

impl Leader {
    /// Over the links to workers 1, 2, …
    pub fn new(shards: u32, links: Vec<Link>) -> Self {
        Self { shards, links }
    }

    /// Waits until every worker is ready.
    ///
    /// # Errors
    /// Code 0717 when one is gone; its own fault when it has one; 0718 when it is about to train something else.
    pub fn greet(&mut self, run_id: &Digest) -> Result<(), ExecFault> {
        let workers = self.links.len() + 1;
        for link in &mut self.links {
            let frame = link.receive(Kind::Ready, 0, workers)?;
            if frame.content != run_id.0 {
                let worker = link.worker;
                return Err(ExecFault::exchange(format!("worker {worker} has another run id than {run_id}")));
            }
        }
        Ok(())
    }

    fn send_all(&mut self, frame: &Frame) -> Result<(), ExecFault> {
        let workers = self.links.len() + 1;
        let bytes = frame.bytes();
        self.links.iter_mut().try_for_each(|link| link.send(&bytes, workers))
    }
}

impl Link {
    fn send(&mut self, bytes: &[u8], workers: usize) -> Result<(), ExecFault> {
        let sent = self.pipe.to.write_all(bytes).and_then(|()| self.pipe.to.flush());
        let Err(error) = sent else { return Ok(()) };
        // It may have said why before it went.
        Err(match Frame::read(&mut self.pipe.from) {
            Ok(Some(frame)) if frame.kind == Kind::Fault => self.fault(&frame, workers),
            _ => self.lost(&error.to_string(), workers),
        })
    }

    fn receive(&mut self, kind: Kind, step: u64, workers: usize) -> Result<Frame, ExecFault> {
        match Frame::read(&mut self.pipe.from) {
            Ok(Some(frame)) if frame.kind == Kind::Fault => Err(self.fault(&frame, workers)),
            Ok(Some(frame)) if (frame.kind, frame.step) == (kind, step) => Ok(frame),
            Ok(Some(frame)) => Err(ExecFault::exchange(format!(
                "worker {} sent {:?} of step {}, expected {kind:?} of step {}",
                self.worker,
                frame.kind,
                frame.step + 1,
                step + 1
            ))),
            Ok(None) => Err(self.lost("it ended", workers)),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(ExecFault::exchange(format!("what worker {} sent is damaged: {error}", self.worker)))
            }
            Err(error) => Err(self.lost(&error.to_string(), workers)),
        }
    }

    fn lost(&mut self, how: &str, workers: usize) -> ExecFault {
        let ended = (self.ended)();
        ExecFault::worker_lost(self.worker, workers, if ended.is_empty() { how } else { &ended })
    }

    /// A fault that the worker met, as if it had been met here.
    fn fault(&self, frame: &Frame, workers: usize) -> ExecFault {
        let told: serde_json::Value = serde_json::from_slice(&frame.content).unwrap_or_default();
        let text = |name: &str| told[name].as_str().map(str::to_owned);
        let code = text("code").and_then(|code| Code::parse(&code));
        let code = code.unwrap_or(crate::diag::codes::RUN_WORKER_LOST);
        let message = text("message").unwrap_or_else(|| "it failed".to_owned());
        let message = format!("worker {} of {workers} (counted from 0): {message}", self.worker);
        ExecFault { help: text("help"), ..ExecFault::new(code, message) }
    }
}

impl Exchange for Leader {
    fn own(&self) -> Range<u32> {
        share(self.shards, self.links.len() as u32 + 1, 0)
    }

    fn is_shared(&self) -> bool {
        !self.links.is_empty()
    }

    fn agree(&mut self, next: Option<Order>) -> Result<Option<Order>, ExecFault> {
        if let Some(next) = &next {
            self.send_all(&order(next))?;
        }
        Ok(next)
    }

    fn reduce(&mut self, step: u64, seal: Option<&Seal>, mut known: Tree) -> Result<Vec<f32>, ExecFault> {
        let (workers, here) = (self.links.len() + 1, seal.map(Seal::digest));
        for link in &mut self.links {
            let frame = link.receive(Kind::Sums, step, workers)?;
            let damaged = || ExecFault::exchange(format!("worker {} sent no sums", link.worker));
            let mut content = Content(&frame.content);
            let seal = content.digest().ok_or_else(damaged)?;
            if Some(seal) != here {
                let worker = link.worker;
                return Err(ExecFault::exchange(format!(
                    "worker {worker} computed step {} with other parameters than worker 0",
                    step + 1
                )));
            }
            while !content.is_empty() {
                let place = Place {
                    level: content.number().ok_or_else(damaged)?,
                    index: content.number().ok_or_else(damaged)?,
                };
                known.add(place, content.floats().ok_or_else(damaged)?);
            }
        }
        let sums = total(step, known)?;
        self.send_all(&Frame::of(Kind::Total, step, |content| content.floats(&sums)))?;
        Ok(sums)
    }

    fn broadcast(&mut self, step: u64, values: Vec<f32>) -> Result<Vec<f32>, ExecFault> {
        self.send_all(&Frame::of(Kind::Given, step, |content| content.floats(&values)))?;
        Ok(values)
    }
}

/// Any other.
pub struct Follower {
    own: Range<u32>,
    pipe: Pipe,
}

impl Follower {
    /// A worker of several, from 1, at its end of the pipe.
    pub fn new(shards: u32, workers: u32, worker: u32, pipe: Pipe) -> Self {
        Self { own: share(shards, workers, worker), pipe }
    }

    /// Tells the leader that all is ready.
    ///
    /// # Errors
    /// Code 0717 when the leader is gone.
    pub fn greet(&mut self, run_id: &Digest) -> Result<(), ExecFault> {
        self.send(&Frame { kind: Kind::Ready, step: 0, content: run_id.0.to_vec() })
    }

    fn send(&mut self, frame: &Frame) -> Result<(), ExecFault> {
        let sent = self.pipe.to.write_all(&frame.bytes()).and_then(|()| self.pipe.to.flush());
        sent.map_err(|error| gone(&error.to_string()))
    }

    fn floats(&mut self, kind: Kind, step: u64) -> Result<Vec<f32>, ExecFault> {
        let frame = Frame::read(&mut self.pipe.from).map_err(|error| gone(&error.to_string()))?;
        match frame {
            Some(frame) if (frame.kind, frame.step) == (kind, step) => Content(&frame.content)
                .floats()
                .ok_or_else(|| ExecFault::exchange("the leader sent no numbers")),
            Some(frame) => {
                Err(ExecFault::exchange(format!("the leader sent {:?}, expected {kind:?}", frame.kind)))
            }
            None => Err(gone("it ended")),
        }
    }
}

fn gone(how: &str) -> ExecFault {
    ExecFault::worker_lost(0, 1, how)
}

impl Exchange for Follower {
    fn own(&self) -> Range<u32> {
        self.own.clone()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn agree(&mut self, _: Option<Order>) -> Result<Option<Order>, ExecFault> {
        match Frame::read(&mut self.pipe.from).map_err(|error| gone(&error.to_string()))? {
            Some(frame) => {
                read_order(&frame).map(Some).ok_or_else(|| ExecFault::exchange("the leader gave no order"))
            }
            // A leader that has nothing more to say closes the pipe, and one that is killed does.
            None => Ok(None),
        }
    }

    fn reduce(&mut self, step: u64, seal: Option<&Seal>, known: Tree) -> Result<Vec<f32>, ExecFault> {
        let seal = seal.map_or(Digest([0; 32]), Seal::digest);
        self.send(&Frame::of(Kind::Sums, step, |content| {
            content.digest(&seal);
            for (place, values) in known.sums() {
                content.number(place.level);
                content.number(place.index);
                content.floats(values);
            }
        }))?;
        self.floats(Kind::Total, step)
    }

    fn broadcast(&mut self, step: u64, _: Vec<f32>) -> Result<Vec<f32>, ExecFault> {
        self.floats(Kind::Given, step)
    }
}

/// Tells the leader why a worker cannot go on.
///
/// # Errors
/// Those of the pipe.
pub fn tell_fault(
    to: &mut dyn Write,
    code: Option<Code>,
    message: &str,
    help: Option<&str>,
) -> std::io::Result<()> {
    let told =
        serde_json::json!({ "code": code.map(|code| code.to_string()), "message": message, "help": help });
    to.write_all(&Frame { kind: Kind::Fault, step: 0, content: told.to_string().into_bytes() }.bytes())?;
    to.flush()
}
