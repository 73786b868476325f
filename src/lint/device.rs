//! What the named device cannot do: tensor cores since compute capability 7.0 (Volta), bf16 and tf32 since 8.0 (Ampere), FP8 since 8.9
//! (Ada).
//!
//! Source: CUDA C++ Programming Guide, "Compute Capabilities".

use super::Subject;
use crate::arithmetic::half::Format;
use crate::diag::{Diagnostic, codes};

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let plan = subject.plan;
    let Some(device) = subject.device() else { return Vec::new() };
    let uses = |format| {
        plan.precision.low == format || plan.precision.rules.iter().any(|rule| rule.format == format)
    };
    let (name, (major, minor)) = (&device.name, device.capability);
    let mut advice = Vec::new();
    if major < 7 && (uses(Format::F16) || uses(Format::Bf16)) {
        let message = format!(
            "the {name} (compute capability {major}.{minor}) has no tensor cores: a 16-bit format saves memory there and no time"
        );
        advice.push(
            Diagnostic::warning(codes::NO_TENSOR_CORES, message)
                .help("take `precision \"fp32\"`, or a device of capability 7.0 or later"),
        );
    } else if major < 8 && uses(Format::Bf16) {
        let message =
            format!("the {name} (compute capability {major}.{minor}) computes no bf16: it came with 8.0");
        advice.push(
            Diagnostic::warning(codes::NO_TENSOR_CORES, message)
                .help("take `precision \"amp-fp16\"` with `scaler \"dynamic\"`"),
        );
    }
    if major < 8 && uses(Format::Tf32) {
        let message = format!(
            "the {name} (compute capability {major}.{minor}) computes no tf32: it came with 8.0, and before products run in f32"
        );
        advice.push(
            Diagnostic::warning(codes::NO_TENSOR_CORES, message)
                .help("take `precision \"fp32\"`, or a device of capability 8.0 or later"),
        );
    }
    if (major, minor) < (8, 9) && plan.precision.eight.is_some() {
        let message = format!(
            "the {name} (compute capability {major}.{minor}) has no FP8: it came with 8.9, and before products of it are converted first"
        );
        advice.push(
            Diagnostic::warning(codes::NO_TENSOR_CORES, message)
                .help("take `precision \"amp-bf16\"`, or a device of capability 8.9 or later"),
        );
    }
    let rule = plan.precision.rules.iter().find(|rule| rule.format != Format::F32);
    let place = match rule {
        Some(rule) if plan.precision.low == Format::F32 => rule.origin.as_str(),
        _ => "precision",
    };
    advice
        .into_iter()
        .map(|diagnostic| {
            let diagnostic = subject.at_origin(diagnostic, place, "asks for the format");
            subject.at_origin(diagnostic, "environment", "names the device")
        })
        .collect()
}
