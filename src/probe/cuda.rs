//! CUDA of a build and of a machine, as a value: what was found, and whether it is what a plan asks for.
//!
//! **Invariant: a machine without a GPU, a driver or a library is a finding, not a fault.**

use super::environment::Difference;
use crate::digest::{Digest, Hasher};
use crate::plan;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// What there is of CUDA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cuda {
    /// amp was built without it.
    NotInThisBuild,
    /// amp was built with it.
    InThisBuild(Box<Parts>),
}

/// What a build with CUDA finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The first device, or why there is none.
    pub device: Result<Device, String>,
    /// Version of the driver, such as `580.159.03`, if the system tells it.
    pub driver: Option<String>,
    /// The libraries of CUDA that results can depend on, in the order of `LIBRARIES`.
    pub libraries: Vec<Library>,
    /// amp's compiled kernels, sorted; empty until digests are asked for.
    pub kernels: Vec<Kernels>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As the driver calls it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Memory of the device.
    pub memory_bytes: u64,
}

/// A library as this process loads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name that pins use: `cuda` is the runtime, then `cublas`, `cublaslt`, `cudnn`, `nccl`.
    pub name: &'static str,
    /// Its version, such as `13.1.0`; `None` when it is not there.
    pub version: Option<String>,
    /// The file that was loaded.
    pub path: Option<String>,
    /// Digest of the file, once it is asked for.
    pub digest: Option<Digest>,
}

/// A compiled file of amp's kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernels {
    /// The file's name without its ending.
    pub file: &'static str,
    /// `sm_80`, `sm_90` or `compute_90`.
    pub target: &'static str,
    /// Digest of the image.
    pub digest: Digest,
}

impl fmt::Display for Cuda {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInThisBuild => formatter.write_str("no CUDA in this build"),
            Self::InThisBuild(parts) => match &parts.device {
                Ok(device) => write!(formatter, "{device}"),
                Err(reason) => write!(formatter, "no device: {reason}"),
            },
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(
            formatter,
            "{}, capability {major}.{minor}, {} multiprocessors",
            self.name, self.multiprocessors
        )
    }
}

impl fmt::Display for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(version) = &self.version else { return formatter.write_str("not found") };
        formatter.write_str(version)?;
        self.path.iter().try_for_each(|path| write!(formatter, ", {path}"))?;
        self.digest.iter().try_for_each(|digest| write!(formatter, ", {digest}"))
    }
}

impl Parts {
    /// Which library makes convolutions of a run under the guarantee `device`; under `portable` amp's kernels do.
    pub fn convolutions(&self) -> &'static str {
        let found =
            |name| self.libraries.iter().any(|library| library.name == name && library.version.is_some());
        match (found("cudnn"), found("cublas")) {
            (true, _) => "by cuDNN",
            (false, true) => "by cuBLAS, as products of unfolded images (cuDNN is not found)",
            (false, false) => "by nothing (neither cuDNN nor cuBLAS is found)",
        }
    }

    /// For each target of amp's kernels: how many files there are, and one digest of theirs in order.
    pub fn kernel_sets(&self) -> BTreeMap<&'static str, (usize, Digest)> {
        let mut sets: BTreeMap<&'static str, (usize, Hasher)> = BTreeMap::new();
        for image in &self.kernels {
            let (count, hasher) = sets.entry(image.target).or_insert_with(|| (0, Hasher::new()));
            *count += 1;
            hasher.raw(&image.digest.0);
        }
        sets.into_iter().map(|(target, (count, hasher))| (target, (count, hasher.finish()))).collect()
    }
}

/// Whether a version is what a pin says: equal, or more exact than it. `13.1.0` is `13.1`, and is not `13.10`.
fn is_version(found: &str, pinned: &str) -> bool {
    found.strip_prefix(pinned).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Cuda {
    /// In what this machine is not what a plan for the target `cuda` asks for. Pins of amp itself are not looked at.
    pub(super) fn satisfies(&self, wanted: &plan::Environment) -> Vec<Difference> {
        let no_device = || {
            vec![Difference {
                what: "target".to_owned(),
                wanted: "cuda".to_owned(),
                found: format!("cpu ({self})"),
            }]
        };
        let Self::InThisBuild(parts) = self else { return no_device() };
        let Ok(device) = &parts.device else { return no_device() };
        let mut differences = Vec::new();
        let mut add = |what: &str, wanted: &str, found: &str| {
            let (what, wanted, found) = (what.to_owned(), wanted.to_owned(), found.to_owned());
            differences.push(Difference { what, wanted, found });
        };
        let capability = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let found = capability(device.capability);
        if let Some(meant) = &wanted.device
            && meant.capability != device.capability
        {
            let wanted = format!("{} ({})", capability(meant.capability), meant.name);
            add("capability", &wanted, &format!("{found} ({})", device.name));
        }
        for (name, version) in wanted.pins.iter().filter(|(name, _)| *name != "amp") {
            let what = format!("pin {name}");
            match name.as_str() {
                "capability" if *version == found => {}
                "capability" => add(&what, version, &found),
                "driver" => match &parts.driver {
                    Some(driver) if is_version(driver, version) => {}
                    driver => {
                        add(&what, version, driver.as_deref().unwrap_or("a driver that tells no version"))
                    }
                },
                _ => match parts.libraries.iter().find(|library| library.name == name) {
                    Some(library) => match &library.version {
                        Some(found) if is_version(found, version) => {}
                        found => add(&what, version, found.as_deref().unwrap_or("no such library")),
                    },
                    None => add(&what, version, "no such part on the target `cuda`"),
                },
            }
        }
        differences
    }

    /// The part of the environment's JSON: null in a build without CUDA.
    pub(super) fn to_json(&self) -> Value {
        let Self::InThisBuild(parts) = self else { return Value::Null };
        let device = match &parts.device {
            Ok(device) => json!({
                "capability": format!("{}.{}", device.capability.0, device.capability.1),
                "memory_bytes": device.memory_bytes,
                "multiprocessors": device.multiprocessors,
                "name": device.name,
            }),
            Err(_) => Value::Null,
        };
        let digest = |digest: &Option<Digest>| digest.as_ref().map(ToString::to_string);
        let libraries: Vec<Value> = parts
            .libraries
            .iter()
            .map(|library| {
                json!({
                    "digest": digest(&library.digest),
                    "name": library.name,
                    "path": library.path,
                    "version": library.version,
                })
            })
            .collect();
        let kernels: Vec<Value> = parts
            .kernels
            .iter()
            .map(|image| json!({ "digest": image.digest.to_string(), "file": image.file, "target": image.target }))
            .collect();
        json!({
            "device": device,
            "driver": parts.driver,
            "kernels": kernels,
            "libraries": libraries,
            "no_device_because": parts.device.as_ref().err(),
        })
    }
}
