//! A record, or two beside one another, as one page of HTML: what was run, what came of it, and how to get it again.
//!
//! **Invariant: the page is a function of its records and locks, and needs nothing else**: no network, no script, no clock; every
//! text of theirs is escaped. Charts are SVG of our own; long series are thinned by the rule of [`series::thin`].

mod charts;
mod escape;
mod machine;
mod plan;
mod plot;
mod reproduce;
mod results;
mod scale;
pub mod series;
mod time;

#[cfg(test)]
pub(in crate::report) mod tests;

pub(super) use escape::escape;
pub use series::SERIES_BUCKETS;

use crate::diff::{RecordDiff, diff_records};
use crate::lock::Lock;
use crate::record::{Ending, Record};

/// The style of every page.
const STYLE: &str = include_str!("style.css");

/// A record with what lies beside it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The record.
    pub record: &'a Record,
    /// The lock that it followed, where it is known; [`Subject::followed`] says whether it is that one.
    pub lock: Option<&'a Lock>,
    /// What to type for it.
    pub named: &'a str,
}

impl Subject<'_> {
    /// The lock, if it has the digest that the record names.
    pub fn followed(&self) -> Option<&Lock> {
        self.lock.filter(|lock| crate::lock::entries_digest(lock) == self.record.started.lock)
    }
}

/// The page of a record.
pub fn one(subject: Subject<'_>) -> String {
    let name = &subject.record.started.name;
    let mut body = head(&format!("Run {name}"), &[subject]);
    body.push_str(&results::cards(subject));
    body.push_str(&charts::all(&[subject], None));
    body.push_str(&results::evaluations(&[subject]));
    body.push_str(&time::section(&[subject]));
    body.push_str(&plan::section(subject, "What was run"));
    body.push_str(&results::digests(&[subject]));
    body.push_str(&machine::section(&[subject]));
    body.push_str(&results::notes(&[subject]));
    body.push_str(&reproduce::section(subject));
    page(&format!("{name} · amp"), &body)
}

/// The page of two records, side by side, with the first difference marked.
pub fn two(subjects: [Subject<'_>; 2]) -> String {
    let [old, new] = subjects;
    let diff = diff_records(old.record, new.record);
    let names = [&old.record.started.name, &new.record.started.name];
    let title =
        if names[0] == names[1] { names[0].clone() } else { format!("{} and {}", names[0], names[1]) };
    let mut body = head(&format!("Two runs: {title}"), &subjects);
    body.push_str(&results::difference(&diff));
    body.push_str(&charts::all(&subjects, first_step(&diff)));
    body.push_str(&results::figures(&diff));
    body.push_str(&results::evaluations(&subjects));
    body.push_str(&plan::changes(subjects));
    body.push_str(&time::section(&subjects));
    body.push_str(&results::digests(&subjects));
    body.push_str(&machine::section(&subjects));
    body.push_str(&results::notes(&subjects));
    body.push_str(&reproduce::both(subjects));
    page(&format!("{title} · amp"), &body)
}

fn first_step(diff: &RecordDiff) -> Option<u64> {
    diff.first.as_ref().map(|first| first.step)
}

/// The letters of two records.
pub(super) fn letter(index: usize) -> &'static str {
    if index == 0 { "A" } else { "B" }
}

fn head(title: &str, subjects: &[Subject<'_>]) -> String {
    let mut out = format!("<header><h1>{}</h1>", escape(title));
    for (index, subject) in subjects.iter().enumerate() {
        let started = &subject.record.started;
        let mark = match subjects.len() {
            1 => String::new(),
            _ => format!("<span class=\"key k{index}\"></span><b>{}</b> ", letter(index)),
        };
        let (word, class) = ending(subject.record);
        out.push_str(&format!(
            "<p class=\"sub\">{mark}<span class=\"pill {class}\">{}</span> run <code>{}</code> on {} \
             under the guarantee <b>{}</b>, seed {}</p>",
            escape(&word),
            started.run_id.short(),
            escape(&started.platform),
            escape(&started.guarantee),
            started.seed,
        ));
    }
    out + "</header>"
}

/// How a run ended, in words and as a class.
fn ending(record: &Record) -> (String, &'static str) {
    match record.ending() {
        Ending::Finished(_) => ("finished".to_owned(), "good"),
        Ending::Interrupted(step) => (format!("interrupted after step {step}"), "notice"),
        Ending::Fault(code, step) => (format!("stopped by {code} after step {step}"), "bad"),
        Ending::Cut => {
            (format!("no end after step {}: killed, running, or cut", record.last_step()), "notice")
        }
    }
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n\
         <footer>Made by <code>amp report</code> {} from the record alone. Lines of more than {} points show the least and the \
         greatest value of each of {} equal parts of the steps.</footer>\n</body>\n</html>\n",
        escape(title),
        env!("CARGO_PKG_VERSION"),
        2 * SERIES_BUCKETS,
        SERIES_BUCKETS,
    )
}

/// A section with a heading; nothing when it has no content.
pub(super) fn section(title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<section><h2>{}</h2>{content}</section>\n", escape(title))
}

/// A table with a head; cells are HTML. Wide ones scroll by themselves.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = "<div class=\"wide\"><table>".to_owned();
    if !head.is_empty() {
        out.push_str("<thead><tr>");
        head.iter().for_each(|cell| out.push_str(&format!("<th>{}</th>", escape(cell))));
        out.push_str("</tr></thead>");
    }
    out.push_str("<tbody>");
    for row in rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| out.push_str(&format!("<td>{cell}</td>")));
        out.push_str("</tr>");
    }
    out + "</tbody></table></div>"
}

/// A text as code.
pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}
