//! The loss node: always last, always f32, a scalar.

use super::super::infer::{self, Fault, Shape};
use super::super::{DType, Op, ValueId, codes};
use super::{Builder, LabelKind, Place};
use crate::diag::{FileId, Span};
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
        if let Some(outputs) = outputs {
            self.graph.loss = outputs[0];
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
                    "the data has {classes} classes, and the model's output {} has {outputs}",
                    infer::text(&shape)
                ),
            )
            .help(format!("make the model's last layer give {classes} outputs"));
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

/// The loss's own line, or the last layer's when the loss is a default of the language.
fn span_of(plan: &Plan) -> Span {
    let nowhere = Span { file: FileId(0), start: 0, end: 0 };
    place(&plan.origins, "loss").or_else(|| last_span(&plan.model.body)).unwrap_or(nowhere)
}

fn last_span(blocks: &[Block]) -> Option<Span> {
    blocks.last().map(Block::span)
}
