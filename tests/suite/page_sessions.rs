//! The pages of the codes from 0500 on: their examples are sessions, and every session is run.
//!
//! Under `## Wrong` and `## Right` a fence is one of these, in the order of the page:
//!
//! - ```` ```kdl ````: nodes that stand in a small manifest in the place of their namesakes, top-level ones and those of `data`;
//! - ```` ```csv data.csv ```` and the like: a file of that name;
//! - ```` ```console ````: lines after `$ ` are run by a shell, in order; other lines are what amp says of the last one.
//!
//! A section without a console runs `amp lock`. What `## Wrong` says ends with its code and with no other; what `## Right`
//! says, in the folder that is left behind, ends well without any. Other fences are for reading.

use super::{Answer, Place};
use amp::diag::{CATALOGUE, CodePage};
use std::collections::BTreeSet;

/// The manifest that fragments are put into: digits, trained in a moment.
const DIGITS: &str = r#"amp 1
run "digits" seed=7
environment "std:environments/cpu"
data "digits" {
    source "data/digits.csv.gz"
    columns label="last" header=#false classes=10
    split train=0.17 test=0.05
    batch 64
}
model "std:models/mlp" hidden=16 layers=1 classes=10
optimizer "std:optimizers/adamw" lr=1e-3
train epochs=1
"#;

/// Pages that show a table of their own.
const TABLE: &str = r#"amp 1
run "table" seed=7
environment "std:environments/cpu"
data "table" {
    source "data.csv"
    columns label="last" classes=10
    batch 1
}
model "std:models/mlp" hidden=4 layers=1 classes=10
optimizer "std:optimizers/adamw" lr=1e-3
train epochs=1
"#;

/// Pages that read files of arrays.
const ARRAYS: &str = r#"amp 1
run "arrays" seed=7
environment "std:environments/cpu"
data "arrays" {
    source features="features.npy" labels="labels.npy"
    batch 1
}
model "std:models/mlp" hidden=4 layers=1 classes=1
optimizer "std:optimizers/adamw" lr=1e-3
train epochs=1
"#;

/// Codes that no session of a person raises at will, and why.
const NOT_RAISED: &[(u16, &str)] = &[
    (552, "a warning that takes a run killed while it writes; the record's own tests cut every line"),
    (602, "takes a library that changes the processor's rounding"),
    (
        603,
        "takes a GPU that is not the one of the lock; the tests of exec/cuda/tuning do it to an emulated one",
    ),
    (704, "a manifest without the part meets AMP0204; for prepared data that was made otherwise"),
    (707, "takes a disk that refuses in the middle of a run"),
    (709, "takes an op without a kernel on the device, and every op has one"),
    (710, "takes a build with CUDA, and a device that fails or is missing; the driver's own tests do it"),
    (712, "a warning of a run that goes on from the state before; tests/suite/resume.rs damages states"),
    (717, "takes a worker that is killed; tests/suite/workers.rs does it"),
    (718, "takes a machine that does not keep its bits; the tests of exec/shards do it to frames"),
    (731, "takes data that changes during the run; tests/suite/damage.rs does it"),
    (737, "takes a program that changes the store during the run"),
    (762, "takes a file system that is read-only"),
    (763, "takes a user without rights, and tests may run as root; the store's own tests do it"),
    (764, "takes a store that lost an object under a lock; the store's own tests do it"),
    (766, "takes a program that replaces a record during the run; the store's own tests do it"),
    (802, "takes a machine that does not keep its bits"),
    (807, "takes a Python with PyTorch; tests/suite/against.rs has a program that answers as one and fails"),
];

/// Codes that a verdict carries without printing them: the session ends with another exit code than 0, and no other code.
const IN_A_VERDICT: &[u16] = &[801, 804];

/// Warnings of a command that ends well.
const WARNS: &[u16] = &[719];

struct Fence<'a> {
    language: &'a str,
    name: Option<&'a str>,
    body: &'a str,
}

