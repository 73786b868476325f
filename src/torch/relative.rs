//! What depends on positions: rotations, T5's buckets, DeBERTa's disentangled bias. Tables are made once, of whole numbers that amp
//! computed, so that no position is in another bucket for a logarithm's rounding.

use super::forward::Forward;
use super::names::number;
use super::operations::Helper;
use crate::arithmetic::position::{deberta_rows, t5_buckets};
use crate::graph::{Disentangled, PositionBuckets};

/// Rotary positions as models of Hugging Face compute them: tables in f32, brought to the format of x.
pub const TURNED: &str = r#"def turned(x, count, cosine, sine, interleaved):
    """Turns pairs of features of (N, T, H·D) by the angles of their positions."""
    x = x.unflatten(-1, (count, -1))
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    cosine, sine = cosine.to(x.dtype)[:, None], sine.to(x.dtype)[:, None]
    pair = a * cosine - b * sine, b * cosine + a * sine
    return (torch.stack(pair, -1) if interleaved else torch.cat(pair, -1)).flatten(2)
"#;

/// The angles of positions.
pub struct Rotation {
    /// Positions of a sequence.
    pub positions: usize,
    /// Features of a head.
    pub width: usize,
    /// Of the angles.
    pub base: f32,
    /// Whether the turn is undone.
    pub inverse: bool,
}

/// The attributes of the tables of cosines and sines, (T, D/2).
pub fn rotation(forward: &mut Forward<'_>, rotation: &Rotation) -> (String, String) {
    forward.helper(Helper::Turned);
    let Rotation { positions, width, base, inverse } = rotation;
    let angles = format!(
        "torch.outer(torch.arange({positions}.0), 1.0 / {} ** (torch.arange(0, {width}, 2) / {width}))",
        number(*base)
    );
    let sign = if *inverse { "-" } else { "" };
    let cosine = forward.constant("cosine", format!("{angles}.cos()"));
    (cosine, forward.constant("sine", format!("{sign}{angles}.sin()")))
}

/// The attribute of a table (T, T) of what `list` holds for each difference of two positions, counted from -(T - 1): of second − first,
/// or of first − second.
fn differences(forward: &mut Forward<'_>, list: &[u32], length: usize, second_first: bool) -> String {
    let numbers: Vec<String> = list.iter().map(u32::to_string).collect();
    let positions = format!("torch.arange({length})");
    let (plus, minus) = if second_first { ("None, :", ":, None") } else { (":, None", "None, :") };
    let text = format!(
        "torch.tensor([{}])[{positions}[{plus}] - {positions}[{minus}] + {}]",
        numbers.join(", "),
        length.saturating_sub(1)
    );
    forward.constant("rows", text)
}

/// T5's bias (1, H, T, T) from its table (buckets, H).
pub fn position_bias(
    forward: &mut Forward<'_>,
    rule: &PositionBuckets,
    length: usize,
    table: &str,
) -> String {
    let buckets = t5_buckets(length, rule.buckets, rule.max_distance, rule.bidirectional);
    let rows = differences(forward, &buckets, length, true);
    format!("F.embedding({rows}, {table}).permute(2, 0, 1).unsqueeze(0)")
}

/// DeBERTa's bias (N, H, T, T): scores of contents and tables of positions, of which each pair of positions picks one.
pub fn disentangled(
    forward: &mut Forward<'_>,
    rule: &Disentangled,
    length: usize,
    operands: &[String],
) -> String {
    forward.helper(Helper::Heads);
    let rows = differences(forward, &deberta_rows(length, rule.buckets, rule.max_position), length, false);
    let heads = rule.heads;
    let mut terms = Vec::new();
    for (pair, of_key) in operands.chunks(2).zip(match rule.content_to_position {
        true => [false, true],
        false => [true, true],
    }) {
        let [content, table] = pair else { continue };
        let scores =
            format!("torch.matmul(heads({content}, {heads}), heads({table}, {heads}).transpose(-1, -2))");
        let picked = |rows: &str| {
            format!("{scores}.gather(-1, {rows}[None, None].expand({content}.shape[0], {heads}, -1, -1))")
        };
        // What belongs to the key is found at [key, query].
        terms.push(match of_key {
            true => format!("{}.transpose(-1, -2)", picked(&format!("{rows}.t()"))),
            false => picked(&rows),
        });
    }
    format!("({}).float() * {}", terms.join(" + "), number(rule.scale))
}
