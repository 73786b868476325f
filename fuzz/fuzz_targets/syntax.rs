//! A text through the reader and the formatter alone, which is quicker by far: bytes that are no text are read as if they
//! were, with replacement characters.
#![no_main]

use amp::diag::{FileId, SourceMap, render_text};
use amp::syntax;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut sources = SourceMap::default();
    let file = sources.add("text.kdl", text.as_ref());
    let (tree, faults) = syntax::parse(file, &text);
    assert_eq!(render_text(&faults, &sources, false).is_empty(), faults.is_empty());
    if let Ok(formatted) = syntax::format(&text) {
        let (again, faults) = syntax::parse(FileId(0), &formatted);
        assert!(faults.is_empty() && tree.same_as(&again), "formatting changes what a text says");
        assert_eq!(syntax::format(&formatted).expect("formatted text can be formatted"), formatted);
    }
});
