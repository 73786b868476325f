//! `from` and `after` in `precision`: policies for later parts of the run.

use super::expand::Frame;
use super::fields::Fields;
use super::lower::Lowering;
use super::module::{Given, ModuleKind, bind};
use super::primitives as primitive;
use super::rule::{NodeRule, Rule};
use crate::diag::number::counted;
use crate::diag::{Diagnostic, codes};
use crate::plan::entries::format_text;
use crate::plan::{Masters, Phase, Policy, Scaler, When};
use crate::syntax::Node;
use camino::Utf8Path;

/// `from step=… policy=…` and `after skipped=… policy=…`, with rules of their own.
pub(super) fn rules(layer: impl Fn() -> NodeRule, op: impl Fn() -> NodeRule) -> [NodeRule; 2] {
    let count = i64::from(u32::MAX);
    let both = |rule: NodeRule| {
        rule.many()
            .property(Rule::text("policy", "The policy, by name."))
            .property(
                Rule::text("scaler", "Loss scaling that begins anew then; what there is stays without it.")
                    .optional(),
            )
            .child(layer())
            .child(op())
    };
    let step = Rule::integer("step", 2, count, "The first step of the policy, counted from 1.");
    let skipped = Rule::integer("skipped", 1, count, "Skipped steps in all.").optional();
    let row = Rule::integer("skipped-in-row", 1, count, "Skipped steps in a row.").optional();
    [
        both(NodeRule::new("from", "another policy from a step on").property(step)),
        both(NodeRule::new("after", "another policy after skipped steps").property(skipped).property(row)),
    ]
}

impl Lowering<'_, '_> {
    /// The phases of a precision node. The rules of the node itself hold in all of them, before their own.
    pub(super) fn phases(&mut self, base: &Policy) -> Vec<Phase> {
        let Some(fields) = self.node("precision") else { return Vec::new() };
        let mut phases: Vec<Phase> = Vec::new();
        for child in &fields.children {
            let Some(node) = child.node.filter(|node| matches!(node.name.text.as_str(), "from" | "after"))
            else {
                continue;
            };
            let path = format!("precision.phase.{}", phases.len());
            self.origin(path.clone(), Some(node.span));
            let (when, policy) = (self.when(child, node), self.policy_of(child, node));
            let (Some(when), Some(mut policy)) = (when, policy) else { continue };
            policy.rules.clone_from(&base.rules);
            self.rules(child, &mut policy, &path);
            let scaler = child.optional_text("scaler").map(str::to_owned);
            let scaler = scaler.and_then(|name| self.scaler_of(&name, child, node));
            let before = std::iter::once(base).chain(phases.iter().map(|phase: &Phase| &phase.policy));
            if let Some(fault) = histories_differ(before, &policy, node) {
                self.sink.push(fault);
            }
            if let Some(fault) = masters_differ(base, &policy, node) {
                self.sink.push(fault);
                continue;
            }
            self.order(&phases, when, node);
            phases.push(Phase { when, policy, scaler });
        }
        phases
    }

    fn when(&mut self, child: &Fields<'_>, node: &Node) -> Option<When> {
        if node.name.text == "from" {
            return child.optional_whole("step").map(When::Step);
        }
        match (child.optional_whole("skipped"), child.optional_whole("skipped-in-row")) {
            (Some(steps), None) => Some(When::Skipped(steps)),
            (None, Some(steps)) => Some(When::SkippedInRow(steps)),
            (both, _) => {
                let message = match both {
                    Some(_) => "`after` has two conditions, expected one",
                    None => "`after` has no condition",
                };
                let fault = Diagnostic::error(codes::CONFLICT, message).at(node.span, "here");
                self.sink.push(
                    fault.help("write `skipped=20` or `skipped-in-row=5`; two conditions are two nodes"),
                );
                None
            }
        }
    }

