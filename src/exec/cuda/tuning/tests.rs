//! Names of products, what timing chooses and what it does not, and how choices reach a device or are refused.

use super::*;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::autodiff::samples;
use crate::exec::cpu::threads::Threads;
use crate::exec::cuda::dispatch::Arithmetic;
use crate::exec::cuda::emulated::{ALGORITHMS, Emulated, FORGETFUL, REFUSED, USUAL};
use crate::exec::cuda::engine::{Engine, plan};
use crate::exec::cuda::launch::{Launch, Product};
use crate::graph::DType;
use crate::lock::Algorithm;

fn asked(name: &str) -> Asked {
    Asked::parse(name).unwrap_or_else(|| panic!("{name} is a name"))
}

#[test]
fn a_name_says_all_that_a_product_asks_for() {
    // y (16384 × 3072) = x (16384 × 768) · wᵀ, where memory of w is 3072 × 768.
    let found = asked("bf16.16384x3072x768.nt.bias");
    assert_eq!((found.sizes, found.transposed, found.bias), ([16384, 3072, 768], [false, true], true));
    assert_eq!((found.formats, found.strides), ([DType::Bf16; 2], [768, 768, 3072]));
    // A gradient of a weight: f16 operands, f32 result, a transposed; rows of one operand are parts of wider ones.
    let found = asked("f16-f32.768x2304x512.tn.strides-768-6912-2304");
    assert_eq!((found.formats, found.strides), ([DType::F16, DType::F32], [768, 6912, 2304]));
    // 511 rows of 768 and the last one, 511 of 6912 and 2304 more, all of the result; in bytes.
    assert_eq!(found.extents(), [512 * 768 * 2, (511 * 6912 + 2304) * 2, 768 * 2304 * 4, 0]);
    for name in
        ["bf16.16384x3072x768.nt.bias", "f16-f32.768x2304x512.tn.strides-768-6912-2304", "tf32-f32.1x2x3.tt"]
    {
        assert_eq!(asked(name).to_string(), name);
        let launch = asked(name).launch([256, 512, 768, 1024], 0.0);
        assert_eq!(Asked::of(&launch), Some(asked(name)), "{name}");
    }
    for no_name in [
        "",
        "bf16",
        "bf16.1x2x3",
        "bf16.1x2.nn",
        "bf16.1x2x3.xx",
        "int.1x2x3.nn",
        "bf16.1x2x3.nn.bias.more",
        "bf16-bf16.1x2x3.nn",
        // Another name for `bf16.1x2x3.nn`, whose rows lie so far apart anyway.
        "bf16.1x2x3.nn.strides-3-2-2",
        "bf16.01x2x3.nn",
        "bf16.1x2x-3.nn",
    ] {
        assert_eq!(Asked::parse(no_name), None, "{no_name}");
    }
}

#[test]
fn several_products_at_once_are_none_that_is_asked_for() {
    let Launch::Product(product) = asked("bf16.8x8x8.nn").launch([256; 4], 0.0) else { panic!("a product") };
    assert_eq!(Asked::of(&Launch::Product(Product { batch: 2, ..product })), None);
    assert_eq!(Asked::of(&Launch::Clear { address: 0, bytes: 1 }), None);
}

fn timed(device: &mut Emulated, names: &[&str]) -> Vec<Timed> {
    let products =
        names.iter().map(|name| (asked(name), asked(name).launch([256, 512, 768 + 16, 1024], 1.0))).collect();
    let mut told = Vec::new();
    let timed = time(device, &products, &mut |timed| told.push(timed.clone())).expect("a device that works");
    assert_eq!(timed, told);
    assert!(device.choices.is_empty(), "what was tried is not what is followed");
    timed
}

#[test]
fn the_fastest_algorithm_that_gives_the_product_is_chosen() {
    let Some(mut device) = Emulated::open() else { return };
    let found =
        timed(&mut device, &["bf16.24x16x40.nt.bias", "bf16.24x16x40.nt", "f32.9x8x7.tn.strides-12-9-10"]);
    // In the order of formats. The third of the algorithms is the fastest of those that are not refused, and forgets a bias.
    let chosen: Vec<_> = found.iter().map(|timed| (timed.asked.to_string(), timed.chosen)).collect();
    let of = |at: usize| Some((ALGORITHMS[at], f64::from(ALGORITHMS[at].stages)));
    assert_eq!(
        chosen,
        [
            ("f32.9x8x7.tn.strides-12-9-10".to_owned(), of(2)),
            ("bf16.24x16x40.nt".to_owned(), of(2)),
            ("bf16.24x16x40.nt.bias".to_owned(), of(1)),
        ]
    );
    assert!(found.iter().all(|timed| timed.usual == USUAL && timed.candidates == ALGORITHMS.len()));
}

