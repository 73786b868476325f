//! The reader against the public `kdl` crate, and against every trap that its texts can set.

use super::{MAX_DEPTH, MAX_TEXT, Node, Number, NumberFault, Tree, Value, format, parse};
use crate::diag::FileId;
use kdl::{KdlDocument, KdlNode, KdlValue};
use proptest::prelude::*;

fn read(text: &str) -> (Tree, Vec<u16>) {
    let (tree, faults) = parse(FileId(0), text);
    (tree, faults.iter().map(|fault| fault.code.0).collect())
}

/// No faults.
const NONE: [u16; 0] = [];

fn first_value(text: &str) -> Value {
    let (tree, faults) = read(text);
    assert_eq!(faults, NONE, "{text}");
    tree.nodes[0].arguments[0].value.clone()
}

fn number(lexeme: &str) -> Number {
    Number { lexeme: lexeme.to_owned() }
}

/// Compares a tree of ours with one of the oracle.
fn same(ours: &[Node], theirs: &[KdlNode]) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same_node(ours, theirs))
}

fn same_node(ours: &Node, theirs: &KdlNode) -> bool {
    let arguments: Vec<_> = theirs.entries().iter().filter(|entry| entry.name().is_none()).collect();
    let properties: Vec<_> = theirs.entries().iter().filter(|entry| entry.name().is_some()).collect();
    ours.name.text == theirs.name().value()
        && ours.annotation.as_ref().map(|word| word.text.as_str())
            == theirs.ty().map(kdl::KdlIdentifier::value)
        && ours.arguments.len() == arguments.len()
        && ours.properties.len() == properties.len()
        && ours.arguments.iter().zip(&arguments).all(|(ours, theirs)| same_value(&ours.value, theirs.value()))
        && ours.properties.iter().zip(&properties).all(|(ours, theirs)| {
            theirs.name().is_some_and(|name| name.value() == ours.name.text)
                && same_value(&ours.value.value, theirs.value())
        })
        && ours.children.is_some() == theirs.children().is_some()
        && same(ours.nodes(), theirs.children().map(KdlDocument::nodes).unwrap_or_default())
}

fn same_value(ours: &Value, theirs: &KdlValue) -> bool {
    match (ours, theirs) {
        (Value::Text(ours), KdlValue::String(theirs)) => ours == theirs,
        (Value::Number(ours), KdlValue::Integer(theirs)) => ours.integer() == Ok(*theirs),
        (Value::Number(ours), KdlValue::Float(theirs)) => match ours.f64() {
            Ok(value) => value.to_bits() == theirs.to_bits(),
            Err(NumberFault::TooSmall) => *theirs == 0.0,
            Err(_) => theirs.is_infinite(),
        },
        (Value::Flag(ours), KdlValue::Bool(theirs)) => ours == theirs,
        (Value::Null, KdlValue::Null) => true,
        _ => false,
    }
}

