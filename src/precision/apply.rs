//! The pass: one walk in execution order that decides each node's format and casts its operands.

use super::{Decision, PreciseGraph, codes, eight, matches};
use crate::arithmetic::half::Format;
use crate::diag::{Diagnostic, Severity, nearest};
use crate::graph::names::Names;
use crate::graph::places::{self, place};
use crate::graph::{DType, Graph, Node, Op, Role, Value, ValueId};
use crate::plan::{Class, OP_KINDS, Origin, Policy, Rule, Selector};
use std::collections::BTreeMap;

/// Gives every edge a dtype by a policy; see [`apply_with_origins`].
///
/// # Errors
/// As [`apply_with_origins`], without places.
pub fn apply(graph: &Graph, policy: &Policy) -> Result<PreciseGraph, Vec<Diagnostic>> {
    apply_with_origins(graph, policy, &BTreeMap::new())
}

/// Gives every edge a dtype by a policy and inserts the casts; `origins` are the plan's, for the places of faults.
///
/// `Low` casts the float operands to the low format (tf32 those of matrix products, whose results are f32), `F32` to f32, `Widest` to the widest among them; `Keep` takes the
/// first operand's, and where an op has several equal operands (add, subtract, multiply, concatenate) the type that PyTorch promotes
/// them to. The parameters and statistics of normalisation layers are f32 in any case, and so are losses.
///
/// # Errors
/// AMP0402 for an op kind that does not exist, AMP0404 for sizes that FP8 cannot have. Rules without effect (AMP0401, AMP0403) are in `warnings`.
pub fn apply_with_origins(
    graph: &Graph,
    policy: &Policy,
    origins: &BTreeMap<String, Origin>,
) -> Result<PreciseGraph, Vec<Diagnostic>> {
    let faults = unknown_kinds(policy, origins);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut pass = Pass {
        policy,
        graph: Graph { nodes: Vec::new(), ..graph.clone() },
        names: Names::of(&graph.values),
        casts: BTreeMap::new(),
        quantised: BTreeMap::new(),
        decisions: Vec::new(),
        matched: vec![false; policy.rules.len()],
        effective: vec![false; policy.rules.len()],
        lowers_loss: vec![false; policy.rules.len()],
    };
    let chosen = eight::chosen(graph, policy);
    let mut faults = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let decided = pass.decide(node, chosen.get(&index).copied());
        if decided.eight {
            faults.extend(pass.size_faults(node, origins));
        }
        pass.node(node, decided);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let warnings = pass.warnings(graph, origins);
    Ok(PreciseGraph { graph: pass.graph, decisions: pass.decisions, warnings })
}

fn unknown_kinds(policy: &Policy, origins: &BTreeMap<String, Origin>) -> Vec<Diagnostic> {
    let classes = policy.classes.keys().map(|kind| (kind, format!("precision.{kind}")));
    let rules = policy.rules.iter().filter_map(|rule| match &rule.selector {
        Selector::Op(kind) => Some((kind, rule.origin.clone())),
        Selector::Layer(_) => None,
    });
    let unknown = classes.chain(rules).filter(|(kind, _)| !OP_KINDS.contains(&kind.as_str()));
    unknown
        .map(|(kind, origin)| {
            let message = format!("there is no op kind `{kind}` for a precision policy to name");
            let mut diagnostic = Diagnostic::error(codes::UNKNOWN_KIND, message);
            if let Some(span) = place(origins, &origin).or_else(|| place(origins, "precision")) {
                diagnostic = diagnostic.at(span, "named here");
            }
            match nearest(kind, OP_KINDS) {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic.help(format!("the kinds are {}", OP_KINDS.join(", "))),
            }
        })
        .collect()
}

/// How a node runs.
struct Decided {
    class: Class,
    rule: String,
    dtype: DType,
    /// Whether its products are of FP8.
    eight: bool,
}

pub(super) struct Pass<'a> {
    pub(super) policy: &'a Policy,
    /// The result: the source's values under their own ids, then the casts.
    pub(super) graph: Graph,
    pub(super) names: Names,
    casts: BTreeMap<(ValueId, DType), ValueId>,
    /// Values in E4M3, each with the inverse of its scale.
    pub(super) quantised: BTreeMap<ValueId, (ValueId, ValueId)>,
    decisions: Vec<Decision>,
    /// For each rule whether a node matched it.
    matched: Vec<bool>,
    /// For each rule whether it can do something for a node that it matched: tf32 does for products.
    effective: Vec<bool>,
    /// For each rule whether it asked a loss to leave f32.
    lowers_loss: Vec<bool>,
}

