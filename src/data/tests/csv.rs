//! The CSV reader: values, and the line and column of every fault.

use super::super::csv::{Rules, read};
use super::super::spec::{Header, LabelColumn};
use super::super::{Labels, Table};
use super::{classes, told};

const LAST: LabelColumn = LabelColumn::Last;

fn rules(header: Header, label: &LabelColumn) -> Rules<'_> {
    Rules { header, delimiter: ',', label, classes: Some(3) }
}

fn table(text: &str, rules: Rules<'_>) -> Table {
    read(text.as_bytes(), "d.csv", rules).expect("a right file")
}

fn faults(text: &str, rules: Rules<'_>) -> Vec<(u16, String)> {
    read(text.as_bytes(), "d.csv", rules).expect_err("a wrong file").iter().map(told).collect()
}

fn only_fault(text: &str, rules: Rules<'_>) -> (u16, String) {
    let faults = faults(text, rules);
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].clone()
}

#[test]
fn numbers_and_labels_come_out_in_order() {
    let table = table("1,2.5,0\n-3e-1, .5 ,2\r\n", rules(Header::No, &LAST));
    assert_eq!((table.length, table.shape.as_slice(), table.label_shape.as_slice()), (2, &[2][..], &[][..]));
    assert_eq!(table.features, [1.0, 2.5, -0.3, 0.5]);
    assert_eq!(classes(&table.labels), [0, 2]);
}

#[test]
fn text_is_rounded_once() {
    // 16777217 lies half way between two f32 and goes to the even one; the next is just above half way, and a reader
    // that goes through f64 rounds it twice and gets 16777216.
    let table = table("16777217,16777217.000000000001,0\n", rules(Header::No, &LAST));
    assert_eq!(table.features, [16_777_216.0, 16_777_218.0]);
}

#[test]
fn the_label_is_found_by_name_index_or_place() {
    let text = "a,digit,b\n1,2,3\n";
    for label in [LabelColumn::Name("digit".to_owned()), LabelColumn::Index(1)] {
        let table = table(text, rules(Header::Yes, &label));
        assert_eq!((table.features.as_slice(), classes(&table.labels)), (&[1.0, 3.0][..], &[2][..]));
    }
    let unknown = LabelColumn::Name("digt".to_owned());
    let fault = &read(text.as_bytes(), "d.csv", rules(Header::Yes, &unknown)).expect_err("unknown")[0];
    assert_eq!(
        told(fault),
        (725, "d.csv:1: found no column `digt` for the label among `a`, `digit`, `b`".to_owned())
    );
    assert_eq!(fault.help.as_deref(), Some("did you mean `digit`?"));
    let beyond = LabelColumn::Index(3);
    assert_eq!(only_fault(text, rules(Header::Yes, &beyond)).0, 725);
    let name = LabelColumn::Name("digit".to_owned());
    assert_eq!(only_fault("1,2\n", rules(Header::No, &name)).0, 725);
    assert_eq!(only_fault("digit,digit,b\n1,2,3\n", rules(Header::Yes, &name)).0, 725);
}

#[test]
fn a_header_is_told_by_having_no_number() {
    let auto = rules(Header::Auto, &LAST);
    assert_eq!(table("\u{feff}x,y\n1,2\n", auto).length, 1);
    assert_eq!(table("0,1\n1,2\n", auto).length, 2);
    // A wrong number in the first row must not make it vanish as a header.
    let (code, text) = only_fault("0,5x,1\n1,2,2\n", auto);
    assert_eq!(code, 723);
    assert_eq!(
        text,
        "d.csv:1:2: found 2 numbers and 1 other field, such as `5x`, in the first row, expected names or numbers only"
    );
}

#[test]
fn quoted_fields_may_hold_anything() {
    let text = "\"a, \"\"quoted\"\"\nname\";label\n\"1\";2\n";
    let label = LabelColumn::Name("label".to_owned());
    let rules = Rules { delimiter: ';', ..rules(Header::Yes, &label) };
    let table = table(text, rules);
    assert_eq!((table.features.as_slice(), classes(&table.labels)), (&[1.0][..], &[2][..]));
    let wrong = text.replace("\"1\"", "\"1\"x");
    assert_eq!(
        faults(&wrong, rules),
        [(723, "d.csv:3:1: found `x;2\\n` after a closing quote, expected the end of the field".to_owned())]
    );
}

