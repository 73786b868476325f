//! Diagnostics in their three forms.

use super::{CATALOGUE, Code, Diagnostic, FileId, SourceMap, Span, codes, nearest, render_text, to_json};
use proptest::prelude::*;

pub(crate) fn span(file: FileId, start: u32, end: u32) -> Span {
    Span { file, start, end }
}

/// A fault of a manifest and of the library's line that disagrees.
pub(crate) fn example() -> (Diagnostic, SourceMap) {
    let mut sources = SourceMap::default();
    let manifest = sources.add("run/manifest.kdl", "amp 1\nträin lr=2 # 50%\n");
    let library = sources.add("std:optimizers/x", "module \"x\" {\n    parameter \"lr\"\n}\n");
    let fault = Diagnostic::error(codes::OUT_OF_RANGE, "`lr` is 2,\nand must be below 1")
        .at(span(manifest, 16, 17), "must be below 1")
        .at(span(library, 27, 31), "declared here")
        .help("write 50%");
    (fault, sources)
}

#[test]
fn text_shows_whole_lines_of_both_files() {
    let (fault, sources) = example();
    let warning = Diagnostic::warning(codes::NO_SCALER, "look at this");
    let expected = "\
error[AMP0207]: `lr` is 2,
and must be below 1
   ╭─[run/manifest.kdl:2:10]
 2 │ träin lr=2 # 50%
   ·          ┬
   ·          ╰── must be below 1
   ╰────
   ╭─[std:optimizers/x:2:15]
 2 │     parameter \"lr\"
   ·               ──┬─
   ·                 ╰── declared here
   ╰────
  help: write 50%

warning[AMP0229]: look at this
";
    assert_eq!(render_text(&[fault, warning], &sources, false), expected);
}

#[test]
fn colour_changes_nothing_but_colour() {
    let (fault, sources) = example();
    let colored = render_text(std::slice::from_ref(&fault), &sources, true);
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    assert!(colored.contains("\u{1b}[1m\u{1b}[31merror[AMP0207]"), "{colored:?}");
    assert_eq!(plain, render_text(&[fault], &sources, false));
}

#[test]
fn json_has_lines_columns_and_bytes() {
    let (fault, sources) = example();
    let expected = serde_json::json!({
        "schema": "amp.diagnostic/1",
        "code": "AMP0207",
        "severity": "error",
        "message": "`lr` is 2,\nand must be below 1",
        "labels": [
            { "file": "run/manifest.kdl", "line": 2, "column": 10, "bytes": [16, 17], "text": "must be below 1" },
            { "file": "std:optimizers/x", "line": 2, "column": 15, "bytes": [27, 31], "text": "declared here" },
        ],
        "help": "write 50%",
    });
    assert_eq!(to_json(&fault, &sources), expected);
    let bare = to_json(&Diagnostic::warning(Code(999), "m"), &sources);
    assert_eq!(
        (bare["labels"].clone(), bare["help"].clone()),
        (serde_json::json!([]), serde_json::Value::Null)
    );
}

/// The text of one fault at a place of one text.
fn shown(text: &str, start: usize, end: usize) -> String {
    let mut sources = SourceMap::default();
    let file = sources.add("f", text);
    let fault = Diagnostic::error(codes::UNEXPECTED, "m").at(span(file, start as u32, end as u32), "here");
    render_text(&[fault], &sources, false)
}

#[test]
fn a_long_line_is_shown_around_the_place() {
    let text = format!("first\n{}X{}\nlast", "a".repeat(500_000), "b".repeat(500_000));
    let place = 6 + 500_000;
    let expected = format!(
        "error[AMP0100]: m\n   ╭─[f:2:500001]\n 2 │ …{}X{}…\n   · {}┬\n   · {}╰── here\n   ╰────\n",
        "a".repeat(40),
        "b".repeat(79),
        " ".repeat(41),
        " ".repeat(41)
    );
    assert_eq!(shown(&text, place, place + 1), expected);
    // The whole of it, its beginning and its end.
    for (start, end) in [(6, 1_000_007), (6, 7), (1_000_006, 1_000_007), (0, text.len())] {
        let rendered = shown(&text, start, end);
        assert!(rendered.lines().all(|line| line.chars().count() < 140), "{rendered}");
        assert!(rendered.lines().count() < 12, "{rendered}");
    }
}

