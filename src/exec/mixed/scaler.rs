//! A loss scaler for Candle's gradients. Each part of a step gives the next one, so that a step in another order, or a second
//! unscaling, is no program.

use crate::exec::scaling::{Scaling, Stop};
use crate::plan::{ScaleKnobs, Scaler, SkipRules};
use candle_core::backprop::GradStore;
use candle_core::{DType, Error, Result, Tensor, Var};
use serde::{Deserialize, Serialize};

/// The loss scale of a run; begins as PyTorch's does, with every knob of [`Scaler`].
#[derive(Clone, Debug)]
pub struct GradScaler {
    scaling: Scaling,
    check_after: bool,
}

impl Default for GradScaler {
    /// PyTorch's defaults: from 2^16, doubled after 2000 good steps, halved at a bad one; no floor but the smallest f32.
    fn default() -> Self {
        Self::new(&Scaler::Dynamic {
            init: 65536.0,
            growth: 2.0,
            backoff: 0.5,
            interval: 2000,
            floor: f32::from_bits(1),
            knobs: ScaleKnobs::default(),
            skips: SkipRules::default(),
        })
    }
}

/// What a scaler keeps: save it with the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The loss scale.
    pub scale: f32,
    /// Good steps since it moved.
    pub growth_tracker: i32,
    /// Bad steps since the last refill that left it.
    pub tolerated: i32,
    /// Skipped steps in a row.
    pub skips_in_row: i32,
    /// Skipped steps in all.
    pub skipped: u64,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Whether a gradient was not finite, so that nothing was updated.
    pub skipped: bool,
    /// The scale that the step had.
    pub scale: f32,
    /// The scale that the next one has.
    pub next_scale: f32,
    /// Why training should end here, if it should.
    pub stop: Option<Stop>,
}

impl GradScaler {
    /// A scaler with a rule; [`Scaler::None`] scales by 1 and still skips steps that are not finite.
    pub fn new(scaler: &Scaler) -> Self {
        Self { scaling: Scaling::new(scaler), check_after: scaler.skips().check_after }
    }

    /// The scale of the next step.
    pub fn get(&self) -> f32 {
        self.scaling.state().scale
    }

    /// The state, to save.
    pub fn state(&self) -> State {
        let state = self.scaling.state();
        State {
            scale: state.scale,
            growth_tracker: state.tracker,
            tolerated: state.tolerated,
            skips_in_row: state.skips,
            skipped: self.scaling.skipped(),
        }
    }

    /// Goes on from a saved state.
    ///
    /// # Errors
    /// A scale that is not finite or not above 0, a count below 0.
    pub fn load(&mut self, state: &State) -> Result<()> {
        let counts = [state.growth_tracker, state.tolerated, state.skips_in_row];
        if !(state.scale > 0.0 && state.scale.is_finite()) || counts.iter().any(|count| *count < 0) {
            return Err(Error::Msg(format!(
                "found {state:?}, expected a finite scale above 0 and counts of at least 0"
            )));
        }
        self.scaling.set(
            [state.growth_tracker, state.tolerated, state.skips_in_row],
            state.scale,
            state.skipped,
        );
        Ok(())
    }

    /// Moves the scale after a step in which a non-finite gradient was `found`, or not.
    pub(super) fn moved(&mut self, found: bool) -> Outcome {
        let outcome = self.scaling.step(found);
        Outcome { skipped: found, scale: outcome.before, next_scale: outcome.after.scale, stop: outcome.stop }
    }

    /// Multiplies a loss by the scale, in f32.
    ///
    /// # Errors
    /// Candle's own.
    pub fn scale(&mut self, loss: &Tensor) -> Result<Scaled<'_>> {
        let loss = scaled(loss, self.get())?;
        Ok(Scaled { scaler: self, loss })
    }
}

fn scaled(loss: &Tensor, scale: f32) -> Result<Tensor> {
    loss.to_dtype(DType::F32)?.affine(f64::from(scale), 0.0)
}

/// A loss times the scale.
#[must_use = "a scaled loss is for its backward pass"]
#[derive(Debug)]
pub struct Scaled<'a> {
    scaler: &'a mut GradScaler,
    loss: Tensor,
}

impl<'a> Scaled<'a> {
    /// The backward pass.
    ///
    /// # Errors
    /// Candle's own.
    pub fn backward(self) -> Result<Backward<'a>> {
        let gradients = self.loss.backward()?;
        Ok(Backward { scaler: self.scaler, gradients })
    }
}

/// Scaled gradients.
#[must_use = "scaled gradients have to be unscaled"]
#[derive(Debug)]
pub struct Backward<'a> {
    scaler: &'a mut GradScaler,
    gradients: GradStore,
}

