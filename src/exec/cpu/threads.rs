//! The worker threads. How many there are never changes a bit: work is cut by output elements or by fixed blocks.

use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Why no workers were started.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// More than can help.
    #[error("this machine runs {cores} at once, and at most {most} are started on it")]
    TooMany {
        /// Threads that run at once.
        cores: usize,
        /// Most workers that are started.
        most: usize,
    },
    /// The operating system gave none.
    #[error(transparent)]
    System(#[from] rayon::ThreadPoolBuildError),
}

/// Threads that may run at once, as the system limited them when it was asked first: it reads the files of the control group.
pub fn available() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// A set of worker threads; a clone is the same set.
#[derive(Clone)]
pub struct Threads {
    pool: Arc<rayon::ThreadPool>,
    count: usize,
}

impl Threads {
    /// Starts `count` workers (at least one).
    ///
    /// # Errors
    /// When there would be more than [`Threads::most`], or the operating system gives no threads.
    pub fn new(count: usize) -> Result<Self, ThreadsError> {
        let count = count.max(1);
        if count > Self::most() {
            return Err(ThreadsError::TooMany { cores: available(), most: Self::most() });
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build()?;
        Ok(Self { pool: Arc::new(pool), count })
    }

    /// Most workers that are started here. Workers wait by asking one another for work, so that far more of them than
    /// cores do nothing else: on 2 cores 64 workers were ten times slower than 2, and 300 did not end within half a minute.
    pub fn most() -> usize {
        (8 * available()).max(32)
    }

    /// How many workers there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs `work` on one worker; everything inside reuses the same workers without a hand-over.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// Calls `work` for consecutive ranges that cover `0..length`, in parallel when there is enough of it; every range
    /// but the last has a multiple of `grain` items.
    pub fn ranges(&self, length: usize, grain: usize, work: impl Fn(Range<usize>) + Sync) {
        let grain = grain.max(1);
        let pieces = length.div_ceil(grain);
        if pieces <= 1 || self.count == 1 {
            if length > 0 {
                work(0..length);
            }
            return;
        }
        let per_worker = pieces.div_ceil(self.count) * grain;
        self.pool.install(|| {
            (0..length.div_ceil(per_worker)).into_par_iter().for_each(|index| {
                work(index * per_worker..((index + 1) * per_worker).min(length));
            });
        });
    }

    /// Calls `work` for each of `0..count`, in parallel; a worker that is done takes what another has not begun.
    pub fn tasks(&self, count: usize, work: impl Fn(usize) + Sync) {
        if count <= 1 || self.count == 1 {
            return (0..count).for_each(work);
        }
        self.pool.install(|| (0..count).into_par_iter().with_max_len(1).for_each(&work));
    }

    /// As [`Threads::tasks`], but here and now when `workers` is 1: for work that is too small to share.
    pub(crate) fn tasks_of(&self, workers: usize, count: usize, work: impl Fn(usize) + Sync) {
        if workers <= 1 { (0..count).for_each(work) } else { self.tasks(count, work) }
    }
}

/// A slice that several workers write at once, each its own elements.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    start: *mut f32,
}

// SAFETY: the pointer is only used through `slice` and `at`, whose callers keep to elements of their own.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

impl Output {
    /// Of all of `values`, which must outlive the work.
    pub(crate) fn new(values: &mut [f32]) -> Self {
        Self { start: values.as_mut_ptr() }
    }

    /// From an element on.
    pub(crate) fn from_place(start: *mut f32) -> Self {
        Self { start }
    }

    /// The place of an element.
    pub(crate) fn at(self, index: usize) -> *mut f32 {
        self.start.wrapping_add(index)
    }

    /// Some elements.
    ///
    /// # Safety
    /// They are inside of the slice, and nothing else refers to them while the result lives.
    pub(crate) unsafe fn slice<'a>(self, first: usize, length: usize) -> &'a mut [f32] {
        // SAFETY: as the caller vouches.
        unsafe { std::slice::from_raw_parts_mut(self.at(first), length) }
    }
}