#[test]
fn two_places_far_apart_on_one_line_are_both_shown() {
    let text = format!("X{}Y", "-".repeat(10_000));
    let mut sources = SourceMap::default();
    let file = sources.add("f", text);
    let fault = Diagnostic::error(codes::UNEXPECTED, "m")
        .at(span(file, 10_001, 10_002), "second")
        .at(span(file, 0, 1), "first");
    let rendered = render_text(&[fault], &sources, false);
    assert!(rendered.contains("[f:1:10002]") && rendered.contains("[f:1:1]"), "{rendered}");
    assert!(rendered.contains(" 1 │ X---") && rendered.contains("---Y\n"), "{rendered}");
    assert!(rendered.chars().count() < 800, "{rendered}");
}

#[test]
fn a_place_of_many_lines_is_cut() {
    let text = "a b\n".repeat(10_000);
    let rendered = shown(&text, 4, 39_000);
    assert!(rendered.contains("  2 │") || rendered.contains(" 2 │"), "{rendered}");
    assert!(
        rendered.contains(" 9 │") && rendered.contains("a b…") && !rendered.contains(" 10 │"),
        "{rendered}"
    );
}

#[test]
fn nothing_of_a_text_or_message_reaches_the_terminal_raw() {
    let text = "a \u{1b}[31m \u{202e}\u{0} z\r\nnext";
    let mut sources = SourceMap::default();
    let file = sources.add("f\u{1b}[0m", text);
    let fault =
        Diagnostic::error(codes::UNEXPECTED, "found \u{7}").at(span(file, 14, 15), "l\u{1b}").help("h\u{9b}");
    let rendered = render_text(&[fault], &sources, false);
    assert!(rendered.contains("a \\u{1b}[31m \\u{202e}\\u{0} z\n"), "{rendered}");
    assert!(rendered.chars().all(|character| character == '\n' || !character.is_control()), "{rendered:?}");
    let long = super::printable(&"x".repeat(1_000_000));
    assert_eq!(long.chars().count(), 2_003);
}

#[test]
fn codes_are_read_as_people_write_them() {
    for text in ["AMP0207", "amp0207", "amp207", "0207", "207", " 207 "] {
        assert_eq!(Code::parse(text), Some(codes::OUT_OF_RANGE), "{text}");
    }
    for text in ["", "AMP", "AMP02070", "x207", "-207", "ämp"] {
        assert_eq!(Code::parse(text), None, "{text}");
    }
    assert_eq!(codes::OUT_OF_RANGE.page().map(|page| page.code), Some(codes::OUT_OF_RANGE));
    assert!(CATALOGUE.windows(2).all(|pair| pair[0].code < pair[1].code));
}

#[test]
fn the_nearest_name_is_near() {
    assert_eq!(nearest("optimzer", ["run", "optimizer", "train"]), Some("optimizer"));
    assert_eq!(nearest("schedule", ["run", "train"]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Spans of any two characters of any text, and of none, are rendered.
    #[test]
    fn any_span_of_any_text_is_rendered(text in any::<String>(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let mut places: Vec<u32> = text.char_indices().map(|(at, _)| at as u32).collect();
        places.push(text.len() as u32);
        let (from, to) = (*from.get(&places), *to.get(&places));
        let mut sources = SourceMap::default();
        let file = sources.add("f", text);
        let place = span(file, from.min(to), from.max(to));
        let fault = Diagnostic::error(codes::UNEXPECTED, "m").at(place, "l").at(span(file, 4_000_000, 0), "x").at(span(FileId(7), 0, 9), "y");
        let rendered = render_text(std::slice::from_ref(&fault), &sources, false);
        prop_assert!(rendered.starts_with("error[AMP0100]: m\n"));
        let json = to_json(&fault, &sources);
        prop_assert_eq!(json["labels"].as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn one_thing_is_no_plural() {
    let of = super::number::counted;
    let told = [(0_u64, "file"), (1, "file"), (2, "batch"), (1234, "entry"), (2, "way"), (3, "class")];
    let told: Vec<String> = told.into_iter().map(|(number, noun)| of(number, noun)).collect();
    assert_eq!(told, ["0 files", "1 file", "2 batches", "1,234 entries", "2 ways", "3 classes"]);
    // 2·10⁹ operations; below a thousand there is no unit before them.
    let flops = super::number::flops;
    assert_eq!(
        (flops(2e9), flops(999.0), flops(1e3)),
        ("2.00 GFLOP".into(), "999 FLOP".into(), "1.00 kFLOP".into())
    );
}
