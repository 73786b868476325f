//! Choices on a real device: `cargo test --features cuda --lib driver -- --ignored`.

use super::*;
use crate::exec::cuda::tuning::{self, Asked};
use std::collections::BTreeMap;

/// Products of GPT-2 and ViT in half precision, a gradient of a weight, and one in tf32.
const NAMES: [&str; 5] = [
    "bf16.4096x3072x768.nt.bias",
    "f16.3152x2304x768.nt.bias",
    "bf16.4096x768x3072.nn",
    "bf16-f32.768x3072x4096.tn",
    "tf32-f32.1024x768x768.nt",
];

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn every_algorithm_is_made_again_from_its_numbers() {
    let mut device = Driver::open().expect("a device");
    let on = device.library().expect("cublasLt");
    assert!(on.multiprocessors > 0 && on.version > 0 && !on.device.is_empty());
    for name in NAMES {
        let asked = Asked::parse(name).expect("a name");
        let algorithms = device.algorithms(&asked).expect("algorithms");
        assert!(!algorithms.is_empty(), "{name}");
        for algorithm in &algorithms {
            assert!(device.choose(&asked, Some(algorithm)).expect("an answer"), "{name}: {algorithm}");
            assert_eq!(algorithm.splits.max(1), 1);
        }
        assert!(
            !device.choose(&asked, Some(&Algorithm { tile: 60_000, ..algorithms[0] })).expect("an answer")
        );
        assert!(!device.choose(&asked, Some(&Algorithm { id: 60_000, ..algorithms[0] })).expect("an answer"));
        assert!(device.choose(&asked, None).expect("an answer"));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn products_are_timed_and_the_choices_followed() {
    let mut device = Driver::open().expect("a device");
    let products: BTreeMap<_, _> = NAMES
        .iter()
        .map(|name| Asked::parse(name).expect("a name"))
        .map(|asked| (asked, asked.launch([0; 4], 0.0)))
        .collect();
    let timed = tuning::time(&mut device, &products, &mut |_| ()).expect("a device that works");
    assert_eq!(timed.len(), NAMES.len());
    assert!(timed.iter().all(|timed| timed.usual > 1e-7 && timed.usual < 1.0), "{timed:?}");
    let chosen = timed.iter().filter_map(|timed| Some((timed.asked.to_string(), timed.chosen?.0)));
    let tuning = crate::lock::Tuning { on: device.library().expect("cublasLt"), products: chosen.collect() };
    tuning::follow(&mut device, &tuning).expect("its own choices");
    let mut elsewhere = tuning.clone();
    elsewhere.on.version += 1;
    assert_eq!(tuning::follow(&mut device, &elsewhere).is_err(), !tuning.products.is_empty());
}
