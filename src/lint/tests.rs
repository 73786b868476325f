//! Each piece of advice on a model that deserves it, with the numbers worked out on paper, and on one that does not.

use super::{Room, Subject, constants, lint, without_allowed};
use crate::arithmetic::half::Format;
use crate::autodiff::samples::{self, Sample};
use crate::autodiff::{Compiled, compile};
use crate::data::spec::LastBatch;
use crate::diag::{Code, Diagnostic, SourceMap, codes};
use crate::graph::LabelKind;
use crate::graph::memory::device_memory;
use crate::plan::{Allow, Device, LayerKind, Origin, Phase, Recipe, Scaler, ScheduleKind, SkipRules, When};
use crate::resolve;
use crate::world::Memory;
use camino::Utf8Path;

/// The advice for a sample with a batch of 4.
fn advice(sample: &Sample, steps: Option<u64>) -> Vec<Diagnostic> {
    let compiled = sample.compile();
    let again = |batch: usize, low: Option<Format>| -> Option<Compiled> {
        let mut plan = sample.plan.clone();
        if let Some(low) = low {
            plan.precision = samples::amp(low);
        }
        compile(&plan, batch, &sample.features, sample.labels.clone()).ok()
    };
    let device = sample.plan.environment.device.as_ref();
    let room = device.map(|device| Room::of(&compiled, &device_memory, device.memory_bytes));
    lint(&Subject {
        plan: &sample.plan,
        compiled: &compiled,
        steps,
        evaluation: true,
        compile: &again,
        memory: &device_memory,
        room: room.as_ref(),
    })
}

fn of(diagnostics: &[Diagnostic], code: Code) -> Vec<&Diagnostic> {
    diagnostics.iter().filter(|diagnostic| diagnostic.code == code).collect()
}

fn device(memory_bytes: u64, capability: (u32, u32)) -> Option<Device> {
    Some(Device { name: "Device".to_owned(), memory_bytes, capability })
}

#[test]
fn a_width_off_the_grid_is_told_with_its_padded_size_and_cost() {
    let mut sample = samples::mlp();
    assert_eq!(of(&advice(&sample, None), codes::ALIGNMENT).len(), 0, "a CPU has no tiles");
    sample.plan.environment.target = "cuda".to_owned();
    let found = advice(&sample, None);
    let found = of(&found, codes::ALIGNMENT);
    // 6 → 8 → 8 → 3: the 6 inputs and the 3 outputs.
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].message.contains("3 outputs"), "{}", found[1].message);
    // Five more rows of 8 weights.
    let help = found[1].help.as_deref().expect("a help");
    assert!(help.starts_with("make it 8: 40 more parameters, 166.67 %"), "{help}");
    // In tf32 a tile is 4 wide: the same two, of other sizes.
    sample.plan.precision = samples::amp(Format::Tf32);
    let found = advice(&sample, None);
    let found = of(&found, codes::ALIGNMENT);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].message.contains("3 outputs in tf32 are no multiple of 4"), "{}", found[1].message);
    let help = found[1].help.as_deref().expect("a help");
    assert!(help.starts_with("make it 4: 8 more parameters, 33.33 %"), "{help}");
}

#[test]
fn the_edges_of_f16_decide_what_is_flushed_and_what_overflows() {
    let code = |value, format| constants::say("a value", value, format).map(|diagnostic| diagnostic.code);
    assert_eq!(code(1e-8, Format::F16), Some(codes::FLUSHED));
    assert_eq!(code(6e-8, Format::F16), None, "the smallest subnormal is 5.96e-8");
    assert_eq!(code(65504.0, Format::F16), None);
    assert_eq!(code(65520.0, Format::F16), Some(codes::OVERFLOWS), "a tie goes to the even one, infinity");
    assert_eq!(code(-1e9, Format::F16), Some(codes::OVERFLOWS));
    assert_eq!(code(-1e9, Format::Bf16), None);
    assert_eq!(code(5e-42, Format::Tf32), Some(codes::FLUSHED), "less than half of 2^-136");
    assert_eq!(code(1.2e-41, Format::Tf32), None);
    assert_eq!(code(f32::MAX, Format::Tf32), Some(codes::OVERFLOWS));
    assert_eq!(code(1e-8, Format::F32), None);
    assert_eq!(code(0.0, Format::F16), None);
}

