//! The nearest known name to one that was typed.

/// Returns the known name nearest to `typed`, if it is near enough to be meant: within a third of the longer length.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = typed.chars().count();
    known
        .into_iter()
        // The distance is at least the difference of the lengths; a long text is not worth comparing.
        .filter(|name| name.chars().count().abs_diff(length) <= name.chars().count().max(length).div_ceil(3))
        .map(|name| (strsim::damerau_levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(length).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
