//! Working memory that each thread keeps between calls, in cache lines.

use std::cell::RefCell;

/// A cache line: the packed operands start on one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Floats in a line.
const LINE: usize = 16;

thread_local! {
    /// The pieces of memory that are not in use, the one used last at the end.
    static FREE: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with so many floats of working memory, of any content, that start on a cache line.
///
/// It may be nested: each level has a piece of its own, and a thread keeps as many pieces as were ever in use at once.
pub fn with_scratch<R>(floats: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    let mut lines = FREE.with(|free| free.borrow_mut().pop()).unwrap_or_default();
    let count = floats.div_ceil(LINE);
    if lines.len() < count {
        lines.resize(count, Line([0.0; LINE]));
    }
    // SAFETY: `Line` is `LINE` floats and nothing else, and there are `count` of them.
    let result = work(unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), floats) });
    FREE.with(|free| free.borrow_mut().push(lines));
    result
}
