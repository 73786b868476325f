//! A machine with a fault, for tests of whole commands: one bit of one op's result is another one, at one step, in the kernels of the
//! machine's own instruction set.
//!
//! The test that starts a process says the fault in an environment variable. Only the program of the tests has this.
#![expect(clippy::disallowed_methods, clippy::print_stderr, reason = "two processes of one test speak")]

use super::buffer::Buffer;
use super::engine::Engine;
use super::tap::{Seen, SharedTap, Tap};
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::graph::{DType, Node, Op, StepGraph};
use std::sync::{Arc, Mutex};

/// Holds `STEP PART SHARE`: the step from 1, `forward`, `backward` or `update`, and how far into that part the op is, from 0 to 1.
pub const VARIABLE: &str = "AMP_TEST_FAULT";

struct Fault {
    /// The step, from 0.
    step: u64,
    node: Node,
    done: bool,
}

/// Brings the fault that the environment says to an engine whose micro-batches are steps.
pub(super) fn bring(engine: &mut Engine) {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let words: Vec<&str> = text.split(' ').collect();
    let [step, part, share] = words[..] else { panic!("a fault is `STEP PART SHARE`") };
    let node = engine.step_graph(0).map(|graph| node(graph, part, share.parse().expect("a share")));
    let step = step.parse::<u64>().expect("a step") - 1;
    let fault = node.map(|node| Arc::new(Mutex::new(Fault { step, node, done: false })) as SharedTap);
    fault.into_iter().for_each(|fault| engine.add_tap(fault));
}

/// The op so far into a part of the step, among those with a float result.
fn node(graph: &StepGraph, part: &str, share: f64) -> Node {
    let nodes = match part {
        "forward" => &graph.micro[..graph.forward_nodes],
        "backward" => &graph.micro[graph.forward_nodes..],
        "update" => &graph.update,
        _ => panic!("no part is called `{part}`"),
    };
    // A reshape is the same memory, and is not run.
    let runs =
        |node: &&Node| graph.value(node.outputs[0]).dtype != DType::I32 && !matches!(node.op, Op::Reshape);
    let floats: Vec<&Node> = nodes.iter().filter(runs).collect();
    floats[((floats.len() - 1) as f64 * share) as usize].clone()
}

impl Tap for Fault {
    fn before(&mut self, _seen: &Seen<'_>, _outputs: &[Buffer]) {}

    fn after(&mut self, seen: &Seen<'_>, outputs: &mut [Buffer]) {
        let here = (seen.node.op.kind(), &seen.node.outputs) == (self.node.op.kind(), &self.node.outputs);
        let now = seen.pass != "evaluation" && seen.call.position == self.step && !self.done;
        if !(here && now && seen.call.isa == Isa::detect()) {
            return;
        }
        let value = seen.call.results[0];
        // The last bit that the format has.
        let bit = match value.dtype.format() {
            Some(Format::F16) => 1 << 13,
            Some(Format::Bf16) => 1 << 16,
            _ => 1,
        };
        let values = outputs[0].floats_mut(value.elements());
        let middle = values.len() / 2;
        let (before, after) = values.split_at_mut(middle);
        let mut usual = after.iter_mut().chain(before).filter(|value| value.is_normal());
        if let Some(value) = usual.next() {
            *value = f32::from_bits(value.to_bits() ^ bit);
            self.done = true;
            eprintln!("flipped {} {}", seen.node.op.kind(), seen.call.results[0].name);
        }
    }
}
