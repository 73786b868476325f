//! The algorithms that a run follows: those of its lock's platform node; those of a record, where that is run again.
//!
//! A record says in its unhashed part which it followed, so that it can be repeated wherever it lies and whatever became of the lock.

use super::exit::Exit;
use super::failure::Failure;
use super::{lockfile, runs};
use crate::exec::cuda::device::Device;
use crate::exec::cuda::dispatch::Arithmetic;
use crate::exec::cuda::tuning;
use crate::lock::tuning::{PRODUCT, lines_of};
use crate::lock::{Entry, Lock, Platform, Tuning};
use crate::record::{ALGORITHMS, Record, Unhashed};
use camino::Utf8Path;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Algorithms by platform.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices(BTreeMap<String, Platform>);

impl Choices {
    /// Those of a lock.
    pub fn of_lock(lock: &Lock) -> Self {
        let nodes = lock.platforms.iter();
        Self(
            nodes
                .map(|(name, node)| (name.clone(), of_node(node)))
                .filter(|(_, node)| !is_empty(node))
                .collect(),
        )
    }

    /// Those that a record followed.
    pub fn of_record(record: &Record) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let entry = |value: &Value| {
            let properties = value["properties"].as_object()?.iter();
            let properties = properties.map(|(name, value)| Some((name.clone(), text(value)?)));
            Some(Entry { value: text(&value["value"])?, properties: properties.collect::<Option<_>>()? })
        };
        let lines = record.unhashed.get(ALGORITHMS).and_then(Value::as_object).into_iter().flatten();
        let properties: BTreeMap<String, Entry> =
            lines.filter_map(|(name, value)| Some((name.clone(), entry(value)?))).collect();
        let node = Platform { properties, ..Platform::default() };
        if is_empty(&node) { Self::default() } else { Self([(record.started.platform.clone(), node)].into()) }
    }

    /// Those of a lock or of a record at a path.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn at(path: &Utf8Path) -> Result<Self, Failure> {
        match runs::record_path(path) {
            Some(record) => Ok(Self::of_record(&runs::read_record(&record)?.record)),
            None => Ok(Self::of_lock(&lockfile::required(path)?.1)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lines for a platform.
    pub fn on(&self, platform: &str) -> Option<&Platform> {
        self.0.get(platform)
    }

    /// Lets a device make its products by what was chosen for its platform, and returns what that is. Under the guarantee `portable`
    /// no library makes products, and nothing is followed.
    ///
    /// # Errors
    /// AMP0506 for lines that mean nothing, AMP0603 for choices that this machine cannot follow.
    pub fn follow(
        &self,
        device: &mut dyn Device,
        arithmetic: Arithmetic,
    ) -> Result<Option<Platform>, Failure> {
        let name = device.platform();
        let Some(node) = self.on(&name).filter(|_| arithmetic == Arithmetic::Device) else { return Ok(None) };
        let tuning = Tuning::of(node).map_err(|fault| {
            Failure::new(Exit::Integrity, format!("the algorithms for the platform `{name}`: {fault}"))
                .code(crate::lock::VALUE)
                .help("`amp lock --platform` writes them anew; or take the lock from version control")
        })?;
        if let Some(tuning) = &tuning {
            tuning::follow(device, tuning)?;
        }
        Ok(tuning.map(|_| node.clone()))
    }
}

/// What a record says of the algorithms that its run follows; nothing where it follows none.
pub fn unhashed(followed: Option<&Platform>) -> Unhashed {
    let lines = lines_of(followed).into_iter();
    let lines: Map<String, Value> = lines
        .map(|(name, entry)| {
            (name.to_owned(), json!({ "value": entry.value, "properties": entry.properties }))
        })
        .collect();
    if lines.is_empty() { Unhashed::new() } else { [(ALGORITHMS.to_owned(), Value::Object(lines))].into() }
}

/// The lines of a node that are choices.
fn of_node(node: &Platform) -> Platform {
    let lines = lines_of(Some(node)).into_iter();
    let properties = lines.map(|(name, entry)| (name.to_owned(), entry.clone())).collect();
    Platform { properties, ..Platform::default() }
}

/// How many algorithms a node has.
pub fn count(node: &Platform) -> usize {
    node.properties.keys().filter(|name| name.starts_with(PRODUCT)).count()
}

/// Without a chosen algorithm nothing is followed, whatever was timed.
fn is_empty(node: &Platform) -> bool {
    count(node) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::codes;
    use crate::exec::cuda::emulated::{ALGORITHMS, Emulated};
    use crate::lock::tests::{input, with_platform};
    use crate::lock::{Algorithm, derive, retune};
    use crate::record::{self, Started};

    fn locked(device: &Emulated, algorithm: Algorithm) -> Lock {
        let mut lock = with_platform(derive(input()));
        let on = device.library().expect("it has one");
        let tuning = Tuning { on, products: [("bf16.24x16x40.nt.bias".to_owned(), algorithm)].into() };
        retune(&mut lock, "emulated", &tuning);
        lock
    }

    /// A record of a run that followed the choices, read back from its bytes.
    fn recorded(lock: &Lock, followed: Option<&Platform>) -> Record {
        let started = Started {
            run_id: lock.header.id,
            lock: crate::lock::entries_digest(lock),
            name: "digits".to_owned(),
            platform: "emulated".to_owned(),
            guarantee: "device".to_owned(),
            seed: 42,
            steps: 1,
        };
        let mut text = Vec::new();
        record::Recorder::start(&mut text, started, &unhashed(followed)).expect("memory");
        record::read(crate::diag::FileId(0), &text).expect("own text").0
    }

    #[test]
    fn a_record_says_what_its_run_followed() {
        let Some(mut device) = Emulated::open() else { return };
        let lock = locked(&device, ALGORITHMS[1]);
        let chosen = Choices::of_lock(&lock);
        let followed = chosen.follow(&mut device, Arithmetic::Device).expect("its own choices");
        assert_eq!(device.choices.len(), 1);
        let record = recorded(&lock, followed.as_ref());
        assert_eq!(Choices::of_record(&record), chosen);
        // A run that follows nothing says nothing.
        let none = Choices::default().follow(&mut device, Arithmetic::Device).expect("nothing to follow");
        assert!(none.is_none() && unhashed(None).is_empty());
        assert_eq!(Choices::of_record(&recorded(&lock, None)), Choices::default());
        // No library makes products of the guarantee `portable`.
        assert_eq!(chosen.follow(&mut device, Arithmetic::Portable).expect("nothing to follow"), None);
    }

    #[test]
    fn what_cannot_be_followed_ends_the_run_with_code_3() {
        let Some(mut device) = Emulated::open() else { return };
        let mut lock = locked(&device, ALGORITHMS[3]);
        let failure = Choices::of_lock(&lock).follow(&mut device, Arithmetic::Device).expect_err("refused");
        let Failure::Plain { exit, code, .. } = failure else { panic!("a plain failure") };
        assert_eq!((exit, code), (Exit::Machine, Some(codes::MACHINE_ALGORITHMS)));
        lock.platforms.get_mut("emulated").expect("the node").properties.remove("tuned");
        let failure =
            Choices::of_lock(&lock).follow(&mut device, Arithmetic::Device).expect_err("half a tuning");
        let Failure::Plain { exit, code, .. } = failure else { panic!("a plain failure") };
        assert_eq!((exit, code), (Exit::Integrity, Some(crate::lock::VALUE)));
    }
}