/// Words of KDL whose every row the oracle reads in reasonable time and stack.
fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a",
        "node",
        "-",
        "+x",
        ".a",
        "é",
        "\"q\"",
        "\"a b\"",
        "\"\\n\\u{e9}\\s\"",
        "\"\\   x\"",
        "#\"r\\w\"#",
        "##\"a\"#b\"##",
        "\"\"",
        "\"\"\"\n  x\n   y\n  \"\"\"",
        "#\"\"\"\n x\\n\n \"\"\"#",
        "1",
        "-1",
        "+2",
        "1_000",
        "0x1F",
        "-0b10",
        "0o17",
        "1.5",
        "1e3",
        "2.5E-3",
        "1__0.0_1",
        "#true",
        "#false",
        "#null",
        "=",
        "=1",
        "a=1",
        "b=\"x\"",
        "(t)",
        "( t )",
        "(t)1",
        "{",
        "}",
        "{}",
        ";",
        "\n",
        "\r\n",
        "// c\n",
        "/* c */",
        "/* /* n */ */",
        "/-",
        "/-{",
        "\\\n",
        "\\ // c\n",
        " ",
        "  ",
        "\t",
        "\u{a0}",
        "\u{2028}",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Both readers accept the same texts and read the same values from them.
    #[test]
    fn agrees_with_the_oracle(words in prop::collection::vec(word(), 0..14), spaced in any::<bool>()) {
        let text = words.join(if spaced { " " } else { "" });
        let (tree, faults) = read(&text);
        let oracle = KdlDocument::parse_v2(&text);
        // A property given twice is our fault alone: the oracle keeps both.
        prop_assume!(!faults.contains(&109));
        match oracle {
            Ok(document) => {
                prop_assert!(faults.is_empty() || known_difference(&text), "refused {:?}: {:?}", text, faults);
                prop_assert!(!faults.is_empty() || same(&tree.nodes, document.nodes()), "{:?}: {:#?}", text, tree);
            }
            Err(_) => prop_assert!(!faults.is_empty() || known_difference(&text), "accepted {:?}", text),
        }
    }

    #[test]
    fn formatting_keeps_the_tree_and_is_done_in_one_go(words in prop::collection::vec(word(), 0..20), spaced in any::<bool>()) {
        let text = words.join(if spaced { " " } else { "" });
        let (tree, faults) = read(&text);
        if !faults.is_empty() {
            return Ok(());
        }
        let once = format(&text).expect("a text without faults can be formatted");
        let (again, faults) = read(&once);
        prop_assert_eq!(faults, Vec::<u16>::new(), "{:?} became {:?}", text, once);
        prop_assert!(tree.same_as(&again), "{:?} became {:?}", text, once);
        let comments = |text: &str| text.matches("// c").count() + text.matches("/* c */").count();
        prop_assert_eq!(comments(&text), comments(&once), "{:?} became {:?}", text, once);
        prop_assert_eq!(format(&once).expect("formatted text"), once.clone(), "{:?} became {:?}", text, once);
    }

    #[test]
    fn strings_come_back(text in "\\PC{0,20}") {
        let quoted = format!("n {:?}", text).replace("\\'", "'");
        prop_assume!(!quoted.contains("\\0"));
        if let (tree, faults) = read(&quoted) && faults.is_empty() {
            prop_assert_eq!(&tree.nodes[0].arguments[0].value, &Value::Text(text));
        }
    }

    #[test]
    fn floats_come_back(value in any::<f32>()) {
        prop_assume!(value.is_finite());
        let read = number(&format!("{value:?}")).f32();
        prop_assert_eq!(read.map(f32::to_bits), Ok(value.to_bits()));
    }

    #[test]
    fn spans_lie_on_characters(text in any::<String>()) {
        let (_, faults) = parse(FileId(0), &text);
        for label in faults.iter().flat_map(|fault| &fault.labels) {
            let (start, end) = (label.span.start as usize, label.span.end as usize);
            prop_assert!(start <= end && text.is_char_boundary(start) && text.is_char_boundary(end), "{:?} {:?}", text, label);
        }
    }
}

/// Where the oracle is not the specification.
fn known_difference(text: &str) -> bool {
    // It refuses `;` behind a node that is slashed out, and wants no terminator at all behind its block.
    text.contains("/-")
}

#[test]
fn spans_count_bytes() {
    let (tree, _) = read("é \"ü\" x=(t)1");
    let node = &tree.nodes[0];
    assert_eq!((node.name.span.start, node.name.span.end), (0, 2));
    assert_eq!((node.arguments[0].span.start, node.arguments[0].span.end), (3, 7));
    assert_eq!(node.arguments[0].content, Some(4));
    assert_eq!((node.properties[0].value.span.start, node.properties[0].value.span.end), (10, 14));
    assert_eq!((node.span.start, node.span.end), (0, 14));
}

