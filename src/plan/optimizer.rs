//! Update rule and learning-rate schedule as plain data.

/// The update rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Optimizer {
    /// Stochastic gradient descent, as `torch.optim.SGD`.
    Sgd {
        /// Base learning rate.
        lr: f32,
        /// Momentum factor, 0 for none.
        momentum: f32,
        /// Nesterov's form.
        nesterov: bool,
        /// L2 penalty added to the gradient.
        weight_decay: f32,
    },
    /// Adam with decoupled weight decay, as `torch.optim.AdamW`.
    AdamW {
        /// Base learning rate.
        lr: f32,
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the root of the second moment.
        eps: f32,
        /// Decoupled decay.
        weight_decay: f32,
    },
}

/// Parameters whose update differs from that of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGroup {
    /// Globs over the names of parameters, such as `**.bias`.
    pub globs: Vec<String>,
    /// The rule with the group's settings; its kind is that of the plan's.
    pub optimizer: Optimizer,
}

impl Optimizer {
    /// Base learning rate.
    pub fn learning_rate(&self) -> f32 {
        match self {
            Self::Sgd { lr, .. } | Self::AdamW { lr, .. } => *lr,
        }
    }
}

/// Learning rate over optimizer steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Shape after the warm-up.
    pub kind: ScheduleKind,
    /// Steps of linear rise from 0: step s (from 0) has factor (s + 1) / (warmup + 1) while s < warmup.
    pub warmup: u64,
}

/// Shape of a schedule after its warm-up; `final_factor` times the base rate is reached at the last step.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleKind {
    /// The base rate throughout.
    Constant,
    /// A straight line to `final_factor`.
    Linear {
        /// Share of the base rate at the end.
        final_factor: f32,
    },
    /// Half a cosine to `final_factor`.
    Cosine {
        /// Share of the base rate at the end.
        final_factor: f32,
    },
}