#[test]
fn a_factor_that_f16_cannot_hold_is_told_where_the_layer_runs_in_f16() {
    let mut sample = samples::mlp();
    sample.plan.model.body.insert(1, samples::layer("mask", LayerKind::Scale { factor: -1e9 }));
    let mut told = |policy, factor| {
        sample.plan.precision = policy;
        sample.plan.model.body[1] = samples::layer("mask", LayerKind::Scale { factor });
        of(&advice(&sample, None), codes::OVERFLOWS)
            .iter()
            .filter_map(|told| told.help.clone())
            .collect::<Vec<_>>()
    };
    let help = told(samples::amp(Format::F16), -1e9);
    assert_eq!(help.len(), 1, "{help:?}");
    assert!(help[0].contains("`precision … { layer \"mask\" dtype=\"f32\" }`"), "{help:?}");
    assert_eq!(told(samples::amp(Format::F16), 65504.0).len(), 0);
    // The product is rounded, not the factor.
    assert_eq!(told(samples::amp(Format::F16), 1e-9).len(), 0);
    assert_eq!(told(samples::amp(Format::Bf16), -1e9).len(), 0);
    assert_eq!(told(samples::full(), -1e9).len(), 0);
}

#[test]
fn decay_of_norms_is_told_and_without_norms_or_decay_nothing_is() {
    assert_eq!(of(&advice(&samples::cnn(), None), codes::DECAY).len(), 1);
    assert_eq!(of(&advice(&samples::mlp(), None), codes::DECAY).len(), 0);
}

#[test]
fn a_warm_up_as_long_as_the_run_is_told() {
    let mut sample = samples::mlp();
    sample.plan.schedule.kind = ScheduleKind::Constant;
    sample.plan.schedule.warmup = 50;
    let count = |sample: &Sample, steps| of(&advice(sample, steps), codes::SCHEDULE_LENGTH).len();
    assert_eq!(count(&sample, Some(50)), 1);
    assert_eq!(count(&sample, Some(51)), 0);
    assert_eq!(count(&sample, None), 0, "the length is not known");
    // The scaler's interval of 2000 is worth a word where somebody wrote it.
    sample.plan.origins.insert("scaler.interval".to_owned(), Origin::Manifest(samples::span(8)));
    assert_eq!(count(&sample, Some(1999)), 1);
    assert_eq!(count(&sample, Some(2000)), 0);
}

#[test]
fn capability_decides_what_a_device_is_told() {
    let mut sample = samples::mlp();
    let mut count = |capability, low| {
        sample.plan.environment.device = device(1 << 40, capability);
        sample.plan.precision = samples::amp(low);
        of(&advice(&sample, None), codes::NO_TENSOR_CORES).len()
    };
    assert_eq!(count((6, 1), Format::F16), 1);
    assert_eq!(count((7, 0), Format::F16), 0);
    assert_eq!(count((7, 5), Format::Bf16), 1);
    assert_eq!(count((8, 0), Format::Bf16), 0);
    assert_eq!(count((7, 5), Format::Tf32), 1);
    assert_eq!(count((8, 0), Format::Tf32), 0);
    assert_eq!(count((6, 1), Format::F32), 0);
}

#[test]
fn a_batch_that_does_not_fit_is_told_with_one_that_does() {
    let mut sample = samples::mlp();
    sample.plan.data.batch = 4;
    let needed = device_memory(&sample.compile().step).total();
    sample.plan.environment.device = device(needed, (9, 0));
    assert_eq!(of(&advice(&sample, None), codes::MEMORY).len(), 0, "it fits exactly");
    sample.plan.environment.device = device(needed - 1, (9, 0));
    let found = advice(&sample, None);
    let help = of(&found, codes::MEMORY)[0].help.clone().expect("a help");
    assert!(help.contains("the largest batch that fits is 3"), "{help}");
    assert!(help.contains("`batch 2` with `accumulate=2`"), "{help}");
    // AMP0227 refuses to accumulate when a short batch remains.
    sample.plan.data.last = LastBatch::Keep;
    let found = advice(&sample, None);
    let help = of(&found, codes::MEMORY)[0].help.clone().expect("a help");
    assert!(help.contains("`batch 2 last=\"drop\"` with `accumulate=2`"), "{help}");
    sample.plan.environment.device = device(1, (9, 0));
    let found = advice(&sample, None);
    assert!(
        of(&found, codes::MEMORY)[0]
            .help
            .as_deref()
            .is_some_and(|help| help.contains("not even the least batch"))
    );
}

