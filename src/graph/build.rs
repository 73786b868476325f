//! From the plan's layers to the typed op graph, with every shape inferred and every fault found in one pass.
//!
//! Every float edge is f32 here; the precision pass lowers them. After a fault the pass goes on with a best guess of the
//! layer's result, so that independent faults are reported together; where there is no guess, the layers after it are
//! still checked for what does not depend on their input.
//! Parameters carry PyTorch's names: `<layer path>.weight`, `.bias`, and the buffers `.running_mean`, `.running_var`.

mod attention;
mod layer;
mod loss;
mod parameters;
mod sequence;

pub use layer::named_stream;

use super::infer::{self, Fault, Shape};
use super::names::Names;
use super::places;
use super::{Buffer, DType, Graph, Node, Op, Parameter, Role, Value, ValueId, codes};
use crate::diag::{Code, Diagnostic, Sink, Span};
use crate::plan::{Block, Combine, Initialiser, Layer, Plan, Share};
use std::collections::BTreeMap;

/// What one example is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Its shape, without the batch.
    pub shape: Vec<usize>,
    /// How many tokens the vocabulary has, when the elements are indices of tokens (I32) and not numbers (f32).
    pub tokens: Option<usize>,
}

impl Features {
    /// The type of an element.
    pub fn dtype(&self) -> DType {
        if self.tokens.is_some() { DType::I32 } else { DType::F32 }
    }
}

/// Numbers of this shape.
impl<const AXES: usize> From<[usize; AXES]> for Features {
    fn from(shape: [usize; AXES]) -> Self {
        Self::from(shape.as_slice())
    }
}

/// Numbers of this shape.
impl From<&[usize]> for Features {
    fn from(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), tokens: None }
    }
}

/// What stands beside each example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelKind {
    /// The index of a class.
    ClassIndex {
        /// How many classes the data declares, if it does; the model's output is checked against it.
        classes: Option<usize>,
        /// Empty for one class an example; \[T\] for one at each of T positions.
        shape: Vec<usize>,
    },
    /// Numbers to be predicted, of this shape for each example.
    Target(Vec<usize>),
}

impl LabelKind {
    /// Whether an example has one class at each of its positions.
    pub fn is_at_positions(&self) -> bool {
        matches!(self, Self::ClassIndex { shape, .. } if !shape.is_empty())
    }
}

/// What a graph is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Training: batch normalisation needs more than one value a channel.
    Training,
    /// Evaluation alone, of a batch that may hold one example.
    Evaluation,
}

/// Builds the forward pass of training for one batch size.
///
/// # Errors
/// All faults that were found: AMP0301 to AMP0320, each naming the layer, the shapes, the user's line and the library's.
pub fn build(
    plan: &Plan,
    batch: usize,
    features: &Features,
    labels: LabelKind,
) -> Result<Graph, Vec<Diagnostic>> {
    build_for(Purpose::Training, plan, batch, features, labels)
}

/// As [`build`]; for evaluation AMP0314 does not arise.
///
/// # Errors
/// As [`build`].
pub fn build_for(
    purpose: Purpose,
    plan: &Plan,
    batch: usize,
    features: &Features,
    labels: LabelKind,
) -> Result<Graph, Vec<Diagnostic>> {
    let mut builder = Builder::new(batch, features, &labels);
    builder.purpose = purpose;
    builder.input_faults(batch, features);
    // What is wrong with the input is not said again for each layer.
    let features = Some(builder.graph.features).filter(|_| !builder.sink.has_errors());
    if !holds_a_layer(&plan.model.body) {
        builder.model_fault(plan, codes::EMPTY, "has no layers", "add a layer to the model's module");
    }
    let prediction = builder.blocks(&plan.model.body, features);
    if builder.graph.parameters.is_empty() && !builder.sink.has_errors() {
        let message = "has nothing to train: none of its layers has parameters";
        builder.model_fault(plan, codes::UNTRAINABLE, message, "add a layer with a weight, such as `linear`");
    } else if let Some(prediction) = prediction {
        builder.loss(plan, prediction, &labels);
    }
    // What is missing after a fault is not said to be unmatched or unused.
    if !builder.sink.has_errors() {
        builder.settle_parameters(plan);
        builder.unused_layers(builder.graph.loss);
    }
    if builder.sink.diagnostics.is_empty() { Ok(builder.graph) } else { Err(builder.sink.diagnostics) }
}