#[test]
fn every_fault_has_its_line_and_column() {
    let text = "1,2,0\n\n1,x,1\n1,2\n1,2,3,0\n,2,0\n1,2,3\n1,2,1.5\n1,2,-1\n";
    let expected = [
        (724, "d.csv:3:2: found `x`, expected a number"),
        (723, "d.csv:4: found 2 fields, expected 3 as in the first row"),
        (723, "d.csv:5: found 4 fields, expected 3 as in the first row"),
        (724, "d.csv:6:1: found an empty field, expected a number"),
        (725, "d.csv:7:3: found the label `3`, expected an integer in 0..3"),
        (725, "d.csv:8:3: found the label `1.5`, expected an integer in 0..3"),
        (725, "d.csv:9:3: found the label `-1`, expected an integer in 0..3"),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(code, text)| (code, text.to_owned())).collect();
    assert_eq!(faults(text, rules(Header::No, &LAST)), expected);
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for text in ["nan", "NaN", "inf", "-Infinity", "1e39", "-3.5e38"] {
        let (code, message) = only_fault(&format!("1,0\n{text},0\n"), rules(Header::No, &LAST));
        assert_eq!(code, 724);
        assert_eq!(message, format!("d.csv:2:1: found `{text}`, expected a finite number of at most 3.4e38"));
    }
}

#[test]
fn only_the_first_ten_faults_are_told() {
    let faults = faults(&"x,0\n".repeat(50), rules(Header::No, &LAST));
    assert_eq!(faults.len(), 11);
    assert_eq!(faults[9].1, "d.csv:10:1: found `x`, expected a number");
    assert_eq!(faults[10].1, "d.csv: more faults may follow; these are the first ten");
}

#[test]
fn quotes_in_the_wrong_place_are_refused() {
    let no = rules(Header::No, &LAST);
    assert_eq!(
        faults("1\",0\n", no)[0],
        (
            723,
            "d.csv:1:1: found a quote inside an unquoted field, expected the whole field in quotes"
                .to_owned()
        )
    );
    assert_eq!(
        faults("1,0\n1,\"0\n1,0\n", no)[0],
        (723, "d.csv:2:2: found no closing quote before the end of the file".to_owned())
    );
}

#[test]
fn texts_of_other_encodings_and_line_ends_are_refused_with_what_mends_them() {
    let wide =
        |order: fn(u16) -> [u8; 2], text: &str| -> Vec<u8> { text.encode_utf16().flat_map(order).collect() };
    let (little, big) = (u16::to_le_bytes, u16::to_be_bytes);
    let utf8 = "expected UTF-8 text";
    let cases = [
        (
            wide(little, "\u{feff}1,0\n"),
            format!("found the byte order mark ff fe of UTF-16, {utf8}"),
            "iconv",
        ),
        (wide(big, "\u{feff}1,0\n"), format!("found the byte order mark fe ff of UTF-16, {utf8}"), "iconv"),
        (
            wide(little, "1,0\n"),
            format!("found a zero byte at offset 1, as UTF-16 has them, {utf8}"),
            "iconv",
        ),
        (wide(big, "1,0\n"), format!("found a zero byte at offset 0, as UTF-16 has them, {utf8}"), "iconv"),
        (b"1,0\r2,1\r".to_vec(), "found 2 line ends of CR alone, expected LF or CR LF".to_owned(), "tr "),
    ];
    for (bytes, expected, help) in cases {
        let faults = read(&bytes, "d.csv", rules(Header::Auto, &LAST)).expect_err("a wrong file");
        assert_eq!(faults.iter().map(told).collect::<Vec<_>>(), [(723, format!("d.csv:1: {expected}"))]);
        assert!(faults[0].help.as_ref().is_some_and(|text| text.contains(help)), "{:?}", faults[0].help);
    }
}

#[test]
fn files_without_data_are_refused() {
    assert_eq!(only_fault("", rules(Header::No, &LAST)).0, 733);
    assert_eq!(only_fault("\n\r\n\n", rules(Header::No, &LAST)).0, 733);
    assert_eq!(only_fault("a,b\n", rules(Header::Yes, &LAST)).0, 733);
    assert_eq!(only_fault("1;0\n", rules(Header::No, &LAST)).0, 723);
    for delimiter in ['1', '"', '\n', '.', 'é'] {
        let rules = Rules { delimiter, ..rules(Header::No, &LAST) };
        assert_eq!(only_fault("1,0\n", rules).0, 734, "{delimiter:?}");
    }
}

#[test]
fn targets_are_numbers() {
    let rules = Rules { classes: None, ..rules(Header::No, &LAST) };
    let table = table("1,0.25\n2,-7\n", rules);
    assert_eq!((table.label_shape.as_slice(), &table.labels), (&[1][..], &Labels::Targets(vec![0.25, -7.0])));
    assert_eq!(only_fault("1,nan\n", rules).0, 724);
}

#[test]
fn labels_written_as_whole_floats_are_classes() {
    let table = table("7,2.0\n7,1e0\n", rules(Header::No, &LAST));
    assert_eq!(classes(&table.labels), [2, 1]);
}