#[test]
fn the_memory_of_an_mlp_on_paper() {
    let mut sample = samples::mlp();
    sample.plan.precision = samples::full();
    let memory = device_memory(&sample.compile().step);
    // 155 parameters with two moments; batch of 4 × 6 features, 4 labels; learning rate, step, scale, tracker.
    assert_eq!(memory.persistent, 4 * (3 * 155 + 24 + 4 + 4));
    // At least the activations of 8, 8, 8, 8 and 3 for each of four examples live together at the loss.
    assert!(memory.results >= 4 * 4 * (4 * 8 + 3), "{memory:?}");
}

#[test]
fn what_is_allowed_is_not_said_and_an_idle_allow_is() {
    let warning = |code| Diagnostic::warning(code, "told");
    let allow = |code| Allow { code, reason: "known".to_owned(), span: samples::span(3) };
    let rest = without_allowed(
        vec![warning(codes::DECAY), warning(codes::ALIGNMENT), Diagnostic::error(codes::DECAY, "no warning")],
        &[allow(codes::DECAY), allow(codes::MEMORY)],
    );
    let codes_left: Vec<Code> = rest.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes_left, [codes::ALIGNMENT, codes::DECAY, codes::IDLE_ALLOW]);
}

#[test]
fn what_the_decay_lint_says_to_type_silences_it() {
    let manifest = |block: &str| {
        format!(
            "amp 1\nrun \"r\"\ndata \"d\" {{\n    source \"d.csv\"\n    columns classes=10\n    shape 1 8 8\n    batch 4\n}}\n\
             model \"std:models/cnn\" classes=10 norm=#true\noptimizer \"adamw\" lr=1e-3 weight-decay=0.1 {block}\ntrain steps=9\n"
        )
    };
    let told = |block: &str| {
        let mut sources = SourceMap::default();
        let path = Utf8Path::new("manifest.kdl");
        let (plan, faults) = resolve::resolve_text(path, &manifest(block), &Memory::default(), &mut sources);
        let plan = plan.unwrap_or_else(|| panic!("{faults:?}"));
        let labels = LabelKind::ClassIndex { classes: Some(10), shape: Vec::new() };
        let again = |_: usize, _: Option<Format>| None;
        let compiled = compile(&plan, 4, &[1, 8, 8].into(), labels).expect("sound");
        of(
            &lint(&Subject {
                plan: &plan,
                compiled: &compiled,
                steps: None,
                evaluation: true,
                memory: &device_memory,
                room: None,
                compile: &again,
            }),
            codes::DECAY,
        )
        .first()
        .map(|diagnostic| diagnostic.help.clone().expect("a help"))
    };
    let help = told("").expect("biases and norms decay");
    let block = help.split_once("optimizer … ").expect("what to type").1.trim_end_matches('`');
    assert_eq!(block, "{ parameters \"**.bias\" \"**.norm*.weight\" weight-decay=0.0 }");
    assert_eq!(told(block), None);
}

#[test]
fn an_evaluation_without_data_is_told_where_it_was_asked_for() {
    let mut sample = samples::mlp();
    let told = |sample: &Sample, evaluation| {
        let compiled = sample.compile();
        let again = |_: usize, _: Option<Format>| None;
        let subject = Subject {
            plan: &sample.plan,
            compiled: &compiled,
            steps: None,
            evaluation,
            compile: &again,
            memory: &device_memory,
            room: None,
        };
        of(&lint(&subject), codes::NOTHING_TO_EVALUATE).len()
    };
    assert_eq!(told(&sample, false), 0, "nobody asked");
    sample.plan.origins.insert("evaluate.metrics".to_owned(), Origin::Manifest(samples::span(8)));
    assert_eq!(told(&sample, false), 1);
    assert_eq!(told(&sample, true), 0);
}

