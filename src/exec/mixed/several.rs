//! Several losses in one step, each with a scale of its own, as Apex's `num_losses`: one that overflows lowers its own scale alone.

use super::scaler::{GradScaler, Outcome, Unscaled, clipped};
use candle_core::backprop::GradStore;
use candle_core::{Result, Var};

/// The sum of the unscaled gradients of several losses.
#[must_use = "unscaled gradients are for a step"]
#[derive(Debug)]
pub struct Several<'a> {
    scalers: Vec<(&'a mut GradScaler, bool)>,
    gradients: GradStore,
}

impl<'a> Unscaled<'a> {
    /// Adds the gradients of another loss, which another scaler scaled.
    ///
    /// # Errors
    /// Candle's own.
    pub fn beside(self, other: Self) -> Result<Several<'a>> {
        let (scaler, gradients, found) = self.into_parts();
        Several { scalers: vec![(scaler, found)], gradients }.beside(other)
    }
}

impl<'a> Several<'a> {
    /// Adds the gradients of one more loss.
    ///
    /// # Errors
    /// Candle's own.
    pub fn beside(mut self, other: Unscaled<'a>) -> Result<Self> {
        let (scaler, gradients, found) = other.into_parts();
        self.gradients.extend(gradients)?;
        self.scalers.push((scaler, found));
        Ok(self)
    }

    /// Whether a gradient of any loss was not finite.
    pub fn found_non_finite(&self) -> bool {
        self.scalers.iter().any(|(_, found)| *found)
    }

    /// Scales the variables' gradients so that their norm is at most `max_norm`; gives the norm that they had.
    ///
    /// # Errors
    /// Candle's own.
    pub fn clip(mut self, variables: &[Var], max_norm: f32) -> Result<(Self, f32)> {
        let norm = clipped(&mut self.gradients, variables, max_norm)?;
        Ok((self, norm))
    }

    /// Lets the optimizer update, unless a gradient of any loss was not finite.
    ///
    /// # Errors
    /// Those of the optimizer.
    pub fn step(self, optimizer: impl FnOnce(&GradStore) -> Result<()>) -> Result<SteppedSeveral<'a>> {
        if !self.found_non_finite() {
            optimizer(&self.gradients)?;
        }
        Ok(SteppedSeveral { scalers: self.scalers })
    }
}

/// A step of several losses that was done, or skipped.
#[must_use = "the scales are not moved before `update`"]
#[derive(Debug)]
pub struct SteppedSeveral<'a> {
    scalers: Vec<(&'a mut GradScaler, bool)>,
}

impl SteppedSeveral<'_> {
    /// Moves each scale by what its own loss did, in the order of the losses. All are told that the step was skipped if it was.
    pub fn update(self) -> Vec<Outcome> {
        let skipped = self.scalers.iter().any(|(_, found)| *found);
        let outcomes =
            self.scalers.into_iter().map(|(scaler, found)| Outcome { skipped, ..scaler.moved(found) });
        outcomes.collect()
    }
}
