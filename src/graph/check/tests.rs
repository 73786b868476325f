//! Each rule of the check fires on a graph that breaks it and on nothing else.

use super::{Violation, check_graph, check_step};
use crate::autodiff::samples;
use crate::graph::StepGraph;
use crate::graph::{DType, Graph, Node, Op, Role, Unary, Value, ValueId};

fn graph() -> Graph {
    samples::cnn().compile().precise.graph
}

fn step() -> StepGraph {
    samples::gated().compile().step
}

fn says(violations: &[Violation], words: &str) {
    let texts: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(texts.iter().any(|text| text.contains(words)), "no violation says {words:?}: {texts:#?}");
}

fn position(nodes: &[Node], kind: &str) -> usize {
    nodes.iter().position(|node| node.op.kind() == kind).expect("the sample has the op")
}

#[test]
fn order_and_assignment() {
    let mut broken = graph();
    broken.nodes.swap(0, 2);
    says(&check_graph(&broken), "used before it is defined");

    let mut broken = graph();
    let copy = broken.nodes[0].clone();
    broken.nodes.insert(0, copy);
    says(&check_graph(&broken), "is assigned twice");

    let mut broken = graph();
    broken.nodes[0].inputs[0] = ValueId(9999);
    says(&check_graph(&broken), "value 9999 does not exist");

    let mut broken = graph();
    let head = position(&broken.nodes, "linear");
    broken.nodes[head].outputs = vec![broken.parameters[0].value];
    says(&check_graph(&broken), "has the role Parameter and is assigned");
}

#[test]
fn dead_nodes_and_values() {
    let mut broken = graph();
    let name = "nobody".to_owned();
    let unused =
        broken.add_value(Value { name, shape: vec![4, 1, 8, 8], dtype: DType::F32, role: Role::Result });
    let op = Op::Unary(Unary::Relu);
    let layer = "x".to_owned();
    broken.nodes.insert(
        0,
        Node { op, inputs: vec![broken.features], outputs: vec![unused], layer, span: None, library: None },
    );
    says(&check_graph(&broken), "nothing reads its results");
    broken.nodes.remove(0);
    says(&check_graph(&broken), "`nobody` is produced by no node");
}

#[test]
fn shapes_dtypes_and_counts() {
    let mut broken = graph();
    let relu = position(&broken.nodes, "relu");
    let output = broken.nodes[relu].outputs[0].index();
    broken.values[output].dtype = DType::F32;
    says(&check_graph(&broken), "is f32, and must be f16");

    let mut broken = graph();
    let output = broken.nodes[relu].outputs[0].index();
    broken.values[output].shape[1] = 99;
    says(&check_graph(&broken), "has shape [4, 99, 8, 8]");

    let mut broken = graph();
    let linear = position(&broken.nodes, "linear");
    broken.nodes[linear].inputs.pop();
    says(&check_graph(&broken), "has 2 operands and 1 result, and must have 3 and 1");

    let mut broken = graph();
    let cast = broken.nodes[0].outputs[0].index();
    broken.values[cast].dtype = DType::F32;
    says(&check_graph(&broken), "casts f32 to itself");
}

#[test]
fn names_roles_and_lists() {
    let mut broken = graph();
    broken.values[3].name = broken.values[2].name.clone();
    says(&check_graph(&broken), "two values are called");

    let mut broken = graph();
    broken.parameters.pop();
    says(&check_graph(&broken), "the list of role Parameter");

    let mut broken = graph();
    let parameter = broken.parameters[0].value.index();
    broken.values[parameter].dtype = DType::F16;
    says(&check_graph(&broken), "its role Parameter forbids that");

    let mut broken = graph();
    broken.loss = broken.prediction;
    says(&check_graph(&broken), "the loss is not the last node");
}

#[test]
fn phases() {
    let mut broken = graph();
    let relu = position(&broken.nodes, "relu");
    broken.nodes[relu].op = Op::Clear;
    says(&check_graph(&broken), "this op has no place in this phase");

    let mut broken = step();
    let dropout = Op::Dropout { p: 0.5, stream: 1 };
    let act = position(&broken.evaluation, "gelu");
    broken.evaluation[act].op = dropout;
    says(&check_step(&broken), "evaluation[12] dropout (act): this op has no place in this phase");

    let mut broken = step();
    broken.forward_nodes -= 1;
    says(&check_step(&broken), "`forward_nodes` is not where the backward pass begins");
}

#[test]
fn writes_in_place() {
    let mut broken = step();
    let clear = broken.update.last().expect("the sample clears").clone();
    broken.update.push(clear);
    says(&check_step(&broken), "is written twice in one phase");

    let mut broken = step();
    let update = position(&broken.update, "sgd");
    broken.update[update].outputs[0] = broken.parameters[1].value;
    says(&check_step(&broken), "is written in place and is no operand");

    let mut broken = step();
    let stage = position(&broken.micro, "stage-buffer");
    let candidate = broken.micro[stage].inputs[0];
    broken.micro[stage].outputs = vec![candidate];
    says(&check_step(&broken), "does not persist and is written in place");

    let mut broken = step();
    let unscale = position(&broken.update, "unscale");
    broken.update[unscale].outputs.pop();
    says(&check_step(&broken), "its results are not the gradients, in place");
}

#[test]
fn gradients_pair_with_parameters() {
    let mut broken = step();
    broken.gradients[0] = broken.gradients[1];
    says(&check_step(&broken), "do not pair one to one");

    let mut broken = step();
    broken.gradients.swap(0, 1);
    says(&check_step(&broken), "the gradient of `content.linear.bias` is");

    let mut broken = step();
    broken.states.pop();
    says(&check_step(&broken), "the list of role State");
}

#[test]
fn backward_ops_are_checked_against_what_they_reverse() {
    for kind in ["linear-backward-input", "sum-to", "batch-norm-backward", "mean-squared-error-backward"] {
        let mut broken = step();
        let node = position(&broken.micro, kind);
        let output = broken.micro[node].outputs[0].index();
        broken.values[output].shape.push(2);
        says(&check_step(&broken), kind);
    }
}
