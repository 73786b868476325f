//! Parameters that several layers use, that stay as they begin, that are updated in groups; layers that nothing reads.
//!
//! A parameter has one value however many layers use it, so its gradients add up, and it counts, is updated and is kept once.

use super::super::infer::{self, Shape};
use super::super::{Node, ValueId, codes, glob};
use super::{Builder, Place};
use crate::diag::{Diagnostic, nearest};
use crate::graph::places;
use crate::plan::Plan;

impl Builder {
    /// The parameter of another layer that stands for `name` of this one. `None` when the layer has its own; `Some(None)`
    /// after AMP0317.
    pub(super) fn shared(&mut self, at: Place, name: &str, shape: &Shape) -> Option<Option<ValueId>> {
        let share = at.share.filter(|share| !share.weight_only || name == "weight")?;
        let Some(value) = self.used.get(&(share.path.clone(), name.to_owned())).copied() else {
            let message = format!("`{}` shares the {name} of `{}`, which has none", at.path, share.path);
            let diagnostic = Diagnostic::error(codes::SHARE, message).at(share.span, "shared here");
            let help = "share with a layer of the same kind, or the weight alone: `share-weight=…`";
            self.sink.push(diagnostic.help(help));
            return Some(None);
        };
        let owned = self.shape(value);
        if owned == *shape {
            return Some(Some(value));
        }
        let message = format!(
            "`{}` wants a {name} of shape {}, and that of `{}` has {}",
            at.path,
            infer::text(shape),
            share.path,
            infer::text(&owned)
        );
        let mut diagnostic = Diagnostic::error(codes::SHARE, message).at(share.span, "shared here");
        if let Some(owner) = self.owners.get(&share.path) {
            diagnostic = diagnostic.at(*owner, "the owner");
        }
        self.sink.push(diagnostic.help("layers that share parameters have the same sizes"));
        Some(None)
    }

    /// Marks the parameters that stay as they begin, and reports globs that match none.
    pub(super) fn settle_parameters(&mut self, plan: &Plan) {
        for (index, pattern) in plan.model.freeze.iter().enumerate() {
            self.check_glob(plan, pattern, &format!("model.freeze.{index}"));
            for position in 0..self.graph.parameters.len() {
                let id = self.graph.parameters[position].value;
                if glob::matches(pattern, &self.graph.value(id).name) {
                    self.graph.parameters[position].frozen = true;
                }
            }
        }
        for (index, group) in plan.groups.iter().enumerate() {
            for pattern in &group.globs {
                self.check_glob(plan, pattern, &format!("optimizer.parameters.{index}"));
            }
        }
        let parameters = &self.graph.parameters;
        if !parameters.is_empty() && parameters.iter().all(|parameter| parameter.frozen) {
            let diagnostic =
                Diagnostic::error(codes::FROZEN, "every parameter is frozen, so there is nothing to train");
            let diagnostic = places::at(diagnostic, &plan.origins, "model.freeze.0", "freezes parameters");
            self.sink.push(diagnostic.help("freeze fewer, such as all but the head"));
        }
    }

    fn check_glob(&mut self, plan: &Plan, pattern: &str, origin: &str) {
        let names: Vec<&str> = self
            .graph
            .parameters
            .iter()
            .map(|parameter| self.graph.value(parameter.value).name.as_str())
            .collect();
        if names.iter().any(|name| glob::matches(pattern, name)) {
            return;
        }
        let message = format!("`{pattern}` matches no parameter of the model");
        let diagnostic = Diagnostic::error(codes::GLOB, message);
        let diagnostic = places::at(diagnostic, &plan.origins, origin, "matches nothing");
        let whole = format!("{pattern}.**");
        let help = if names.iter().any(|name| glob::matches(&whole, name)) {
            format!("did you mean `{whole}`? A parameter's name ends with `.weight` or `.bias`")
        } else if let Some(near) = nearest(pattern, names.iter().copied()) {
            format!("the nearest parameter is `{near}`")
        } else {
            "`*` is one name, `**` any number; `amp graph --stage graph` lists the parameters".to_owned()
        };
        self.sink.push(diagnostic.help(help));
    }

    /// Reports the layers whose result reaches `end`, the loss or what was to have one, on no way: the last of each such
    /// chain, since those before it are for it.
    pub(super) fn unused_layers(&mut self, end: ValueId) {
        let mut wanted = vec![false; self.graph.values.len()];
        let mut read = vec![false; self.graph.values.len()];
        wanted[end.index()] = true;
        let mut unused: Vec<Node> = Vec::new();
        for node in self.graph.nodes.iter().rev() {
            let any = |marks: &[bool]| node.outputs.iter().any(|id| marks[id.index()]);
            let (lives, is_read) = (any(&wanted), any(&read));
            if !lives && !is_read {
                unused.push(node.clone());
            }
            for id in &node.inputs {
                read[id.index()] = true;
                wanted[id.index()] |= lives;
            }
        }
        for node in unused.into_iter().rev() {
            let message = format!("nothing uses the result of `{}`", node.layer);
            let mut diagnostic = Diagnostic::error(codes::UNUSED, message);
            if let Some(span) = node.span {
                diagnostic = diagnostic.at(span, "its result ends here");
            }
            if let Some(library) = node.library {
                diagnostic = diagnostic.at(library, "written here");
            }
            self.sink.push(diagnostic.help("delete the layer, or `save` its result and `recall` it"));
        }
    }
}
