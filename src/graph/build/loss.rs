//! The loss node: always last, always f32, a scalar.

use super::super::infer::{self, Fault, Shape};
use super::super::{DType, Op, ValueId, codes};
use super::{Builder, LabelKind, Place};
use crate::diag::number::counted;
use crate::diag::{FileId, Label, Span};
use crate::graph::places::place;
use crate::plan::{Block, Loss, Plan};

impl Builder {
    /// Adds the loss of a prediction.
    pub(super) fn loss(&mut self, plan: &Plan, prediction: ValueId, labels: &LabelKind) {
        let (kind, op) = match plan.loss {
            Loss::CrossEntropy { label_smoothing, ignore_index } => {
                ("cross-entropy", Op::CrossEntropy { label_smoothing, ignore_index })
            }
            Loss::MeanSquaredError => ("mean-squared-error", Op::MeanSquaredError),
        };
        let place = Place { path: "loss", kind, span: span_of(plan), library: None, share: None };
        self.graph.prediction = prediction;
        let before = self.sink.diagnostics.len();
        let outputs = match op {
            Op::CrossEntropy { label_smoothing, .. } => {
                if !(0.0..1.0).contains(&label_smoothing) {
                    let message = format!(
                        "label-smoothing is {label_smoothing}, and must be at least 0 and less than 1"
                    );
                    self.fault(place, None, Fault::new(codes::NUMBER, message));
                }
                self.cross_entropy(place, op, prediction, labels)
            }
            _ => self.mean_squared_error(place, op, prediction, labels),
        };
        match outputs {
            Some(outputs) => self.graph.loss = outputs[0],
            None => {
                self.sides_of_loss(plan, labels, place.span, before);
                // A layer that nothing uses may be why the output is none that the loss takes.
                if before == 0 {
                    self.unused_layers(prediction);
                }
            }
        }
    }

    /// Adds to what is wrong with the loss the two lines that it brings together: the last layer's and the labels'.
    fn sides_of_loss(&mut self, plan: &Plan, kind: &LabelKind, written: Span, before: usize) {
        let prediction = self.graph.prediction;
        let outputs = self.shape(prediction).last().copied();
        let producer = self.graph.nodes.iter().rev().find(|node| node.outputs.contains(&prediction));
        let layer = producer.and_then(|node| node.span).filter(|span| *span != written);
        let inside = producer.and_then(|node| Some((node.library?, node.layer.clone())));
        let labels = ["data.classes", "data.labels", "data.format", "data.columns"];
        let labels = labels.into_iter().find_map(|path| place(&plan.origins, path));
        for fault in &mut self.sink.diagnostics[before..] {
            let labelled = layer.map(|span| (span, "the model's output ends here"));
            for (span, label) in labelled.into_iter().chain(labels.map(|span| (span, "says what labels are")))
            {
                fault.labels.push(Label { span, text: label.to_owned() });
            }
            if let Some((span, layer)) = &inside {
                fault.labels.push(Label { span: *span, text: format!("`{layer}` is written here") });
                // Nobody edits the library: what it gives is said where it is asked for.
                let layers = |help: &String| help.contains("end the model") || help.contains("last layer");
                if fault.help.as_ref().is_some_and(layers) {
                    fault.help = Some(settings_of(plan, outputs, kind));
                }
            }
        }
    }

    fn cross_entropy(
        &mut self,
        place: Place,
        op: Op,
        prediction: ValueId,
        labels: &LabelKind,
    ) -> Option<Vec<ValueId>> {
        let LabelKind::ClassIndex { classes, .. } = labels else {
            let fault = Fault::new(
                codes::CLASSES,
                "cross-entropy wants class indices as labels, and the data gives numbers to predict",
            )
            .help("declare `classes=N` in the data's `columns`, or use the loss `mean-squared-error`");
            self.fault(place, Some(prediction), fault);
            return None;
        };
        let shape = self.shape(prediction);
        let rows = infer::cross_entropy(&shape, &self.shape(self.graph.labels));
        // After a fault of a layer the shape is a guess; how many outputs the last layer has is none.
        if rows.is_err() && self.sink.has_errors() {
            return None;
        }
        let rows = self.checked(place, Some(prediction), rows)?;
        let outputs = shape.last().copied().unwrap_or_default();
        // A vocabulary is often padded to a size that hardware likes: labels at positions may leave outputs without use.
        let fits = |classes: usize| {
            if labels.is_at_positions() { outputs >= classes } else { outputs == classes }
        };
        if let Some(classes) = classes.filter(|classes| !fits(*classes)) {
            let fault = Fault::new(
                codes::CLASSES,
                format!(
                    "the data has {}, and the model's output {} has {outputs}",
                    counted(classes, "class"),
                    infer::text(&shape)
                ),
            )
            .help(format!("make the model's last layer give {}", counted(classes, "output")));
            self.fault(place, Some(prediction), fault);
            return None;
        }
        let results = vec![
            ("value", Shape::new(), DType::F32),
            ("log_sum_exp", vec![rows], DType::F32),
            ("count", Shape::new(), DType::F32),
        ];
        self.node(place, op, vec![prediction, self.graph.labels], results)
    }

