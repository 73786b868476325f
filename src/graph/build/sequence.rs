//! Layers on sequences and parts of axes: embeddings, positions, class tokens, slices.
//!
//! What an op of the graph says already is not said again by another: learned positions are a slice and a sum, a class
//! token is a concatenation, a selection is a slice and a reshape.

use super::super::infer::{self, Fault};
use super::super::{DType, Op, ValueId, codes};
use super::{Builder, Place};
use crate::diag::number::counted;
use crate::plan::Initialiser;

impl Builder {
    /// Rows of a table of vectors, picked by the input's indices.
    pub(super) fn embedding(
        &mut self,
        place: Place,
        x: ValueId,
        [vocabulary, size]: [usize; 2],
        padding_index: Option<usize>,
        weight_init: Initialiser,
    ) -> Option<ValueId> {
        if self.graph.value(x).dtype != DType::I32 {
            let fault = Fault::new(codes::SHAPE, "an embedding wants indices, and its input holds numbers");
            self.fault(place, Some(x), fault.help("feed it tokens, or use `linear`"));
            return None;
        }
        if let Some(index) = padding_index.filter(|index| *index >= vocabulary) {
            let message = format!("padding-index is {index}, and the vocabulary ends before {vocabulary}");
            self.fault(place, Some(x), Fault::new(codes::NUMBER, message));
        }
        if let Some(tokens) = self.tokens.filter(|tokens| x == self.graph.features && *tokens > vocabulary) {
            let message = format!(
                "the data has {}, and the vocabulary ends before {vocabulary}",
                counted(tokens, "token")
            );
            let fault = Fault::new(codes::NUMBER, message).help(format!("write `vocabulary={tokens}`"));
            self.fault(place, Some(x), fault);
        }
        let shape = infer::embedding(&self.shape(x), &[vocabulary, size]);
        let shape = self.checked(place, Some(x), shape)?;
        let weight =
            self.parameter(place, "weight", vec![vocabulary, size], weight_init, (size, vocabulary))?;
        // A shared table begins as its owner says.
        if let Some(parameter) = self.graph.parameters.last_mut().filter(|last| last.value == weight)
            && place.share.is_none()
        {
            parameter.zero_row = padding_index;
        }
        self.result(place, Op::Embedding { padding_index }, vec![weight, x], shape)
    }

    /// x plus the first T rows of a learned table.
    pub(super) fn position_embedding(
        &mut self,
        place: Place,
        x: ValueId,
        length: usize,
        weight_init: Initialiser,
    ) -> Option<ValueId> {
        let shape = self.shape(x);
        let sizes = infer::position_embedding(&shape, length);
        let [_, positions, features] = self.checked(place, Some(x), sizes)?;
        let fans = (features, length);
        let mut rows = self.parameter(place, "weight", vec![length, features], weight_init, fans)?;
        if positions < length {
            let results = vec![("rows", vec![positions, features], DType::F32)];
            rows = self.node(place, Op::Slice { axis: 0, start: 0 }, vec![rows], results)?[0];
        }
        self.result(place, Op::Add, vec![x, rows], shape)
    }

    /// A learned vector before the first position of every example.
    pub(super) fn class_token(
        &mut self,
        place: Place,
        x: ValueId,
        weight_init: Initialiser,
    ) -> Option<ValueId> {
        let sizes = infer::sequence(&self.shape(x), "a class token");
        let [batch, positions, features] = self.checked(place, Some(x), sizes)?;
        let weight = self.parameter(place, "weight", vec![1, features], weight_init, (features, 1))?;
        let results = vec![("token", vec![batch, 1, features], DType::F32)];
        let token = self.node(place, Op::Expand, vec![weight], results)?[0];
        // One more than a checked size cannot overflow.
        let shape = vec![batch, positions + 1, features];
        self.result(place, Op::Concatenate { axis: 1 }, vec![token, x], shape)
    }

    /// Rows of `values`, picked by `index`.
    pub(super) fn gather(&mut self, place: Place, operands: &[(&str, ValueId)]) -> Option<ValueId> {
        let [("values", values), ("index", index)] = *operands else {
            self.fault(
                place,
                None,
                Fault::new(codes::SHAPE, "gather wants the operands `values` and `index`"),
            );
            return None;
        };
        if !self.holds_numbers(place, values) {
            return None;
        }
        if self.graph.value(index).dtype != DType::I32 {
            let fault = Fault::new(codes::SHAPE, "its operand `index` holds numbers, and indices are wanted");
            self.fault(place, Some(index), fault.help("recall a value that holds indices"));
            return None;
        }
        let shape = infer::gather(&self.shape(values), &self.shape(index));
        let shape = self.checked(place, Some(values), shape)?;
        self.result(place, Op::Gather, vec![values, index], shape)
    }

    /// One index of an axis, which is gone afterwards.
    pub(super) fn select(&mut self, place: Place, x: ValueId, axis: usize, index: usize) -> Option<ValueId> {
        let shape = self.shape(x);
        let part =
            infer::checked_axis(&shape, axis, "select").and_then(|()| infer::slice(&shape, axis, index, 1));
        let part = self.checked(place, Some(x), part)?;
        let mut without = part.clone();
        without.remove(axis);
        let op = Op::Slice { axis, start: index };
        let part = self.node(place, op, vec![x], vec![("part", part, DType::F32)])?[0];
        self.result(place, Op::Reshape, vec![part], without)
    }
}