impl Pass<'_> {
    fn node(&mut self, node: &Node, Decided { class, rule, dtype, eight }: Decided) {
        if let (true, Op::Linear { bias }) = (eight, &node.op)
            && let Some(scaled) = self.scaled_linear(node, *bias)
        {
            self.graph.values[node.outputs[0].index()].dtype = dtype;
            self.decisions.push(Decision { node: self.graph.nodes.len(), class, rule });
            self.graph.nodes.push(scaled);
            return;
        }
        let mut inputs = node.inputs.clone();
        for position in castable(&node.op, inputs.len(), dtype) {
            inputs[position] = self.cast(inputs[position], dtype, node);
        }
        // What enters scores and their mask is f32, as the scores are.
        for position in as_f32(&node.op, inputs.len()) {
            inputs[position] = self.cast(inputs[position], DType::F32, node);
        }
        let result = node.outputs[0].index();
        // Only the first result follows the operands, and none is tf32; statistics and losses are f32, indices i32.
        self.graph.values[result].dtype = if node.op.gives_f32() { DType::F32 } else { dtype.gradient() };
        self.decisions.push(Decision { node: self.graph.nodes.len(), class, rule });
        self.graph.nodes.push(Node { inputs, ..node.clone() });
    }

    /// The class, the rule that won and the format that a node runs in; `eight` is what the policy says of FP8 for it.
    fn decide(&mut self, node: &Node, eight: Option<(&'static str, bool)>) -> Decided {
        let kind = node.op.kind();
        let class = self.policy.classes.get(kind).copied().unwrap_or(Class::Keep);
        let mut winner: Option<&Rule> = None;
        let is_loss = matches!(node.op, Op::CrossEntropy { .. } | Op::MeanSquaredError);
        for (index, rule) in self.policy.rules.iter().enumerate() {
            let hit = match &rule.selector {
                Selector::Layer(glob) => matches(glob, &node.layer),
                Selector::Op(name) => name == kind,
            };
            if hit {
                self.matched[index] = true;
                self.effective[index] |= rule.format != Format::Tf32 || node.op.is_product();
                self.lowers_loss[index] |= is_loss && in_op(rule.format, &node.op) != Format::F32;
                winner = Some(rule);
            }
        }
        if is_loss {
            let by_rule = winner.filter(|rule| in_op(rule.format, &node.op) == Format::F32);
            let by_rule = by_rule.map(|rule| rule.origin.clone());
            let by_class = if class == Class::F32 { "policy" } else { "loss" };
            let rule = by_rule.unwrap_or_else(|| by_class.to_owned());
            return Decided { class: Class::F32, rule, dtype: DType::F32, eight: false };
        }
        if let Some(rule) = winner {
            let low = if rule.format == Format::E4m3 { self.policy.low } else { rule.format };
            let format = in_op(low, &node.op);
            let class = if format == Format::F32 { Class::F32 } else { Class::Low };
            let eight = rule.format == Format::E4m3 && matches!(node.op, Op::Linear { .. });
            return Decided { class, rule: rule.origin.clone(), dtype: format.into(), eight };
        }
        let dtype = match class {
            Class::Low => in_op(self.policy.low, &node.op).into(),
            Class::F32 => DType::F32,
            Class::Widest => self.promoted(node),
            Class::Keep
                if matches!(node.op, Op::Add | Op::Subtract | Op::Multiply | Op::Concatenate { .. }) =>
            {
                self.promoted(node)
            }
            Class::Keep => self.graph.value(node.inputs[0]).dtype,
        };
        let (rule, eight) = eight.unwrap_or(("policy", false));
        Decided { class, rule: rule.to_owned(), dtype, eight }
    }

    /// The one format that holds every value of the castable operands.
    fn promoted(&self, node: &Node) -> DType {
        let mut dtypes = castable(&node.op, node.inputs.len(), DType::F32)
            .map(|position| self.graph.value(node.inputs[position]).dtype);
        let first = dtypes.next().unwrap_or(DType::F32);
        // Neither half format holds the other, so that any mixture becomes f32.
        if dtypes.all(|dtype| dtype == first) { first } else { DType::F32 }
    }

    pub(super) fn cast(&mut self, id: ValueId, dtype: DType, reader: &Node) -> ValueId {
        let value = self.graph.value(id);
        if value.dtype == dtype || value.dtype == DType::I32 {
            return id;
        }
        if let Some(shared) = self.casts.get(&(id, dtype)) {
            return *shared;
        }
        let name = self.names.take(format!("{}.{dtype}", value.name));
        let shape = value.shape.clone();
        let result = self.graph.add_value(Value { name, shape, dtype, role: Role::Result });
        self.casts.insert((id, dtype), result);
        self.graph.nodes.push(Node {
            op: Op::Cast,
            inputs: vec![id],
            outputs: vec![result],
            ..reader.clone()
        });
        result
    }

    fn warnings(&self, graph: &Graph, origins: &BTreeMap<String, Origin>) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        for (index, rule) in self.policy.rules.iter().enumerate() {
            let warning = if !self.matched[index] {
                unmatched(rule, graph)
            } else if !self.effective[index] {
                let message = format!(
                    "{} rounds nothing: tf32 is for the operands of matrix products",
                    words(&rule.selector)
                );
                Diagnostic::warning(codes::UNMATCHED, message)
                    .help("name layers with products (linear, conv2d, attention, matrix-product), or write `dtype=\"f32\"`")
            } else if self.lowers_loss[index] {
                let message = format!(
                    "{} does not apply to the loss: a loss always runs in f32",
                    words(&rule.selector)
                );
                Diagnostic::warning(codes::LOSS_RULE, message).help("name the layers that the rule is for")
            } else {
                continue;
            };
            warnings.push(places::at(warning, origins, &rule.origin, "this rule"));
        }
        debug_assert!(warnings.iter().all(|warning| warning.severity == Severity::Warning), "warnings only");
        warnings
    }
}

