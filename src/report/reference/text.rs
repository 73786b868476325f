//! The reference for a terminal.

use super::{Group, NodePage, Page, default_word, occurs_word, type_word, usage, values, values_word};
use crate::report::style::{Meaning, paint};
use crate::report::table::{Cell, cell, table};
use crate::resolve::Rule;
use crate::resolve::describe::{ModuleDoc, sentence};

/// Columns of prose.
const WIDTH: usize = 96;

/// Lays a page out.
pub fn text(page: &Page, color: bool) -> String {
    match page {
        Page::List(groups) => groups.iter().map(|each| group(each, color)).collect::<Vec<_>>().join("\n"),
        Page::Nodes(nodes) => nodes.iter().map(|each| node(each, color)).collect::<Vec<_>>().join("\n"),
        Page::Modules(all) => all.iter().map(|each| module(each, color)).collect::<Vec<_>>().join("\n"),
        Page::Module { module: shown, source } => {
            let mut out = module(shown, color);
            if let Some(source) = source {
                out.push_str(&format!("\n{}\n{source}", heading("text", color)));
            }
            out
        }
        Page::Node(shown) => node(shown, color),
    }
}

fn heading(title: &str, color: bool) -> String {
    paint(title, Meaning::Heading, color)
}

fn group(group: &Group, color: bool) -> String {
    let names = group.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut out = format!("{}\n", heading(&group.title, color));
    for (name, doc) in &group.rows {
        let padding = " ".repeat(names - name.chars().count());
        let lines = wrapped(&sentence(doc), WIDTH.saturating_sub(names + 4).max(30));
        let below = format!("\n{}", " ".repeat(names + 4));
        out.push_str(&format!("  {}{padding}  {}\n", paint(name, Meaning::Name, color), lines.join(&below)));
    }
    out
}

fn module(module: &ModuleDoc, color: bool) -> String {
    let kind = format!("({})", module.kind.word());
    let mut out = format!(
        "{} {}\n{}\n",
        paint(&module.name, Meaning::Name, color),
        paint(&kind, Meaning::Faint, color),
        wrapped(&sentence(&module.doc), WIDTH).join("\n")
    );
    let rules: Vec<(&str, &Rule)> = module.parameters.iter().map(|rule| ("parameter", rule)).collect();
    if !rules.is_empty() {
        out.push_str(&format!("\n{}\n{}", heading("parameters", color), rows(&rules, color)));
    }
    let required: String = module
        .parameters
        .iter()
        .filter(|rule| rule.presence == crate::resolve::Presence::Required && rule.kind.item().is_none())
        .map(|rule| format!(" {}={}", rule.name, super::example(rule)))
        .collect();
    out.push_str(&format!(
        "\n{}\n  {} \"{}\"{required}\n",
        heading("use", color),
        module.kind.word(),
        module.name
    ));
    out
}

/// A table of values: name, type, default, what it may be; below each what it is.
fn rows(rules: &[(&str, &Rule)], color: bool) -> String {
    let head = ["name", "type", "default", "values"].map(|title| cell(title, Meaning::Faint)).to_vec();
    let row = |rule: &Rule| -> Vec<Cell> {
        vec![
            cell(rule.name.as_ref(), Meaning::Name),
            cell(type_word(rule), Meaning::Plain),
            cell(default_word(rule), Meaning::Plain),
            cell(values_word(rule), Meaning::Plain),
        ]
    };
    let cells: Vec<Vec<Cell>> =
        std::iter::once(head).chain(rules.iter().map(|(_, rule)| row(rule))).collect();
    let lines = table(&cells, 2, 40, color);
    let mut out = String::new();
    for (index, line) in lines.lines().enumerate() {
        out.push_str(line);
        out.push('\n');
        if let Some((_, rule)) = index.checked_sub(1).and_then(|at| rules.get(at)) {
            for line in wrapped(&sentence(&rule.doc), WIDTH - 6) {
                out.push_str(&format!("      {line}\n"));
            }
        }
    }
    out
}

fn node(page: &NodePage, color: bool) -> String {
    let sort = format!("({})", page.sort.word());
    let mut out = format!(
        "{} {}\n{}\n\n  {}\n",
        paint(&page.path, Meaning::Name, color),
        paint(&sort, Meaning::Faint, color),
        sentence(page.rule.doc),
        usage(page)
    );
    for (sort, title) in
        [("argument", "arguments"), ("arguments", "further arguments"), ("property", "properties")]
    {
        let rules: Vec<(&str, &Rule)> = values(&page.rule).filter(|(found, _)| *found == sort).collect();
        if !rules.is_empty() {
            out.push_str(&format!("\n{}\n{}", heading(title, color), rows(&rules, color)));
        }
    }
    let list = |title: &str, cells: Vec<Vec<Cell>>| match cells.is_empty() {
        true => String::new(),
        false => format!("\n{}\n{}", heading(title, color), table(&cells, 2, 40, color)),
    };
    let operands = page.operands.iter().map(|operand| {
        let need = if operand.required { "required" } else { "optional" };
        vec![cell(operand.name, Meaning::Name), cell(need, Meaning::Faint), cell(operand.doc, Meaning::Plain)]
    });
    out.push_str(&list("operands, each a chain of layers", operands.collect()));
    let children = page.rule.children.iter().map(|child| {
        vec![
            cell(child.name, Meaning::Name),
            cell(occurs_word(child.occurs), Meaning::Faint),
            cell(child.doc, Meaning::Plain),
        ]
    });
    out.push_str(&list("nodes in its block", children.collect()));
    if !page.see.is_empty() {
        out.push_str(&format!("\n{}\n", heading("see", color)));
        page.see.iter().for_each(|name| out.push_str(&format!("  amp doc {name}\n")));
    }
    out
}

/// Lines of at most `width` characters, broken at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a line from the beginning on");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
