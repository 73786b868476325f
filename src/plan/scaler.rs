//! Loss scaling as plain data: PyTorch's rule, and the knobs that other libraries add to it.
//!
//! The defaults of every knob are PyTorch's `GradScaler`, and a scaler with defaults hashes as if there were no knobs.

/// Loss scaling.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaler {
    /// No scaling, no check.
    None,
    /// One scale; steps with non-finite gradients are skipped.
    Static {
        /// The scale.
        scale: f32,
        /// What a skipped step means.
        skips: SkipRules,
    },
    /// PyTorch's rule, with knobs.
    Dynamic {
        /// First scale.
        init: f32,
        /// Factor after `interval` good steps in a row, > 1.
        growth: f64,
        /// Factor after a non-finite step, in (0, 1).
        backoff: f64,
        /// Good steps in a row before growth, ≥ 1.
        interval: u32,
        /// The lowest scale that the run may have.
        floor: f32,
        /// What PyTorch does not have.
        knobs: ScaleKnobs,
        /// What a skipped step means.
        skips: SkipRules,
    },
}

/// How a dynamic scale moves beyond PyTorch's rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleKnobs {
    /// The scale backs off at this many non-finite steps that no refill divides; 1 at each.
    pub hysteresis: u32,
    /// When the tolerance of non-finite steps is whole again.
    pub refill: Refill,
    /// Whether the first growth after the start and after a non-finite step needs one good step more, as in DeepSpeed.
    pub late_growth: bool,
    /// What happens at the floor.
    pub at_floor: AtFloor,
    /// The highest scale; infinity for none.
    pub ceiling: f32,
}

impl Default for ScaleKnobs {
    fn default() -> Self {
        Self {
            hysteresis: 1,
            refill: Refill::Growth,
            late_growth: false,
            at_floor: AtFloor::Stop,
            ceiling: f32::INFINITY,
        }
    }
}

/// When the tolerance of non-finite steps is whole again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refill {
    /// When the scale grows: Megatron, and DeepSpeed by default.
    #[default]
    Growth,
    /// After every good step: DeepSpeed with `consecutive_hysteresis`.
    GoodStep,
}

/// What happens when the scale would fall below its floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtFloor {
    /// The run stops.
    #[default]
    Stop,
    /// The scale stays at the floor: Apex, Megatron, jmp.
    Hold,
    /// The scale takes the floor, and the next non-finite step there that would back off stops the run: DeepSpeed.
    HoldOnce,
}

/// What a step with a non-finite gradient means for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkipRules {
    /// Whether gradients are looked at after the division by the scale, where those that overflow in it are seen too.
    pub check_after: bool,
    /// Whether the learning rate is that of the applied steps, so that a skipped step does not advance it.
    pub hold_rate: bool,
    /// Skipped steps in a row that the run may have; 0 for any number.
    pub in_row: u32,
    /// Skipped steps in all that the run may have; 0 for any number.
    pub total: u64,
}

impl Scaler {
    /// The scale of the first step; 1 where nothing is scaled.
    pub fn first_scale(&self) -> f32 {
        match self {
            Self::None => 1.0,
            Self::Static { scale, .. } | Self::Dynamic { init: scale, .. } => *scale,
        }
    }

    /// What a skipped step means.
    pub fn skips(&self) -> SkipRules {
        match self {
            Self::None => SkipRules::default(),
            Self::Static { skips, .. } | Self::Dynamic { skips, .. } => *skips,
        }
    }

    /// Whether the rule has state beside the scale and the count of good steps.
    pub fn has_knobs(&self) -> bool {
        match self {
            Self::None => false,
            Self::Static { skips, .. } => skips.in_row > 0,
            Self::Dynamic { knobs, skips, .. } => *knobs != ScaleKnobs::default() || skips.in_row > 0,
        }
    }
}

impl Refill {
    /// The name in modules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Growth => "growth",
            Self::GoodStep => "good-step",
        }
    }

    /// Both.
    pub const ALL: [Self; 2] = [Self::Growth, Self::GoodStep];
}

impl AtFloor {
    /// The name in modules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Hold => "hold",
            Self::HoldOnce => "hold-once",
        }
    }

    /// All three.
    pub const ALL: [Self; 3] = [Self::Stop, Self::Hold, Self::HoldOnce];
}
