//! Kills runs at random places and resumes them: `cargo bench --bench kill -- [KILLS] [SEED]`, 200 kills unless told otherwise.
//!
//! Prints one line; the exit status is 0 only if every run that was killed gave the record and the checkpoint of one that
//! nobody disturbed.

#![expect(clippy::print_stdout, reason = "a program whose output is its result")]
#![expect(clippy::disallowed_methods, reason = "it starts and kills processes, and makes files for them")]

#[path = "../tests/suite/kills.rs"]
mod kills;

use std::path::Path;
use std::process::Command;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (count, seed) = (numbers.next().unwrap_or(200), numbers.next().unwrap_or(1));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder for the data");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits/data/digits.csv.gz");
    std::fs::copy(digits, data.join("digits.csv.gz")).expect("the digits");
    std::fs::write(folder.path().join("manifest.kdl"), kills::RICH).expect("a manifest");
    let amp = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_amp"));
        command.args(arguments).env_remove("AMP_STORE");
        command
    };
    println!("{}", kills::kill_and_resume(&amp, folder.path(), u32::try_from(count).unwrap_or(200), seed));
}
