//! The fingerprints of parameters, each taken once for every value that it has.
//!
//! Who asked for the seal after a step will ask after the next one too: its updates then take the fingerprints of the parameters that
//! they have in their registers. A fingerprint counts until something else writes the cell.

use crate::arithmetic::Isa;
use crate::exec::backend::Seal;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::fingerprint::{Keys, fingerprint};
use crate::exec::cpu::threads::Threads;

/// What is known of the bits of cells.
pub(super) struct Seals {
    /// The keys of all fingerprints.
    pub keys: Keys,
    /// Cells and elements of all parameters, in the order of their names.
    parameters: Vec<(usize, usize)>,
    /// Fingerprints by cell, and whether they are those of what the cell holds now.
    known: Vec<(Vec<u8>, bool)>,
    asked: bool,
    /// Bytes of all fingerprints, once they were asked for.
    bytes: usize,
    /// Whether updates take fingerprints.
    pub taken: bool,
}

impl Seals {
    /// Of no parameters.
    pub fn new() -> Self {
        Self {
            keys: Keys::new(),
            parameters: Vec::new(),
            known: Vec::new(),
            asked: false,
            bytes: 0,
            taken: false,
        }
    }

    /// Of parameters by cell and elements, in the order of their names.
    pub fn set_parameters(&mut self, parameters: Vec<(usize, usize)>) {
        let cells = parameters.iter().map(|(cell, _)| cell + 1).max().unwrap_or(0);
        self.known = vec![(Vec::new(), false); cells];
        self.parameters = parameters;
    }

    /// A step begins.
    pub fn begin(&mut self) {
        self.taken = std::mem::take(&mut self.asked);
    }

    /// A cell was written.
    pub fn forget(&mut self, cell: usize) {
        if let Some((_, current)) = self.known.get_mut(cell) {
            *current = false;
        }
    }

    /// The keys, and the place for the fingerprint that a cell is about to get; `None` for a cell that is no parameter.
    pub fn place(&mut self, cell: usize) -> Option<(&Keys, &mut Vec<u8>)> {
        let (bytes, current) = self.known.get_mut(cell)?;
        *current = true;
        Some((&self.keys, bytes))
    }

    /// What the digest of all parameters is made from; what is not known yet is computed.
    pub fn of(&mut self, cells: &[Buffer], isa: Isa, threads: &Threads) -> Seal {
        self.asked = true;
        let mut all = Vec::with_capacity(self.bytes);
        for &(cell, elements) in &self.parameters {
            let (bytes, current) = &mut self.known[cell];
            if !*current {
                bytes.clear();
                fingerprint(isa, threads, &self.keys, cells[cell].floats(elements), bytes);
                *current = true;
            }
            all.extend_from_slice(bytes);
        }
        self.bytes = all.len();
        Seal(all)
    }
}
