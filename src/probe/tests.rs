//! Parsing of the system's texts, and refusals.

use super::linux::*;
use super::*;
use crate::digest::Digest;
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
    let status = "Name:\tamp\nVmPeak:\t  999 kB\nVmHWM:\t   57344 kB\nVmRSS:\t 1 kB\n";
    assert_eq!(super::memory::peak_of(status), Some(58_720_256));
    assert_eq!(super::memory::peak_of("Name:\tamp\n"), None);
    assert_eq!(memory_bytes("MemTotal: 18446744073709551615 kB\n"), None);
    assert_eq!(
        system_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").as_deref(),
        Some("Debian GNU/Linux 12")
    );
    assert_eq!(read("/proc/there-is-no-such-file"), "");
}

#[test]
fn a_plain_machine_satisfies_the_cpu_and_nothing_else() {
    let environment = Environment { cuda: Cuda::NotInThisBuild, ..Environment::probe() };
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
    assert!(json["cpu"].is_null() && json["memory_bytes"].is_null());
    assert_eq!(json["cuda"].is_null(), cfg!(not(feature = "cuda")));
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

/// A machine with one GPU, some libraries and no cuDNN.
fn with_a_gpu() -> Environment {
    let library = |name, version: Option<&str>| Library {
        name,
        version: version.map(str::to_owned),
        path: version.map(|_| format!("/lib/lib{name}.so")),
        digest: None,
    };
    let device = Device {
        name: "NVIDIA H200".to_owned(),
        capability: (9, 0),
        multiprocessors: 132,
        memory_bytes: 150_000_000_000,
    };
    let parts = Parts {
        device: Ok(device),
        driver: Some("580.159.03".to_owned()),
        libraries: vec![
            library("cuda", Some("13.0")),
            library("cublas", Some("13.1.0")),
            library("cudnn", None),
        ],
        kernels: vec![Kernels { file: "sum", target: "sm_90", digest: Digest::of_bytes(b"cubin") }],
    };
    Environment { cuda: Cuda::InThisBuild(Box::new(parts)), ..Environment::probe() }
}

#[test]
fn what_makes_convolutions_is_told() {
    let Cuda::InThisBuild(mut parts) = with_a_gpu().cuda else { panic!("a build with CUDA") };
    assert!(parts.convolutions().contains("cuBLAS"), "{}", parts.convolutions());
    for library in parts.libraries.iter_mut().filter(|library| library.name == "cudnn") {
        library.version = Some("9.14.0".to_owned());
    }
    assert_eq!(parts.convolutions(), "by cuDNN");
}

#[test]
fn pins_of_cuda_are_compared_and_each_difference_is_told() {
    let environment = with_a_gpu();
    let told = |pins: &[(&str, &str)]| -> Vec<String> {
        environment.satisfies(&wanted("cuda", pins)).iter().map(ToString::to_string).collect()
    };
    let exact = [
        ("amp", env!("CARGO_PKG_VERSION")),
        ("capability", "9.0"),
        ("cublas", "13.1.0"),
        ("cuda", "13.0"),
        ("driver", "580.159.03"),
    ];
    assert_eq!(told(&exact), [""; 0]);
    // A pin may say less than the whole version, at a point.
    assert_eq!(told(&[("cublas", "13.1"), ("cuda", "13"), ("driver", "580")]), [""; 0]);
    assert_eq!(
        told(&[
            ("amp", "99.0.0"),
            ("capability", "8.0"),
            ("cublas", "13.10"),
            ("cuda", "1"),
            ("cudnn", "9"),
            ("driver", "58"),
            ("rocm", "6"),
        ]),
        [
            format!("pin amp: found {}, expected 99.0.0", env!("CARGO_PKG_VERSION")).as_str(),
            "pin capability: found 9.0, expected 8.0",
            "pin cublas: found 13.1.0, expected 13.10",
            "pin cuda: found 13.0, expected 1",
            "pin cudnn: found no such library, expected 9",
            "pin driver: found 580.159.03, expected 58",
            "pin rocm: found no such part on the target `cuda`, expected 6",
        ]
    );
}

#[test]
fn a_device_of_another_capability_is_told() {
    let environment = with_a_gpu();
    let meant = |capability| plan::Environment {
        device: Some(plan::Device { name: "NVIDIA A100 40GB".to_owned(), memory_bytes: 1, capability }),
        ..wanted("cuda", &[])
    };
    assert_eq!(environment.satisfies(&meant((9, 0))), []);
    let told: Vec<String> = environment.satisfies(&meant((8, 0))).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["capability: found 9.0 (NVIDIA H200), expected 8.0 (NVIDIA A100 40GB)"]);
}

