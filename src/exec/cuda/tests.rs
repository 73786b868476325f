//! The CUDA backend against the CPU backend: every instruction on the same operands, and whole steps.

mod arithmetic;

use super::dispatch::Arithmetic;
use super::emulated::Emulated;
use super::engine::Engine;
use crate::arithmetic::Isa;
use crate::autodiff::samples;
use crate::exec::cpu;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::engine::Batch;
use crate::exec::cpu::threads::Threads;
use crate::graph::DType;

fn threads() -> Threads {
    Threads::new(1).expect("one thread")
}
