//! The pages of the codes that need data (0300–0499): what they call wrong gives that code, what they call right gives none.
//! Pages of earlier stages are run by the unit tests of `resolve`; those of later ones are sessions: `page_sessions`.

use super::Place;
use amp::diag::CATALOGUE;

/// The files of one section: the first fence is the manifest, the others follow a line "with `NAME`:".
fn files(page: &str, heading: &str) -> Vec<(String, String)> {
    let section = page.split(&format!("## {heading}\n")).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut files = Vec::new();
    let mut rest = section;
    while let Some(start) = rest.find("```kdl\n") {
        let before = &rest[..start];
        let name = before
            .rsplit("with `")
            .next()
            .filter(|_| before.contains("with `"))
            .and_then(|text| text.split('`').next())
            .unwrap_or("manifest.kdl");
        let body = &rest[start + 7..];
        let end = body.find("```").expect("a fence is closed");
        files.push((name.to_owned(), body[..end].to_owned()));
        rest = &body[end + 3..];
    }
    files
}

fn codes_of(files: &[(String, String)]) -> Vec<String> {
    let place = Place::with_manifest("");
    for (name, text) in files {
        place.write(name, text);
    }
    let document = place.amp(&["check", "--json"]).json();
    let list = document["diagnostics"].as_array().expect("diagnostics").clone();
    let mut codes: Vec<String> =
        list.iter().map(|diagnostic| diagnostic["code"].as_str().expect("a code").to_owned()).collect();
    codes.dedup();
    codes
}

/// Codes whose fault an earlier stage reports first, as their pages say; the graph checks them for plans built by hand.
const MET_EARLIER: [u16; 5] = [309, 310, 312, 316, 402];

#[test]
fn the_examples_of_graph_and_precision_pages_are_true() {
    let (mut run, mut untrue) = (0, Vec::new());
    for page in CATALOGUE.iter().filter(|page| (300..500).contains(&page.code.0)) {
        let (wrong, right) = (files(page.page, "Wrong"), files(page.page, "Right"));
        assert!(!wrong.is_empty() && !right.is_empty(), "{} has no examples", page.code);
        let code = page.code.to_string();
        let found = codes_of(&wrong);
        if MET_EARLIER.contains(&page.code.0) {
            assert!(!found.is_empty(), "{code}: the wrong example is accepted");
        } else if found != [code.as_str()] {
            untrue.push(format!("{code}: the wrong example gives {found:?}"));
        }
        let found = codes_of(&right);
        if !found.is_empty() {
            untrue.push(format!("{code}: the right example gives {found:?}"));
        }
        run += 1;
    }
    assert!(untrue.is_empty(), "{}", untrue.join("\n"));
    assert!(run >= 15, "{run} pages");
}
