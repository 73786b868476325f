//! The environment as a value, and whether it is what a plan asks for.

use super::Cuda;
use super::linux;
use crate::arithmetic::{Isa, float_environment_is_ieee};
use crate::plan;
use serde_json::{Value, json};
use std::fmt;

/// What this machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Version of amp.
    pub amp: String,
    /// Model name of the processor, if the system tells it.
    pub cpu: Option<String>,
    /// Architecture, as Rust names it: `x86_64`, `aarch64`.
    pub architecture: String,
    /// Threads that may run at once, as the system limits them.
    pub cores: usize,
    /// Main memory in bytes, if the system tells it.
    pub memory_bytes: Option<u64>,
    /// Instruction sets that amp has kernels for and this machine has, slowest first.
    pub isas: Vec<Isa>,
    /// Kind of operating system, as Rust names it: `linux`, `macos`.
    pub os: String,
    /// Name and version of the system, if it tells them.
    pub system: Option<String>,
    /// Version of the kernel, if the system tells it.
    pub kernel: Option<String>,
    /// Whether this process rounds to nearest and keeps subnormal numbers.
    pub ieee_floats: bool,
    /// CUDA in this build and on this machine.
    pub cuda: Cuda,
}

/// Something that a plan asks for and this machine is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What: `target`, `pin cublas`, `float environment`.
    pub what: String,
    /// What was asked for.
    pub wanted: String,
    /// What this machine has.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: found {}, expected {}", self.what, self.found, self.wanted)
    }
}

impl Environment {
    /// Asks the machine.
    pub fn probe() -> Self {
        let kernel = linux::read("/proc/sys/kernel/osrelease").trim().to_owned();
        Self {
            amp: env!("CARGO_PKG_VERSION").to_owned(),
            cpu: linux::cpu_model(&linux::read("/proc/cpuinfo")),
            architecture: std::env::consts::ARCH.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: linux::memory_bytes(&linux::read("/proc/meminfo")),
            isas: Isa::available(),
            os: std::env::consts::OS.to_owned(),
            system: linux::system_name(&linux::read("/etc/os-release")),
            kernel: (!kernel.is_empty()).then_some(kernel),
            ieee_floats: float_environment_is_ieee(),
            cuda: cuda(),
        }
    }

    /// Adds the digests of the CUDA libraries that this process loads and of amp's kernels for them. They are read whole, which
    /// takes a second or so; in a build without CUDA there is nothing to do.
    #[must_use]
    #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "there is nothing to add"))]
    pub fn with_digests(mut self) -> Self {
        #[cfg(feature = "cuda")]
        if let Cuda::InThisBuild(parts) = &mut self.cuda {
            super::libraries::add_digests(parts);
        }
        self
    }

    /// The processor's name, or its architecture when the system does not tell the name.
    pub fn cpu_name(&self) -> &str {
        self.cpu.as_deref().unwrap_or(&self.architecture)
    }

    /// Returns in what this machine is not what a plan asks for; nothing means that the run may begin.
    pub fn satisfies(&self, wanted: &plan::Environment) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut add = |what: &str, wanted: &str, found: &str| {
            let (what, wanted, found) = (what.to_owned(), wanted.to_owned(), found.to_owned());
            differences.push(Difference { what, wanted, found });
        };
        if !self.ieee_floats {
            let wanted = "rounding to nearest with subnormal numbers kept";
            add("float environment", wanted, "flush-to-zero or another rounding mode");
        }
        match wanted.target.as_str() {
            "cpu" => {
                for (name, version) in &wanted.pins {
                    match name.as_str() {
                        // The one thing that can be pinned on a processor: amp itself.
                        "amp" if *version == self.amp => {}
                        "amp" => add("pin amp", version, &self.amp),
                        _ => add(&format!("pin {name}"), version, "no such part on the target `cpu`"),
                    }
                }
            }
            "cuda" => {
                if let Some(version) = wanted.pins.get("amp").filter(|version| **version != self.amp) {
                    add("pin amp", version, &self.amp);
                }
                differences.extend(self.cuda.satisfies(wanted));
            }
            target => add("target", target, &format!("cpu ({})", self.cuda)),
        }
        differences
    }

    /// The environment as JSON: schema `amp.environment/1`, null for what the system does not tell.
    pub fn to_json(&self) -> Value {
        json!({
            "schema": "amp.environment/1",
            "amp": self.amp,
            "architecture": self.architecture,
            "cores": self.cores,
            "cpu": self.cpu,
            "cuda": self.cuda.to_json(),
            "ieee_floats": self.ieee_floats,
            "instruction_sets": self.isas.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "kernel": self.kernel,
            "memory_bytes": self.memory_bytes,
            "os": self.os,
            "system": self.system,
        })
    }
}

/// CUDA of this build and this machine.
#[cfg(feature = "cuda")]
fn cuda() -> Cuda {
    Cuda::InThisBuild(Box::new(super::libraries::probe()))
}

/// CUDA of this build: none.
#[cfg(not(feature = "cuda"))]
fn cuda() -> Cuda {
    Cuda::NotInThisBuild
}