#[test]
fn a_byte_order_mark_is_passed_over_at_the_beginning_alone() {
    let (tree, faults) = read("\u{feff}n 1");
    assert_eq!((tree.nodes[0].arguments[0].span.start, faults), (5, vec![]));
    assert_eq!(read("n \u{feff}1").1, [106]);
    assert_eq!(format("\u{feff}n 1").expect("no faults"), "n 1\n");
}

#[test]
fn numbers_are_read_from_their_spelling_in_one_rounding() {
    assert_eq!(first_value("n 0.1000000000000000055"), Value::Number(number("0.1000000000000000055")));
    assert_eq!(number("1e400").f64(), Err(NumberFault::TooLarge));
    assert_eq!(number("1e39").f32(), Err(NumberFault::TooLarge));
    assert_eq!(number("1e39").f64(), Ok(1e39));
    assert_eq!(number("-1e-46").f32(), Err(NumberFault::TooSmall));
    assert_eq!(number("0e99").f32(), Ok(0.0));
    assert_eq!(number("-0.0").f32().map(f32::to_bits), Ok(0x8000_0000));
    // Half way between 1 and the next f32, and a little above: rounding to f64 first would lose the little.
    assert_eq!(number("1.000000059604644775390625").f32().map(f32::to_bits), Ok(0x3f80_0000));
    assert_eq!(number("1.00000005960464477539062500000001").f32().map(f32::to_bits), Ok(0x3f80_0001));
    assert_eq!(
        number("1.00000005960464477539062500000001").f64().map(|value| (value as f32).to_bits()),
        Ok(0x3f80_0000)
    );
}

#[test]
fn whole_numbers_are_whole() {
    assert_eq!(number("64.0").integer(), Err(NumberFault::NotWhole(Some(64))));
    assert_eq!(number("1e3").integer(), Err(NumberFault::NotWhole(Some(1000))));
    assert_eq!(number("1.5").integer(), Err(NumberFault::NotWhole(None)));
    assert_eq!(number("1e30").integer(), Err(NumberFault::NotWhole(None)));
    assert_eq!(number("-0x_".trim_end_matches('_')).integer(), Err(NumberFault::TooLarge));
    assert_eq!(number("-0x1f").integer(), Ok(-31));
    assert_eq!(number("+1_000").integer(), Ok(1000));
    assert_eq!(number("0b1_01").f32(), Ok(5.0));
    let beyond = "9".repeat(60);
    assert_eq!(number(&beyond).integer(), Err(NumberFault::TooLarge));
    assert_eq!(read(&format!("n {beyond}")).1, NONE);
}

#[test]
fn what_begins_like_a_number_must_be_one() {
    for text in [
        ".5", "-.5", "1.", "1.e3", "1e", "1e+", "0x", "0xg", "0b2", "1_a", "5x", "1,5", "+1-", "1..2", "0x_1",
    ] {
        assert_eq!(read(&format!("n {text}")).1, [104], "{text}");
    }
    for text in ["-", "+", "-x", ".x", "..", "--1", "_1"] {
        assert_eq!(first_value(&format!("n {text}")), Value::Text(text.to_owned()), "{text}");
    }
}

#[test]
fn only_version_two_is_read() {
    assert_eq!(read("/- kdl-version 1\nn 1").1, [112]);
    assert_eq!(read("/- kdl-version 2\nn 1").1, NONE);
    assert_eq!(read("n 1\n/- kdl-version 1").1, NONE);
}

#[test]
fn properties_given_twice_are_reported_and_the_first_is_kept() {
    let (tree, faults) = read("n a=1 b=2 a=3");
    assert_eq!(faults, [109]);
    assert!(tree.complete);
    assert_eq!(
        tree.nodes[0].property("a").map(|property| property.value.value.clone()),
        Some(Value::Number(number("1")))
    );
    assert_eq!(read("n a=1 /-a=2").1, NONE);
}

