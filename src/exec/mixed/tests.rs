//! The face against the compiler's pass and against its own rules.

use super::{Autocast, GradScaler};
use crate::autodiff::samples;
use crate::graph::{DType as Edge, Op};
use crate::plan::{AtFloor, ScaleKnobs, Scaler, SkipRules};
use candle_core::{DType, Device, Result, Tensor, Var};

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).expect("a tensor")
}

fn ramp(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|index| (index as f32 * 0.37).rem_euclid(2.0) - 1.0).collect();
    tensor(&values, shape)
}

/// Each op of a sample runs in the format that the compiler's pass gives it.
#[test]
fn formats_are_those_of_the_compiler() {
    for (name, policy) in
        [("amp-fp16", "std:precision/amp-fp16"), ("amp-bf16-cpu", "std:precision/amp-bf16-cpu")]
    {
        for (_, mut sample) in samples::all() {
            sample.plan.precision = crate::resolve::policy_named(policy).expect("a policy");
            let graph = sample.compile().precise.graph;
            let autocast = Autocast::named(name).expect("a policy");
            for node in graph.nodes.iter().filter(|node| node.op != Op::Cast) {
                let result = graph.value(node.outputs[0]).dtype;
                let one_operand = matches!(
                    node.op.kind(),
                    "linear"
                        | "conv2d"
                        | "layer-norm"
                        | "softmax"
                        | "relu"
                        | "gelu"
                        | "mean"
                        | "add"
                        | "concatenate"
                );
                if !one_operand {
                    continue;
                }
                // What the operand was before its cast.
                let source = |id| {
                    let cast =
                        graph.nodes.iter().find(|node| node.op == Op::Cast && node.outputs.contains(&id));
                    graph.value(cast.map_or(id, |cast| cast.inputs[0])).dtype
                };
                let of = |dtype| match dtype {
                    Edge::F16 => DType::F16,
                    Edge::Bf16 => DType::BF16,
                    _ => DType::F32,
                };
                let several = matches!(node.op, Op::Add | Op::Concatenate { .. });
                let operands: Vec<Tensor> = node.inputs[..if several { node.inputs.len() } else { 1 }]
                    .iter()
                    .map(|id| ramp(&[1]).to_dtype(of(source(*id))).expect("a cast"))
                    .collect();
                let operands: Vec<&Tensor> = operands.iter().collect();
                let found =
                    autocast.region(|region| region.dtype(node.op.kind(), &operands)).expect("a kind");
                assert_eq!(found, of(result), "{name} {} of {}", node.op.kind(), node.layer);
            }
        }
    }
}

#[test]
fn a_weight_is_cast_once_and_its_gradient_is_f32() -> Result<()> {
    let weight = Var::from_tensor(&ramp(&[4, 6]))?;
    let x = ramp(&[2, 6]);
    let autocast = Autocast::named("amp-bf16")?;
    let loss = autocast.region(|region| {
        let [first, second] = [region.linear(&x, &weight, None)?, region.linear(&x, &weight, None)?];
        assert_eq!(first.dtype(), DType::BF16);
        region.mean_squared_error(&region.add(&first, &second)?, &ramp(&[2, 4]))
    })?;
    assert_eq!(loss.dtype(), DType::F32);
    let gradients = loss.backward()?;
    assert_eq!(gradients.get(&weight).expect("a gradient").dtype(), DType::F32);
    Ok(())
}

#[test]
fn products_round_once_from_sums_in_f32() -> Result<()> {
    // 256 ones and 1/4: bf16 sums would stay at 256.
    let x = tensor(&[1.0; 512], &[1, 512]);
    let weight = tensor(&[1.0; 512], &[1, 512]);
    for name in ["amp-bf16", "amp-fp16"] {
        let y = Autocast::named(name)?
            .region(|region| region.linear(&x, &weight, Some(&tensor(&[2.0], &[1]))))?;
        assert_eq!(
            y.to_dtype(DType::F32)?.to_vec2::<f32>()?,
            [[514.0_f32 - 514.0 % if name == "amp-bf16" { 4.0 } else { 1.0 }]]
        );
    }
    Ok(())
}

