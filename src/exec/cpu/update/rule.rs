//! How a rule of one element is taken to all elements: by vectors, and by runs of them, so that a rule can look at a run as a whole and do
//! it in a way of its own. Everything here is compiled for the instruction set of whoever calls it.

use super::lanes::{LANES, Lanes, Number};

/// Elements of a run: enough vectors that a look at them costs little.
pub(super) const RUN: usize = 64;

/// The rule of an optimizer for N values of an element, of which the first is the parameter and the others are its moments.
pub trait Rule<const N: usize>: Copy + Sync {
    /// The new values of an element, or of a vector of elements, where [`Rule::is_usual`].
    fn step<V: Number>(self, values: [V; N], gradient: V) -> [V; N];

    /// Whether a run is to be done by [`Rule::step`].
    #[inline(always)]
    fn is_usual<V: Lanes>(self, _run: &[&mut [f32; RUN]; N]) -> bool {
        true
    }

    /// Updates any run, usual or not, to the bits of the rule's reference; `FUSED` where the machine has fused
    /// multiply-adds.
    #[inline(always)]
    fn otherwise<const FUSED: bool>(self, run: &mut [&mut [f32; RUN]; N], gradients: &[f32; RUN]) {
        each(run, gradients, |values, gradient| self.step(values, gradient));
    }

    /// What becomes of the parameters of a run after their step.
    #[inline(always)]
    fn finish(self, _parameters: &mut [f32; RUN]) {}
}

/// Updates each element of a run by a function, in a loop that is made vector code.
#[inline(always)]
pub(super) fn each<const N: usize>(
    run: &mut [&mut [f32; RUN]; N],
    gradients: &[f32; RUN],
    function: impl Fn([f32; N], f32) -> [f32; N],
) {
    for lane in 0..RUN {
        let new = function(std::array::from_fn(|value| run[value][lane]), gradients[lane]);
        for (values, new) in run.iter_mut().zip(new) {
            values[lane] = new;
        }
    }
}

/// A rule whose parameters are rounded by a function.
#[derive(Clone, Copy)]
pub struct Rounded<R, F>(pub R, pub F);

impl<const N: usize, R: Rule<N>, F: Fn(f32) -> f32 + Copy + Sync> Rule<N> for Rounded<R, F> {
    #[inline(always)]
    fn step<V: Number>(self, values: [V; N], gradient: V) -> [V; N] {
        self.0.step(values, gradient)
    }

    #[inline(always)]
    fn is_usual<V: Lanes>(self, run: &[&mut [f32; RUN]; N]) -> bool {
        self.0.is_usual::<V>(run)
    }

    #[inline(always)]
    fn otherwise<const FUSED: bool>(self, run: &mut [&mut [f32; RUN]; N], gradients: &[f32; RUN]) {
        self.0.otherwise::<FUSED>(run, gradients);
    }

    #[inline(always)]
    fn finish(self, parameters: &mut [f32; RUN]) {
        for parameter in parameters {
            *parameter = (self.1)(*parameter);
        }
    }
}

/// Updates one vector of a run by the rule.
#[inline(always)]
pub(super) fn update_vector<V: Lanes, const N: usize>(
    rule: impl Rule<N>,
    run: &mut [&mut [f32; RUN]; N],
    gradients: &[f32; RUN],
    vector: usize,
) {
    let mut old = [V::of(0.0); N];
    for (old, values) in old.iter_mut().zip(run.iter()) {
        *old = V::load(&values.as_chunks().0[vector]);
    }
    let new = rule.step(old, V::load(&gradients.as_chunks().0[vector]));
    for (values, new) in run.iter_mut().zip(new) {
        new.store(&mut values.as_chunks_mut().0[vector]);
    }
}

/// Updates runs. Usual ones are a loop of their own, whose numbers stay in registers.
#[inline(always)]
fn update_runs<V: Lanes, const N: usize>(
    rule: impl Rule<N>,
    values: [&mut [[f32; RUN]]; N],
    gradients: &[[f32; RUN]],
) {
    let mut values = values.map(|values| &mut values[..gradients.len()]);
    let mut index = 0;
    while index < gradients.len() {
        while index < gradients.len() {
            let mut run = values.each_mut().map(|values| &mut values[index]);
            if !rule.is_usual::<V>(&run) {
                break;
            }
            for vector in 0..RUN / LANES {
                update_vector::<V, N>(rule, &mut run, &gradients[index], vector);
            }
            rule.finish(run[0]);
            index += 1;
        }
        if index < gradients.len() {
            let mut run = values.each_mut().map(|values| &mut values[index]);
            V::otherwise(rule, &mut run, &gradients[index]);
            rule.finish(run[0]);
            index += 1;
        }
    }
}

/// Updates values of as many elements as there are gradients; what is left over of whole runs is a run with zeros behind it.
#[inline(always)]
pub(super) fn update_all<V: Lanes, const N: usize>(
    rule: impl Rule<N>,
    values: [&mut [f32]; N],
    gradients: &[f32],
) {
    let mut values = values.map(|values| values[..gradients.len()].as_chunks_mut::<RUN>());
    let (whole, rest) = gradients.as_chunks::<RUN>();
    update_runs::<V, N>(rule, values.each_mut().map(|(runs, _)| &mut **runs), whole);
    if rest.is_empty() {
        return;
    }
    let mut last = [[0.0; RUN]; N];
    for (run, (_, values)) in last.iter_mut().zip(&values) {
        run[..rest.len()].copy_from_slice(values);
    }
    let mut gradients = [0.0; RUN];
    gradients[..rest.len()].copy_from_slice(rest);
    update_runs::<V, N>(rule, last.each_mut().map(std::slice::from_mut), std::slice::from_ref(&gradients));
    for (run, (_, values)) in last.iter().zip(&mut values) {
        values.copy_from_slice(&run[..rest.len()]);
    }
}
