//! A tuning in a platform node: written, read back, refused where it means nothing, and what goes when it changes.

use super::tests::{input, with_platform};
use super::tuning::{Algorithm, TunedOn, Tuning};
use super::*;
use crate::diag::FileId;
use std::collections::BTreeMap;

const FAST: Algorithm =
    Algorithm { id: 66, tile: 29, stages: 35, splits: 1, swizzle: 0, custom: 1, inner: 0, cluster: 3 };

fn tuning(algorithm: Algorithm) -> Tuning {
    let on = TunedOn {
        device: "NVIDIA H200".to_owned(),
        multiprocessors: 132,
        library: "cublaslt".to_owned(),
        version: 130_100,
    };
    Tuning { on, products: BTreeMap::from([("bf16.16384x3072x768.nt.bias".to_owned(), algorithm)]) }
}

fn tuned() -> Lock {
    let mut lock = with_platform(derive(input()));
    let node = lock.platforms["cpu"].clone();
    lock.platforms.insert("cuda-sm90".to_owned(), node);
    retune(&mut lock, "cuda-sm90", &tuning(FAST));
    lock
}

fn read_back(text: &str) -> Result<Lock, Vec<crate::diag::Diagnostic>> {
    read(FileId(0), text)
}

#[test]
fn a_tuned_node_in_its_golden_form_and_back() {
    let lock = tuned();
    let text = write(&lock);
    let node = text.split("platform \"cuda-sm90\" {\n").nth(1).expect("the node");
    assert_eq!(
        node,
        "    pin.cublas \"13.0.2\"\n    product.bf16.16384x3072x768.nt.bias \"cublaslt\" algorithm=66 cluster=3 custom=1 inner=0 \
         splits=1 stages=35 swizzle=0 tile=29\n    tuned \"NVIDIA H200\" library=\"cublaslt\" multiprocessors=132 \
         version=130100\n}\n"
    );
    let back = read_back(&text).expect("own text");
    assert_eq!(write(&back), text);
    assert_eq!(Tuning::of(&back.platforms["cuda-sm90"]), Ok(Some(tuning(FAST))));
    assert_eq!(Tuning::of(&back.platforms["cpu"]), Ok(None));
    // The run id is none of its business.
    assert_eq!(integrity(&back), None);
}

#[test]
fn another_choice_drops_what_was_recorded_with_the_one_before() {
    let with_results = |choice: Option<Algorithm>| {
        let mut lock = with_platform(derive(input()));
        let mut node = lock.platforms["cpu"].clone();
        choice.iter().for_each(|choice| tuning(*choice).write_to(&mut node));
        lock.platforms.insert("cuda-sm90".to_owned(), node);
        lock
    };
    let kept = |before: Option<Algorithm>, after: &Tuning| {
        let earlier = with_results(before);
        let mut lock = earlier.clone();
        retune(&mut lock, "cuda-sm90", after);
        let lost = dropped(&earlier, &lock);
        assert!(lost.iter().all(|lost| lost.platform == "cuda-sm90" && lost.evaluations == 1), "{lost:?}");
        // Whoever writes the lock for another manifest keeps the choices.
        assert_eq!(write(&carry_platforms(derive(input()), &lock)), write(&lock));
        lost.is_empty()
    };
    let none = Tuning { products: BTreeMap::new(), ..tuning(FAST) };
    let mut elsewhere = tuning(FAST);
    elsewhere.on.version += 1;
    let slow = Algorithm { tile: 20, ..FAST };
    assert!(kept(Some(FAST), &tuning(FAST)) && kept(None, &none));
    assert!(!kept(None, &tuning(FAST)) && !kept(Some(FAST), &tuning(slow)));
    assert!(!kept(Some(FAST), &elsewhere) && !kept(Some(FAST), &none));
}

#[test]
fn choices_outlive_a_change_of_the_manifest() {
    let mut changed = input();
    changed.entries.push(("train.epochs".to_owned(), "3".to_owned()));
    let lock = carry_platforms(derive(changed), &tuned());
    assert_eq!(Tuning::of(&lock.platforms["cuda-sm90"]), Ok(Some(tuning(FAST))));
}

#[test]
fn lines_that_mean_nothing_are_refused_at_their_place() {
    let text = write(&tuned());
    for (right, wrong, said) in [
        ("tile=29", "tile=\"wide\"", "found tile `wide`, expected a whole number below 2³²"),
        (" tile=29", "", "found `product.bf16.16384x3072x768.nt.bias` without the property `tile`"),
        (" multiprocessors=132", "", "found `tuned` without the property `multiprocessors`"),
        (" library=\"cublaslt\"", "", "found `tuned` without the property `library`"),
    ] {
        assert!(text.contains(right));
        let faults = read_back(&text.replace(right, wrong)).expect_err(wrong);
        assert_eq!((faults.len(), faults[0].code, faults[0].message.as_str()), (1, VALUE, said));
        assert!(!faults[0].labels.is_empty());
    }
}

#[test]
fn what_a_higher_revision_adds_to_a_choice_is_kept_and_not_followed() {
    let text = write(&tuned()).replace("revision=0", "revision=7").replace(" tile=29", " tile=29 twist=3");
    let lock = read_back(&text).expect("a higher revision");
    assert_eq!(write(&lock), text);
    let fault = Tuning::of(&lock.platforms["cuda-sm90"]).expect_err("an algorithm that is not all known");
    assert!(fault.contains("`twist`"), "{fault}");
    let lines: String =
        text.lines().filter(|line| !line.starts_with("    tuned")).map(|line| format!("{line}\n")).collect();
    let lock = read_back(&lines.replace(" twist=3", "")).expect("lines of their own");
    let fault = Tuning::of(&lock.platforms["cuda-sm90"]).expect_err("nothing says where it was timed");
    assert!(fault.contains("without the line `tuned`"), "{fault}");
    let other = write(&tuned()).replace("nt.bias \"cublaslt\"", "nt.bias \"other\"");
    let lock = read_back(&other).expect("another library");
    assert!(Tuning::of(&lock.platforms["cuda-sm90"]).is_err());
}
