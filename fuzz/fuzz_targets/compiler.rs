//! A text through the whole compiler and the formatter; see `benches/fuzz/pipeline.rs` for what counts as a finding.
#![no_main]

#[path = "../../benches/fuzz/pipeline.rs"]
mod pipeline;

libfuzzer_sys::fuzz_target!(|text: &str| {
    pipeline::survive(text);
});