    /// A step at which a later line is in force already can never begin.
    fn order(&mut self, before: &[Phase], when: When, node: &Node) {
        let When::Step(step) = when else { return };
        let late = before.iter().rev().find_map(|phase| match phase.when {
            When::Step(other) if other >= step => Some(other),
            _ => None,
        });
        if let Some(other) = late {
            let message =
                format!("the policy from step {other} is never in force: this one wins from step {step} on");
            let fault = Diagnostic::error(codes::CONFLICT, message).at(node.span, "begins no later");
            self.sink.push(fault.help("put the lines in the order of their steps"));
        }
    }

    fn policy_of(&mut self, child: &Fields<'_>, node: &Node) -> Option<Policy> {
        let name = child.optional_text("policy")?.to_owned();
        let (module, found) = self.named(&name, ModuleKind::Precision, child.span("policy"), node)?;
        let fields = primitive::fields(ModuleKind::Precision, &found, self.sink)?;
        Some(primitive::policy(&module, &fields, self.sink))
    }

    fn scaler_of(&mut self, name: &str, child: &Fields<'_>, node: &Node) -> Option<Scaler> {
        let (_, found) = self.named(name, ModuleKind::Scaler, child.span("scaler"), node)?;
        let fields = primitive::fields(ModuleKind::Scaler, &found, self.sink)?;
        Some(primitive::scaler(&found.name.text, &fields, self.sink))
    }

    /// The primitive that a module of this name comes to with its defaults.
    fn named(
        &mut self,
        name: &str,
        kind: ModuleKind,
        written: Option<crate::diag::Span>,
        node: &Node,
    ) -> Option<(String, Node)> {
        let (root, span) = (Utf8Path::new(""), written.unwrap_or(node.span));
        let module = self.modules.load(name, kind, Some(root), span, self.sink)?;
        let scope = bind(&module, Given { properties: &[], nodes: &[] }, node, kind.word(), self.sink);
        let frame = Frame::new(module, scope, Some(node.span));
        let full = frame.module.name.clone();
        let found = super::expand::Expander::new(self.modules, self.sink).primitive(&frame)?;
        Some((full, found))
    }
}

/// Histories of delayed scaling persist too, so that all policies in FP8 need as many numbers in them.
fn histories_differ<'a>(
    mut before: impl Iterator<Item = &'a Policy>,
    policy: &Policy,
    node: &Node,
) -> Option<Diagnostic> {
    let history = |policy: &Policy| policy.eight.as_ref().map_or(0, |eight| eight.recipe.history);
    let other = history(policy);
    let differs = |one: &&Policy| history(one) > 0 && other > 0 && history(one) != other;
    before.find(differs).map(|one| {
        let message = format!(
            "`{}` keeps the greatest magnitudes of {} here, and `{}` before it those of {}",
            policy.name,
            counted(other, "step"),
            one.name,
            history(one)
        );
        let fault = Diagnostic::error(codes::PHASE_PARAMETERS, message).at(node.span, "begins here");
        fault.help("a policy that is named here has its defaults: leave `history` out of the first one, or write a module with your own and name it in both")
    })
}

/// Parameters persist from one phase to the next, so that both have to keep them alike.
fn masters_differ(base: &Policy, policy: &Policy, node: &Node) -> Option<Diagnostic> {
    let kept = |policy: &Policy| match policy.masters {
        Masters::F32 => "f32".to_owned(),
        masters => format!("{} ({})", format_text(policy.low), masters.name()),
    };
    let (one, other) = (kept(base), kept(policy));
    (one != other).then(|| {
        let message =
            format!("`{}` keeps parameters in {other}, and `{}` keeps them in {one}", policy.name, base.name);
        let fault = Diagnostic::error(codes::PHASE_PARAMETERS, message).at(node.span, "begins here");
        fault.help("take policies that keep parameters alike, such as `amp-fp16`, `amp-bf16` and `fp32`")
    })
}
