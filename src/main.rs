//! The `amp` command: parse, dispatch, exit code; and a last word when memory runs out.
//!
//! What a run needs is known and refused before it begins (AMP0708). What cannot be known, such as the size of a file that
//! is still to be unpacked, meets the allocator: when that has nothing left, Rust would abort the process with a signal. Here
//! it ends with the code of a machine that has too little memory, and says so.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(amp::cli::main())
}

#[global_allocator]
static ALLOCATOR: LastWord = LastWord;

/// The system's allocator, which ends the process with a message instead of returning nothing.
struct LastWord;

// SAFETY: every call is handed to the system's allocator as it came, and its answer is returned as it is; the one other
// thing that happens is that the process ends.
unsafe impl GlobalAlloc for LastWord {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        present(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        present(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        present(unsafe { System.realloc(pointer, layout, size) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn present(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        out_of_memory();
    }
    pointer
}

/// Says that memory ran out and ends the process with exit code 3, without allocating, unwinding or running what was
/// registered for the end.
#[cfg(unix)]
#[cold]
fn out_of_memory() -> ! {
    unsafe extern "C" {
        fn write(descriptor: i32, bytes: *const u8, count: usize) -> isize;
        fn _exit(status: i32) -> !;
    }
    const TEXT: &str = "error[AMP0708]: memory ran out: the system refused to give this process more\n\n\
        help: make the data, the model or `data batch` smaller, or raise the limit (`ulimit -v`, the container's memory); \
        nothing was lost: files are written whole or not at all\n";
    // SAFETY: the bytes are those of a constant, so they are there as long as `write` reads them; neither function touches
    // Rust's state, and a write that fails or is cut leaves nothing to mend.
    unsafe {
        write(2, TEXT.as_ptr(), TEXT.len());
        _exit(3)
    }
}

/// Elsewhere Rust's own message and abort follow.
#[cfg(not(unix))]
fn out_of_memory() {}
