//! `amp lsp`: the language server on standard input and output; an editor starts it.

use super::Exit;
use crate::lsp::{Ended, serve};
use crate::world::Disk;
use std::io::BufReader;

/// Serves until the client ends the session.
pub fn run() -> Exit {
    let input = BufReader::new(std::io::stdin());
    match serve(input, std::io::stdout().lock(), &Disk) {
        Ended::Orderly => Exit::Done,
        Ended::Abrupt => Exit::No,
    }
}
