//! After the backward pass: loss scaling, clipping and the optimizer, as `torch.amp` and `torch.optim` have them.

use super::names::{number, truth};
use super::refused;
use crate::diag::Diagnostic;
use crate::graph::{DType, Op, StepGraph};
use crate::plan::{Optimizer, Plan, Scaler, SkipRules};
use std::collections::BTreeMap;

/// The update of a plan.
pub struct Update<'a> {
    plan: &'a Plan,
    /// Settings of the update, each once.
    rules: Vec<Optimizer>,
    /// The settings of each parameter that is updated.
    groups: BTreeMap<String, usize>,
    /// Parts without a counterpart.
    pub faults: Vec<Diagnostic>,
    /// What PyTorch does in another way.
    pub notes: Vec<String>,
}

impl<'a> Update<'a> {
    /// Reads the update of a step.
    pub fn of(plan: &'a Plan, step: &StepGraph) -> Self {
        let mut update =
            Self { plan, rules: Vec::new(), groups: BTreeMap::new(), faults: Vec::new(), notes: Vec::new() };
        let mut kept = None;
        for node in &step.update {
            let Op::Update { rule, stored, .. } = &node.op else { continue };
            kept = kept.or(stored.map(|stored| stored.format));
            let group = update.rules.iter().position(|known| known == rule).unwrap_or_else(|| {
                update.rules.push(rule.clone());
                update.rules.len() - 1
            });
            update.groups.insert(step.value(node.inputs[0]).name.clone(), group);
        }
        if let Some(format) = kept {
            let what = format!(
                "parameters that are kept in {} with their moments in f32 (`precision`)",
                DType::from(format)
            );
            let help = "compare with a policy that keeps them in f32, such as `std:precision/amp-bf16`";
            update.faults.push(refused(&what).help(help));
        }
        let other = plan.scaler.skips() != SkipRules::default() || plan.scaler.has_knobs();
        if other {
            update.notes.push(
                "the scaler has settings that GradScaler has not: PyTorch's scale moves by its own rule"
                    .to_owned(),
            );
        }
        update
    }

    /// The group of a parameter; `None` for one that is never updated.
    pub fn group_of(&self, parameter: &str) -> Option<usize> {
        self.groups.get(parameter).copied()
    }

    /// The optimizer's class.
    pub fn optimizer(&self) -> &'static str {
        match self.plan.optimizer {
            Optimizer::Sgd { .. } => "SGD",
            Optimizer::AdamW { .. } => "AdamW",
        }
    }

    /// The settings of each group.
    pub fn groups(&self) -> String {
        let settings = |rule: &Optimizer| match rule {
            Optimizer::Sgd { lr, momentum, nesterov, weight_decay } => format!(
                "\"lr\": {}, \"momentum\": {}, \"nesterov\": {}, \"weight_decay\": {}",
                number(*lr),
                number(*momentum),
                // Without momentum both forms are one, and PyTorch refuses this one.
                truth(*nesterov && *momentum > 0.0),
                number(*weight_decay)
            ),
            Optimizer::AdamW { lr, beta1, beta2, eps, weight_decay } => format!(
                "\"lr\": {}, \"betas\": ({}, {}), \"eps\": {}, \"weight_decay\": {}",
                number(*lr),
                number(*beta1),
                number(*beta2),
                number(*eps),
                number(*weight_decay)
            ),
        };
        self.rules.iter().map(|rule| format!("    {{{}}},\n", settings(rule))).collect()
    }

    /// The line that makes the scaler, if there is one.
    pub fn scaler(&self) -> String {
        match &self.plan.scaler {
            Scaler::None => String::new(),
            Scaler::Static { scale, .. } => {
                format!("scaler = torch.amp.GradScaler(DEVICE, init_scale={})\n", number(*scale))
            }
            Scaler::Dynamic { init, growth, backoff, interval, .. } => format!(
                "scaler = torch.amp.GradScaler(DEVICE, init_scale={}, growth_factor={growth:?}, backoff_factor={backoff:?}, growth_interval={interval})\n",
                number(*init)
            ),
        }
    }

    fn scales(&self) -> bool {
        self.plan.scaler != Scaler::None
    }

    fn adds_up(&self) -> bool {
        self.plan.train.gradients_a_step() > 1
    }

    /// What the loss of the step is after a micro-batch.
    pub fn loss(&self) -> &'static str {
        if self.adds_up() { "total + loss.detach()" } else { "loss.detach()" }
    }

    /// The loss of the step.
    pub fn gives(&self) -> &'static str {
        if self.adds_up() { "total / GRADIENTS" } else { "total" }
    }

    /// The line that begins the backward pass of a micro-batch.
    pub fn backward(&self) -> String {
        let loss = if self.adds_up() { "(loss / GRADIENTS)" } else { "loss" };
        if self.scales() { format!("scaler.scale({loss}).backward()") } else { format!("{loss}.backward()") }
    }

    /// The lines after the last backward pass.
    pub fn update(&self) -> String {
        let mut lines = Vec::new();
        if let Some(norm) = self.plan.train.clip_norm {
            if self.scales() {
                lines.push("scaler.unscale_(optimizer)".to_owned());
            }
            lines.push(format!("torch.nn.utils.clip_grad_norm_(model.parameters(), {})", number(norm)));
        }
        match &self.plan.scaler {
            Scaler::None => lines.push("optimizer.step()".to_owned()),
            Scaler::Static { scale, .. } => {
                lines.push("scaler.step(optimizer)".to_owned());
                lines.push(format!("scaler.update({})", number(*scale)));
            }
            Scaler::Dynamic { .. } => {
                lines.push("scaler.step(optimizer)".to_owned());
                lines.push("scaler.update()".to_owned());
            }
        }
        lines.iter().map(|line| format!("    {line}\n")).collect()
    }
}
