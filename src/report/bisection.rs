//! Where two runs begin to differ, as text and as JSON.

use super::number::{count, short_digests};
use super::style::{Meaning, paint};
use super::words::ulps;
use crate::diag::number::counted;
use crate::diff::FieldDifference;
use crate::digest::Digest;
use crate::exec::bisect::{ElementDifference, OpDifference};
use crate::verify::BISECT;
use serde_json::{Value, json};

/// Schema of [`json()`].
pub const SCHEMA: &str = "amp.bisect/1";

/// A side of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The kernels that computed it.
    pub kernels: String,
    /// The records whose step it gives: `old`, `new`.
    pub gives: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Bisection {
    /// The run id of both runs.
    pub run_id: Digest,
    /// The first step that differs.
    pub step: Option<u64>,
    /// `step` or `evaluation`.
    pub event: Option<String>,
    /// Whether somebody asked for the step, so that nothing is known of those before it.
    pub asked: bool,
    /// What differs there in the records.
    pub fields: Vec<FieldDifference>,
    /// Steps that were done at the state that was begun with.
    pub from: Option<u64>,
    /// Both sides.
    pub sides: Vec<Side>,
    /// How many calls of the step were equal.
    pub calls: usize,
    /// The first op whose bits differ.
    pub op: Option<OpDifference>,
    /// The step that the op is in, where that is one before the first that differs.
    pub op_step: Option<u64>,
    /// Why none is named, where something differs.
    pub reason: Option<String>,
}

impl Bisection {
    /// Nothing is known yet.
    pub fn of(run_id: Digest) -> Self {
        Self {
            run_id,
            step: None,
            event: None,
            asked: false,
            fields: Vec::new(),
            from: None,
            sides: Vec::new(),
            calls: 0,
            op: None,
            op_step: None,
            reason: None,
        }
    }

    /// Whether numbers that were computed here are those of a record, or none were compared: then they came of what the run had.
    pub fn is_of_the_record(&self) -> bool {
        let computed = self.step.is_some() || self.reason.is_some();
        !computed || self.sides.iter().any(|side| !side.gives.is_empty())
    }

    /// The kernels of both sides, for a sentence.
    pub fn kernels(&self) -> String {
        let names: Vec<&str> = self.sides.iter().map(|side| side.kernels.as_str()).collect();
        names.join(" and ")
    }

    fn verdict(&self) -> &'static str {
        match (&self.op, &self.reason) {
            (Some(_), _) => "differs",
            (None, Some(_)) => "inconclusive",
            (None, None) => "same",
        }
    }
}

fn index(index: &[usize]) -> String {
    let index: Vec<String> = index.iter().map(usize::to_string).collect();
    format!("[{}]", index.join(", "))
}

fn element(difference: &ElementDifference) -> String {
    let [left, right] = difference.values;
    let distance = ulps(difference.ulps);
    let distance = if distance.is_empty() { String::new() } else { format!(", {distance}") };
    format!(
        "{}: {left} (0x{:08x}) against {right} (0x{:08x}){distance}",
        index(&difference.index),
        left.bits(),
        right.bits()
    )
}

/// Lines for people.
pub fn text(bisection: &Bisection, color: bool) -> String {
    let mut out = String::new();
    let mut line = |text: String, meaning| {
        out.push_str(&paint(&text, meaning, color));
        out.push('\n');
    };
    match (bisection.step, &bisection.event) {
        (Some(step), _) if bisection.asked => {
            line(format!("step {}, as asked", count(step)), Meaning::Heading)
        }
        (Some(step), Some(event)) if event == "step" => {
            line(format!("step {} is the first that differs", count(step)), Meaning::Heading);
        }
        (Some(step), Some(event)) => {
            line(
                format!("the {event} after step {} is the first that differs", count(step)),
                Meaning::Heading,
            );
        }
        _ if bisection.reason.is_none() => line("same: nothing differs".to_owned(), Meaning::Good),
        _ => {}
    }
    for field in &bisection.fields {
        let distance = ulps(field.ulps);
        let text = format!("  {} {} → {} {distance}", field.field, field.old, field.new);
        line(short_digests(text.trim_end()), Meaning::Plain);
    }
    if let Some(op) = &bisection.op {
        let layer = if op.layer.is_empty() { String::new() } else { format!(" of layer `{}`", op.layer) };
        let place = format!("in the {}, call {}", op.pass, count(op.place as u64));
        let place = match bisection.op_step {
            Some(step) => format!("{place} of step {}, which no number of that step shows", count(step)),
            None => place,
        };
        line(format!("the first op whose bits differ: {}{layer} ({place})", op.kind), Meaning::Bad);
        line(
            format!("  result `{}` {}, element {}", op.result, index(&op.shape), element(&op.first)),
            Meaning::Plain,
        );
        let elements: usize = op.shape.iter().product();
        let many = format!("{} of {} elements differ", count(op.differing as u64), count(elements as u64));
        if op.differing > 1 {
            line(format!("  {many}, the farthest at {}", element(&op.farthest)), Meaning::Plain);
        } else {
            line(format!("  {many}"), Meaning::Plain);
        }
        line(format!("  computed by {} and {}", op.kernels[0], op.kernels[1]), Meaning::Plain);
        if let Some(defined) = op.defined {
            let who = match defined {
                [true, _] => format!("what {} gave", op.kernels[0]),
                [_, true] => format!("what {} gave", op.kernels[1]),
                _ => "neither of them".to_owned(),
            };
            line(format!("  the reference gives {who}"), Meaning::Plain);
        }
    }
    if bisection.op.is_none() && bisection.reason.is_none() && bisection.step.is_some() {
        let calls = counted(bisection.calls, "call");
        line(format!("same: no op differs between {} in {calls}", bisection.kernels()), Meaning::Good);
    }
    for side in bisection.sides.iter().filter(|side| !side.gives.is_empty()) {
        let names: Vec<&str> =
            side.gives.iter().map(|name| if name == "old" { "first" } else { "second" }).collect();
        line(
            format!("  {} gives what the {} record has", side.kernels, names.join(" and the ")),
            Meaning::Faint,
        );
    }
    if let Some(reason) = &bisection.reason {
        line(format!("inconclusive [{BISECT}]: {reason}"), Meaning::Notice);
    }
    out
}

/// The same for programs.
pub fn json(bisection: &Bisection) -> Value {
    let element = |difference: &ElementDifference| {
        let [left, right] = difference.values;
        json!({
            "index": difference.index,
            "old": left.to_string(),
            "new": right.to_string(),
            "old_bits": format!("0x{:08x}", left.bits()),
            "new_bits": format!("0x{:08x}", right.bits()),
            "ulps": difference.ulps,
        })
    };
    let op = bisection.op.as_ref().map(|op| {
        json!({
            "step": bisection.op_step.or(bisection.step),
            "place": op.place,
            "pass": op.pass,
            "kind": op.kind,
            "layer": op.layer,
            "result": op.result,
            "shape": op.shape,
            "kernels": op.kernels,
            "defined": op.defined,
            "differing": op.differing,
            "elements": op.shape.iter().product::<usize>(),
            "first": element(&op.first),
            "farthest": element(&op.farthest),
        })
    });
    let sides = bisection.sides.iter().map(|side| json!({ "kernels": side.kernels, "gives": side.gives }));
    json!({
        "schema": SCHEMA,
        "verdict": bisection.verdict(),
        "run_id": bisection.run_id.to_string(),
        "step": bisection.step,
        "event": bisection.event,
        "from": bisection.from,
        "sides": sides.collect::<Vec<_>>(),
        "op": op,
        "reason": bisection.reason,
    })
}
