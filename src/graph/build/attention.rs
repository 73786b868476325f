//! The layers of several operands: attention and what is made for it.

use super::super::infer::{self, Fault, HeadSizes};
use super::super::{Attention, DType, Disentangled, Op, PositionBuckets, Role, ValueId, codes};
use super::layer::dropout_stream;
use super::{Builder, Place};
use crate::diag::number::counted;
use crate::plan::LayerKind;
use std::collections::BTreeSet;

/// The operand of a name.
fn operand(operands: &[(&str, ValueId)], name: &str) -> Option<ValueId> {
    operands.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
}

/// 1/sqrt(size), computed in f64 and rounded once, as PyTorch does.
fn inverse_root(size: usize) -> f32 {
    (1.0 / (size as f64).sqrt()) as f32
}

impl Builder {
    /// Adds a layer of several operands.
    pub(super) fn attention_family(
        &mut self,
        place: Place,
        kind: &LayerKind,
        operands: &[(&str, ValueId)],
    ) -> Option<ValueId> {
        match kind {
            LayerKind::Attention { .. } => self.attention(place, kind, operands),
            LayerKind::MatrixProduct { transpose_right } => {
                let [left, right] = self.required(place, operands, ["left", "right"])?;
                let shape =
                    infer::matrix_product(&self.shape(left), &self.shape(right), false, *transpose_right);
                let shape = self.checked(place, Some(left), shape)?;
                let op = Op::MatrixProduct { transpose_left: false, transpose_right: *transpose_right };
                self.result(place, op, vec![left, right], shape)
            }
            LayerKind::DisentangledBias { .. } => self.disentangled_bias(place, kind, operands),
            _ => {
                let first = operands.first().map(|(_, value)| *value);
                let fault = Fault::new(codes::SHAPE, "this layer takes one operand alone");
                self.fault(place, first, fault);
                None
            }
        }
    }

    /// The operands of these names; the resolver asks for them, so that one is missing from a plan made by hand alone.
    fn required<const N: usize>(
        &mut self,
        place: Place,
        operands: &[(&str, ValueId)],
        names: [&str; N],
    ) -> Option<[ValueId; N]> {
        let found = names.map(|name| operand(operands, name));
        if let Some(missing) = found.iter().position(Option::is_none) {
            let message = format!("the operand `{0}` is missing: add `{0} {{ … }}`", names[missing]);
            self.fault(place, operands.first().map(|(_, value)| *value), Fault::new(codes::SHAPE, message));
            return None;
        }
        Some(found.map(|value| value.expect("every operand was found")))
    }