fn holds_a_layer(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| match block {
        Block::Layer(_) | Block::Apply { .. } => true,
        _ => block.chains().into_iter().any(holds_a_layer),
    })
}

/// Where a fault is reported.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    kind: &'a str,
    span: Span,
    library: Option<Span>,
    share: Option<&'a Share>,
}

struct Builder {
    graph: Graph,
    names: Names,
    /// The place of each layer path that names parameters or random numbers.
    owners: BTreeMap<String, Span>,
    /// The parameter that each layer uses under each name, its own or a shared one.
    used: BTreeMap<(String, String), ValueId>,
    /// The values of `save`; `None` for one that is unknown after a fault.
    saved: BTreeMap<String, Option<ValueId>>,
    /// How many tokens the features' vocabulary has, if they are tokens.
    tokens: Option<usize>,
    sink: Sink,
    purpose: Purpose,
}

impl Builder {
    fn new(batch: usize, features: &Features, labels: &LabelKind) -> Self {
        let with_batch = |shape: &[usize]| [&[batch], shape].concat();
        let (label_shape, label_type) = match labels {
            LabelKind::ClassIndex { shape, .. } => (with_batch(shape), DType::I32),
            LabelKind::Target(shape) => (with_batch(shape), DType::F32),
        };
        let value = |name: &str, shape, dtype, role| Value { name: name.to_owned(), shape, dtype, role };
        let values = vec![
            value("features", with_batch(&features.shape), features.dtype(), Role::Features),
            value("labels", label_shape, label_type, Role::Labels),
        ];
        let names = Names::of(&values);
        let graph = Graph {
            values,
            nodes: Vec::new(),
            parameters: Vec::new(),
            buffers: Vec::new(),
            features: ValueId(0),
            labels: ValueId(1),
            prediction: ValueId(0),
            loss: ValueId(0),
        };
        Self {
            graph,
            names,
            owners: BTreeMap::new(),
            used: BTreeMap::new(),
            saved: BTreeMap::new(),
            tokens: features.tokens,
            sink: Sink::default(),
            purpose: Purpose::Training,
        }
    }

    fn input_faults(&mut self, batch: usize, features: &Features) {
        if batch == 0 {
            self.sink
                .push(Diagnostic::error(codes::ZERO, "the batch holds 0 examples, and must hold at least 1"));
        }
        if features.shape.contains(&0) {
            let message = format!("an example of shape {} holds no numbers", infer::text(&features.shape));
            self.sink
                .push(Diagnostic::error(codes::ZERO, message).help("give `data` a `shape` without zeros"));
        }
        for id in [self.graph.features, self.graph.labels] {
            if let Err(fault) = infer::elements(&self.graph.value(id).shape) {
                let message =
                    format!("the batch of {} is too large: {}", self.graph.value(id).name, fault.message);
                self.sink.push(
                    Diagnostic::error(fault.code, message).help("make the batch or the examples smaller"),
                );
            }
        }
    }

    /// A fault of the model as a whole, at the line that names it.
    fn model_fault(&mut self, plan: &Plan, code: Code, message: &str, help: &str) {
        let diagnostic =
            Diagnostic::error(code, format!("the model `{}` {message}", plan.model.module)).help(help);
        self.sink.push(places::at(diagnostic, &plan.origins, "model", "asked for here"));
    }

    /// Builds a chain; `None` stands for a value that is unknown after a fault.
    fn blocks(&mut self, blocks: &[Block], mut x: Option<ValueId>) -> Option<ValueId> {
        for block in blocks {
            x = match block {
                Block::Layer(layer) => self.layer(layer, x),
                Block::Apply { layer, operands } => {
                    let results: Vec<(&str, Option<ValueId>)> = operands
                        .iter()
                        .map(|operand| (operand.name.as_str(), self.blocks(&operand.chain, x)))
                        .collect();
                    // With an operand unknown after a fault, nothing can be said of the layer.
                    let known = results.iter().map(|(name, value)| value.map(|value| (*name, value)));
                    known.collect::<Option<Vec<_>>>().and_then(|operands| self.apply(layer, &operands))
                }
                Block::Save { name, .. } => {
                    self.saved.insert(name.clone(), x);
                    x
                }
                Block::Recall { name, span } => self.recall(name, *span),
                Block::Parallel { path, combine, chains, span, library } => {
                    let kind = match combine {
                        Combine::Add => "add",
                        Combine::Subtract => "subtract",
                        Combine::Multiply => "multiply",
                        Combine::Concatenate { .. } => "concatenate",
                    };
                    self.parallel(
                        Place { path, kind, span: *span, library: *library, share: None },
                        *combine,
                        chains,
                        x,
                    )
                }
            };
        }
        x
    }

