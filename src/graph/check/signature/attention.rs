//! The rules of attention and of what is made for it.

use super::super::super::infer;
use super::super::super::{Attention, DType, Op, Value};
use super::{Edges, alike, dtype, dtypes, float, inferred, product_of, require, shape};
use crate::diag::number::counted;

/// Forward ops of this family.
pub(super) fn forward(op: &Op, edges: Edges) -> Result<(), String> {
    match op {
        Op::Attention(rule) => {
            let [y, log_sum_exp] = edges.outputs else { return Err("has not two results".to_owned()) };
            attention(rule, edges.inputs, y, log_sum_exp)
        }
        Op::MatrixProduct { transpose_left, transpose_right } => {
            let ([left, right], [y]) = edges.counts()?;
            product_of(&[left, right], &[y])?;
            inferred(y, infer::matrix_product(&left.shape, &right.shape, *transpose_left, *transpose_right))
        }
        Op::RelativePositionBias(rule) => {
            let ([weight], [y]) = edges.counts()?;
            position_bias(rule.buckets, weight, y)
        }
        Op::DisentangledBias(_) => {
            let [y] = edges.outputs else { return Err("has not one result".to_owned()) };
            disentangled(op, edges.inputs, y)
        }
        Op::NotEqual { .. } => {
            let ([x], [y]) = edges.counts()?;
            dtype(y, DType::F32)?;
            shape(y, &x.shape)
        }
        _ => Err("is no forward op".to_owned()),
    }
}

/// Backward ops of this family.
pub(super) fn backward(op: &Op, edges: Edges) -> Result<(), String> {
    match op {
        Op::AttentionBackward { rule, bias_gradient } => {
            let count = 6 + usize::from(rule.bias) + usize::from(rule.mask);
            require(edges.inputs.len() == count, || format!("has not {count} operands"))?;
            let (y, log_sum_exp) = (edges.inputs[count - 2], edges.inputs[count - 1]);
            let (dy, query) = (edges.inputs[0], edges.inputs[1]);
            dtype(dy, query.dtype)?;
            shape(dy, &y.shape)?;
            attention(rule, &edges.inputs[1..count - 2], y, log_sum_exp)?;
            require(edges.outputs.len() == 3 + usize::from(*bias_gradient), || {
                "has a wrong number of results".to_owned()
            })?;
            require(rule.bias || !bias_gradient, || "has a gradient of no bias".to_owned())?;
            let (operands, results) = (&edges.inputs[1..], edges.outputs);
            operands[..3].iter().zip(results).try_for_each(|(of, result)| gradient(of, result))?;
            results.get(3).map_or(Ok(()), |dbias| alike(operands[3], &[dbias]))
        }
        Op::RelativePositionBiasBackward(rule) => {
            let ([dy], [dweight]) = edges.counts()?;
            position_bias(rule.buckets, dweight, dy)
        }
        Op::DisentangledBiasBackward(_) => {
            let [dy, operands @ ..] = edges.inputs else { return Err("has no operand".to_owned()) };
            disentangled(op, operands, dy)?;
            require(operands.len() == edges.outputs.len(), || {
                "has not a gradient for each operand".to_owned()
            })?;
            operands.iter().zip(edges.outputs).try_for_each(|(of, result)| gradient(of, result))
        }
        _ => Err("is no backward op".to_owned()),
    }
}

/// The gradient of an operand has its shape, and its dtype as far as results can.
fn gradient(of: &Value, result: &Value) -> Result<(), String> {
    product_of(&[of], &[result])?;
    shape(result, &of.shape)
}

/// [query, key, value, bias?, mask?] with the results.
fn attention(rule: &Attention, operands: &[&Value], y: &Value, log_sum_exp: &Value) -> Result<(), String> {
    let [query, key, value, rest @ ..] = operands else { return Err("has too few operands".to_owned()) };
    require(rest.len() == usize::from(rule.bias) + usize::from(rule.mask), || {
        format!("has {} after the value", counted(rest.len(), "operand"))
    })?;
    let (bias, mask) = rest.split_at(usize::from(rule.bias));
    dtypes(rest, DType::F32)?;
    product_of(&[query, key, value], &[y])?;
    let shapes = [query, key, value].map(|operand| operand.shape.as_slice());
    let [bias, mask] = [bias, mask].map(|operand| operand.first().map(|operand| operand.shape.as_slice()));
    let sizes = infer::attention(rule.heads, shapes, bias, mask).map_err(|fault| fault.message)?;
    shape(y, &query.shape)?;
    dtype(log_sum_exp, DType::F32)?;
    shape(log_sum_exp, &[sizes.batch, sizes.heads, sizes.queries])
}

fn position_bias(buckets: usize, weight: &Value, y: &Value) -> Result<(), String> {
    float(weight)?;
    dtype(y, weight.dtype)?;
    let [1, heads, queries, keys] = *y.shape else { return Err(format!("the bias has shape {:?}", y.shape)) };
    require(queries == keys, || "has other keys than queries".to_owned())?;
    shape(weight, &[buckets, heads])
}

fn disentangled(op: &Op, operands: &[&Value], y: &Value) -> Result<(), String> {
    let (Op::DisentangledBias(rule) | Op::DisentangledBiasBackward(rule)) = op else {
        return Err("is no disentangled bias".to_owned());
    };
    let count = 2 * (usize::from(rule.content_to_position) + usize::from(rule.position_to_content));
    require(operands.len() == count, || {
        format!("has {}, and must have {count}", counted(operands.len(), "operand"))
    })?;
    let pairs: Vec<(&[usize], &[usize])> =
        operands.chunks(2).map(|pair| (pair[0].shape.as_slice(), pair[1].shape.as_slice())).collect();
    let sizes = infer::disentangled_bias(rule.heads, rule.buckets, rule.max_position, &pairs)
        .map_err(|fault| fault.message)?;
    product_of(operands, &[])?;
    dtype(y, DType::F32)?;
    shape(y, &[sizes.batch, sizes.heads, sizes.queries, sizes.keys])
}