#[test]
fn off_is_f32_and_unknown_kinds_are_refused() -> Result<()> {
    let autocast = Autocast::named("std:precision/amp-fp16")?;
    autocast.region(|region| {
        let low = region.linear(&ramp(&[2, 3]), &ramp(&[4, 3]), None)?;
        assert_eq!(low.dtype(), DType::F16);
        let high = region.off(|region| region.linear(&low, &ramp(&[5, 4]), None))?;
        assert_eq!(high.dtype(), DType::F32);
        assert_eq!(region.softmax(&low, 1)?.dtype(), DType::F32);
        assert_eq!(region.layer_norm(&low, &ramp(&[4]), &ramp(&[4]), 1e-5)?.dtype(), DType::F32);
        assert_eq!(region.module("relu", &|x: &Tensor| x.relu(), &low)?.dtype(), DType::F16);
        assert_eq!(
            region.embedding(&ramp(&[7, 3]), &Tensor::new(&[[1_u32, 2]], &Device::Cpu)?)?.dims(),
            [1, 2, 3]
        );
        let fault = region.dtype("linaer", &[]).expect_err("no kind").to_string();
        assert!(fault.contains("did you mean `linear`"), "{fault}");
        Ok(())
    })?;
    assert!(Autocast::named("amp").is_err());
    assert!(Autocast::named("tf32").expect_err("no tensors").to_string().contains("tf32"));
    Ok(())
}

/// One step of plain descent on w in loss = w · x: the gradient is x.
fn descend(scaler: &mut GradScaler, weight: &Var, x: f32) -> Result<super::Outcome> {
    let loss = (weight.as_tensor() * f64::from(x))?.sum_all()?;
    let variables = [weight.clone()];
    let unscaled = scaler.scale(&loss)?.backward()?.unscale(&variables)?;
    let stepped = unscaled.step(|gradients| {
        let gradient = gradients.get(weight).expect("a gradient");
        weight.set(&(weight.as_tensor() - (gradient * 0.5)?)?)
    })?;
    Ok(stepped.update())
}

#[test]
fn a_step_that_is_not_finite_is_skipped_and_the_scale_falls() -> Result<()> {
    let weight = Var::from_tensor(&tensor(&[1.0, 2.0], &[2]))?;
    let mut scaler = GradScaler::default();
    let good = descend(&mut scaler, &weight, 0.25)?;
    assert_eq!((good.skipped, good.scale, good.next_scale), (false, 65536.0, 65536.0));
    assert_eq!(weight.to_vec1::<f32>()?, [0.875, 1.875]);
    let bad = descend(&mut scaler, &weight, 1e36)?;
    assert_eq!((bad.skipped, bad.scale, bad.next_scale, bad.stop), (true, 65536.0, 32768.0, None));
    assert_eq!(weight.to_vec1::<f32>()?, [0.875, 1.875], "nothing is updated");
    assert_eq!(scaler.state().skipped, 1);
    Ok(())
}

/// States are those of PyTorch's class, and a saved state goes on as if nothing had happened.
#[test]
fn states_are_pytorchs_and_can_be_saved() -> Result<()> {
    let rule = Scaler::Dynamic {
        init: 65536.0,
        growth: 2.0,
        backoff: 0.5,
        interval: 3,
        floor: 1.0,
        knobs: ScaleKnobs::default(),
        skips: SkipRules::default(),
    };
    let expected = [
        (65536.0, 1),
        (65536.0, 2),
        (131_072.0, 0),
        (65536.0, 0),
        (65536.0, 1),
        (65536.0, 2),
        (131_072.0, 0),
        (65536.0, 0),
        (65536.0, 1),
        (65536.0, 2),
    ];
    let weight = Var::from_tensor(&tensor(&[1.0], &[1]))?;
    let mut scaler = GradScaler::new(&rule);
    for (letter, (scale, tracker)) in "gggigggigg".chars().zip(expected) {
        descend(&mut scaler, &weight, if letter == 'i' { f32::INFINITY } else { 0.5 })?;
        let state = scaler.state();
        assert_eq!((state.scale, state.growth_tracker), (scale, tracker));
        let text = serde_json::to_string(&state).expect("JSON");
        let mut fresh = GradScaler::new(&rule);
        fresh.load(&serde_json::from_str(&text).expect("a state"))?;
        assert_eq!(fresh.state(), state);
        scaler = fresh;
    }
    let broken = super::State { scale: 0.0, ..scaler.state() };
    assert!(scaler.load(&broken).is_err());
    Ok(())
}

