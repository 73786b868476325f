//! The nearest known name to one that was typed.

/// Least characters of a beginning that stands for the whole name.
const BEGINNING: usize = 3;

/// Returns the known name nearest to `typed`, if it is near enough to be meant: within a third of the longer length, whatever
/// the case of letters; else the first that begins with it.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = typed.chars().count();
    let small = typed.to_lowercase();
    let mut begun = None;
    let near = known
        .into_iter()
        .inspect(|name| {
            if begun.is_none() && length >= BEGINNING && name.starts_with(&small) {
                begun = Some(*name);
            }
        })
        // The distance is at least the difference of the lengths; a long text is not worth comparing.
        .filter(|name| name.chars().count().abs_diff(length) <= name.chars().count().max(length).div_ceil(3))
        .map(|name| {
            let distance = strsim::damerau_levenshtein;
            (distance(typed, name).min(distance(&small, name)), name)
        })
        .filter(|(distance, name)| *distance <= name.chars().count().max(length).div_ceil(3))
        .min_by_key(|(distance, _)| *distance);
    match (near, begun) {
        // One slip of the hand is nearer than a beginning, and a beginning nearer than several slips.
        (Some((0..=1, name)), _) | (Some((_, name)), None) => Some(name),
        (_, begun) => begun,
    }
}
