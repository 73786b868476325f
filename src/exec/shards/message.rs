//! What goes over a pipe: frames and their content, all numbers little endian.

use super::exchange::Order;
use crate::digest::Digest;
use crate::exec::cpu::buffer::Buffer;
use std::io::{Error, ErrorKind, Read};

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From a worker: it is ready; its run id.
    Ready,
    /// From a worker: it cannot go on; JSON.
    Fault,
    /// From the leader: persistent values.
    State,
    /// From the leader: a step is to be done.
    Step,
    /// From a worker: the digest of its parameters, then places of the tree with their sums.
    Sums,
    /// From the leader: the sum over all shards.
    Total,
    /// From the leader: what the first shard left.
    Given,
}

const KINDS: [Kind; 7] =
    [Kind::Ready, Kind::Fault, Kind::State, Kind::Step, Kind::Sums, Kind::Total, Kind::Given];
/// Kind, step, length.
const HEAD: usize = 1 + 8 + 8;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// The step that it belongs to, from 0.
    pub step: u64,
    /// What it says.
    pub content: Vec<u8>,
}

impl Frame {
    /// A frame whose content is written by `write`.
    pub fn of(kind: Kind, step: u64, write: impl FnOnce(&mut Writer)) -> Self {
        let mut writer = Writer(Vec::new());
        write(&mut writer);
        Self { kind, step, content: writer.0 }
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[0] = self.kind as u8;
        head[1..9].copy_from_slice(&self.step.to_le_bytes());
        head[9..].copy_from_slice(&(self.content.len() as u64).to_le_bytes());
        head
    }

    /// As it travels.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.content.len() + 32);
        bytes.extend(self.head());
        bytes.extend(&self.content);
        let digest = Digest::of_bytes(&bytes);
        bytes.extend(digest.0);
        bytes
    }

    /// The next frame; `None` where the other end closed the pipe between two frames.
    ///
    /// # Errors
    /// Those of the pipe; `InvalidData` for bytes that do not match their digest.
    pub fn read(from: &mut dyn Read) -> std::io::Result<Option<Self>> {
        let mut head = [0; HEAD];
        if from.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..])?;
        let number = |range: std::ops::Range<usize>| {
            head[range].try_into().map(u64::from_le_bytes).unwrap_or_default()
        };
        let (step, length) = (number(1..9), number(9..17));
        let invalid = |what: &str| Error::new(ErrorKind::InvalidData, what.to_owned());
        // Room is made for what comes, not for what a damaged length says.
        let mut bytes = head.to_vec();
        from.take(length).read_to_end(&mut bytes)?;
        if ((bytes.len() - HEAD) as u64) < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut digest = [0; 32];
        from.read_exact(&mut digest)?;
        if Digest::of_bytes(&bytes) != Digest(digest) {
            return Err(invalid("its bytes do not match their digest"));
        }
        let kind = *KINDS.get(head[0] as usize).ok_or_else(|| invalid("it is of no known kind"))?;
        bytes.drain(..HEAD);
        Ok(Some(Self { kind, step, content: bytes }))
    }
}

/// Content that is being written.
pub struct Writer(Vec<u8>);

impl Writer {
    /// A digest.
    pub fn digest(&mut self, digest: &Digest) {
        self.0.extend(digest.0);
    }

    /// A small number.
    pub fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    /// A list of floats.
    pub fn floats(&mut self, values: &[f32]) {
        self.0.extend((values.len() as u64).to_le_bytes());
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn integers(&mut self, values: &[i32]) {
        self.0.extend((values.len() as u64).to_le_bytes());
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.0.extend(text.bytes());
    }
}

/// Content that is being read; `None` where it is not what is asked for.
pub struct Content<'a>(pub &'a [u8]);

impl<'a> Content<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A digest.
    pub fn digest(&mut self) -> Option<Digest> {
        self.take(32)?.try_into().ok().map(Digest)
    }

    /// A small number.
    pub fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn words(&mut self) -> Option<impl Iterator<Item = [u8; 4]> + use<'a>> {
        let length = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        let bytes = self.take(usize::try_from(length).ok()?.checked_mul(4)?)?;
        Some(bytes.as_chunks::<4>().0.iter().copied())
    }

    /// A list of floats.
    pub fn floats(&mut self) -> Option<Vec<f32>> {
        Some(self.words()?.map(f32::from_le_bytes).collect())
    }

    fn integers(&mut self) -> Option<Vec<i32>> {
        Some(self.words()?.map(i32::from_le_bytes).collect())
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}

/// An order as a frame.
pub fn order(order: &Order) -> Frame {
    match order {
        Order::State(cells) => Frame::of(Kind::State, 0, |content| {
            for (name, buffer) in cells {
                content.text(name);
                match buffer {
                    Buffer::Float(values) => {
                        content.number(0);
                        content.floats(values);
                    }
                    Buffer::Integer(values) => {
                        content.number(1);
                        content.integers(values);
                    }
                }
            }
        }),
        Order::Step { number, stage, rate, group_rates } => Frame::of(Kind::Step, *number, |content| {
            content.number(*stage);
            content.number(rate.to_bits());
            for (group, rate) in group_rates {
                content.number(*group);
                content.number(rate.to_bits());
            }
        }),
    }
}

/// The order that a frame is; `None` for any other.
pub fn read_order(frame: &Frame) -> Option<Order> {
    let mut content = Content(&frame.content);
    match frame.kind {
        Kind::State => {
            let mut cells = Vec::new();
            while !content.is_empty() {
                let name = content.text()?;
                let buffer = match content.number()? {
                    0 => Buffer::of(content.floats()?),
                    _ => Buffer::Integer(content.integers()?),
                };
                cells.push((name, buffer));
            }
            Some(Order::State(cells))
        }
        Kind::Step => {
            let stage = content.number()?;
            let rate = f32::from_bits(content.number()?);
            let mut group_rates = Vec::new();
            while !content.is_empty() {
                group_rates.push((content.number()?, f32::from_bits(content.number()?)));
            }
            Some(Order::Step { number: frame.step, stage, rate, group_rates })
        }
        _ => None,
    }
}