    fn parallel(
        &mut self,
        place: Place,
        combine: Combine,
        chains: &[Vec<Block>],
        x: Option<ValueId>,
    ) -> Option<ValueId> {
        if chains.is_empty() {
            self.fault(
                place,
                x,
                Fault::new(codes::EMPTY, "there are no chains to combine")
                    .help("add a chain, or remove the block"),
            );
            return x;
        }
        let results: Vec<Option<ValueId>> = chains.iter().map(|chain| self.blocks(chain, x)).collect();
        let known: Vec<ValueId> = results.iter().flatten().copied().collect();
        if known.iter().any(|id| !self.holds_numbers(place, *id)) {
            return None;
        }
        let first = *known.first()?;
        let mut pairwise = |op: &Op| {
            known[1..].iter().try_fold(first, |left, right| self.elementwise(place, op.clone(), left, *right))
        };
        let combined = match combine {
            Combine::Concatenate { axis } => self.concatenate(place, &known, axis),
            Combine::Add => pairwise(&Op::Add),
            Combine::Subtract => pairwise(&Op::Subtract),
            Combine::Multiply => pairwise(&Op::Multiply),
        };
        // After a fault in a chain or in the meeting the first chain's result is the best guess.
        Some(combined.unwrap_or(first))
    }

    /// The value of a name. The resolver knows every name, so a fault here is one of a plan made by hand.
    fn recall(&mut self, name: &str, span: Span) -> Option<ValueId> {
        let Some(value) = self.saved.get(name) else {
            let message = format!("the value `{name}` is recalled before it is saved");
            self.sink.push(Diagnostic::error(codes::SHAPE, message).at(span, "not known here"));
            return None;
        };
        *value
    }

    fn concatenate(&mut self, place: Place, operands: &[ValueId], axis: usize) -> Option<ValueId> {
        let shapes: Vec<&[usize]> =
            operands.iter().map(|id| self.graph.value(*id).shape.as_slice()).collect();
        let shape = infer::concatenate(&shapes, axis);
        let shape = self.checked(place, operands.first().copied(), shape)?;
        self.result(place, Op::Concatenate { axis }, operands.to_vec(), shape)
    }

    fn elementwise(&mut self, place: Place, op: Op, left: ValueId, right: ValueId) -> Option<ValueId> {
        let (a, b) = (&self.graph.value(left).shape, &self.graph.value(right).shape);
        let shape = if a.len() == b.len() {
            infer::broadcast(a, b)
        } else {
            // Axis 0 of both is the batch; aligning the last axes would put it against another axis.
            Err(Fault::new(
                codes::MEETING,
                format!("{} and {} have different numbers of axes", infer::text(a), infer::text(b)),
            )
            .help("make the chains end with the same shape, for example with `flatten` or `reshape`"))
        };
        let shape = self.checked(place, Some(left), shape)?;
        self.result(place, op, vec![left, right], shape)
    }

    /// Whether a value holds numbers; reports tokens where numbers are wanted.
    fn holds_numbers(&mut self, place: Place, x: ValueId) -> bool {
        let numbers = self.graph.value(x).dtype != DType::I32;
        if !numbers {
            let shape = infer::text(&self.graph.value(x).shape);
            let message = format!("its input {shape} holds tokens, and numbers are wanted");
            let fault = Fault::new(codes::SHAPE, message);
            self.fault(place, Some(x), fault.help("begin the model with an `embedding` of the vocabulary"));
        }
        numbers
    }

