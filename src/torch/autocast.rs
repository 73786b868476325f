//! What `torch.autocast` does with an op by itself, so that a program says no more than a person would.
//!
//! The lists are those of PyTorch's page "Automatic Mixed Precision package", section "Op-Specific Behavior", for CUDA and for the CPU.
//! Where an op's format is not the one that autocast would give it, the op is written with autocast off and its casts are spelled out.

use super::Target;
use crate::graph::{DType, Op};

/// What autocast does with an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Casts operands to the low format.
    Low,
    /// Casts operands to f32.
    F32,
    /// Nothing, but the op brings operands of different formats to the wider one.
    Promotes,
    /// Nothing.
    Nothing,
    /// Something that differs between versions of PyTorch, or inside the op; right where operands are f32 already.
    Unclear,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Autocast is on.
    On,
    /// Autocast is off.
    Off,
    /// It is the same.
    Either,
}

/// The rule of an op.
pub fn rule(op: &Op, target: Target) -> Rule {
    let cuda = target == Target::Cuda;
    match op {
        Op::Linear { .. }
        | Op::Conv2d { .. }
        | Op::Attention(_)
        | Op::MatrixProduct { .. }
        | Op::DisentangledBias(_) => Rule::Low,
        Op::LayerNorm { .. } | Op::GroupNorm { .. } | Op::Softmax { .. } if cuda => Rule::F32,
        Op::CrossEntropy { .. } | Op::MeanSquaredError if cuda => Rule::F32,
        Op::CrossEntropy { .. } | Op::MeanSquaredError | Op::RmsNorm { .. } | Op::Upsample2d { .. } => {
            Rule::Unclear
        }
        Op::Add | Op::Subtract | Op::Multiply | Op::Concatenate { .. } => Rule::Promotes,
        _ => Rule::Nothing,
    }
}

/// Where the line of an op stands that runs in the format `wanted`, and whether PyTorch brings the operands to it; `low` is autocast's
/// format, `None` without it. `roots` are the formats that the operands have without casts.
pub fn line(rule: Rule, wanted: DType, low: Option<DType>, roots: &[DType]) -> (Context, bool) {
    let promoted = || {
        let first = roots.first().copied().unwrap_or(wanted);
        if roots.iter().all(|root| *root == first) { first } else { DType::F32 }
    };
    match (rule, low) {
        (Rule::Promotes, _) => (Context::Either, promoted() == wanted),
        (_, None) => (Context::Either, false),
        (Rule::Low, Some(low)) if wanted == low => (Context::On, true),
        (Rule::F32, _) if wanted == DType::F32 => (Context::On, true),
        (Rule::Low | Rule::F32, _) => (Context::Off, false),
        (Rule::Unclear, _) if wanted != DType::F32 => (Context::Off, false),
        (Rule::Unclear | Rule::Nothing, _) => (Context::Either, false),
    }
}

#[cfg(test)]
mod tests {
    use super::{Context, Rule, line};
    use crate::graph::DType::{Bf16, F16, F32};

    #[test]
    fn casts_are_written_where_autocast_makes_none() {
        for (rule, wanted, low, roots, expected) in [
            (Rule::Low, F16, Some(F16), &[F32, F32][..], (Context::On, true)),
            (Rule::Low, F32, Some(F16), &[F16, F32], (Context::Off, false)),
            (Rule::Low, F32, None, &[F32, F32], (Context::Either, false)),
            (Rule::F32, F32, Some(Bf16), &[Bf16], (Context::On, true)),
            (Rule::F32, Bf16, Some(Bf16), &[Bf16], (Context::Off, false)),
            // PyTorch adds f16 to f32 in f32; it has to be told to add two of f16 in f32, or in f16 what is f32.
            (Rule::Promotes, F32, Some(F16), &[F16, F32], (Context::Either, true)),
            (Rule::Promotes, F32, Some(F16), &[F16, F16], (Context::Either, false)),
            (Rule::Promotes, F16, Some(F16), &[F16, F32], (Context::Either, false)),
            (Rule::Promotes, F32, Some(F16), &[F16, Bf16], (Context::Either, true)),
            (Rule::Nothing, F32, Some(F16), &[F16], (Context::Either, false)),
            (Rule::Unclear, F16, Some(F16), &[F16], (Context::Off, false)),
        ] {
            assert_eq!(line(rule, wanted, low, roots), expected, "{rule:?} {wanted} {roots:?}");
        }
    }
}
