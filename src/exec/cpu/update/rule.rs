//! How a rule of one element is taken to all elements: by runs, so that a rule can look at one as a whole and do it in a way of its own.
//! Everything here is compiled for the instruction set of whoever calls it.

/// Elements that are updated at once: enough to stay a loop, which is made vector code.
pub(super) const RUN: usize = 64;

/// The rule of an optimizer for N values of an element, of which the first is the parameter and the others are its moments. A function of
/// an element's values and its gradient is such a rule.
pub trait Rule<const N: usize>: Copy + Sync {
    /// The new values of an element: what the rule is.
    fn one(self, values: [f32; N], gradient: f32) -> [f32; N];

    /// Updates a run, each element to the bits that [`Rule::one`] gives.
    #[inline(always)]
    fn run(self, mut values: [&mut [f32; RUN]; N], gradients: &[f32; RUN]) {
        for lane in 0..RUN {
            let old = std::array::from_fn(|value| values[value][lane]);
            let new = self.one(old, gradients[lane]);
            for (values, new) in values.iter_mut().zip(new) {
                values[lane] = new;
            }
        }
    }
}

impl<const N: usize, F: Fn([f32; N], f32) -> [f32; N] + Copy + Sync> Rule<N> for F {
    #[inline(always)]
    fn one(self, values: [f32; N], gradient: f32) -> [f32; N] {
        self(values, gradient)
    }
}

/// A rule whose parameters are rounded by a function.
#[derive(Clone, Copy)]
pub struct Rounded<R, F>(pub R, pub F);

impl<const N: usize, R: Rule<N>, F: Fn(f32) -> f32 + Copy + Sync> Rule<N> for Rounded<R, F> {
    #[inline(always)]
    fn one(self, values: [f32; N], gradient: f32) -> [f32; N] {
        let mut new = self.0.one(values, gradient);
        new.iter_mut().take(1).for_each(|parameter| *parameter = (self.1)(*parameter));
        new
    }

    #[inline(always)]
    fn run(self, mut values: [&mut [f32; RUN]; N], gradients: &[f32; RUN]) {
        self.0.run(values.each_mut().map(|values| &mut **values), gradients);
        for parameter in values.into_iter().take(1).flatten() {
            *parameter = (self.1)(*parameter);
        }
    }
}

/// Updates values of as many elements as there are gradients; what is left over of whole runs is a run with zeros behind it.
#[inline(always)]
pub(super) fn update_all<const N: usize>(rule: impl Rule<N>, values: [&mut [f32]; N], gradients: &[f32]) {
    let mut values = values.map(|values| values[..gradients.len()].as_chunks_mut::<RUN>());
    let (whole, rest) = gradients.as_chunks::<RUN>();
    for (index, gradients) in whole.iter().enumerate() {
        rule.run(values.each_mut().map(|(runs, _)| &mut runs[index]), gradients);
    }
    if rest.is_empty() {
        return;
    }
    let mut last = [[0.0; RUN]; N];
    for (run, (_, values)) in last.iter_mut().zip(&values) {
        run[..rest.len()].copy_from_slice(values);
    }
    let mut gradients = [0.0; RUN];
    gradients[..rest.len()].copy_from_slice(rest);
    rule.run(last.each_mut(), &gradients);
    for (run, (_, values)) in last.iter().zip(&mut values) {
        values.copy_from_slice(&run[..rest.len()]);
    }
}
