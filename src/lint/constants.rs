//! Constants that a format of tensor cores turns into zero or infinity.
//!
//! The `eps` of a normalisation and of the optimizer is no such constant: both are computed in f32 in every policy.

use super::Subject;
use crate::arithmetic::half::{self, Format};
use crate::diag::{Diagnostic, codes};
use crate::graph::{DType, Graph, Op, ValueId};
use crate::plan::Initialiser;

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let graph = &subject.compiled.precise.graph;
    let mut advice = Vec::new();
    for parameter in &graph.parameters {
        let constant = match parameter.initialiser {
            Initialiser::Constant(value) => ("the value", value),
            Initialiser::Normal { std } => ("the standard deviation", std),
            _ => continue,
        };
        let Some(format) = cast_to(graph, parameter.value) else { continue };
        let name = &graph.value(parameter.value).name;
        let layer = name.rsplit_once('.').map_or(name.as_str(), |(layer, _)| layer);
        let told = say(&format!("`{name}`: {}", constant.0), constant.1, format);
        advice.extend(told.map(|told| named(subject.at(told, layer), layer)));
    }
    advice.extend(graph.nodes.iter().filter_map(|node| {
        let Op::Scale { factor } = node.op else { return None };
        // The product is rounded, not the factor: a small one flushes small values alone, as any rounding does.
        let told = say(&format!("`{}`: the factor", node.layer), factor, format_of(graph, node.outputs[0])?)
            .filter(|told| told.code == codes::OVERFLOWS)?;
        Some(named(subject.at(told, &node.layer), &node.layer))
    }));
    advice
}

/// Puts the layer's path where the help has a layer without a name.
fn named(mut diagnostic: Diagnostic, layer: &str) -> Diagnostic {
    diagnostic.help = diagnostic.help.map(|help| help.replace("layer \"…\"", &format!("layer \"{layer}\"")));
    diagnostic
}

/// The format of less digits than f32 that a parameter is used in, if any.
fn cast_to(graph: &Graph, parameter: ValueId) -> Option<Format> {
    let cast = graph.nodes.iter().find(|node| node.op == Op::Cast && node.inputs[0] == parameter)?;
    format_of(graph, cast.outputs[0])
}

/// The format of less digits than f32 that a value has, if any.
fn format_of(graph: &Graph, value: ValueId) -> Option<Format> {
    match graph.value(value).dtype {
        DType::F16 => Some(Format::F16),
        DType::Bf16 => Some(Format::Bf16),
        DType::Tf32 => Some(Format::Tf32),
        // What is FP8 is scaled into its range.
        DType::F32 | DType::E4m3 | DType::E5m2 | DType::I32 => None,
    }
}

/// What becomes of a constant in a format, if that is zero or infinity.
pub(super) fn say(what: &str, value: f32, format: Format) -> Option<Diagnostic> {
    let rounded = half::round(format, value);
    let name = match format {
        Format::F16 => "f16",
        Format::Bf16 => "bf16",
        Format::Tf32 => "tf32",
        Format::F32 | Format::E4m3 | Format::E5m2 => return None,
    };
    if value != 0.0 && rounded == 0.0 {
        let message =
            format!("{what} {value:e} is 0 in {name}, whose smallest number is {}", smallest(format));
        return Some(Diagnostic::warning(codes::FLUSHED, message).help(
            "write a larger value, or keep the layer in f32: `precision … { layer \"…\" dtype=\"f32\" }`",
        ));
    }
    if value.is_finite() && !rounded.is_finite() {
        let message =
            format!("{what} {value:e} is infinite in {name}, whose largest number is {}", largest(format));
        return Some(Diagnostic::warning(codes::OVERFLOWS, message).help(format!(
            "write a value within ±{}, or keep the layer in f32: `precision … {{ layer \"…\" dtype=\"f32\" }}`",
            largest(format)
        )));
    }
    None
}

/// The smallest subnormal number.
fn smallest(format: Format) -> &'static str {
    match format {
        Format::F16 => "5.96e-8",
        Format::Bf16 => "9.18e-41",
        Format::Tf32 => "1.15e-41",
        Format::E4m3 => "1.95e-3",
        Format::E5m2 => "1.53e-5",
        Format::F32 => "1.40e-45",
    }
}

/// The largest finite number.
fn largest(format: Format) -> &'static str {
    match format {
        Format::F16 => "65504",
        Format::Bf16 => "3.39e38",
        Format::E4m3 => "448",
        Format::E5m2 => "57344",
        Format::Tf32 | Format::F32 => "3.40e38",
    }
}