/// The format that an op has where a format is asked for: tf32 is for products, and other ops run in f32 beside it.
fn in_op(format: Format, op: &Op) -> Format {
    if format == Format::Tf32 && !op.is_product() { Format::F32 } else { format }
}

/// Positions of the operands that follow the op's format. Parameters and statistics of normalisation stay f32, and in tf32 the
/// biases of products, which are added to sums in f32.
fn castable(op: &Op, operands: usize, dtype: DType) -> std::ops::Range<usize> {
    match op {
        Op::Linear { .. } | Op::Conv2d { .. } if dtype == DType::Tf32 => 0..2,
        Op::BatchNorm { .. }
        | Op::BatchNormInference { .. }
        | Op::LayerNorm { .. }
        | Op::RmsNorm { .. }
        | Op::GroupNorm { .. }
        | Op::Embedding { .. }
        | Op::Gather
        | Op::CrossEntropy { .. } => 0..1,
        Op::Attention(_) => 0..3,
        _ => 0..operands,
    }
}

/// Positions of the operands that are f32 whatever the op's format is and may come in another.
fn as_f32(op: &Op, operands: usize) -> std::ops::Range<usize> {
    if matches!(op, Op::Attention(_)) { 3..operands } else { 0..0 }
}

fn words(selector: &Selector) -> String {
    match selector {
        Selector::Layer(glob) => format!("the rule for layer `{glob}`"),
        Selector::Op(kind) => format!("the rule for op `{kind}`"),
    }
}

fn unmatched(rule: &Rule, graph: &Graph) -> Diagnostic {
    let warning = Diagnostic::warning(
        codes::UNMATCHED,
        format!("{} matches nothing in the model", words(&rule.selector)),
    );
    match &rule.selector {
        Selector::Layer(glob) => {
            let mut layers: Vec<&str> = graph.nodes.iter().map(|node| node.layer.as_str()).collect();
            layers.sort_unstable();
            layers.dedup();
            match nearest(glob, layers.iter().copied()) {
                Some(near) => warning.help(format!("the nearest layer is `{near}`")),
                None => warning.help("`amp graph --stage precision` lists the layers"),
            }
        }
        Selector::Op(_) => warning.help("remove the rule, or check the model"),
    }
}
