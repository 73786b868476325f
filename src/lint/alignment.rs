//! Matrix dimensions that tensor cores cannot tile: no multiple of 8 for 16-bit formats, or of 4 for tf32.
//!
//! Source: NVIDIA, "Matrix Multiplication Background User's Guide", "Tensor Core Requirements": 16 bytes, which is 8 elements
//! of f16 or bf16 and 4 of tf32.

use super::Subject;
use crate::diag::number::{count, counted};
use crate::diag::{Diagnostic, codes};
use crate::graph::{DType, Graph, Node, Op};
use std::collections::BTreeSet;

/// Bytes that tensor cores read at once.
const TILE_BYTES: usize = 16;

/// One dimension of a product.
struct Dimension {
    what: &'static str,
    size: usize,
    /// Elements that it has to be a multiple of.
    multiple: usize,
    /// Parameters for each unit of the dimension.
    parameters: usize,
}

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    if subject.plan.environment.target != "cuda" {
        return Vec::new();
    }
    let graph = &subject.compiled.precise.graph;
    let mut said = BTreeSet::new();
    let mut advice = Vec::new();
    for node in &graph.nodes {
        for dimension in dimensions(graph, node) {
            let fits = dimension.size.is_multiple_of(dimension.multiple);
            if !fits && said.insert((node.layer.clone(), dimension.what)) {
                advice.push(say(subject, node, &dimension));
            }
        }
    }
    advice
}

/// The dimensions of a product in a format of tensor cores; the features of the data are not the model's to change.
fn dimensions(graph: &Graph, node: &Node) -> Vec<Dimension> {
    let Some(weight) = node.inputs.get(1).map(|id| graph.value(*id)) else { return Vec::new() };
    if !matches!(weight.dtype, DType::F16 | DType::Bf16 | DType::Tf32) {
        return Vec::new();
    }
    let multiple = TILE_BYTES / weight.dtype.bytes();
    match (&node.op, weight.shape.as_slice()) {
        (Op::Linear { .. }, [out, input]) => vec![
            Dimension { what: "outputs", size: *out, multiple, parameters: *input },
            Dimension { what: "inputs", size: *input, multiple, parameters: *out },
        ],
        // The first convolution of a model sees the channels of the image.
        (Op::Conv2d { groups: 1, .. }, [out, input, height, width]) => {
            let taps = height * width;
            let mut found =
                vec![Dimension { what: "output channels", size: *out, multiple, parameters: input * taps }];
            if *input > 4 {
                found.push(Dimension {
                    what: "input channels",
                    size: *input,
                    multiple,
                    parameters: out * taps,
                });
            }
            found
        }
        _ => Vec::new(),
    }
}

fn say(subject: &Subject<'_>, node: &Node, dimension: &Dimension) -> Diagnostic {
    let Dimension { what, size, multiple, parameters } = dimension;
    let format = if *multiple == 4 { "tf32" } else { "a 16-bit format" };
    let padded = size.next_multiple_of(*multiple);
    let more = ((padded - size) * parameters) as u64;
    let message = format!(
        "{} `{}`: {} {what} in {format} are no multiple of {multiple}, so tensor cores pad or leave out the product",
        node.op.kind(),
        node.layer,
        count(*size as u64)
    );
    let percent = 100.0 * (padded - size) as f64 / *size as f64;
    let diagnostic = Diagnostic::warning(codes::ALIGNMENT, message);
    subject.at(diagnostic, &node.layer).help(format!(
        "make it {}: {}, {percent:.2} % more multiply-adds of this layer",
        count(padded as u64),
        counted(more, "more parameter")
    ))
}
