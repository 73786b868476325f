//! Working memory that each thread keeps between calls, in cache lines.

use std::cell::RefCell;

/// A cache line: the packed operands start on one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Floats in a line.
const LINE: usize = 16;

thread_local! {
    static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with so many floats of working memory, of any content, that start on a cache line.
///
/// Not to be nested: the memory is one for each thread.
pub fn with_scratch<R>(floats: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    LINES.with(|lines| {
        let mut lines = lines.borrow_mut();
        let count = floats.div_ceil(LINE);
        if lines.len() < count {
            lines.resize(count, Line([0.0; LINE]));
        }
        // SAFETY: `Line` is `LINE` floats and nothing else, and there are `count` of them.
        work(unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), floats) })
    })
}
