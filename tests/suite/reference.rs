//! `amp doc`, `amp man`, `amp completions` and `amp init` with data of the user's.

use super::{Answer, Place, amp};

#[test]
fn doc_lists_the_library_by_kind() {
    let answer = Place::empty().amp(&["doc"]).ends(0);
    for line in
        ["models\n", "  std:models/mlp ", "optimizers\n", "  std:optimizers/adamw ", "  amp doc layers "]
    {
        assert!(answer.stdout.contains(line), "{line} in\n{}", answer.stdout);
    }
}

#[test]
fn doc_shows_a_module_by_each_of_its_names() {
    let place = Place::empty();
    let whole = place.amp(&["doc", "std:models/mlp"]).ends(0).stdout;
    for line in [
        "std:models/mlp (model)",
        "A multilayer perceptron: hidden layers of one width, then a linear head.",
        "Width of each hidden layer.",
        "\"relu\" \"gelu\" \"silu\" \"tanh\"",
        "  model \"std:models/mlp\" classes=…",
    ] {
        assert!(whole.contains(line), "{line} in\n{whole}");
    }
    let row = whole.lines().find(|line| line.trim_start().starts_with("hidden ")).expect("a row");
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["hidden", "integer", "256", "at least 1 and at most 1000000"]);
    for name in ["mlp", "models/mlp"] {
        assert_eq!(place.amp(&["doc", name]).ends(0).stdout, whole);
    }
    assert!(!whole.contains("body {"));
    assert!(place.amp(&["doc", "mlp", "--source"]).ends(0).stdout.contains("    body {"));
}

#[test]
fn doc_shows_a_module_of_the_user() {
    let place = Place::empty();
    let text = "module \"net\" kind=\"model\" doc=\"A net.\" {\n    parameter \"depths\" type=\"list\" of=\"integer\" min=1 max-length=4 doc=\"Depths.\" {\n        default 2 2\n    }\n    body {\n        relu\n    }\n}\n";
    place.write("net.kdl", text);
    let document = place.amp(&["doc", "./net.kdl", "--source", "--json"]).ends(0).json();
    let parameter = &document["module"]["parameters"][0];
    assert_eq!(parameter["type"], "list of integer");
    assert_eq!(parameter["default"], "2 2");
    assert_eq!(parameter["length"], "at most 4");
    assert_eq!(document["source"], text);
    place.write("manifest.kdl", "amp 1\n");
    assert!(place.amp(&["doc", "manifest.kdl"]).ends(2).stderr.contains("is no module"));
    place.write("broken.kdl", "module \"net\" {");
    assert!(place.amp(&["doc", "broken.kdl"]).ends(2).stderr.contains("AMP01"));
    assert!(place.amp(&["doc", "absent.kdl"]).ends(2).stderr.contains("AMP0200"));
}

#[test]
fn doc_shows_layers_nodes_and_what_bears_the_same_name() {
    let place = Place::empty();
    let linear = place.amp(&["doc", "linear"]).ends(0).stdout;
    assert!(
        linear.starts_with("linear (layer)\ny = x wᵀ + b over the last axis.\n\n  linear [\"NAME\"] out=…"),
        "{linear}"
    );
    assert!(linear.contains("amp doc std:schedules/linear"), "{linear}");
    let gather = place.amp(&["doc", "gather"]).ends(0).stdout;
    assert!(
        gather.contains("operands") && gather.contains("  values  required  the rows to pick from\n"),
        "{gather}"
    );
    let optimizer = place.amp(&["doc", "optimizer"]).ends(0).stdout;
    assert!(
        optimizer.contains("amp doc std:optimizers/sgd") && optimizer.contains("parameters"),
        "{optimizer}"
    );
    let batch = place.amp(&["doc", "data.batch"]).ends(0).stdout;
    assert!(batch.contains("batch SIZE [shuffle=… last=…]"), "{batch}");
    let layers = place.amp(&["doc", "layers"]).ends(0).stdout;
    assert!(layers.contains("  conv2d ") && layers.contains("nodes that shape a body\n"), "{layers}");
    assert!(place.amp(&["doc", "adamw"]).ends(0).stdout.starts_with("std:optimizers/adamw (optimizer)"));
}

