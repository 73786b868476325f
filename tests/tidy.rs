//! The invariants of ARCHITECTURE.md as tests over the source tree itself.
#![expect(clippy::disallowed_methods, reason = "tests read the source tree")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` with this extension, sorted.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root().join(folder)];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

/// Files that only tests are made of.
fn is_test(path: &Path) -> bool {
    let name = relative(path);
    name.ends_with("tests.rs") || name.contains("tests/") || name.ends_with("/samples.rs")
}

/// The text without comments and string literals, roughly: enough to look for crate names.
fn code_only(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// A crate named as a path or imported: `kdl::`, `use kdl`.
fn names_crate(text: &str, name: &str) -> bool {
    code_only(text)
        .match_indices(&format!("{name}::"))
        .any(|(at, _)| !text_before_is_word(&code_only(text), at))
}

fn text_before_is_word(text: &str, at: usize) -> bool {
    text[..at]
        .chars()
        .next_back()
        .is_some_and(|character| character.is_alphanumeric() || "_:".contains(character))
}

#[test]
fn each_outside_crate_is_named_in_one_folder() {
    let homes: [(&str, &[&str]); 7] = [
        ("kdl", &["src/syntax/"]),
        ("candle_core", &["src/exec/"]),
        ("cudarc", &["src/exec/"]),
        ("miette", &["src/diag/"]),
        ("clap", &["src/cli/"]),
        ("indicatif", &["src/cli/"]),
        ("lsp_types", &["src/lsp/"]),
    ];
    let mut strays = Vec::new();
    for path in files("src", "rs") {
        let text = fs::read_to_string(&path).expect("a source file");
        for (name, folders) in homes {
            let inside = folders.iter().any(|folder| relative(&path).starts_with(folder));
            if !inside && names_crate(&text, name) {
                strays.push(format!("{} names {name}", relative(&path)));
            }
        }
    }
    assert!(strays.is_empty(), "{strays:#?}");
}

/// Rooms by height: a module imports only from its own height or below; see the table in ARCHITECTURE.md.
const HEIGHTS: &[(&str, u32)] = &[
    ("diag", 0),
    ("digest", 0),
    ("arithmetic", 0),
    ("world", 0),
    ("syntax", 1),
    ("stdlib", 1),
    ("store", 2),
    ("data", 3),
    ("plan", 4),
    ("resolve", 5),
    ("graph", 6),
    ("precision", 7),
    ("autodiff", 8),
    ("lint", 9),
    ("lock", 9),
    ("probe", 9),
    ("record", 9),
    ("torch", 9),
    ("exec", 10),
    ("verify", 11),
    ("diff", 11),
    ("report", 12),
    ("lsp", 12),
    ("cli", 13),
];

#[test]
fn imports_only_go_down() {
    let height = |name: &str| HEIGHTS.iter().find(|(room, _)| *room == name).map(|(_, height)| *height);
    let mut strays = Vec::new();
    for path in files("src", "rs") {
        let name = relative(&path);
        let Some(room) = name.strip_prefix("src/").and_then(|rest| rest.split(['/', '.']).next()) else {
            continue;
        };
        let Some(own) = height(room) else { continue };
        let text = fs::read_to_string(&path).expect("a source file");
        let code = code_only(text.split("#[cfg(test)]").next().unwrap_or(""));
        if is_test(&path) {
            continue;
        }
        for (at, _) in code.match_indices("crate::") {
            let target: String = code[at + 7..]
                .chars()
                .take_while(|character| character.is_alphanumeric() || *character == '_')
                .collect();
            if let Some(other) = height(&target)
                && other > own
            {
                strays.push(format!("{name} imports {target}"));
            }
        }
    }
    assert!(strays.is_empty(), "{strays:#?}");
}

#[test]
fn every_room_has_a_height_and_a_line_in_the_table() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let rooms: BTreeSet<String> = fs::read_dir(root().join("src"))
        .expect("src")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    let known: BTreeSet<String> = HEIGHTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(rooms, known);
    for room in &rooms {
        assert!(architecture.contains(&format!("`{room}/`")), "ARCHITECTURE.md has no line for `{room}/`");
    }
}

