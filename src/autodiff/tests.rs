//! Tests of the step's structure; its numbers are tested where it is executed.

use crate::arithmetic::half::Format;
use crate::graph::check::check_step;
use crate::graph::{DType, Op, samples};
use std::collections::BTreeSet;

#[test]
fn every_sample_gives_a_sound_step() {
    for (name, mut sample) in samples::all() {
        for low in [Format::F32, Format::F16, Format::Bf16] {
            sample.plan.precision = samples::amp(low);
            let step = sample.compile().step;
            assert_eq!(check_step(&step), [], "{name} {low:?}");
        }
    }
}

#[test]
fn every_parameter_has_one_gradient_in_f32() {
    for (name, sample) in samples::all() {
        let step = sample.compile().step;
        assert!(!step.parameters.is_empty(), "{name}");
        assert_eq!(step.parameters.len(), step.gradients.len(), "{name}");
        for (parameter, gradient) in step.parameters.iter().zip(&step.gradients) {
            assert_eq!(step.value(*gradient).shape, step.value(parameter.value).shape, "{name}");
            assert_eq!(step.value(*gradient).dtype, DType::F32, "{name}");
        }
        let distinct: BTreeSet<_> = step.gradients.iter().collect();
        assert_eq!(distinct.len(), step.gradients.len(), "{name}");
    }
}