#[test]
fn a_build_with_cuda_and_a_machine_without_a_gpu() {
    let Cuda::InThisBuild(mut parts) = with_a_gpu().cuda else { panic!("a build with CUDA") };
    parts.device = Err("no CUDA-capable device is detected (error 100)".to_owned());
    let environment = Environment { cuda: Cuda::InThisBuild(parts), ..Environment::probe() };
    let told: Vec<String> =
        environment.satisfies(&wanted("cuda", &[("cuda", "1")])).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["target: found cpu (no device: no CUDA-capable device is detected (error 100)), expected cuda"]
    );
    let json = &environment.to_json()["cuda"];
    assert!(json["device"].is_null());
    assert_eq!(json["no_device_because"], "no CUDA-capable device is detected (error 100)");
}

#[test]
fn the_json_of_cuda_has_the_fields_of_its_schema() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../docs/schemas/environment-1.json")).expect("a schema");
    let json = with_a_gpu().to_json();
    let names = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let cuda = &json["cuda"];
    for (part, value) in [
        ("cuda", cuda),
        ("device", &cuda["device"]),
        ("library", &cuda["libraries"][1]),
        ("kernels", &cuda["kernels"][0]),
    ] {
        let definition = &schema["$defs"][part];
        assert_eq!(names(value), names(&definition["properties"]), "{part}");
        assert_eq!(definition["additionalProperties"], false, "{part}");
    }
    assert_eq!(cuda["device"]["capability"], "9.0");
    let Cuda::InThisBuild(parts) = with_a_gpu().cuda else { panic!("a build with CUDA") };
    let sets: Vec<_> = parts.kernel_sets().into_iter().collect();
    assert_eq!(sets, [("sm_90", (1, Digest::of_bytes(&Digest::of_bytes(b"cubin").0)))]);
    assert_eq!(cuda["kernels"][0]["digest"], Digest::of_bytes(b"cubin").to_string());
}

#[test]
fn images_fit_devices() {
    use super::images::target_for;
    assert_eq!(target_for((7, 5)), None);
    assert_eq!(target_for((8, 9)), Some(("sm_80", false)));
    assert_eq!(target_for((9, 0)), Some(("sm_90", false)));
    assert_eq!(target_for((9, 1)), Some(("compute_90", true)));
    assert_eq!(target_for((12, 0)), Some(("compute_90", true)));
    assert_eq!(super::images::IMAGES.is_empty(), cfg!(not(feature = "cuda")));
}

#[cfg(feature = "cuda")]
#[test]
fn the_texts_about_libraries_are_read() {
    use super::libraries::{driver_version, loaded_path};
    let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build  (dvs-builder)\n\
                   GCC version:  gcc version 12.3.0\n";
    assert_eq!(driver_version(version).as_deref(), Some("580.159.03"));
    assert_eq!(driver_version(""), None);
    let maps = "7f00-7f01 r-xp 00000000 08:01 42    /usr/lib/libcublasLt.so.13.1.0.3\n\
                7f02-7f03 r-xp 00000000 08:01 43    /opt/a folder/libcublas.so.13\n\
                7f04-7f05 rw-p 00000000 00:00 0 \n";
    assert_eq!(loaded_path(maps, "libcublas.so.13").as_deref(), Some("/opt/a folder/libcublas.so.13"));
    assert_eq!(loaded_path(maps, "libcublasLt.so.13").as_deref(), Some("/usr/lib/libcublasLt.so.13.1.0.3"));
    assert_eq!(loaded_path(maps, "libcublas.so.1"), None);
}