#[test]
fn a_policy_that_waits_for_what_cannot_happen_is_told() {
    let mut sample = samples::mlp();
    let dynamic = sample.plan.scaler.clone();
    let told = |sample: &Sample, steps| {
        let found = advice(sample, steps);
        of(&found, codes::PHASE_IDLE).iter().map(|told| told.message.clone()).collect::<Vec<_>>()
    };
    let mut of_phase = |when, scaler: &Scaler, steps| {
        sample.plan.scaler = scaler.clone();
        sample.plan.phases = vec![Phase { when, policy: samples::amp(Format::Bf16), scaler: None }];
        told(&sample, steps)
    };
    let budget = |in_row, total| Scaler::Static {
        scale: 8.0,
        skips: SkipRules { in_row, total, ..SkipRules::default() },
    };
    assert_eq!(of_phase(When::Step(51), &dynamic, Some(50)).len(), 1);
    assert_eq!(of_phase(When::Step(50), &dynamic, Some(50)), Vec::<String>::new());
    assert_eq!(of_phase(When::Step(51), &dynamic, None), Vec::<String>::new(), "the length is not known");
    // 50 skipped steps of 50 leave none for the policy.
    assert_eq!(of_phase(When::Skipped(50), &dynamic, Some(50)).len(), 1);
    assert_eq!(of_phase(When::Skipped(49), &dynamic, Some(50)), Vec::<String>::new());
    let alone = of_phase(When::SkippedInRow(3), &Scaler::None, Some(50));
    assert!(alone[0].contains("without a loss scaler no step is skipped"), "{alone:?}");
    // The run ends when more than so many were skipped: 3 in a row are reached with a budget of 3, and not with one of 2.
    assert_eq!(of_phase(When::SkippedInRow(3), &budget(3, 0), Some(50)), Vec::<String>::new());
    let ended = of_phase(When::SkippedInRow(3), &budget(2, 0), Some(50));
    assert!(ended[0].contains("the run ends at more than `max-skips=2`"), "{ended:?}");
    assert_eq!(of_phase(When::Skipped(3), &budget(2, 0), Some(50)), Vec::<String>::new());
    assert_eq!(of_phase(When::Skipped(3), &budget(0, 2), Some(50)).len(), 1);
}

#[test]
fn the_largest_batch_is_one_that_the_plan_takes() {
    // Products of FP8 want multiples of 16 rows, of which an example has 4: other batches than 4, 8, 12, … are refused.
    let mut sample = samples::eight(Recipe { history: 0, margin: 0 });
    sample.plan.data.batch = 24;
    let again = |batch| compile(&sample.plan, batch, &sample.features, sample.labels.clone()).ok();
    let needed = |batch| device_memory(&again(batch).expect("16 rows or a multiple").step).total();
    assert!(again(14).is_none() && again(1).is_none(), "no multiple of 16 rows");
    let memory = needed(16) - 1;
    assert!(needed(12) <= memory);
    let compiled = again(24).expect("sound");
    let device = device(memory, (9, 0));
    sample.plan.environment.device.clone_from(&device);
    let room = Room::of(&compiled, &device_memory, memory);
    let again = |batch: usize, _: Option<Format>| {
        compile(&sample.plan, batch, &sample.features, sample.labels.clone()).ok()
    };
    let subject = Subject {
        plan: &sample.plan,
        compiled: &compiled,
        steps: None,
        evaluation: true,
        compile: &again,
        memory: &device_memory,
        room: Some(&room),
    };
    let found = lint(&subject);
    let help = of(&found, codes::MEMORY)[0].help.clone().expect("a help");
    assert!(help.contains(" is 12;"), "{help}");
    // Half of the batch is the first part that fits; the sample accumulates two already.
    assert!(help.contains("`batch 12") && help.contains("`accumulate=4`"), "{help}");
}
