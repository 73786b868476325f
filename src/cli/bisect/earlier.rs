//! A difference that a record shows later than it began: moments, the loss scale and running statistics are in no step's numbers, so that
//! what went wrong with them is seen when a later step uses them.

use super::compared::Place;
use super::{Bisection, Failure, Search, nearest_state, not_seen};
use crate::exec::bisect::{Kernels, Looking};
use crate::exec::session::Feed;

impl Search<'_> {
    /// Looks for the op in the steps before a place at which no op differs, from the last state that may be older than the difference.
    /// Where no op of those steps differs either, the answer says so.
    pub(super) fn look_back(
        &self,
        place: Place,
        [left, right]: [Kernels; 2],
        answer: &mut Bisection,
    ) -> Result<(), Failure> {
        let done = place.done();
        let mut opened = self.again.open(&self.machine_of(left), self.ui)?;
        let engine = &mut *opened.backend;
        let state = nearest_state(&self.again.record, &self.again.folder, done.saturating_sub(1))?;
        let (from, _) = self.restore(engine, state)?;
        if from == 0 {
            // What a run does before its first step.
            self.go(engine, 0..0)?;
        }
        self.ui.status("Looking", &format!("into steps {} to {done}", from + 1));
        let looking = Looking::into(engine, right).ok_or_else(not_seen)?;
        let feed = Feed::new(self.again.plan(), &self.again.ready.prepared)?;
        let mut order = None;
        for number in from..done {
            looking.begin();
            feed.step(engine, number, &mut order)?;
            if let (calls, Some(op)) = looking.seen() {
                (answer.calls, answer.op, answer.op_step) = (calls, Some(op), Some(number + 1));
                return Ok(());
            }
        }
        if self.new.is_none() {
            answer.reason = Some(format!(
                "{right} gives another step than is recorded, and no op of steps {} to {} differs: what differs is older",
                from + 1,
                place.step
            ));
        }
        Ok(())
    }
}
