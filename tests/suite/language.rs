//! `docs/language.md`, `docs/amp.md` and `docs/reference.md`: every example is checked, and every table is what `amp doc` prints.
//!
//! The fences of one section are files of one folder. A manifest gets the nodes of [`BASE`] that it does not have. A fence
//! ```` ```kdl manifest.kdl refused AMP0202 ```` is one that `amp check` refuses with that code. When a page differs from
//! what it should be, the new one is written beside it as `*.new`: read it, and rename it if it is right.

use super::{Place, repository};
use std::collections::BTreeSet;

const BASE: [(&str, &str); 6] = [
    ("amp", "amp 1\n"),
    ("run", "run \"digits\" seed=42\n"),
    (
        "data",
        "data \"digits\" {\n    source \"data/digits.csv.gz\"\n    columns label=\"last\" header=#false classes=10\n    normalise \"scale\" divide=16.0\n    split train=0.8 test=0.2\n    batch 64\n}\n",
    ),
    ("model", "model \"mlp\" classes=10\n"),
    ("optimizer", "optimizer \"adamw\" lr=1e-3 weight-decay=0\n"),
    ("train", "train epochs=5\n"),
];

/// A fence of the page: the words behind its backticks, its text, and the section that it stands in.
struct Fence {
    section: String,
    words: Vec<String>,
    text: String,
}

fn page(name: &str) -> String {
    std::fs::read_to_string(repository().join("docs").join(name)).expect("the page")
}

fn fences(page: &str) -> Vec<Fence> {
    let mut found: Vec<Fence> = Vec::new();
    let (mut section, mut open) = (String::new(), false);
    for line in page.lines() {
        if let Some(words) = line.strip_prefix("```") {
            open = !open;
            if open {
                let words = words.split_whitespace().map(str::to_owned).collect();
                found.push(Fence { section: section.clone(), words, text: String::new() });
            }
        } else if open {
            let fence = found.last_mut().expect("a fence is open");
            fence.text.push_str(line);
            fence.text.push('\n');
        } else if line.starts_with('#') {
            section = line.to_owned();
        }
    }
    found
}

fn completed(text: &str) -> String {
    let stands = |name: &str| text.lines().any(|line| line.split(' ').next() == Some(name));
    let missing: String = BASE.iter().filter(|(name, _)| !stands(name)).map(|(_, node)| *node).collect();
    format!("{missing}{text}")
}

/// A safetensors file of f32 zeros.
fn tensors(shapes: &[(&str, &[usize])]) -> Vec<u8> {
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in shapes {
        let begin = end;
        end += 4 * shape.iter().product::<usize>();
        let tensor = serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, end] });
        header.insert((*name).to_owned(), tensor);
    }
    let header = serde_json::Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    [length.as_slice(), header.as_bytes(), &vec![0; end]].concat()
}

#[test]
fn every_example_of_the_language_is_what_it_says() {
    assert!(examples("language.md") > 15);
}

#[test]
fn every_example_of_mixed_precision_is_what_it_says() {
    assert_eq!(examples("amp.md"), 3);
}

/// Checks the examples of a page; how many manifests there were.
fn examples(name: &str) -> usize {
    let page = page(name);
    let fences = fences(&page);
    let mut checked = 0;
    for (index, fence) in fences.iter().enumerate() {
        assert_eq!(
            fence.words.first().map(String::as_str),
            Some("kdl"),
            "{}: {:?}",
            fence.section,
            fence.words
        );
        let place = Place::with_manifest("");
        place.write("example.kdl", &fence.text);
        let format = place.amp(&["fmt", "--check", "example.kdl"]);
        assert_eq!(
            format.code, 0,
            "{}: not in canonical form:\n{}\n{}",
            fence.section, fence.text, format.stderr
        );
        if fence.words.get(1).map(String::as_str) != Some("manifest.kdl") {
            continue;
        }
        // The modules up to the next manifest are those of this one.
        let file = |fence: &Fence| fence.words.get(1).cloned();
        for other in
            fences[index + 1..].iter().take_while(|other| file(other).as_deref() != Some("manifest.kdl"))
        {
            if file(other).is_none() {
                continue;
            }
            assert_eq!(other.section, fence.section, "{:?} belongs to no manifest", other.words);
            place.write(&other.words[1], &other.text);
        }
        place.write(
            "weights.safetensors",
            tensors(&[("body.0.weight", &[16, 64]), ("body.0.bias", &[16]), ("body.norm.weight", &[3])]),
        );
        place.write("manifest.kdl", completed(&fence.text));
        let code = if fence.words.len() > 2 { 2 } else { 0 };
        let answer = place.amp(&["check", "--json"]);
        assert_eq!(
            answer.code, code,
            "{}:\n{}\n{}{}",
            fence.section, fence.text, answer.stdout, answer.stderr
        );
        let document = answer.json();
        let found = document["diagnostics"].as_array().expect("a list").iter();
        let found: BTreeSet<&str> = found.map(|fault| fault["code"].as_str().expect("a code")).collect();
        let wanted: BTreeSet<&str> = fence.words.iter().skip(3).map(String::as_str).collect();
        assert_eq!(found, wanted, "{}: {document:#}", fence.section);
        checked += 1;
    }
    checked
}

/// Compares a page with what it should be; a new one is written when it differs.
fn compare(name: &str, wanted: &str) {
    if page(name) != wanted {
        let path = repository().join("docs").join(format!("{name}.new"));
        std::fs::write(&path, wanted).expect("the folder can be written");
        panic!("docs/{name} is not what `amp doc` prints; what it should be is in {}", path.display());
    }
}

/// The page with what stands between `<!-- amp … -->` and `<!-- end -->` replaced by what the command prints.
fn generated(page: &str) -> String {
    let place = Place::empty();
    let (mut out, mut inside) = (String::new(), false);
    for line in page.lines() {
        if line == "<!-- end -->" {
            inside = false;
        }
        if !inside {
            out.push_str(line);
            out.push('\n');
        }
        if let Some(command) = line.strip_prefix("<!-- amp ").and_then(|rest| rest.strip_suffix(" -->")) {
            let words: Vec<&str> = command.split(' ').collect();
            out.push_str(&place.amp(&words).ends(0).stdout);
            inside = true;
        }
    }
    out
}

#[test]
fn the_tables_of_the_language_are_those_of_the_checker() {
    for name in ["language.md", "reference.md"] {
        compare(name, &generated(&page(name)));
    }
}

#[test]
fn the_readme_names_every_command_and_every_model() {
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("the README");
    let place = Place::empty();
    let manual = place.amp(&["man", "--out", "pages", "--json"]).ends(0).json();
    let commands = manual["written"].as_array().expect("pages").iter().filter_map(|path| {
        let name = path.as_str()?.rsplit('/').next()?.strip_prefix("amp-")?.strip_suffix(".1")?;
        (!name.contains('-')).then(|| format!("`amp {name}"))
    });
    let library = place.amp(&["doc", "library", "--json"]).ends(0).json();
    let models =
        library["groups"].as_array().expect("groups").iter().filter(|group| group["title"] == "models");
    let models = models.flat_map(|group| group["entries"].as_array().expect("entries").clone());
    let models = models.map(|entry| {
        format!("`{}`", entry["name"].as_str().expect("a name").rsplit('/').next().expect("a last part"))
    });
    let missing: Vec<String> =
        commands.chain(models).filter(|name| !readme.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "the README does not name {missing:?}");
}
