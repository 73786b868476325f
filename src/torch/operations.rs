//! Each op as an expression of PyTorch. A new op has its line here, or is refused.

use super::Target;
use super::autocast::Context;
use super::forward::Forward;
use super::names::{number, pair, shape, truth};
use super::relative;
use crate::graph::{Attention, DType, Interpolation, Node, Op, Unary};

/// A function that expressions call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Helper {
    /// Splits features into heads.
    Heads,
    /// Turns pairs of features.
    Turned,
}

impl Helper {
    /// Its Python.
    pub fn text(self) -> &'static str {
        match self {
            Self::Heads => {
                "def heads(x, count):\n    \"\"\"(N, T, H·D) as (N, H, T, D).\"\"\"\n    return x.unflatten(-1, (count, -1)).transpose(1, 2)\n"
            }
            Self::Turned => relative::TURNED,
        }
    }
}

/// The expression of a node whose operands are read so; `None` for an op that PyTorch does not have. The ops that no forward pass of
/// training has are among these.
pub fn expression(
    forward: &mut Forward<'_>,
    node: &Node,
    operands: &[String],
    context: Context,
) -> Option<String> {
    let own = |index: usize| operands.get(index).map_or("None", String::as_str);
    let x = own(0);
    let gives = &forward.graph.value(node.outputs[0]).shape;
    Some(match &node.op {
        Op::Linear { bias } => match bias {
            true => format!("F.linear({x}, {}, {})", own(1), own(2)),
            false => format!("F.linear({x}, {})", own(1)),
        },
        Op::Conv2d { stride, padding, dilation, groups, bias } => {
            let bias = if *bias { own(2) } else { "None" };
            let (stride, padding, dilation) = (pair(*stride), pair(*padding), pair(*dilation));
            format!("F.conv2d({x}, {}, {bias}, {stride}, {padding}, {dilation}, {groups})", own(1))
        }
        Op::Embedding { padding_index } => {
            let padding = padding_index.map_or(String::new(), |row| format!(", padding_idx={row}"));
            format!("F.embedding({}, {x}{padding})", own(1))
        }
        Op::Gather => {
            format!("{x}.gather(1, {}.unsqueeze(-1).expand(-1, -1, {}))", own(1), gives.last()?)
        }
        Op::RotaryPosition { heads, base, interleaved, inverse } => {
            let [_, positions, features] = *gives.as_slice() else { return None };
            let rotation =
                relative::Rotation { positions, width: features / heads, base: *base, inverse: *inverse };
            let (cosine, sine) = relative::rotation(forward, &rotation);
            format!("turned({x}, {heads}, {cosine}, {sine}, {})", truth(*interleaved))
        }
        Op::Upsample2d { scale, mode } => {
            let (scale, mode) = (
                shape(scale),
                match mode {
                    Interpolation::Nearest => "mode=\"nearest\"",
                    Interpolation::Bilinear => "mode=\"bilinear\", align_corners=False",
                },
            );
            format!("F.interpolate({x}, scale_factor={scale}, {mode})")
        }
        Op::MaxPool2d { kernel, stride, padding } => {
            format!("F.max_pool2d({x}, {}, {}, {})", pair(*kernel), pair(*stride), pair(*padding))
        }
        Op::AveragePool2d { kernel, stride, padding, count_include_padding } => {
            let (kernel, stride, padding) = (pair(*kernel), pair(*stride), pair(*padding));
            let counted = truth(*count_include_padding);
            format!("F.avg_pool2d({x}, {kernel}, {stride}, {padding}, count_include_pad={counted})")
        }
        Op::BatchNorm { .. } | Op::LayerNorm { .. } | Op::RmsNorm { .. } | Op::GroupNorm { .. } => {
            normalised(forward, node, operands)?
        }
        Op::Unary(function) => unary(*function, x),
        Op::Dropout { p, .. } => format!("F.dropout({x}, {}, self.training)", number(*p)),
        Op::Add => format!("{x} + {}", own(1)),
        Op::Subtract => format!("{x} - {}", own(1)),
        Op::Multiply => format!("{x} * {}", own(1)),
        Op::Scale { factor } => format!("{x} * {}", number(*factor)),
        Op::Expand => format!("{x}.expand({})", shape(gives)),
        Op::Slice { axis, start } => format!("{x}.narrow({axis}, {start}, {})", gives.get(*axis)?),
        Op::Mean { start, end } => format!("{x}.mean({})", shape(&(*start..*end).collect::<Vec<_>>())),
        Op::Reshape => format!("{x}.reshape({})", shape(gives)),
        Op::Transpose { axes } => format!("{x}.permute({})", shape(axes)),
        Op::Concatenate { axis } => format!("torch.cat(({}), {axis})", operands.join(", ")),
        Op::Softmax { axis } => format!("F.softmax({x}, {axis})"),
        Op::Attention(rule) => attention(forward, node, rule, operands, context),
        Op::MatrixProduct { transpose_left, transpose_right } => {
            let turned =
                |text: &str, turn: bool| format!("{text}{}", if turn { ".transpose(-1, -2)" } else { "" });
            format!("torch.matmul({}, {})", turned(x, *transpose_left), turned(own(1), *transpose_right))
        }
        Op::RelativePositionBias(rule) => relative::position_bias(forward, rule, *gives.get(2)?, x),
        Op::DisentangledBias(rule) => relative::disentangled(forward, rule, *gives.get(2)?, operands),
        Op::NotEqual { value } => format!("({x} != {value}).float()"),
        Op::CrossEntropy { label_smoothing, ignore_index } => {
            let rows = forward.graph.value(node.inputs[1]).shape.len() > 1;
            let (rows, labels) = if rows { (".flatten(0, -2)", ".flatten()") } else { ("", "") };
            let ignored = ignore_index.map_or(String::new(), |label| format!(", ignore_index={label}"));
            let smoothed = match label_smoothing {
                0.0 => String::new(),
                share => format!(", label_smoothing={}", number(*share)),
            };
            format!("F.cross_entropy({x}{rows}, {}{labels}{ignored}{smoothed})", own(1))
        }
        Op::MeanSquaredError => format!("F.mse_loss({x}, {})", own(1)),
        _ => return None,
    })
}