#[test]
fn what_is_slashed_out_says_nothing() {
    let (tree, faults) = read("/- gone { x }\nn /-1 2 /-a=3 /-{ y } { z } /-{ w }\n/-\nalso gone");
    assert_eq!(faults, NONE);
    assert_eq!(tree.nodes.len(), 1);
    assert_eq!((tree.nodes[0].arguments.len(), tree.nodes[0].properties.len()), (1, 0));
    assert_eq!(tree.nodes[0].nodes().len(), 1);
}

#[test]
fn multi_line_strings_lose_the_indentation_of_their_last_line() {
    assert_eq!(
        first_value("n \"\"\"\n    a\n      b\n\n    c\n    \"\"\""),
        Value::Text("a\n  b\n\nc".to_owned())
    );
    assert_eq!(first_value("n \"\"\"\r\n  a\r\n  b\r\n  \"\"\""), Value::Text("a\nb".to_owned()));
    assert_eq!(first_value("n #\"\"\"\n  a\\n\"\n  \"\"\"#"), Value::Text("a\\n\"".to_owned()));
    assert_eq!(first_value("n \"\"\"\n\"\"\""), Value::Text(String::new()));
    assert_eq!(first_value("n \"\"\"\n  a \\\n    b\n  \"\"\""), Value::Text("a b".to_owned()));
}

#[test]
fn independent_faults_are_reported_together_from_the_top() {
    assert_eq!(read("a .5\nb \"x\\q\"\nc true\nd {\n").1, [104, 102, 105, 107]);
    assert_eq!(read(&"a .5\n".repeat(1000)).1.len(), super::MAX_FAULTS);
}

/// Each of these exhausts the stack or the patience of a reader that recurses or goes back.
#[test]
fn hostile_texts_end_at_once() {
    let deep =
        |open: &str, close: &str, count: usize| format!("{}{}", open.repeat(count), close.repeat(count));
    assert_eq!(read(&deep("a{", "}", MAX_DEPTH)).1, NONE);
    assert_eq!(read(&deep("a{", "}", MAX_DEPTH + 1)).1, [110]);
    assert_eq!(read(&deep("a /-{", "}", 20_000)).1, [110]);
    assert_eq!(read(&deep("/*", "*/", MAX_DEPTH)).1, NONE);
    assert_eq!(read(&deep("/*", "*/", 100_000)).1, [110]);
    assert_eq!(read(&format!("/*{}*/", "* / ".repeat(100_000))).1, NONE);
    assert_eq!(read(&"}".repeat(100_000)).1, vec![107; super::MAX_FAULTS]);
    assert_eq!(read(&"/-".repeat(100_000)).1, [100]);
    assert_eq!(read(&"(".repeat(100_000)).1.len(), 1);
    assert_eq!(read(&format!("n {}", "a ".repeat(100_000))).0.nodes[0].arguments.len(), 100_000);
    assert_eq!(read(&" ".repeat(MAX_TEXT + 1)).1, [111]);
}

#[test]
fn the_canonical_layout() {
    let text = "\n\n  run   \"a\" seed = 1 ;\"data\" d{ batch 0x40;// keep\n\n\n columns   label=last /-header=#true\n}\n\
                /* one */ /- gone  x\nlong \\ // why\n  1 \\\n 2 // end\n\nempty{ }\nlast { // first\n\n a\n}";
    let expected = "run \"a\" seed=1\ndata \"d\" {\n    batch 0x40\n    // keep\n\n    columns label=\"last\" /-header=#true\n}\n\
                    /* one */ /-gone \"x\"\nlong \\ // why\n    1 \\\n    2 // end\n\nempty {}\nlast {\n    // first\n\n    a\n}\n";
    assert_eq!(format(text).expect("no faults"), expected);
    assert_eq!(format(expected).expect("no faults"), expected);
    assert!(format("n .5").is_err());
}
