//! The evaluation form of a precise graph: running statistics instead of the batch's, no dropout, the same dtypes.
//!
//! It is made from the graph after the precision pass, so that evaluation cannot run in other formats than training.

use super::names::Names;
use super::{Attention, Graph, Node, Op, Role, Value, ValueId};

/// Rewrites a training graph into the forward pass of evaluation, with its own values; parameters, buffers, features and
/// labels keep their names. A cast whose operand becomes a cast by the removal of a dropout is taken from the original value.
pub fn evaluation_form(graph: &Graph) -> Graph {
    let mut form = Form::new(graph);
    for node in &graph.nodes {
        form.node(node);
    }
    form.finish()
}

struct Form<'a> {
    source: &'a Graph,
    result: Graph,
    /// For each source value its value in the result.
    map: Vec<Option<ValueId>>,
    /// For each result value that is a cast, what was cast.
    cast_from: Vec<Option<ValueId>>,
}

impl<'a> Form<'a> {
    fn new(source: &'a Graph) -> Self {
        let mut form = Self {
            source,
            result: Graph { values: Vec::new(), nodes: Vec::new(), ..source.clone() },
            map: vec![None; source.values.len()],
            cast_from: Vec::new(),
        };
        for (index, value) in source.values.iter().enumerate() {
            if value.role != Role::Result {
                form.map[index] = Some(form.add(value.clone()));
            }
        }
        form
    }

    fn add(&mut self, value: Value) -> ValueId {
        self.cast_from.push(None);
        self.result.add_value(value)
    }

    /// The value of an operand; every operand was mapped when its node was visited.
    fn mapped(&self, id: ValueId) -> ValueId {
        self.map[id.index()].expect("nodes are in execution order, so that operands come first")
    }

    fn node(&mut self, node: &Node) {
        let mut inputs: Vec<ValueId> = node.inputs.iter().map(|id| self.mapped(*id)).collect();
        let (op, outputs) = match &node.op {
            Op::Dropout { .. } => {
                self.map[node.outputs[0].index()] = Some(inputs[0]);
                return;
            }
            Op::BatchNorm { eps, .. } => (Op::BatchNormInference { eps: *eps }, &node.outputs[..1]),
            // What evaluation sees leaves no trace in the scales of training.
            Op::Quantise { .. } => (Op::Quantise { maximum: false }, &node.outputs[..1]),
            // Nothing is drawn, so that no stream is named.
            Op::Attention(rule) => {
                (Op::Attention(Attention { p: 0.0, stream: 0, ..*rule }), &node.outputs[..])
            }
            op => (op.clone(), &node.outputs[..]),
        };
        if op == Op::Cast {
            let target = self.source.value(node.outputs[0]).dtype;
            // A cast widens without loss, so that casting its source is exact; a narrowing cast must stay.
            if let Some(origin) = self.cast_from[inputs[0].index()]
                && self.result.value(inputs[0]).dtype == super::DType::F32
            {
                inputs[0] = origin;
            }
            if self.result.value(inputs[0]).dtype == target {
                self.map[node.outputs[0].index()] = Some(inputs[0]);
                return;
            }
        }
        let outputs = outputs
            .iter()
            .map(|id| {
                let new = self.add(self.source.value(*id).clone());
                self.map[id.index()] = Some(new);
                new
            })
            .collect::<Vec<_>>();
        if op == Op::Cast {
            self.cast_from[outputs[0].index()] = Some(inputs[0]);
        }
        self.result.nodes.push(Node { op, inputs, outputs, ..node.clone() });
    }

    fn finish(mut self) -> Graph {
        for parameter in &mut self.result.parameters {
            parameter.value = self.map[parameter.value.index()].expect("parameters are mapped first");
        }
        for buffer in &mut self.result.buffers {
            buffer.value = self.map[buffer.value.index()].expect("buffers are mapped first");
        }
        let result = &mut self.result;
        for id in [&mut result.features, &mut result.labels, &mut result.prediction, &mut result.loss] {
            *id = self.map[id.index()].expect("a graph's own values are mapped");
        }
        let dead = dead_nodes(&self.result);
        let mut index = 0;
        self.result.nodes.retain(|_| {
            index += 1;
            !dead[index - 1]
        });
        compact(self.result)
    }
}

/// Nodes that nothing needs: a shared cast whose only reader was a dropout's removed cast.
fn dead_nodes(graph: &Graph) -> Vec<bool> {
    let mut used = vec![false; graph.values.len()];
    used[graph.loss.index()] = true;
    used[graph.prediction.index()] = true;
    let mut dead = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        dead[index] = !node.outputs.iter().any(|id| used[id.index()]);
        if !dead[index] {
            node.inputs.iter().for_each(|id| used[id.index()] = true);
        }
    }
    dead
}

/// Drops the results of nodes that are gone.
fn compact(graph: Graph) -> Graph {
    let mut kept: Vec<bool> = graph.values.iter().map(|value| value.role != Role::Result).collect();
    graph.nodes.iter().flat_map(|node| &node.outputs).for_each(|id| kept[id.index()] = true);
    let mut result = Graph { values: Vec::new(), ..graph.clone() };
    let mut names = Names::default();
    let mut map = vec![ValueId(0); graph.values.len()];
    for (index, value) in graph.values.iter().enumerate() {
        if kept[index] {
            map[index] = result.add_value(Value { name: names.take(value.name.clone()), ..value.clone() });
        }
    }
    let rename = |id: &mut ValueId| *id = map[id.index()];
    for node in &mut result.nodes {
        node.inputs.iter_mut().for_each(rename);
        node.outputs.iter_mut().for_each(rename);
    }
    result.parameters.iter_mut().for_each(|parameter| rename(&mut parameter.value));
    result.buffers.iter_mut().for_each(|buffer| rename(&mut buffer.value));
    [&mut result.features, &mut result.labels, &mut result.prediction, &mut result.loss]
        .into_iter()
        .for_each(rename);
    result
}