fn unary(function: Unary, x: &str) -> String {
    match function {
        Unary::Relu => format!("F.relu({x})"),
        Unary::Gelu => format!("F.gelu({x})"),
        Unary::GeluTanh => format!("F.gelu({x}, approximate=\"tanh\")"),
        Unary::Silu => format!("F.silu({x})"),
        Unary::Tanh => format!("torch.tanh({x})"),
        Unary::Sigmoid => format!("torch.sigmoid({x})"),
    }
}

/// A normalisation. Its parameters are f32, and CUDA's kernels of layer and group normalisation want them as x.
fn normalised(forward: &Forward<'_>, node: &Node, operands: &[String]) -> Option<String> {
    let dtype = forward.graph.value(node.inputs[0]).dtype;
    let narrow = forward.target == Target::Cuda && dtype != DType::F32;
    let own = |index: usize| operands.get(index).map_or("None", String::as_str);
    let as_x = |index: usize| match operands.get(index) {
        Some(parameter) if narrow => format!("{parameter}.to({})", super::forward::format_name(dtype)),
        _ => own(index).to_owned(),
    };
    let x = own(0);
    let features = format!("({},)", forward.graph.value(node.inputs[0]).shape.last()?);
    Some(match &node.op {
        Op::BatchNorm { eps, momentum } => {
            let (eps, momentum) = (number(*eps), number(*momentum));
            format!(
                "F.batch_norm({x}, {}, {}, {}, {}, True, {momentum}, {eps})",
                own(3),
                own(4),
                own(1),
                own(2)
            )
        }
        Op::LayerNorm { eps } => {
            format!("F.layer_norm({x}, {features}, {}, {}, {})", as_x(1), as_x(2), number(*eps))
        }
        Op::RmsNorm { eps } => format!("F.rms_norm({x}, {features}, {}, {})", as_x(1), number(*eps)),
        Op::GroupNorm { groups, eps, .. } => {
            format!("F.group_norm({x}, {groups}, {}, {}, {})", as_x(1), as_x(2), number(*eps))
        }
        _ => return None,
    })
}

/// PyTorch's fused attention. It takes one mask: a bias, with -inf where no query attends.
fn attention(
    forward: &mut Forward<'_>,
    node: &Node,
    rule: &Attention,
    operands: &[String],
    context: Context,
) -> String {
    forward.helper(Helper::Heads);
    let parts: Vec<String> =
        operands.iter().take(3).map(|operand| format!("heads({operand}, {})", rule.heads)).collect();
    let mut settings = String::new();
    if rule.bias || rule.mask {
        settings.push_str(&format!(", attn_mask={}", mask(forward, node, rule, operands, context)));
    } else if rule.causal {
        settings.push_str(", is_causal=True");
    }
    if rule.p > 0.0 {
        settings.push_str(&format!(", dropout_p={} if self.training else 0.0", number(rule.p)));
    }
    settings.push_str(&format!(", scale={}", number(rule.scale)));
    format!("F.scaled_dot_product_attention({}{settings}).transpose(1, 2).flatten(2)", parts.join(", "))
}

/// The mask of an attention that has more than the order of its keys.
fn mask(
    forward: &mut Forward<'_>,
    node: &Node,
    rule: &Attention,
    operands: &[String],
    context: Context,
) -> String {
    let given = operands.get(3 + usize::from(rule.bias)).map_or("None", String::as_str);
    let sizes =
        [0, 1].map(|operand| forward.graph.value(node.inputs[operand]).shape.get(1).copied().unwrap_or(1));
    let causal = |forward: &mut Forward<'_>| {
        let [queries, keys] = sizes;
        forward.constant("earlier", format!("torch.ones({queries}, {keys}, dtype=torch.bool).tril()"))
    };
    if !rule.bias {
        let attends = format!("({given} != 0)[:, None, None, :]");
        let attends = if rule.causal { format!("{attends} & {}", causal(forward)) } else { attends };
        return forward.shared(attends, &node.layer);
    }
    let mut text = operands[3].clone();
    if rule.mask {
        text.push_str(&format!(".masked_fill(({given} == 0)[:, None, None, :], -torch.inf)"));
    }
    if rule.causal {
        text.push_str(&format!(".masked_fill(~{}, -torch.inf)", causal(forward)));
    }
    // Autocast brings it to the format of the query; without, the kernels want it so.
    let query = forward.graph.value(node.inputs[0]).dtype.gradient();
    if context != Context::On && query != DType::F32 {
        text.push_str(&format!(".to({})", super::forward::format_name(query)));
    }
    text
}