fn fences<'a>(page: &'a CodePage, heading: &str) -> Vec<Fence<'a>> {
    let section = page.page.split("\n## ").find_map(|section| section.strip_prefix(heading));
    let mut pieces = section.unwrap_or_default().split("```");
    let mut fences = Vec::new();
    pieces.next();
    while let (Some(fence), Some(_)) = (pieces.next(), pieces.next()) {
        let (head, body) = fence.split_once('\n').expect("a fence has lines");
        let (language, name) = match head.split_once(' ') {
            Some((language, name)) => (language, Some(name)),
            None => (head, None),
        };
        fences.push(Fence { language, name, body });
    }
    fences
}

/// The top-level nodes of a text, each with its lines.
fn nodes(text: &str) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    let mut depth = 0_usize;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match nodes.last_mut() {
            Some(last) if depth > 0 => last.push_str(&format!("\n{line}")),
            _ => nodes.push(line.to_owned()),
        }
        depth = depth + line.matches('{').count() - line.matches('}').count();
    }
    nodes
}

fn name(node: &str) -> &str {
    node.split_whitespace().next().unwrap_or_default()
}

/// A manifest with the fragment's nodes in the place of their namesakes.
fn with_fragment(manifest: &str, fragment: &str) -> String {
    const OF_DATA: [&str; 8] =
        ["source", "sources", "format", "columns", "shape", "normalise", "split", "batch"];
    let (of_data, top): (Vec<String>, Vec<String>) =
        nodes(fragment).into_iter().partition(|node| OF_DATA.contains(&name(node)));
    let replaced = |old: Vec<String>, new: &[String]| -> Vec<String> {
        let kept = old.into_iter().filter(|old| new.iter().all(|new| name(new) != name(old)));
        kept.chain(new.iter().cloned()).collect()
    };
    let whole = nodes(manifest).into_iter().map(|node| {
        if name(&node) != "data" {
            return node;
        }
        let (head, block) = node.split_once('\n').expect("a block");
        let block = block.trim_end().strip_suffix('}').expect("a closed block");
        let children: Vec<String> = nodes(block);
        format!("{head}\n{}\n}}", replaced(children, &of_data).join("\n"))
    });
    replaced(whole.collect(), &top).join("\n") + "\n"
}

