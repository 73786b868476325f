//! The pages of the codes: what is wrong raises its code, what is right raises none.
//!
//! An example is a ```` ```kdl ```` fence under `## Wrong` or `## Right`, in the form that the corpus has. Codes of 0300 and
//! above are raised by later stages: their examples are run by the tests of those stages, or are ```` ```console ```` fences.

use super::{compose, resolved};
use crate::diag::{CATALOGUE, CodePage, render_text};

/// Pages below 0300 whose example is a session, because its text would be too long for a page.
const SESSIONS: &[u16] = &[111];

/// The fences under a heading, with their language.
fn fences<'a>(page: &'a CodePage, heading: &str) -> Vec<(&'a str, &'a str)> {
    let section = page.page.split("\n## ").find_map(|section| section.strip_prefix(heading));
    let mut pieces = section.unwrap_or_default().split("```");
    let mut fences = Vec::new();
    pieces.next();
    while let (Some(fence), Some(_)) = (pieces.next(), pieces.next()) {
        fences.extend(fence.split_once('\n'));
    }
    fences
}

#[test]
fn examples_of_the_pages_do_what_they_say() {
    let mut wrong = Vec::new();
    for page in CATALOGUE.iter().filter(|page| page.code.0 < 300 && !SESSIONS.contains(&page.code.0)) {
        for (heading, expected) in [("Wrong", vec![page.code]), ("Right", Vec::new())] {
            let fences = fences(page, heading);
            assert!(!fences.is_empty(), "{} has no example under {heading}", page.code);
            for (language, text) in fences {
                assert_eq!(language, "kdl", "{} under {heading}", page.code);
                let (manifest, world) = compose(text);
                let (_, faults, sources) = resolved(&manifest, &world);
                let mut codes: Vec<_> = faults.iter().map(|fault| fault.code).collect();
                codes.dedup();
                if codes != expected {
                    wrong.push(format!(
                        "{} {heading}:\n{}",
                        page.code,
                        render_text(&faults, &sources, false)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_says_why_and_shows_both() {
    for page in CATALOGUE {
        for heading in ["## Why it matters\n", "## Wrong\n", "## Right\n"] {
            assert!(page.page.contains(heading), "{} has no {heading}", page.code);
        }
        let opening = page.page.split("\n## ").next().unwrap_or_default().trim();
        assert!(
            opening.len() > if page.code.0 < 300 { 40 } else { 0 },
            "{} does not say what it means",
            page.code
        );
        assert!(!page.title.ends_with('.') && page.title.len() < 80, "{}: {}", page.code, page.title);
    }
}

#[test]
fn a_text_that_is_too_large_is_refused_at_once() {
    let (_, faults, _) = resolved(&" ".repeat(crate::syntax::MAX_TEXT + 1), &crate::world::Memory::default());
    assert_eq!(faults.iter().map(|fault| fault.code.0).collect::<Vec<_>>(), [111]);
}