#[test]
fn doc_offers_the_nearest_name() {
    let place = Place::empty();
    for (typed, meant) in [
        ("liner", "linear"),
        ("std:models/mpl", "std:models/mlp"),
        ("optimiser", "optimizer"),
        ("adamv", "adamw"),
    ] {
        let answer = place.amp(&["doc", typed]).ends(2);
        assert!(answer.stderr.contains(&format!("amp doc {meant}\n")), "{typed}: {}", answer.stderr);
    }
    let _ = place.amp(&["doc", "linear", "--source"]).ends(2);
}

#[test]
fn every_name_that_is_completed_is_documented() {
    let place = Place::empty();
    let names = completed(&place, &["doc", ""]);
    for name in ["std:models/mlp", "linear", "optimizer", "data.batch", "layers"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    for name in names.iter().filter(|name| !name.starts_with('-')) {
        let _ = place.amp(&["doc", name]).ends(0);
    }
}

/// What a shell is told for the last of these words.
fn completed(place: &Place, words: &[&str]) -> Vec<String> {
    let all: Vec<&str> = ["--", "amp"].iter().chain(words).copied().collect();
    let mut command = place.command(&all);
    command
        .env("AMP_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("_CLAP_IFS", "\n");
    let answer = Answer::of(command.output().expect("amp starts")).ends(0);
    answer.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn completions_know_modules_stages_codes_documents_and_files() {
    let place = Place::empty();
    place.write("here.kdl", "");
    assert_eq!(completed(&place, &["doc", "std:models/ml"]), ["std:models/mlp"]);
    assert_eq!(completed(&place, &["graph", "--stage", "pre"]), ["precision"]);
    assert_eq!(completed(&place, &["explain", "AMP0207"]), ["AMP0207"]);
    assert_eq!(completed(&place, &["schema", "lock-"]), ["lock-check"]);
    assert_eq!(completed(&place, &["run", "--isa", "avx5"]), ["avx512"]);
    assert_eq!(completed(&place, &["check", "he"]), ["here.kdl"]);
    assert!(completed(&place, &["ver"]).contains(&"verify".to_owned()));
    let mut command = amp(&["--", "amp", ""]);
    let answer = Answer::of(command.env("AMP_COMPLETE", "tcsh").output().expect("amp starts")).ends(2);
    assert!(answer.stderr.contains("unknown shell `tcsh`"), "{}", answer.stderr);
}

/// The script in a real bash, which breaks words at colons.
#[cfg(unix)]
#[test]
fn bash_completes_names_with_colons() {
    let place = Place::empty();
    let script = place.amp(&["completions", "bash"]).ends(0).stdout;
    place.write("amp.bash", script);
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_amp")).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let cases = [
        ("COMP_WORDS=(amp doc std : models/ml); COMP_CWORD=4", "models/mlp\n"),
        ("COMP_WORDS=(amp graph --stage st); COMP_CWORD=3", "step\n"),
        ("COMP_WORDS=(amp explain AMP0207); COMP_CWORD=2", "AMP0207\n"),
    ];
    for (words, expected) in cases {
        let text = format!("source ./amp.bash; {words}; _amp_complete; printf '%s\\n' \"${{COMPREPLY[@]}}\"");
        let mut bash = std::process::Command::new("bash");
        let bash = bash.args(["--norc", "-c", &text]).current_dir(place.path("")).env("PATH", &path);
        let answer = Answer::of(bash.output().expect("bash starts")).ends(0);
        assert_eq!(answer.stdout, expected, "{words}: {}", answer.stderr);
    }
}

#[test]
fn man_has_a_page_for_every_command_with_the_exit_codes() {
    let place = Place::empty();
    let answer = place.amp(&["man", "--out", "pages", "--json"]).ends(0).json();
    let written = answer["written"].as_array().expect("a list");
    assert!(written.len() > 18, "{written:?}");
    for name in ["amp", "amp-run", "amp-store-gc", "amp-doc"] {
        let page = place.read(&format!("pages/{name}.1"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{page}");
        assert!(page.contains(".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone, or the same\n"), "{page}");
        assert!(page.contains("\\fB130\\fR"), "{page}");
    }
    assert_eq!(place.amp(&["man", "store", "gc"]).ends(0).stdout, place.read("pages/amp-store-gc.1"));
    assert!(!place.path("pages/amp-help.1").exists());
    let answer = place.amp(&["man", "rnu"]).ends(2);
    assert!(answer.stderr.contains("amp man run"), "{}", answer.stderr);
}

/// Checks what `amp init` wrote, and trains it for an epoch.
fn runs(place: &Place) {
    let checked = place.amp(&["check", "--json"]).ends(0).json();
    assert_eq!(checked["diagnostics"], serde_json::json!([]), "{}", place.read("manifest.kdl"));
    let _ = place.amp(&["fmt", "--check"]).ends(0);
    place.write(
        "manifest.kdl",
        place.read("manifest.kdl").replace("epochs=20", "epochs=1").replace("channels=32", "channels=4"),
    );
    let _ = place.amp(&["run"]).ends(0);
}

/// A table of three classes in rows of `width` numbers.
fn table(rows: usize, width: usize, separator: &str, header: Option<&str>) -> String {
    let mut text = header.map_or_else(String::new, |header| format!("{header}\n"));
    for row in 0..rows {
        let numbers = (0..width).map(|column| format!("{}.5", (row * 7 + column * 3) % 11));
        text.push_str(&numbers.chain([(row % 3).to_string()]).collect::<Vec<_>>().join(separator));
        text.push('\n');
    }
    text
}

#[test]
fn init_writes_what_a_table_holds() {
    let place = Place::empty();
    place.write("rows.csv", table(200, 3, ";", Some("height;width;depth;class")));
    let answer = place.amp(&["init", "--data", "rows.csv", "--json"]).ends(0).json();
    assert_eq!((&answer["task"], &answer["classes"]), (&"classification".into(), &3.into()));
    let text = place.read("manifest.kdl");
    assert!(text.contains("columns label=\"class\" header=#true delimiter=\";\" classes=3"), "{text}");
    runs(&place);
    assert!(place.amp(&["init", "--data", "rows.csv"]).ends(2).stderr.contains("is there already"));
}

#[test]
fn init_writes_a_regression_for_numbers() {
    let place = Place::empty();
    let rows: String = (0..40).map(|row| format!("{row},{}.25\n", row * 3)).collect();
    place.write("prices.csv", format!("size,price\n{rows}"));
    let answer = place.amp(&["init", "--data", "prices.csv", "--json"]).ends(0).json();
    assert_eq!((&answer["task"], &answer["classes"]), (&"regression".into(), &serde_json::Value::Null));
    runs(&place);
}

#[test]
fn init_takes_flat_rows_as_pictures_when_they_are_square() {
    let place = Place::empty();
    place.write("rows.csv", table(60, 16, ",", None));
    let answer = place.amp(&["init", "--kind", "cnn", "--data", "rows.csv", "--json"]).ends(0).json();
    assert_eq!(answer["shape"], serde_json::json!([1, 4, 4]));
    runs(&place);
    let place = Place::empty();
    place.write("rows.csv", table(60, 12, ",", None));
    assert!(place.amp(&["init", "--kind", "cnn", "--data", "rows.csv"]).ends(2).stderr.contains("--shape"));
    assert!(!place.path("manifest.kdl").exists());
    let _ = place.amp(&["init", "--kind", "cnn", "--data", "rows.csv", "--shape", "1,5,2"]).ends(2);
    let _ = place.amp(&["init", "--kind", "cnn", "--data", "rows.csv", "--shape", "3,2,2"]).ends(0);
    runs(&place);
}

/// An IDX file of bytes.
fn idx(shape: &[u32], bytes: impl Iterator<Item = u8>) -> Vec<u8> {
    let sizes = shape.iter().flat_map(|size| size.to_be_bytes());
    [0, 0, 8, shape.len() as u8].into_iter().chain(sizes).chain(bytes).collect()
}

#[test]
fn init_finds_the_labels_beside_pictures_in_another_folder() {
    let place = Place::empty();
    std::fs::create_dir_all(place.path("raw")).expect("a folder");
    place.write(
        "raw/train-images-idx3-ubyte",
        idx(&[50, 6, 6], (0..1800_u32).map(|byte| (byte * 7 % 251) as u8)),
    );
    place.write("raw/train-labels-idx1-ubyte", idx(&[50], (0..50).map(|label| label % 4)));
    let answer =
        place.amp(&["init", "net", "--kind", "cnn", "--data", "raw/train-images-idx3-ubyte", "--json"]);
    let answer = answer.ends(0).json();
    assert_eq!(
        answer["data"],
        serde_json::json!(["../raw/train-images-idx3-ubyte", "../raw/train-labels-idx1-ubyte"])
    );
    assert_eq!(answer["shape"], serde_json::json!([1, 6, 6]));
    let _ = place.amp(&["check", "net"]).ends(0);
    let text = place.read("net/manifest.kdl");
    place.write(
        "net/manifest.kdl",
        text.replace("epochs=20", "epochs=1").replace("channels=32", "channels=4"),
    );
    let _ = place.amp(&["run", "net"]).ends(0);
    place.write("alone-images-idx3-ubyte", idx(&[2, 2, 2], 0..8));
    let answer = place.amp(&["init", "other", "--data", "alone-images-idx3-ubyte"]).ends(2);
    assert!(answer.stderr.contains("--labels"), "{}", answer.stderr);
}

#[test]
fn init_writes_pictures_for_every_kind_that_takes_them() {
    for (kind, model) in [("vit", "image=4 patch=2"), ("resnet", "depth=18")] {
        let place = Place::empty();
        place.write("rows.csv", table(60, 16, ",", None));
        let answer = place.amp(&["init", "--kind", kind, "--data", "rows.csv", "--json"]).ends(0).json();
        assert_eq!(answer["shape"], serde_json::json!([1, 4, 4]));
        assert!(place.read("manifest.kdl").contains(model), "{}", place.read("manifest.kdl"));
        runs(&place);
    }
    let place = Place::empty();
    place.write("rows.csv", table(60, 12, ",", None));
    let answer = place.amp(&["init", "--kind", "vit", "--data", "rows.csv", "--shape", "1,3,4"]).ends(2);
    assert!(answer.stderr.contains("is no picture that `vit` can take"), "{}", answer.stderr);
}

#[test]
fn init_writes_what_learns_a_text() {
    let line = "the quick brown fox jumps over the lazy dog, and the dog sleeps on\n";
    for (kind, vocabulary, task) in [("gpt", 29, "next-token"), ("bert", 256, "masked-tokens")] {
        let place = Place::empty();
        place.write("text.txt", line.repeat(20));
        let answer = place.amp(&["init", "--kind", kind, "--data", "text.txt", "--json"]).ends(0).json();
        assert_eq!((&answer["task"], &answer["classes"]), (&task.into(), &vocabulary.into()));
        assert_eq!(answer["shape"], serde_json::json!([64]));
        let text = place.read("manifest.kdl");
        assert!(text.contains(&format!("vocabulary={vocabulary} context=64")), "{text}");
        place.write("manifest.kdl", text.replace("steps=300", "steps=3").replace(" warmup=20", ""));
        let checked = place.amp(&["check", "--json"]).ends(0).json();
        assert_eq!(checked["diagnostics"], serde_json::json!([]), "{text}");
        let _ = place.amp(&["run"]).ends(0);
    }
    let place = Place::empty();
    place.write("short.txt", "short");
    assert!(
        place.amp(&["init", "--kind", "gpt", "--data", "short.txt"]).ends(2).stderr.contains("200 or more")
    );
    place.write("rows.csv", table(60, 16, ",", None));
    assert!(place.amp(&["init", "--kind", "gpt", "--data", "rows.csv"]).ends(2).stderr.contains("AMP0734"));
    assert!(!place.path("manifest.kdl").exists());
}

#[test]
fn init_says_what_is_wrong_with_a_file() {
    let place = Place::empty();
    place.write("flowers.csv", "width,species\n1.5,setosa\n2.5,virginica\n");
    assert!(place.amp(&["init", "--data", "flowers.csv"]).ends(2).stderr.contains("AMP0724"));
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    place.write("wide.csv", wide("1,0\n2,1\n"));
    let answer = place.amp(&["init", "--data", "wide.csv"]).ends(2);
    assert!(answer.stderr.contains("UTF-16") && answer.stderr.contains("iconv"), "{}", answer.stderr);
    for (name, found) in [("wide.txt", wide(&"a text ".repeat(99))), ("zero.txt", b"a text \0".repeat(99))] {
        place.write(name, found);
        let answer = place.amp(&["init", "--kind", "bert", "--data", name]).ends(2);
        assert!(
            answer.stderr.contains("AMP0740") && answer.stderr.contains("zero byte"),
            "{}",
            answer.stderr
        );
    }
    place.write("notes.doc", "text");
    assert!(place.amp(&["init", "--data", "notes.doc"]).ends(2).stderr.contains("AMP0734"));
    assert!(place.amp(&["init", "--data", "absent.csv"]).ends(4).stderr.contains("AMP0720"));
    assert!(!place.path("manifest.kdl").exists());
}