    /// Reports a fault of a shape rule, if it is one.
    fn checked<T>(&mut self, place: Place, x: Option<ValueId>, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.fault(place, x, fault)).ok()
    }

    fn fault(&mut self, place: Place, x: Option<ValueId>, fault: Fault) {
        let mut message = format!("{} `{}`: {}", place.kind, place.path, fault.message);
        let producer = x.and_then(|x| self.graph.nodes.iter().rev().find(|node| node.outputs.contains(&x)));
        if let Some(producer) = producer.filter(|producer| producer.layer != place.path) {
            message.push_str(&format!(" (its input comes from `{}`)", producer.layer));
        }
        let mut diagnostic = Diagnostic::error(fault.code, message).at(place.span, "asked for here");
        if let Some(library) = place.library {
            diagnostic = diagnostic.at(library, format!("`{}` is written here", place.path));
        }
        diagnostic.help = fault.help;
        // A line in `repeat` makes one mistake, whatever the sizes are in later turns.
        let spans = |told: &Diagnostic| told.labels.iter().map(|label| label.span).collect::<Vec<_>>();
        let same = |told: &Diagnostic| told.code == diagnostic.code && spans(told) == spans(&diagnostic);
        if !self.sink.diagnostics.iter().any(same) {
            self.sink.push(diagnostic);
        }
    }

    /// Adds a node with one result.
    fn result(&mut self, place: Place, op: Op, inputs: Vec<ValueId>, shape: Shape) -> Option<ValueId> {
        self.node(place, op, inputs, vec![("output", shape, DType::F32)]).map(|outputs| outputs[0])
    }

    /// Adds a node; each result is a name after the layer's path, a shape and a type. `None` after AMP0308.
    fn node(
        &mut self,
        place: Place,
        op: Op,
        inputs: Vec<ValueId>,
        results: Vec<(&str, Shape, DType)>,
    ) -> Option<Vec<ValueId>> {
        for (_, shape, _) in &results {
            let size = infer::elements(shape);
            self.checked(place, inputs.first().copied(), size)?;
        }
        let outputs: Vec<ValueId> = results
            .into_iter()
            .map(|(name, shape, dtype)| {
                let name = self.names.take(format!("{}.{name}", place.path));
                self.graph.add_value(Value { name, shape, dtype, role: Role::Result })
            })
            .collect();
        self.graph.nodes.push(Node {
            op,
            inputs,
            outputs: outputs.clone(),
            layer: place.path.to_owned(),
            span: Some(place.span),
            library: place.library,
        });
        Some(outputs)
    }

    /// Claims a layer's path for its parameters or its random numbers; AMP0310 when another layer has it.
    fn claim(&mut self, place: Place) {
        let Some(first) = self.owners.insert(place.path.to_owned(), place.span) else { return };
        let message = format!("two layers that own parameters or random numbers are called `{}`", place.path);
        let mut diagnostic = Diagnostic::error(codes::DUPLICATE, message)
            .at(place.span, "this one must have another name")
            .at(first, "the first one is here")
            .help("give one of the layers another name");
        if let Some(library) = place.library {
            diagnostic = diagnostic.at(library, "written here");
        }
        self.sink.push(diagnostic);
    }

    fn parameter(
        &mut self,
        place: Place,
        name: &str,
        shape: Shape,
        initialiser: Initialiser,
        fans: (usize, usize),
    ) -> Option<ValueId> {
        let size = infer::elements(&shape);
        self.checked(place, None, size)?;
        let key = (place.path.to_owned(), name.to_owned());
        if let Some(shared) = self.shared(place, name, &shape) {
            self.used.insert(key, shared?);
            return shared;
        }
        let name = self.names.take(format!("{}.{name}", place.path));
        let value = self.graph.add_value(Value { name, shape, dtype: DType::F32, role: Role::Parameter });
        self.used.insert(key, value);
        let (fan_in, fan_out) = fans;
        self.graph.parameters.push(Parameter {
            value,
            initialiser,
            zero_row: None,
            fan_in,
            fan_out,
            frozen: false,
        });
        Some(value)
    }

    fn buffer(&mut self, place: Place, name: &str, shape: Shape, initial: f32) -> ValueId {
        let name = self.names.take(format!("{}.{name}", place.path));
        let value = self.graph.add_value(Value { name, shape, dtype: DType::F32, role: Role::Buffer });
        self.graph.buffers.push(Buffer { value, initial });
        value
    }

    fn shape(&self, id: ValueId) -> Shape {
        self.graph.value(id).shape.clone()
    }
}

impl<'a> Place<'a> {
    fn of(layer: &'a Layer, kind: &'a str) -> Self {
        Self {
            path: &layer.path,
            kind,
            span: layer.span,
            library: layer.library,
            share: layer.share.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests;