#[test]
fn every_source_file_says_what_it_is() {
    let silent: Vec<_> = files("src", "rs")
        .into_iter()
        .filter(|path| !fs::read_to_string(path).expect("a source file").starts_with("//!"))
        .map(|path| relative(&path))
        .collect();
    assert!(silent.is_empty(), "no `//!` at the top of {silent:#?}");
}

#[test]
fn files_stay_readable() {
    let long: Vec<_> = files("src", "rs")
        .into_iter()
        .map(|path| (fs::read_to_string(&path).expect("a source file").lines().count(), relative(&path)))
        .filter(|(lines, _)| *lines > 800)
        .collect();
    assert!(long.is_empty(), "over 800 lines: {long:#?}");
}

#[test]
fn no_module_is_forgotten() {
    let mut orphans = Vec::new();
    for path in files("src", "rs") {
        let name = path.file_stem().expect("a stem").to_string_lossy().into_owned();
        if ["lib", "main"].contains(&name.as_str()) {
            continue;
        }
        let folder = path.parent().expect("a parent");
        let (name, parents) = if name == "mod" {
            let above = folder.parent().expect("a parent");
            (
                folder.file_name().expect("a name").to_string_lossy().into_owned(),
                [above.join("mod.rs"), above.join("lib.rs")],
            )
        } else {
            (name, [folder.join("mod.rs"), folder.join("lib.rs")])
        };
        let parents = parents.into_iter().chain([folder.with_extension("rs")]);
        let declared = parents
            .filter_map(|parent| fs::read_to_string(parent).ok())
            .any(|text| text.contains(&format!("mod {name};")) || text.contains(&format!("mod {name} {{")));
        if !declared {
            orphans.push(relative(&path));
        }
    }
    assert!(orphans.is_empty(), "no `mod` declares {orphans:#?}");
}

#[test]
fn every_code_in_the_source_has_a_page() {
    let known: BTreeSet<u16> = amp::diag::CATALOGUE.iter().map(|page| page.code.0).collect();
    let mut missing = BTreeSet::new();
    for path in files("src", "rs").into_iter().filter(|path| !is_test(path)) {
        let text = fs::read_to_string(&path).expect("a source file");
        for (at, _) in text.match_indices("Code(") {
            let digits: String = text[at + 5..].chars().take_while(char::is_ascii_digit).collect();
            if let Ok(number) = digits.parse::<u16>()
                && digits.len() >= 3
                && !known.contains(&number)
            {
                missing.insert(format!("{number:04} in {}", relative(&path)));
            }
        }
    }
    assert!(missing.is_empty(), "no page for {missing:#?}");
}

#[test]
fn codes_are_in_order_and_never_used_twice() {
    let codes: Vec<u16> = amp::diag::CATALOGUE.iter().map(|page| page.code.0).collect();
    assert!(!codes.is_empty());
    assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
}

#[test]
fn dependencies_stay_few() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= 330, "{packages} packages; take one out before one comes in");
}

#[test]
fn the_tree_names_no_machine_and_no_registry() {
    let words =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("crates", ".io"), concat!("pypi", ".org")];
    let mut strays = Vec::new();
    let texts = ["rs", "kdl", "md", "py", "toml", "txt", "lock"];
    for folder in ["src", "stdlib", "examples", "lockfiles", "tests", "benches"] {
        for path in texts.iter().flat_map(|extension| files(folder, extension)) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            for word in words.iter().filter(|word| text.contains(**word)) {
                strays.push(format!("{} names {word}", relative(&path)));
            }
        }
    }
    assert!(strays.is_empty(), "{strays:#?}");
}
