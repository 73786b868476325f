//! A batch that the named device cannot hold, and what would make it fit.

use super::Subject;
use crate::arithmetic::half::Format;
use crate::autodiff::{Compiled, recompute};
use crate::data::spec::LastBatch;
use crate::diag::number::bytes as bytes_text;
use crate::diag::{Diagnostic, codes};

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let Some(device) = subject.device() else { return Vec::new() };
    let batch = subject.plan.data.batch;
    let needed = (subject.memory)(&subject.compiled.step);
    if needed.total() <= device.memory_bytes {
        return Vec::new();
    }
    let of = match subject.plan.train.shards {
        0 | 1 => String::new(),
        shards => format!("a shard, 1 of {shards}, of "),
    };
    let message = format!(
        "{of}a batch of {batch} needs {} on the {}, which has {}: {} of parameters, gradients' accumulators and optimizer \
         state, {} of activations and gradients{}",
        bytes_text(needed.total()),
        device.name,
        bytes_text(device.memory_bytes),
        bytes_text(needed.persistent),
        bytes_text(needed.results),
        match needed.beside {
            0 => String::new(),
            beside => format!(", {} beside them", bytes_text(beside)),
        }
    );
    let diagnostic = Diagnostic::warning(codes::MEMORY, message);
    let diagnostic = subject.at_origin(diagnostic, "data.batch", "this batch");
    let diagnostic = subject.at_origin(diagnostic, "environment", "names the device");
    vec![diagnostic.help(help(subject, device.memory_bytes))]
}

fn help(subject: &Subject<'_>, memory: u64) -> String {
    let batch = subject.plan.data.batch;
    let step = &subject.compiled.step;
    let made = recompute::fit(step, &|step| (subject.memory)(step).total(), memory);
    let fits = made.as_ref().is_some_and(|made| made.memory <= memory);
    let again = made.map(|made| {
        let (what, bytes) = (made.what(step), bytes_text(made.memory));
        match made.memory <= memory {
            true => {
                format!("as it is, `amp run` computes {what} again, with the same bits, and needs {bytes}")
            }
            false => format!("{bytes} are needed even when {what} are computed again"),
        }
    });
    let Some(largest) = largest(subject, memory) else {
        let none = "not even a batch of 1 fits: take a smaller model or a larger device".to_owned();
        return again.filter(|_| fits).unwrap_or(none);
    };
    let kept = if fits {
        "the largest batch of which everything is kept is"
    } else {
        "the largest batch that fits is"
    };
    let mut ways: Vec<String> = again.into_iter().collect();
    ways.push(format!("{kept} {largest}"));
    let total =
        |compiled: Option<Compiled>| compiled.map(|compiled| (subject.memory)(&compiled.step).total());
    let divisor = (2..=batch).find(|parts| {
        let shards = subject.plan.train.shards.max(1) as usize;
        batch.is_multiple_of(parts * shards) && batch / parts <= largest
    });
    if let Some(parts) = divisor
        && let Some(bytes) = total((subject.compile)(batch / parts, None))
    {
        let accumulate = u64::from(subject.plan.train.accumulate) * parts as u64;
        // Gradients are accumulated over whole batches alone.
        let last = if subject.plan.data.last == LastBatch::Keep { " last=\"drop\"" } else { "" };
        ways.push(format!(
            "`batch {}{last}` with `accumulate={accumulate}` takes the same step in {}",
            batch / parts,
            bytes_text(bytes)
        ));
    }
    if matches!(subject.plan.precision.low, Format::F32 | Format::Tf32)
        && let Some(bytes) = total((subject.compile)(batch, Some(Format::Bf16)))
    {
        let verdict = if bytes <= memory { "and fits" } else { "and is still too much" };
        ways.push(format!("`precision \"amp-bf16\"` needs {} {verdict}", bytes_text(bytes)));
    }
    ways.join("; ")
}

/// The largest batch that fits, by bisection; `None` when 1 does not.
fn largest(subject: &Subject<'_>, memory: u64) -> Option<usize> {
    let fits = |batch: usize| {
        (subject.compile)(batch, None)
            .is_some_and(|compiled| (subject.memory)(&compiled.step).total() <= memory)
    };
    // Batch normalisation refuses a batch of 1, so the search begins at 2 where 1 is refused.
    let mut low = [1, 2].into_iter().find(|batch| fits(*batch))?;
    let mut high = subject.plan.data.batch;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low)
}
