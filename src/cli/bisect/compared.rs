//! Events of a repeated run against those of a record.

use crate::digest::Digest;
use crate::exec::fault::ExecFault;
use crate::exec::session::Observer;
use crate::record::{Chain, Event, Record};

/// The first event that differs: its step, and whether it is an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub step: u64,
    pub evaluation: bool,
}

impl Place {
    /// Steps that are done before it.
    pub(super) fn done(self) -> u64 {
        if self.evaluation { self.step } else { self.step - 1 }
    }

    /// Where an event stands that is part of the chain.
    pub(super) fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Step(step) => Some(Self { step: step.step, evaluation: false }),
            Event::Evaluation(evaluation) => Some(Self { step: evaluation.step, evaluation: true }),
            _ => None,
        }
    }
}

/// Whether a record has an event, the same in every bit that counts.
pub(super) fn has(record: &Record, event: &Event) -> bool {
    let Some(place) = Place::of(event) else { return false };
    let digest = |event: &Event| Chain::resume(Digest([0; 32])).add(event);
    let wanted = digest(event);
    // Digests of what stands elsewhere would be most of the time of a search.
    record.events.iter().any(|line| Place::of(&line.event) == Some(place) && digest(&line.event) == wanted)
}

/// Compares events with those of a record, and stops at the first that is another one.
pub(super) struct Compared<'a> {
    record: &'a Record,
    pub place: Option<Place>,
}

impl<'a> Compared<'a> {
    pub(super) fn with(record: &'a Record) -> Self {
        Self { record, place: None }
    }
}

impl Observer for Compared<'_> {
    fn event(&mut self, event: &Event) -> Result<(), ExecFault> {
        if self.place.is_none() && Place::of(event).is_some() && !has(self.record, event) {
            self.place = Place::of(event);
        }
        Ok(())
    }

    fn stop(&self) -> bool {
        self.place.is_some()
    }
}