#[test]
fn what_is_hardly_faster_is_not_chosen() {
    let Some(mut device) = Emulated::open() else { return };
    // The first takes 99 of 100: less than the 1.5 % that a choice has to gain.
    device.algorithms.truncate(1);
    assert_eq!(timed(&mut device, &["f16.8x8x8.nn"])[0].chosen, None);
    device.algorithms.clear();
    assert_eq!(timed(&mut device, &["f16.8x8x8.nn"])[0].chosen, None);
}

/// What the emulated device would have been tuned to.
fn tuning(device: &Emulated, name: &str, algorithm: Algorithm) -> Tuning {
    let on = device.library().expect("it has one");
    Tuning { on, products: [(name.to_owned(), algorithm)].into() }
}

#[test]
fn choices_are_handed_to_the_device_before_it_makes_a_product() {
    let Some(mut device) = Emulated::open() else { return };
    let name = "bf16.24x16x40.nt.bias";
    let choice = tuning(&device, name, ALGORITHMS[1]);
    follow(&mut device, &choice).expect("its own choices");
    assert_eq!(device.choices, [(asked(name), ALGORITHMS[1])].into());
}

#[test]
fn choices_of_another_machine_or_library_are_refused() {
    let Some(mut device) = Emulated::open() else { return };
    let name = "bf16.24x16x40.nt.bias";
    let own = tuning(&device, name, ALGORITHMS[1]);
    let change = |change: fn(&mut TunedOn)| {
        let mut other = own.clone();
        change(&mut other.on);
        other
    };
    let elsewhere = [
        change(|on| on.device = "NVIDIA H200".to_owned()),
        change(|on| on.multiprocessors = 114),
        change(|on| on.version = 130_200),
        change(|on| on.library = "other".to_owned()),
    ];
    for other in elsewhere {
        let fault = follow(&mut device, &other).expect_err("another machine");
        assert_eq!(fault.code, codes::MACHINE_ALGORITHMS);
        let both =
            ["found emulated with 132 multiprocessors and cublaslt 130100, expected ", &said(&other.on)];
        assert!(both.iter().all(|part| fault.message.contains(part)), "{}", fault.message);
        assert!(fault.help.is_some_and(|help| help.contains("amp lock --platform")));
        // Where nothing is chosen, nothing depends on the machine.
        follow(&mut device, &Tuning { products: BTreeMap::new(), ..other }).expect("no choices");
    }
    for (name, algorithm) in [(name, Algorithm { tile: REFUSED, ..ALGORITHMS[1] }), ("gemm", ALGORITHMS[1])] {
        let choice = tuning(&device, name, algorithm);
        let fault = follow(&mut device, &choice).expect_err("refused");
        assert_eq!(fault.code, codes::MACHINE_ALGORITHMS);
        assert!(fault.message.contains(name), "{}", fault.message);
    }
    assert!(device.choices.is_empty());
}

#[test]
fn the_products_of_a_run_are_those_that_its_steps_launch() {
    let Some(device) = Emulated::open() else { return };
    let mut sample = samples::all().remove(0).1;
    sample.plan.precision = samples::amp(Format::Bf16);
    let steps = vec![sample.compile().step];
    let mut device: Box<dyn Device> = Box::new(device);
    let blueprint = plan(&steps, 0, &mut *device, Arithmetic::Device).expect("kernels");
    let found = products(&blueprint, &steps).expect("kernels");
    let portable = plan(&steps, 0, &mut *device, Arithmetic::Portable).expect("kernels");
    assert!(products(&portable, &steps).expect("kernels").is_empty());
    let threads = Threads::new(1).expect("one thread");
    let engine = Engine::new(steps, 0, device, Arithmetic::Device, threads, Isa::detect()).expect("room");
    let launched: Vec<Asked> =
        engine.launches().iter().flat_map(|part| part.iter().filter_map(Asked::of)).collect();
    assert!(!launched.is_empty() && launched.iter().all(|asked| found.contains_key(asked)));
    assert!(found.keys().any(|asked| asked.formats[0] == DType::Bf16));
    assert_ne!(FORGETFUL, ALGORITHMS[1].custom);
}
