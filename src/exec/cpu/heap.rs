//! Memory for a process that makes an engine, uses it for a step or two and ends.
//!
//! Such a process touches all of its memory once. The system gives that page by page, each with a fault, which took as long as the steps
//! themselves. So all of it is asked for in one piece, as large pages where the system has them.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use linux::in_one_piece;

/// Elsewhere memory is what it was.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn in_one_piece() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    use std::ffi::{c_int, c_void};
    use std::hint::black_box;
    use std::sync::Once;

    // Of glibc's <malloc.h> and Linux's <sys/mman.h>.
    const TRIM_THRESHOLD: c_int = -1;
    const TOP_PAD: c_int = -2;
    const MMAP_THRESHOLD: c_int = -3;
    const ARENA_MAX: c_int = -8;
    const HUGE_PAGE: c_int = 14;

    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
        fn sbrk(increment: isize) -> *mut c_void;
        fn madvise(start: *mut c_void, length: usize, advice: c_int) -> c_int;
    }

    /// Bytes of a large page.
    const PAGE: usize = 2 << 20;
    /// Bytes that are asked for at once. Those that nobody touches cost nothing.
    const PIECE: c_int = 64 << 20;
    /// More than is left of a heap before that.
    const GROWTH: usize = 1 << 19;

    /// Lets what is allocated from now on, by all threads, come from one piece of large pages, and keeps it until the process ends. It is a
    /// wish: where the system or the allocator has nothing of the kind, memory is what it was. To be called before other threads are
    /// started.
    pub fn in_one_piece() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // A threshold above 32 MiB would be refused.
            let settings =
                [(ARENA_MAX, 1), (MMAP_THRESHOLD, 32 << 20), (TRIM_THRESHOLD, c_int::MAX), (TOP_PAD, PIECE)];
            // SAFETY: the settings decide where memory comes from and when it is given back, and nothing else; an unknown one is refused.
            let all = settings.map(|(parameter, value)| unsafe { mallopt(parameter, value) });
            // SAFETY: nothing is moved by an increment of zero.
            let end = || unsafe { sbrk(0) } as usize;
            let before = end();
            // The heap grows; what is freed again stays a part of it.
            drop(black_box(Vec::<u8>::with_capacity(GROWTH)));
            // The allocator wrote behind that, and a large page of which a small one is there will not be given whole.
            let (first, last) = ((before + GROWTH + 1).next_multiple_of(PAGE), end() / PAGE * PAGE);
            if all != [1; 4] || first >= last {
                return;
            }
            // SAFETY: an advice about pages between two ends of the heap changes nothing of what they hold.
            unsafe { madvise(first as *mut c_void, last - first, HUGE_PAGE) };
            // What lies before the first large page is left out, for it would be given in small ones.
            std::mem::forget(black_box(Vec::<u8>::with_capacity(first - before)));
        });
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_holds_what_is_put_there_before_and_after() {
        let before: Vec<u32> = (0..100_000).collect();
        super::in_one_piece();
        super::in_one_piece();
        let after = before.clone();
        assert_eq!(vec![0_u8; 3 << 20].iter().find(|byte| **byte != 0), None);
        assert!(before == after && after.iter().copied().eq(0..100_000));
    }
}
