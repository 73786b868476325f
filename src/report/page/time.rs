//! Where the time went, as far as the record says it.

use super::results::seconds_by_kind;
use super::{Subject, escape, letter, table};
use crate::report::number::duration;

/// A bar and a table for each record.
pub fn section(subjects: &[Subject<'_>]) -> String {
    let mut content = String::new();
    for (index, subject) in subjects.iter().enumerate() {
        let mut parts: Vec<(&str, f64)> = seconds_by_kind(subject.record).into_iter().collect();
        let whole: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        if parts.is_empty() || !whole.is_finite() {
            continue;
        }
        parts.sort_by(|left, right| right.1.total_cmp(&left.1));
        if subjects.len() > 1 {
            content.push_str(&format!("<h3><span class=\"key k{index}\"></span>{}</h3>", letter(index)));
        }
        content.push_str("<div class=\"bar\" aria-hidden=\"true\">");
        for (place, (_, seconds)) in parts.iter().enumerate() {
            content.push_str(&format!(
                "<span class=\"b{}\" style=\"flex-grow:{:.4}\"></span>",
                place % 6,
                seconds / whole
            ));
        }
        content.push_str("</div>");
        let rows: Vec<Vec<String>> = parts
            .iter()
            .enumerate()
            .map(|(place, (name, seconds))| {
                vec![
                    format!("<span class=\"key b{}\"></span>{}", place % 6, escape(name)),
                    format!("<span class=\"num\">{}</span>", duration(*seconds)),
                    format!("<span class=\"num\">{:.1} %</span>", 100.0 * seconds / whole),
                ]
            })
            .collect();
        content.push_str(&table(&[], &rows));
    }
    if !content.is_empty() {
        content.push_str("<p class=\"faint\"><code>amp bench</code> of the manifest says where a step's time goes, op by op.</p>");
    }
    super::section("Where the time went", &content)
}
