//! `amp bench --against torch`: what is said and what goes into the document, with a program that answers as PyTorch's would. One test
//! asks PyTorch itself, where Python has it.

use super::locks::tiny;
use super::{Answer, Place};
use std::process::Command;

/// A program that answers as a Python with PyTorch does: each step takes 25 ms, the last loss is not finite.
pub const PYTHON: &str = r#"#!/bin/sh
if [ "$1" = -c ]; then
    echo "2.11.0+cpu False"
    exit 0
fi
echo '{"torch": "2.11.0+cpu", "device": "AVX2", "threads": 1}'
while read -r line; do
    case "$line" in
    '{"check":8}') echo '{"losses": [2.5, 2.4, 2.3, 2.2, 2.1, 2.0, 1.9, null]}' ;;
    '{"time":5}') echo '{"seconds": 0.125, "peak": 300000000}' ;;
    '{"time":20}') echo '{"seconds": 0.5, "peak": 300000000}' ;;
    *) echo "what is $line?" >&2; exit 3 ;;
    esac
done
"#;

/// Writes such a program into the folder.
#[cfg(unix)]
pub fn python(place: &Place, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    place.write("python", text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path("python"), mode).expect("it may be run");
}

fn says(answer: &Answer, words: &[&str]) {
    for word in words {
        assert!(answer.stderr.contains(word), "{word} in\n{}", answer.stderr);
    }
}

/// What every row of a comparison has, beside the options of the test.
const AGAINST: [&str; 6] = ["bench", "--blocks", "2", "--against", "torch", "--python"];

fn against(place: &Place, python: &str, more: &[&str]) -> Answer {
    place.amp(&[&AGAINST[..], &[python], more].concat())
}

#[cfg(unix)]
#[test]
fn both_sides_are_timed_in_turn_in_each_mode() {
    let place = Place::with_manifest(&tiny());
    python(&place, PYTHON);
    let more = ["--torch-mode", "deterministic,eager", "--keep-script", "step.py"];
    let answer = against(&place, "./python", &[&more[..], &["--json"]].concat()).ends(0);
    let document = answer.json();
    let found = &document["against"];
    assert_eq!((&found["version"], &found["script"]), (&"2.11.0+cpu".into(), &"step.py".into()));
    let modes = found["modes"].as_array().expect("a list");
    assert_eq!(
        modes.iter().map(|row| row["mode"].as_str()).collect::<Vec<_>>(),
        [Some("eager"), Some("deterministic")]
    );
    for row in modes {
        assert_eq!(row["rounds"], 2);
        assert_eq!(
            row["milliseconds"]["torch"],
            serde_json::json!({ "median": 25.0, "minimum": 25.0, "maximum": 25.0 })
        );
        assert_eq!(row["memory_bytes"]["torch"], 300_000_000);
        let amp = row["milliseconds"]["amp"]["median"].as_f64().expect("a time");
        assert!((row["ratio"].as_f64().expect("a ratio") * amp - 25.0).abs() < 1e-9, "{row}");
        assert_eq!((row["losses"][0].as_f64(), row["losses"][7].is_null()), (Some(2.5), true));
        assert!(row["largest_difference"].is_null(), "{row}");
    }
    // These are no losses of this model.
    says(&answer, &["they may not compute the same", "PyTorch's loss (eager) is not finite at step 8"]);
    assert!(place.read("step.py").contains("F.cross_entropy("));
    let text = against(&place, "./python", &[]).ends(0).stdout;
    for word in [
        "PyTorch 2.11.0+cpu in turn with it (AVX2, threads: 1)",
        "  eager ",
        "25.000 (25.000–25.000)",
        ", 2.500000",
    ] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_pytorch_that_fails_is_told_with_what_it_said() {
    let place = Place::with_manifest(&tiny());
    python(&place, &PYTHON.replace("'{\"time\":20}'", "'never'"));
    says(
        &against(&place, "./python", &[]).ends(3),
        &["AMP0807", "exit status: 3", "what is {\"time\":20}?", "--keep-script"],
    );
    python(&place, &PYTHON.replace("echo '{\"losses\"", "echo 'Compiling {\"losses\""));
    says(&against(&place, "./python", &[]).ends(3), &["AMP0807"]);
    python(&place, "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n");
    says(
        &against(&place, "./python", &[]).ends(3),
        &[
            "AMP0806",
            "`./python` has no PyTorch that can be imported: ModuleNotFoundError",
            "pip install torch",
        ],
    );
}

#[test]
fn without_a_python_the_program_can_still_be_read() {
    let place = Place::with_manifest(&tiny());
    let answer = against(&place, "./none", &["--keep-script", "step.py"]).ends(3);
    says(&answer, &["AMP0806", "`./none` could not be started", "--python torch/bin/python3"]);
    assert!(place.read("step.py").starts_with("\"\"\"One training step of "));
    let _ = place.amp(&["bench", "--python", "python3"]).ends(2);
    let _ = against(&place, "./none", &["--torch-mode", "fast"]).ends(2);
    let _ = against(&place, "./none", &["--keep-script", "manifest.kdl"]).ends(2);
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so loudly")]
fn pytorch_itself_begins_with_the_same_loss() {
    let asked = Command::new("python3").args(["-c", "import torch"]).output();
    if !asked.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: `python3` has no torch, so that no loss was compared; benches/against_torch.py does it for every op"
        );
        return;
    }
    let place = Place::with_manifest(&tiny());
    let document = against(&place, "python3", &["--json"]).ends(0).json();
    let row = &document["against"]["modes"][0];
    assert!(row["largest_difference"].as_f64().is_some_and(|apart| apart < 1e-4), "{row}");
}
