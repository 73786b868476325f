//! The console blocks of README.md, run as they are written.

use super::repository;

#[test]
fn every_console_block_answers_as_it_says() {
    let cases = trycmd::TestCases::new();
    cases.register_bin("amp", trycmd::schema::Bin::Path(env!("CARGO_BIN_EXE_amp").into()));
    cases.env("NO_COLOR", "1");
    cases.case(repository().join("README.md"));
    cases.run();
}
