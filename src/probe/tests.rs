//! Parsing of the system's texts, and refusals.

use super::linux::*;
use super::*;
use crate::plan;
use std::collections::BTreeMap;

fn wanted(target: &str, pins: &[(&str, &str)]) -> plan::Environment {
    let pins = pins.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned()));
    plan::Environment {
        name: format!("std:environments/{target}"),
        target: target.to_owned(),
        pins: pins.collect(),
        device: None,
    }
}

#[test]
fn the_systems_texts_are_read() {
    let cpuinfo =
        "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Intel(R)  Xeon(R) Processor\n\nprocessor\t: 1\n";
    assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Intel(R) Xeon(R) Processor"));
    assert_eq!(cpu_model("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    assert_eq!(memory_bytes("MemTotal:       24684084 kB\nMemFree: 1 kB\n"), Some(25_276_502_016));
    assert_eq!(memory_bytes("MemTotal: lots\n"), None);
    assert_eq!(memory_bytes("MemTotal: 18446744073709551615 kB\n"), None);
    assert_eq!(
        system_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").as_deref(),
        Some("Debian GNU/Linux 12")
    );
    assert_eq!(read("/proc/there-is-no-such-file"), "");
}

#[test]
fn a_plain_machine_satisfies_the_cpu_and_nothing_else() {
    let environment = Environment::probe();
    assert!(environment.ieee_floats);
    assert!(environment.cores >= 1);
    assert_eq!(environment.satisfies(&wanted("cpu", &[])), []);
    assert_eq!(environment.satisfies(&wanted("cpu", &[("amp", env!("CARGO_PKG_VERSION"))])), []);
    let told: Vec<String> = environment
        .satisfies(&wanted("cuda", &[("cublas", "13.0")]))
        .iter()
        .chain(&environment.satisfies(&wanted("cpu", &[("amp", "99.0.0"), ("cublas", "13.0")])))
        .map(ToString::to_string)
        .collect();
    let amp = format!("pin amp: found {}, expected 99.0.0", env!("CARGO_PKG_VERSION"));
    let expected = [
        "target: found cpu (no CUDA in this build), expected cuda",
        amp.as_str(),
        "pin cublas: found no such part on the target `cpu`, expected 13.0",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_process_that_flushes_to_zero_is_refused() {
    let environment = Environment { ieee_floats: false, ..Environment::probe() };
    let differences = environment.satisfies(&wanted("cpu", &[]));
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].what, "float environment");
}

#[test]
fn the_json_says_null_for_what_is_not_known() {
    let environment = Environment { cpu: None, memory_bytes: None, ..Environment::probe() };
    let json = environment.to_json();
    assert_eq!(json["schema"], "amp.environment/1");
    assert!(json["cpu"].is_null() && json["memory_bytes"].is_null() && json["cuda"].is_null());
    assert_eq!(environment.cpu_name(), environment.architecture);
    let _: BTreeMap<String, serde_json::Value> = serde_json::from_value(json).expect("an object");
}

#[test]
fn limits_of_the_process_and_its_group_are_read() {
    use super::memory::{groups, process_limit};
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max data size             unlimited            unlimited            bytes     \n\
                  Max address space         2097152000           unlimited            bytes     \n";
    assert_eq!(process_limit(limits, "Max address space"), Some(2_097_152_000));
    assert_eq!(process_limit(limits, "Max data size"), None);
    assert_eq!(process_limit("", "Max data size"), None);
    assert_eq!(groups("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
    assert_eq!(groups("0::/\n"), ["/sys/fs/cgroup"]);
    assert_eq!(groups("4:memory:/x\n"), [""; 0]);
    let limit = MemoryLimit::probe();
    assert_eq!(limit.is_some(), cfg!(target_os = "linux"));
    let physical = Environment::probe().memory_bytes;
    assert!(limit.map(|limit| limit.bytes) <= physical, "{limit:?} of {physical:?}");
}