/// The files that sessions find.
fn project(manifest: &str) -> Place {
    let place = Place::with_manifest(manifest);
    let npy = |shape: &str, numbers: &[f32]| {
        let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    };
    place.write("features.npy", npy("(4, 2)", &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]));
    place.write("labels.npy", npy("(4,)", &[0.0, 1.0, 2.0, 3.0]));
    let idx = |axes: &[u32], numbers: &[u8]| {
        let mut bytes = vec![0, 0, 8, axes.len() as u8];
        axes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
        bytes.extend(numbers);
        bytes
    };
    place.write("images-idx3-ubyte", idx(&[4, 8, 8], &[7; 256]));
    place.write("labels-idx1-ubyte", idx(&[4], &[0, 1, 2, 3]));
    let header = r#"{"images":{"dtype":"U8","shape":[2,4],"data_offsets":[0,8]},"labels":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}}"#;
    let mut tensors = (header.len() as u64).to_le_bytes().to_vec();
    tensors.extend(header.bytes());
    tensors.extend([0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    place.write("digits.safetensors", tensors);
    place
}

/// The codes that an answer shows.
fn codes_of(answer: &Answer) -> BTreeSet<String> {
    let text = format!("{}{}", answer.stdout, answer.stderr);
    let of = |head: &str| -> Vec<String> {
        text.split(head).skip(1).filter_map(|rest| rest.split(']').next()).map(str::to_owned).collect()
    };
    of("error[").into_iter().chain(of("warning[")).collect()
}

/// Runs a section in its folder; the last answer, and what was said before it or not said that is written.
fn session(place: &Place, fences: &[Fence<'_>]) -> Result<Answer, String> {
    let mut last = None;
    for fence in fences {
        match (fence.language, fence.name) {
            ("kdl", None) => {
                place.write("manifest.kdl", with_fragment(&place.read("manifest.kdl"), fence.body));
            }
            ("kdl" | "csv" | "text" | "json", Some(name)) => place.write(name, fence.body),
            ("console", None) => {
                for line in fence.body.lines() {
                    match line.strip_prefix("$ ") {
                        Some(command) => {
                            if let Some(Answer { code: 1.., .. }) = last {
                                return Err(format!("before `{command}`: {last:?}"));
                            }
                            last = Some(shell(place, command));
                        }
                        None if last.as_ref().is_some_and(|last| last.stderr.contains(line)) => {}
                        None => return Err(format!("`{line}` is not what was said: {last:?}")),
                    }
                }
            }
            (language, name) => return Err(format!("a fence of {language} {name:?}")),
        }
    }
    let console = fences.iter().any(|fence| fence.language == "console");
    Ok(match last {
        Some(last) if console => last,
        _ => shell(place, "amp lock"),
    })
}

fn shell(place: &Place, command: &str) -> Answer {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_amp")).parent().expect("a folder").to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = std::process::Command::new("sh")
        .args(["-c", command])
        .current_dir(place.path(""))
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env_remove("AMP_STORE")
        .output();
    Answer::of(output.expect("a shell starts"))
}

/// What is untrue of a page.
fn untrue(page: &CodePage) -> Vec<String> {
    let mut untrue = Vec::new();
    let (wrong, right) = (fences(page, "Wrong"), fences(page, "Right"));
    let text: String = wrong.iter().map(|fence| fence.body).collect();
    let manifest = if wrong.iter().any(|fence| fence.name == Some("data.csv")) {
        TABLE
    } else if !text.contains("initial ")
        && ["ubyte", ".npy", ".safetensors"].iter().any(|name| text.contains(name))
    {
        ARRAYS
    } else {
        DIGITS
    };
    let place = project(manifest);
    let code = page.code.to_string();
    match session(&place, &wrong) {
        Err(fault) => untrue.push(format!("{code} Wrong: {fault}")),
        Ok(answer) => {
            let wanted = match IN_A_VERDICT.contains(&page.code.0) {
                true => BTreeSet::new(),
                false => BTreeSet::from([code.clone()]),
            };
            let ends_well = WARNS.contains(&page.code.0);
            if codes_of(&answer) != wanted || (answer.code == 0) != ends_well {
                untrue.push(format!("{code} Wrong: {answer:?}"));
            }
        }
    }
    match session(&place, &right) {
        Err(fault) => untrue.push(format!("{code} Right: {fault}")),
        Ok(answer) if answer.code != 0 || !codes_of(&answer).is_empty() => {
            untrue.push(format!("{code} Right: {answer:?}"));
        }
        Ok(_) => {}
    }
    untrue
}

/// The shell, `sed -i` and `/dev/full` are those of Linux.
#[cfg(target_os = "linux")]
#[test]
fn the_sessions_of_the_pages_are_true() {
    let pages = CATALOGUE.iter().filter(|page| page.code.0 >= 500);
    let (skipped, run): (Vec<_>, Vec<_>) =
        pages.partition(|page| NOT_RAISED.iter().any(|(code, _)| *code == page.code.0));
    assert_eq!(skipped.len(), NOT_RAISED.len(), "every code that is excused is in the catalogue");
    let untrue: Vec<String> = run.iter().flat_map(untrue).collect();
    assert!(untrue.is_empty(), "{}", untrue.join("\n\n"));
    assert!(run.len() > 45, "{} pages", run.len());
}

/// A page that gives its meaning as its reason gives none.
#[test]
fn no_page_repeats_itself() {
    for page in CATALOGUE {
        let (opening, rest) = page.page.split_once("\n## Why it matters\n").expect("a reason");
        let reason = rest.split("\n## ").next().unwrap_or_default().trim();
        assert_ne!(opening.trim(), reason, "{}", page.code);
        assert!(reason.len() >= 30, "{}: {reason}", page.code);
    }
}
