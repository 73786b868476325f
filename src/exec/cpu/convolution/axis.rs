//! Which filter taps reach an input position along one axis.
//!
//! Position i meets output position o under tap k when i + padding = o·stride + k·dilation. Positions with the same taps
//! at the same distances form a class: in the middle of an image there is one for each remainder of the stride, near its
//! edges a few more. All positions of a class share one list of runs.

/// A class of positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// (tap, distance of its output position from the base of the position), taps ascending.
    pub taps: Vec<(usize, isize)>,
    /// (position, base), ascending; the base is an output position, possibly past the last.
    pub positions: Vec<(usize, usize)>,
}

/// The classes of an axis of `input` positions; together they have every position once.
pub fn classes(
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for position in 0..input {
        let (base, remainder) = ((position + padding) / stride, (position + padding) % stride);
        let mut taps = Vec::new();
        for tap in 0..kernel {
            let distance = remainder as isize - (tap * dilation) as isize;
            if distance % stride as isize != 0 {
                continue;
            }
            let distance = distance / stride as isize;
            if (0..output as isize).contains(&(base as isize + distance)) {
                taps.push((tap, distance));
            }
        }
        match classes.iter_mut().find(|class| class.taps == taps) {
            Some(class) => class.positions.push((position, base)),
            None => classes.push(Class { taps, positions: vec![(position, base)] }),
        }
    }
    classes
}
