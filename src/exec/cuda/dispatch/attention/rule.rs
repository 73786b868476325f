//! An attention's sizes, operands and rule, as kernels take them.

use crate::arithmetic::philox::Stream;
use crate::exec::cuda::dispatch::{Call, Operand};
use crate::exec::cuda::launch::{Arguments, Tensor};
use crate::graph::Attention;

/// An argument (N, length, H·D), whose positions may lie apart.
pub fn in_rows(arguments: Arguments, operand: Operand<'_>) -> Arguments {
    arguments.rows(operand.tensor, operand.pitch)
}

/// What both passes of an attention know.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// The rule of the graph.
    pub attention: &'a Attention,
    /// (N, T, H·D).
    pub query: Operand<'a>,
    /// (N, S, H·D).
    pub key: Operand<'a>,
    /// (N, S, H·D).
    pub value: Operand<'a>,
    /// Memory of the bias, and its shape; no memory where there is none.
    pub bias: Tensor,
    /// Four axes, each that of (N, H, T, S) or 1.
    pub bias_shape: [usize; 4],
    /// (N, S), where there is one.
    pub mask: Tensor,
    /// N.
    pub batch: usize,
    /// T.
    pub queries: usize,
    /// S.
    pub keys: usize,
    /// H.
    pub heads: usize,
    /// D.
    pub size: usize,
    /// The dropout's key.
    stream: u64,
    /// Where the dropout's step is.
    position: u64,
}

impl<'a> Rule<'a> {
    /// That of a forward node, whose operands begin with the query.
    pub fn forward(call: &'a Call<'_>, attention: &'a Attention) -> Option<Self> {
        Self::new(call, attention, call.inputs)
    }

    /// That of a backward node: dy, the operands, y, log-sum-exp.
    pub fn backward(call: &'a Call<'_>, attention: &'a Attention) -> Option<Self> {
        let [_, operands @ .., _, _] = call.inputs else { return None };
        Self::new(call, attention, operands)
    }

    fn new(call: &'a Call<'_>, attention: &'a Attention, operands: &'a [Operand<'a>]) -> Option<Self> {
        let [query, key, value, rest @ ..] = operands else { return None };
        let ([batch, queries, features], [_, keys, _]) = (query.shape(), key.shape()) else { return None };
        let (bias, mask) = rest.split_at(rest.len().min(usize::from(attention.bias)));
        let bias_shape = match bias {
            [bias] => <[usize; 4]>::try_from(bias.shape()).ok()?,
            _ => [1; 4],
        };
        let mask = if attention.mask { mask.first() } else { None };
        let memory = |operand: Option<&Operand<'_>>| operand.map_or(Tensor::NONE, |operand| operand.tensor);
        Some(Self {
            attention,
            query: *query,
            key: *key,
            value: *value,
            bias: memory(bias.first()),
            bias_shape,
            mask: memory(mask),
            batch: *batch,
            queries: *queries,
            keys: *keys,
            heads: attention.heads,
            size: features / attention.heads.max(1),
            stream: Stream::new(call.seed, attention.stream).key(),
            position: call.position,
        })
    }

    /// Pairs of example and head.
    pub fn pairs(&self) -> usize {
        self.batch * self.heads
    }

    /// first?, heads, queries, keys, size: the sizes in the order that kernels take them.
    pub fn sizes(&self, arguments: Arguments) -> Arguments {
        arguments.size(self.heads).size(self.queries).size(self.keys).size(self.size)
    }

    /// Elements of the bias between n, h, t and s; 0 along axes that it is stretched along.
    pub fn bias_strides(&self, arguments: Arguments) -> Arguments {
        let mut strides = [0; 4];
        let mut stride = 1;
        for axis in (0..4).rev() {
            strides[axis] = if self.bias_shape[axis] == 1 { 0 } else { stride };
            stride *= self.bias_shape[axis];
        }
        strides.into_iter().fold(arguments, Arguments::size)
    }

    /// Scale, and whether it is causal.
    pub fn scale_and_causal(&self, arguments: Arguments) -> Arguments {
        arguments.float(self.attention.scale).int(i32::from(self.attention.causal))
    }

    /// What is kept is multiplied by this.
    pub fn factor(&self) -> f32 {
        1.0 / (1.0 - self.attention.p)
    }

    /// The dropout's key, place of the step, and share.
    pub fn stream(&self, arguments: Arguments) -> Arguments {
        arguments.address(self.stream).address(self.position).float(self.attention.p)
    }

    /// The same, and what is kept is multiplied by.
    pub fn dropout(&self, arguments: Arguments) -> Arguments {
        self.stream(arguments).float(self.factor())
    }
}