    fn mean_squared_error(
        &mut self,
        place: Place,
        op: Op,
        prediction: ValueId,
        labels: &LabelKind,
    ) -> Option<Vec<ValueId>> {
        let (found, wanted) = (self.shape(prediction), self.shape(self.graph.labels));
        if matches!(labels, LabelKind::ClassIndex { .. }) {
            let fault = Fault::new(
                codes::TARGET,
                "mean-squared-error wants numbers to predict, and the data gives class indices",
            )
            .help("use the loss `cross-entropy`, or declare the label column as a number");
            self.fault(place, Some(prediction), fault);
            return None;
        }
        let without_ones =
            |shape: &[usize]| -> Shape { shape.iter().copied().filter(|size| *size != 1).collect() };
        let mut operand = prediction;
        if found != wanted {
            if without_ones(&found) != without_ones(&wanted) {
                if self.sink.has_errors() {
                    return None;
                }
                let message = format!(
                    "the model's output is {} and the target is {}",
                    infer::text(&found),
                    infer::text(&wanted)
                );
                // One number an example is what a column of classes looks like that nobody declared.
                let help = if without_ones(&wanted[1..]).is_empty() && wanted[0] == found[0] {
                    "if the labels are classes, write `classes=…` in the data's `columns` or `format`; otherwise end the model \
                     with a layer of one output"
                } else {
                    "end the model with a layer that gives the target's shape"
                };
                let fault = Fault::new(codes::TARGET, message).help(help);
                self.fault(place, Some(prediction), fault);
                return None;
            }
            // Sizes of one apart the shapes agree, so that the pairing is certain. Broadcasting [n, 1] against [n] is not.
            operand = self.result(place, Op::Reshape, vec![prediction], wanted)?;
        }
        self.node(place, op, vec![operand, self.graph.labels], vec![("value", Shape::new(), DType::F32)])
    }
}

/// Help for a last layer that a module of the library has: what to write on the line of `model`.
fn settings_of(plan: &Plan, outputs: Option<usize>, labels: &LabelKind) -> String {
    let arguments = &plan.model.arguments;
    let wanted = match labels {
        LabelKind::ClassIndex { classes, .. } => *classes,
        LabelKind::Target(shape) => shape.last().copied(),
    };
    let made_by =
        |name: &&str| arguments.get(*name).is_some_and(|value| value.parse() == Ok(outputs.unwrap_or(0)));
    let setting = ["classes", "vocabulary"].into_iter().find(made_by);
    match (setting, wanted, arguments.get("head")) {
        (Some(name), Some(wanted), None) => format!("write `{name}={wanted}` on the line of `model`"),
        (_, _, Some(head)) => format!(
            "`head` of the model's line is `{head}`: `amp doc {}` shows what else it may be",
            plan.model.module
        ),
        _ => format!(
            "give `model` other settings, which decide its last layer: `amp doc {}` shows them",
            plan.model.module
        ),
    }
}

/// The loss's own line, or the last layer's when the loss is a default of the language.
fn span_of(plan: &Plan) -> Span {
    let nowhere = Span { file: FileId(0), start: 0, end: 0 };
    place(&plan.origins, "loss").or_else(|| last_span(&plan.model.body)).unwrap_or(nowhere)
}

fn last_span(blocks: &[Block]) -> Option<Span> {
    blocks.last().map(Block::span)
}