#[test]
fn micro_batches_add_up_and_clipping_is_after_unscaling() -> Result<()> {
    let weight = Var::from_tensor(&tensor(&[3.0, 4.0], &[2]))?;
    let variables = [weight.clone()];
    let mut scaler = GradScaler::default();
    let half = || -> Result<Tensor> { weight.as_tensor().sqr()?.sum_all()?.affine(0.25, 0.0) };
    let unscaled = scaler.scale(&half()?)?.backward()?.accumulate(&half()?)?.unscale(&variables)?;
    let (clipped, norm) = unscaled.clip(&variables, 1.0)?;
    assert_eq!(norm, 5.0);
    let gradient = clipped.gradients().get(&weight).expect("a gradient").to_vec1::<f32>()?;
    assert!((gradient[0] - 0.6).abs() < 1e-6 && (gradient[1] - 0.8).abs() < 1e-6, "{gradient:?}");
    let _ = clipped.step(|_| Ok(()))?.update();
    Ok(())
}

#[test]
fn misuse_is_refused_in_words() -> Result<()> {
    let mut scaler = GradScaler::default();
    let half = Var::from_tensor(&tensor(&[1.0], &[1]).to_dtype(DType::F16)?)?;
    let loss = half.as_tensor().sum_all()?;
    let fault = scaler.scale(&loss)?.backward()?.unscale(&[half]).expect_err("f16").to_string();
    assert!(fault.contains("keep masters in f32"), "{fault}");
    let [used, unused] = [Var::from_tensor(&ramp(&[1]))?, Var::from_tensor(&ramp(&[1]))?];
    let loss = used.as_tensor().sum_all()?;
    let fault = scaler.scale(&loss)?.backward()?.unscale(&[unused]).expect_err("no gradient").to_string();
    assert!(fault.contains("does not reach"), "{fault}");
    Ok(())
}

#[test]
fn a_floor_says_when_to_stop() -> Result<()> {
    let rule = Scaler::Dynamic {
        init: 2.0,
        growth: 2.0,
        backoff: 0.5,
        interval: 3,
        floor: 1.0,
        knobs: ScaleKnobs { at_floor: AtFloor::HoldOnce, ..ScaleKnobs::default() },
        skips: SkipRules::default(),
    };
    let weight = Var::from_tensor(&tensor(&[1.0], &[1]))?;
    let mut scaler = GradScaler::new(&rule);
    assert_eq!(descend(&mut scaler, &weight, f32::INFINITY)?.stop, None);
    let outcome = descend(&mut scaler, &weight, f32::INFINITY)?;
    assert_eq!((outcome.next_scale, outcome.stop), (1.0, Some(crate::exec::scaling::Stop::Floor(1.0))));
    Ok(())
}

#[test]
fn each_loss_has_a_scale_of_its_own() -> Result<()> {
    let weight = Var::from_tensor(&tensor(&[2.0, -3.0], &[2]))?;
    let variables = [weight.clone()];
    let scaler = |init: f32| {
        let (floor, knobs, skips) = (1.0, ScaleKnobs::default(), SkipRules::default());
        GradScaler::new(&Scaler::Dynamic {
            init,
            growth: 2.0,
            backoff: 0.5,
            interval: 2,
            floor,
            knobs,
            skips,
        })
    };
    let (mut first, mut second) = (scaler(1024.0), scaler(8.0));
    let squares = || weight.sqr()?.sum_all();
    let sum = |factor: f64| weight.as_tensor().affine(factor, 0.0)?.sum_all();
    // The sum of both gradients, whatever their scales: 2 w + 5, of norm 9.06 before clipping to half of that.
    let both = first.scale(&squares()?)?.backward()?.unscale(&variables)?;
    let both = both.beside(second.scale(&sum(5.0)?)?.backward()?.unscale(&variables)?)?;
    let (both, norm) = both.clip(&variables, 1e9)?;
    assert_eq!(norm, 82.0_f32.sqrt());
    let mut seen = Vec::new();
    let outcomes = both
        .step(|gradients| {
            seen = gradients.get(&weight).expect("a gradient").to_vec1::<f32>()?;
            Ok(())
        })?
        .update();
    assert_eq!((seen, outcomes.len()), (vec![9.0, -1.0], 2));
    assert!(outcomes.iter().all(|outcome| !outcome.skipped));
    // The second overflows: its scale alone falls, and nothing is updated.
    let both = first.scale(&squares()?)?.backward()?.unscale(&variables)?;
    let both = both.beside(second.scale(&sum(f64::from(f32::MAX))?)?.backward()?.unscale(&variables)?)?;
    assert!(both.found_non_finite());
    let outcomes = both.step(|_| panic!("an update"))?.update();
    assert!(outcomes.iter().all(|outcome| outcome.skipped));
    assert_eq!((first.get(), second.get()), (2048.0, 4.0));
    Ok(())
}
