//! Faults as a person meets them: what the disk, the terminal, the shell and the machine can refuse, and what is said then.

use super::{Answer, Place, SMALL};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs a line of a shell with `amp` in its path, for at most a minute.
fn shell(place: &Place, line: &str) -> Answer {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_amp")).parent().expect("a folder").to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(place.path("")).env("PATH", path).env("NO_COLOR", "1");
    command.env_remove("AMP_STORE").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a shell starts");
    for _ in 0..600 {
        if child.try_wait().expect("the child is ours").is_some() {
            return Answer::of(child.wait_with_output().expect("the shell ends"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    panic!("`{line}` does not end");
}

/// A manifest of a table in `data.csv`.
fn table(columns: &str) -> Place {
    let place = Place::empty();
    place.write(
        "manifest.kdl",
        format!(
            "amp 1\nrun \"t\"\ndata \"t\" {{\n    source \"data.csv\"\n    columns {columns} classes=10\n    batch 1\n}}\n\
             model \"std:models/mlp\" hidden=4 layers=1 classes=10\noptimizer \"std:optimizers/adamw\" lr=1e-3\n\
             train epochs=1\nenvironment \"std:environments/cpu\"\n"
        ),
    );
    place
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let place = Place::with_manifest(SMALL);
    for line in ["amp env", "amp explain --all", "amp check --json", "amp completions bash", "amp --help"] {
        let answer = shell(&place, &format!("{line} > /dev/full")).ends(3);
        assert!(
            answer.stderr.contains("error[AMP0761]: the answer could not be written"),
            "{line}: {answer:?}"
        );
    }
    // A reader that has enough is no fault.
    let answer = shell(&place, "(amp explain --all; echo $? >&2) | head -n 1 > /dev/null");
    assert_eq!(answer.stderr, "0\n");
}

#[test]
fn completions_are_a_document_where_one_is_asked_for() {
    let plain = Place::empty().amp(&["completions", "bash"]).ends(0);
    let document = Place::empty().amp(&["completions", "bash", "--json"]).ends(0).json();
    assert_eq!(document["schema"], "amp.completions/1");
    assert_eq!(document["shell"], "bash");
    let script = document["script"].as_str().expect("a script");
    assert!(script.contains("amp") && plain.stdout.trim_end() == script.trim_end());
}

#[test]
fn a_code_that_does_not_exist_leads_to_a_near_one_or_to_the_ranges() {
    let help = |code: &str| Place::empty().amp(&["explain", code]).ends(2).stderr;
    assert!(help("AMP9999").contains("01xx syntax") && !help("AMP9999").contains("amp explain AMP"));
    assert!(help("AMP0299").contains("amp explain AMP0229"), "{}", help("AMP0299"));
    assert!(help("shape").contains("amp explain --all"));
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let place = table("label=\"last\"");
    let _ = shell(&place, "mkfifo pipe data.csv").ends(0);
    for path in ["pipe", "/dev/zero"] {
        let answer = shell(&place, &format!("amp check {path}")).ends(2);
        assert!(answer.stderr.contains("error[AMP0200]") && answer.stderr.contains("help: "), "{answer:?}");
    }
    for command in ["check", "lock", "run"] {
        let answer = shell(&place, &format!("amp {command}")).ends(2);
        assert!(answer.stderr.contains("error[AMP0734]: data.csv: found a pipe at `data.csv`"), "{answer:?}");
    }
}

#[test]
fn a_manifest_that_cannot_be_read_has_a_code_everywhere() {
    let place = Place::empty();
    place.write("latin.kdl", b"amp 1\nrun \"caf\xe9\"\n");
    for command in ["check", "lock", "run", "graph", "fmt"] {
        let missing = place.amp(&[command, "nowhere.kdl"]).ends(2);
        assert!(missing.stderr.contains("error[AMP0200]: `nowhere.kdl` cannot be read"), "{missing:?}");
        let latin = place.amp(&[command, "latin.kdl"]).ends(2);
        assert!(
            latin.stderr.contains("error[AMP0200]: `latin.kdl` is not UTF-8 text: byte 14, on line 2"),
            "{latin:?}"
        );
    }
}

#[test]
fn a_header_that_does_not_fit_the_first_row_is_said() {
    let place = table("label=\"last\" header=#true");
    place.write("data.csv", "5,3,0\n4,3,1\n");
    for _ in 0..2 {
        // Also when the prepared data lies in the store.
        let answer = place.amp(&["lock"]).ends(0);
        assert!(
            answer.stderr.contains("warning[AMP0738]: data.csv:1: found 3 numbers in the first row"),
            "{answer:?}"
        );
    }
    let answer = place.amp(&["check", "--json"]).ends(0).json();
    assert_eq!(answer["diagnostics"][0]["severity"], "warning");
    place.write("data.csv", "a,b,c\n4,3,1\n");
    assert_eq!(place.amp(&["check", "--json"]).ends(0).json()["diagnostics"], serde_json::json!([]));
    let place = table("label=\"last\" header=#false");
    place.write("data.csv", "a,b,c\n4,3,1\n");
    let answer = place.amp(&["check"]).ends(2);
    assert!(
        answer.stderr.contains("error[AMP0738]: data.csv:1: found the names `a`, `b`, `c`"),
        "{answer:?}"
    );
    assert!(
        answer.stderr.contains("header=#true") && answer.stderr.matches("error[").count() == 1,
        "{answer:?}"
    );
}

#[test]
fn a_fault_of_a_file_that_is_named_twice_is_said_once() {
    let place = table("label=\"last\"");
    let manifest = place.read("manifest.kdl").replace("    columns label=\"last\" classes=10\n", "");
    for (sources, name) in [
        ("source features=\"x.npy\" labels=\"x.npy\"", "x.npy"),
        ("sources {\n train \"x.safetensors\"\n test \"x.safetensors\"\n }", "x.safetensors"),
        ("source features=\"x-idx3-ubyte\" labels=\"x-idx3-ubyte\"", "x-idx3-ubyte"),
        ("sources {\n train \"x.csv\"\n test \"x.csv\"\n }", "x.csv"),
    ] {
        place.write(name, "damaged,,\n");
        place.write("manifest.kdl", manifest.replace("source \"data.csv\"", sources));
        let answer = place.amp(&["check"]).ends(2);
        assert!(answer.stderr.contains(name), "{answer:?}");
        let twice = answer.stderr.lines().filter(|line| line.starts_with("error")).collect::<Vec<_>>();
        let mut once = twice.clone();
        once.dedup();
        assert_eq!(twice, once, "{name}");
    }
}

#[test]
fn help_leads_to_something_that_is_accepted() {
    let changes = [
        ("label=\"last\"", "label=64", "a number is written `label-index=64`"),
        ("every=\"epoch\"", "every=3", "a number is written `steps=3`"),
        ("clip-norm=1.0", "clip-norm=1e-50", "write a number of at least 1e-45"),
        ("init=65536.0", "init=1e300", "write a number whose size is at most 3.4028235e38"),
    ];
    for (from, to, help) in changes {
        assert!(SMALL.contains(from), "{from}");
        let answer = Place::with_manifest(&SMALL.replace(from, to)).amp(&["check"]).ends(2);
        assert!(answer.stderr.contains(help), "{to}: {}", answer.stderr);
        assert_eq!(answer.stderr.matches("error[").count(), 1, "{to}: {}", answer.stderr);
    }
    let place = Place::with_manifest(&SMALL.replace(
        "model \"std:models/cnn\" channels=8 classes=10 dropout=0.25 norm=#true",
        "model \"own.kdl\"",
    ));
    place.write(
        "own.kdl",
        "module \"own\" kind=\"model\" doc=\"A test.\" {\n    body {\n        flatten\n        parallel join=\"add\" {\n            \
         chain { linear \"a\" out=10 }\n            chain { linear \"b\" out=10 }\n        }\n        softmax axis=0\n    }\n}\n",
    );
    let answer = place.amp(&["check"]).ends(2);
    assert!(
        answer.stderr.contains("did you mean `combine`?") && answer.stderr.contains("axis 0 is the batch"),
        "{answer:?}"
    );
    assert_eq!(answer.stderr.matches("error[").count(), 2, "{answer:?}");
}

#[test]
fn faults_of_csv_files_have_help() {
    let place = table("label=\"species\"");
    for (text, code) in [
        ("a,b\n1,2,3\n", "AMP0725"),
        ("species,b\n1,2\n1,2,3\n", "AMP0723"),
        ("species,b\n1,2\"\n", "AMP0723"),
    ] {
        place.write("data.csv", text);
        let answer = place.amp(&["check"]).ends(2);
        assert!(answer.stderr.contains(code), "{answer:?}");
        let (errors, helps) =
            (answer.stderr.matches("error[").count(), answer.stderr.matches("help: ").count());
        assert_eq!(errors, helps, "{answer:?}");
    }
}

#[test]
fn a_hostile_text_of_a_megabyte_is_shown_in_a_few_lines() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["lock"]).ends(0);
    let lock = place.read("manifest.lock");
    let texts = [
        "x".repeat(1 << 20),
        "\u{1b}[31m\0\u{7}".repeat(1 << 17),
        "{ ".repeat(1 << 19),
        format!("{lock}{}", "\"".repeat(1 << 20)),
    ];
    for text in texts {
        place.write("manifest.kdl", &text);
        let answer = place.amp(&["check"]).ends(2);
        assert!(
            answer.stderr.len() < 60_000 && !answer.stderr.contains('\u{1b}'),
            "{} bytes",
            answer.stderr.len()
        );
        assert!(answer.stderr.lines().all(|line| line.chars().count() < 2_200), "{}", answer.stderr);
        place.write("manifest.kdl", SMALL);
        place.write("manifest.lock", &text);
        let answer = place.amp(&["lock", "--check"]).ends(5);
        assert!(
            answer.stderr.len() < 60_000 && !answer.stderr.contains('\u{1b}'),
            "{} bytes",
            answer.stderr.len()
        );
        place.write("record.ndjson", &text);
        let answer = place.amp(&["diff", "record.ndjson", "record.ndjson"]).ends(5);
        assert!(
            answer.stderr.len() < 60_000 && !answer.stderr.contains('\u{1b}'),
            "{} bytes",
            answer.stderr.len()
        );
    }
}

#[test]
fn far_more_threads_than_cores_are_refused() {
    let answer = Place::with_manifest(SMALL).amp(&["run", "--threads", "1024"]).ends(3);
    assert!(answer.stderr.contains("error[AMP0706]") && answer.stderr.contains("help"), "{answer:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_is_given_too_little_memory_says_so() {
    let large = SMALL.replace(
        "model \"std:models/cnn\" channels=8 classes=10 dropout=0.25 norm=#true",
        "model \"std:models/mlp\" classes=10 layers=2 hidden=20000",
    );
    let place = Place::with_manifest(&large);
    let answer = shell(&place, "ulimit -v 2000000; amp run").ends(3);
    assert!(
        answer.stderr.contains("error[AMP0708]: the run needs") && answer.stderr.contains("ulimit -v"),
        "{answer:?}"
    );
    // A file that does not fit is not known before.
    let place = table("label=\"last\"");
    let file = std::fs::File::create(place.path("data.csv")).expect("a file");
    file.set_len(1 << 30).expect("a large file");
    let answer = shell(&place, "ulimit -v 500000; amp lock").ends(3);
    assert!(answer.stderr.contains("error[AMP0708]: memory ran out"), "{answer:?}");
}