    /// Reports a value that has no gradient and hangs on parameters: they would never be trained (AMP0313).
    pub(super) fn without_parameters(&mut self, place: Place, id: Option<ValueId>, why: &str) {
        let mut waiting: Vec<ValueId> = id.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            let value = self.graph.value(id);
            if value.role == Role::Parameter {
                let message = format!("{why}, and has no gradient for `{}` before it", value.name);
                let fault = Fault::new(codes::UNTRAINABLE, message).help("make it of the features alone");
                self.fault(place, Some(id), fault);
                return;
            }
            if seen.insert(id) {
                let maker = self.graph.nodes.iter().find(|node| node.outputs.contains(&id));
                waiting.extend(maker.into_iter().flat_map(|node| node.inputs.iter().copied()));
            }
        }
    }

    fn attention(&mut self, place: Place, kind: &LayerKind, operands: &[(&str, ValueId)]) -> Option<ValueId> {
        let LayerKind::Attention { heads, causal, dropout, terms, scale } = *kind else { return None };
        let [query, key, value] = self.required(place, operands, ["query", "key", "value"])?;
        let (bias, mask) = (operand(operands, "bias"), operand(operands, "mask"));
        self.without_parameters(place, mask, "a mask decides");
        let shapes = [query, key, value].map(|id| self.shape(id));
        let [bias_shape, mask_shape] = [bias, mask].map(|id| id.map(|id| self.shape(id)));
        let sizes = infer::attention(
            heads,
            shapes.each_ref().map(Vec::as_slice),
            bias_shape.as_deref(),
            mask_shape.as_deref(),
        );
        let HeadSizes { batch, queries, size, .. } = self.checked(place, Some(query), sizes)?;
        let rule = Attention {
            heads,
            causal,
            scale: scale.unwrap_or_else(|| inverse_root(size.saturating_mul(terms.max(1)))),
            p: dropout,
            stream: if dropout > 0.0 { dropout_stream(place.path) } else { 0 },
            bias: bias.is_some(),
            mask: mask.is_some(),
        };
        let inputs = [query, key, value].into_iter().chain(bias).chain(mask).collect();
        let results = vec![
            ("output", shapes[0].clone(), DType::F32),
            ("log_sum_exp", vec![batch, heads, queries], DType::F32),
        ];
        Some(self.node(place, Op::Attention(rule), inputs, results)?[0])
    }

    fn disentangled_bias(
        &mut self,
        place: Place,
        kind: &LayerKind,
        operands: &[(&str, ValueId)],
    ) -> Option<ValueId> {
        let LayerKind::DisentangledBias {
            heads,
            buckets,
            max_position,
            content_to_position,
            position_to_content,
            scale,
        } = *kind
        else {
            return None;
        };
        let mut pairs = Vec::new();
        let terms = [
            (content_to_position, "content-to-position", ["query", "position-key"]),
            (position_to_content, "position-to-content", ["key", "position-query"]),
        ];
        for (asked, property, names) in terms {
            if asked {
                pairs.push(self.required(place, operands, names)?);
            } else if let Some((name, value)) = operands.iter().find(|(name, _)| names.contains(name)) {
                // Its chain would be computed for nothing.
                let message = format!("the operand `{name}` has no use without `{property}`");
                let fault = Fault::new(codes::SHAPE, message);
                self.fault(place, Some(*value), fault.help(format!("delete `{name} {{ … }}`")));
                return None;
            }
        }
        let shapes: Vec<_> = pairs.iter().map(|pair| pair.map(|id| self.shape(id))).collect();
        let views: Vec<(&[usize], &[usize])> =
            shapes.iter().map(|[content, table]| (content.as_slice(), table.as_slice())).collect();
        let sizes = infer::disentangled_bias(heads, buckets, max_position, &views);
        let HeadSizes { batch, queries, keys, size, .. } =
            self.checked(place, pairs.first().map(|pair| pair[0]), sizes)?;
        // The term of the contents, which the attention itself has, counts too.
        let scale = scale.unwrap_or_else(|| inverse_root(size.saturating_mul(1 + pairs.len())));
        let rule =
            Disentangled { heads, buckets, max_position, scale, content_to_position, position_to_content };
        let shape = vec![batch, heads, queries, keys];
        self.result(place, Op::DisentangledBias(rule), pairs.into_flattened(), shape)
    }

    /// Layers whose result is made of a table alone.
    pub(super) fn position_table(&mut self, place: Place, x: ValueId, kind: &LayerKind) -> Option<ValueId> {
        match *kind {
            LayerKind::RelativePositionBias { heads, buckets, max_distance, bidirectional, weight_init } => {
                let shape = self.shape(x);
                let shape =
                    infer::relative_position_bias(&shape, heads, buckets, max_distance, bidirectional);
                let shape = self.checked(place, Some(x), shape)?;
                let fans = (1, 1);
                let weight = self.parameter(place, "weight", vec![buckets, heads], weight_init, fans)?;
                let rule = PositionBuckets { buckets, max_distance, bidirectional };
                self.result(place, Op::RelativePositionBias(rule), vec![weight], shape)
            }
            LayerKind::Learned { rows, size, weight_init } => {
                if rows == 0 || size == 0 {
                    let message = format!(
                        "a table of {} of {} holds nothing",
                        counted(rows, "row"),
                        counted(size, "number")
                    );
                    self.fault(place, Some(x), Fault::new(codes::ZERO, message));
                    return None;
                }
                let weight = self.parameter(place, "weight", vec![rows, size], weight_init, (1, 1))?;
                self.result(place, Op::Reshape, vec![weight], vec![1, rows, size])
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