impl<'a> Backward<'a> {
    /// Adds the gradients of another micro-batch's loss, at the same scale. Divide each loss by their number.
    ///
    /// # Errors
    /// Candle's own.
    pub fn accumulate(mut self, loss: &Tensor) -> Result<Self> {
        let more = scaled(loss, self.scaler.get())?.backward()?;
        self.gradients.extend(more)?;
        Ok(self)
    }

    /// Divides the variables' gradients by the scale, and looks whether all are finite.
    ///
    /// # Errors
    /// A variable in f16, whose updates would be lost; no variable with a gradient; Candle's own.
    pub fn unscale(self, variables: &[Var]) -> Result<Unscaled<'a>> {
        let Self { scaler, mut gradients } = self;
        let inverse = f64::from((1.0 / f64::from(scaler.get())) as f32);
        let (mut found, mut met) = (false, 0);
        for variable in variables {
            if variable.dtype() == DType::F16 {
                return Err(Error::Msg(
                    "found a variable in f16, expected f32: keep masters in f32 and let the region cast them"
                        .to_owned(),
                ));
            }
            let Some(gradient) = gradients.remove(variable) else { continue };
            let gradient = gradient.to_dtype(DType::F32)?;
            let unscaled = gradient.affine(inverse, 0.0)?;
            found |= !is_finite(if scaler.check_after { &unscaled } else { &gradient })?;
            gradients.insert(variable, unscaled.to_dtype(variable.dtype())?);
            met += 1;
        }
        if met == 0 {
            return Err(Error::Msg(format!(
                "found no gradient for any of {} variables: the loss does not reach them",
                variables.len()
            )));
        }
        Ok(Unscaled { scaler, gradients, found })
    }
}

/// Whether all elements are finite: times 0 they are 0, and their sum is.
fn is_finite(tensor: &Tensor) -> Result<bool> {
    Ok(tensor.affine(0.0, 0.0)?.sum_all()?.to_scalar::<f32>()? == 0.0)
}

/// Gradients without the scale.
#[must_use = "unscaled gradients are for a step"]
#[derive(Debug)]
pub struct Unscaled<'a> {
    scaler: &'a mut GradScaler,
    gradients: GradStore,
    found: bool,
}

/// Scales the variables' gradients so that their norm is at most `max_norm`; gives the norm that they had.
pub(super) fn clipped(gradients: &mut GradStore, variables: &[Var], max_norm: f32) -> Result<f32> {
    let mut squares = 0.0_f32;
    for variable in variables {
        if let Some(gradient) = gradients.get(variable) {
            squares += gradient.to_dtype(DType::F32)?.sqr()?.sum_all()?.to_scalar::<f32>()?;
        }
    }
    let norm = squares.sqrt();
    let coefficient = crate::exec::reference::update::clip_coefficient(norm, max_norm);
    for variable in variables {
        if let Some(gradient) = gradients.remove(variable) {
            gradients.insert(variable, gradient.affine(f64::from(coefficient), 0.0)?);
        }
    }
    Ok(norm)
}

impl<'a> Unscaled<'a> {
    /// The scaler, the gradients, and whether one was not finite.
    pub(super) fn into_parts(self) -> (&'a mut GradScaler, GradStore, bool) {
        (self.scaler, self.gradients, self.found)
    }

    /// Whether a gradient was not finite.
    pub fn found_non_finite(&self) -> bool {
        self.found
    }

    /// The gradients.
    pub fn gradients(&self) -> &GradStore {
        &self.gradients
    }

    /// Scales the variables' gradients so that their norm is at most `max_norm`, as `torch.nn.utils.clip_grad_norm_`; gives the
    /// norm that they had.
    ///
    /// # Errors
    /// Candle's own.
    pub fn clip(mut self, variables: &[Var], max_norm: f32) -> Result<(Self, f32)> {
        let norm = clipped(&mut self.gradients, variables, max_norm)?;
        Ok((self, norm))
    }

    /// Lets the optimizer update, unless a gradient was not finite.
    ///
    /// # Errors
    /// Those of the optimizer.
    pub fn step(self, optimizer: impl FnOnce(&GradStore) -> Result<()>) -> Result<Stepped<'a>> {
        if !self.found {
            optimizer(&self.gradients)?;
        }
        Ok(Stepped { scaler: self.scaler, found: self.found })
    }
}

/// A step that was done, or skipped.
#[must_use = "the scale is not moved before `update`"]
#[derive(Debug)]
pub struct Stepped<'a> {
    scaler: &'a mut GradScaler,
    found: bool,
}

impl Stepped<'_> {
    /// Moves the scale.
    pub fn update(self) -> Outcome {
        self.scaler.moved(self.found)
    }
}
