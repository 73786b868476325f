//! The readers of arrays on hand-made bytes: IDX, NPY, safetensors, gzip.

use super::super::array::Number;
use super::super::{DataFault, Labels, gunzip, idx, npy, tensors};
use super::{classes, told};
use std::io::Write as _;

/// An IDX file: kind of number, shape, the numbers' bytes.
pub(super) fn idx_file(kind: u8, shape: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend_from_slice(data);
    bytes
}

/// An NPY file of version 1 with this dictionary.
pub(super) fn npy_file(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(dictionary.len() as u16).to_le_bytes());
    bytes.extend_from_slice(dictionary.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A safetensors file with this header.
pub(super) fn safetensors_file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

pub(super) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("packs");
    encoder.finish().expect("packs")
}

fn npy_of(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_file(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n"), data)
}

fn message(outcome: Result<impl std::fmt::Debug, DataFault>) -> (u16, String) {
    let fault = outcome.expect_err("a fault");
    (fault.code.0, fault.message)
}

#[test]
fn idx_reads_every_kind_of_number() {
    let cases: [(u8, &[u8], &[f32]); 6] = [
        (0x08, &[0, 255], &[0.0, 255.0]),
        (0x09, &[0x80, 0x7f], &[-128.0, 127.0]),
        (0x0b, &[0x01, 0x00, 0xff, 0xfe], &[256.0, -2.0]),
        (0x0c, &[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff], &[65536.0, -1.0]),
        (0x0d, &[0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0], &[1.5, -2.0]),
        (0x0e, &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xbf, 0xf0, 0, 0, 0, 0, 0, 0], &[1.5, -1.0]),
    ];
    for (kind, data, expected) in cases {
        let file = idx_file(kind, &[2], data);
        let (shape, features) = idx::read(&file).and_then(|array| array.features()).expect("a right file");
        assert_eq!((shape.as_slice(), features.as_slice()), (&[2][..], expected), "kind {kind:#x}");
    }
    let file = idx_file(0x08, &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
    let (shape, features) = idx::read(&file).and_then(|array| array.features()).expect("a right file");
    assert_eq!((shape, features), (vec![2, 1, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
}

#[test]
fn idx_refuses_what_does_not_add_up() {
    let whole = idx_file(0x08, &[2, 2], &[1, 2, 3, 4]);
    assert_eq!(
        message(idx::read(&whole[..15])),
        (726, "found 3 bytes of numbers, expected 4 for the declared shape [2, 2]".to_owned())
    );
    let longer = [whole.as_slice(), &[9]].concat();
    assert_eq!(
        message(idx::read(&longer)).1,
        "found 5 bytes of numbers, expected 4 for the declared shape [2, 2]"
    );
    assert_eq!(
        message(idx::read(&whole[..9])).1,
        "found 5 bytes after the first four, expected 8 for 2 axes"
    );
    let magic = "expected 00 00, a kind of number, a count of axes";
    assert_eq!(message(idx::read(&[])), (726, format!("found an empty file, {magic}")));
    assert_eq!(message(idx::read(b"1,2,3")), (726, format!("found the first bytes 31 2c 32 2c, {magic}")));
    assert_eq!(message(idx::read(&idx_file(0x0a, &[1], &[1]))).0, 726);
    assert_eq!(message(idx::read(&idx_file(0x08, &[], &[1]))).0, 726);
    for damaged in [&[][..], b"1,2,3", &idx_file(0x0a, &[1], &[1]), &idx_file(0x08, &[], &[1]), &whole[..9]] {
        assert!(idx::read(damaged).expect_err("a fault").help.is_some(), "{damaged:?}: what to do?");
    }
    let huge = idx_file(0x0e, &[u32::MAX; 3], &[]);
    assert_eq!(
        message(idx::read(&huge)).1,
        "found the shape [4294967295, 4294967295, 4294967295], expected one that memory can hold"
    );
}

#[test]
fn npy_reads_every_kind_of_number_in_both_byte_orders() {
    let cases: [(&str, &[u8], &[f32]); 15] = [
        ("|b1", &[0, 1], &[0.0, 1.0]),
        ("|u1", &[0, 255], &[0.0, 255.0]),
        ("|i1", &[0xff, 1], &[-1.0, 1.0]),
        ("<u2", &[0, 1, 1, 0], &[256.0, 1.0]),
        (">i2", &[0xff, 0xfe, 0, 1], &[-2.0, 1.0]),
        ("<i4", &[0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0], &[-1.0, 2.0]),
        (">u4", &[0, 0, 1, 0, 0, 0, 0, 2], &[256.0, 2.0]),
        ("<i8", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0], &[-1.0, 3.0]),
        (">i8", &[0, 0, 0, 0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], &[5.0, -2.0]),
        ("<f2", &[0x00, 0x3e, 0x00, 0xc0], &[1.5, -2.0]),
        (">f2", &[0x3e, 0x00, 0x00, 0x01], &[1.5, 5.960_464_5e-8]),
        ("<f4", &[0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0], &[1.5, -2.0]),
        (">f4", &[0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0], &[1.5, -2.0]),
        ("<f8", &[0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40], &[1.5, 2.0]),
        (">f8", &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0], &[1.5, 2.0]),
    ];
    for (descr, data, expected) in cases {
        let file = npy_of(descr, "(2,)", data);
        let (shape, features) = npy::read(&file).and_then(|array| array.features()).expect("a right file");
        assert_eq!((shape.as_slice(), features.as_slice()), (&[2][..], expected), "{descr}");
    }
}

#[test]
fn npy_reads_columns_first_as_rows_first() {
    let file = npy_file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", &[1, 4, 2, 5, 3, 6]);
    let (shape, features) = npy::read(&file).and_then(|array| array.features()).expect("a right file");
    assert_eq!((shape, features), (vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    // Element (i, j, k) of shape (2, 2, 2) lies at i + 2j + 4k.
    let file =
        npy_file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2)}", &[0, 1, 2, 3, 4, 5, 6, 7]);
    let (_, features) = npy::read(&file).and_then(|array| array.features()).expect("a right file");
    assert_eq!(features, [0.0, 4.0, 2.0, 6.0, 1.0, 5.0, 3.0, 7.0]);
}

#[test]
fn npy_reads_later_versions_and_other_spellings() {
    let dictionary = "{\"shape\":(1L,2L),\"fortran_order\":False,\"descr\":\"<f4\"}   \n";
    for version in [2, 3] {
        let mut file = b"\x93NUMPY".to_vec();
        file.extend_from_slice(&[version, 0]);
        file.extend_from_slice(&(dictionary.len() as u32).to_le_bytes());
        file.extend_from_slice(dictionary.as_bytes());
        file.extend_from_slice(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0]);
        let array = npy::read(&file).expect("a right file");
        assert_eq!((array.shape.as_slice(), array.number), (&[1, 2][..], Number::F32));
        assert_eq!(array.features().expect("numbers").1, [1.0, 0.0]);
    }
}

#[test]
fn npy_refuses_what_it_cannot_mean() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    let cases = [
        (
            b"PK\x03\x04".to_vec(),
            "found the first bytes `PK\\u{3}\\u{4}`, expected `\\x93NUMPY` and a version",
        ),
        (npy_file(header, &[0; 7]), "found 7 bytes of numbers, expected 8 for the declared shape [2]"),
        (npy_file(header, &[0; 9]), "found 9 bytes of numbers, expected 8 for the declared shape [2]"),
        (
            npy_file(&header.replace("(2,)", "()"), &[0; 4]),
            "found a single number, expected an array with the examples as first axis",
        ),
        (
            npy_file(&header.replace("'<f4'", "[('a', '<f4')]"), &[0; 8]),
            "found `[('a', '<f4')], 'fortran_order': False, …` in the header, expected a text in quotes",
        ),
        (
            npy_file(&header.replace("<f4", "|O"), &[0; 8]),
            "found numbers of kind `|O`, expected b1, u1, u2, u4, u8, i1, i2, i4, i8, f2, f4 or f8",
        ),
        (
            npy_file(&header.replace("<f4", "=f4"), &[0; 8]),
            "found numbers of kind `=f4`, expected b1, u1, u2, u4, u8, i1, i2, i4, i8, f2, f4 or f8",
        ),
        (
            npy_file(&header.replace("'shape': (2,), ", ""), &[0; 8]),
            "found a header without all of descr, fortran_order and shape, expected each once",
        ),
        (
            npy_file(&header.replace("False", "0"), &[0; 8]),
            "found `0, 'shape': (2,), }` in the header, expected `True` or `False`",
        ),
        (
            npy_file(&header.replace("(2,)", "(-2,)"), &[0; 8]),
            "found `-2,), }` in the header, expected the size of an axis",
        ),
        (
            npy_file(&format!("{header}x"), &[0; 8]),
            "found `x` after the header's dictionary, expected blanks alone",
        ),
        (
            npy_file(&header.replace("(2,)", "(9999999999, 9999999999, 9999999999)"), &[]),
            "found the shape [9999999999, 9999999999, 9999999999], expected one that memory can hold",
        ),
        (b"\x93NUMPY\x09\x00\x00\x00".to_vec(), "found version 9 of the format, expected 1, 2 or 3"),
        (
            b"\x93NUMPY\x01\x00\xff\xff{".to_vec(),
            "found the end of the file inside the header, expected the 65535 bytes that it declares, 1 are there",
        ),
        (
            b"\x93NUMPY\x02\x00\x10".to_vec(),
            "found the end of the file inside the header, expected its length of 2 or 4 bytes",
        ),
        (
            b"\x93NUMPY\x01\x00\x03\x00{\xff}".to_vec(),
            "found the header `{\u{fffd}}`, expected UTF-8 text of a Python dictionary",
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(message(npy::read(&file)), (727, expected.to_owned()));
        assert!(npy::read(&file).expect_err("a fault").help.is_some(), "{expected}: what to do?");
    }
}

#[test]
fn safetensors_are_read_by_name() {
    let header = r#"{"x":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"labels":{"dtype":"I64","shape":[2],"data_offsets":[4,20]}}"#;
    let data = [0xc0, 0x3f, 0x00, 0xc0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let file = safetensors_file(header, &data);
    let (shape, features) =
        tensors::read(&file, "x").and_then(|array| array.features()).expect("a right file");
    assert_eq!((shape, features), (vec![2, 1], vec![1.5, -2.0]));
    let (shape, labels) =
        tensors::read(&file, "labels").and_then(|array| array.labels(Some(2))).expect("a right file");
    assert_eq!((shape, classes(&labels)), (vec![2], &[1, 0][..]));
    let fault = tensors::read(&file, "label").expect_err("no such name");
    assert_eq!((fault.code.0, fault.message.as_str()), (728, "found no tensor `label` among `labels`, `x`"));
    assert_eq!(fault.help.as_deref(), Some("did you mean `labels`?"));
    assert_eq!(message(tensors::read(&file[..file.len() - 1], "x")).0, 728);
    assert_eq!(message(tensors::read(b"text", "x")).0, 728);
}

#[test]
fn numbers_that_f32_cannot_hold_are_refused() {
    let inexact = npy_of("<i4", "(2, 1)", &[[0, 0, 0, 1], [1, 0, 0, 1]].concat());
    assert_eq!(
        message(npy::read(&inexact).and_then(|array| array.features())),
        (724, "found 16777217 at element 0 of example 1 (counted from 0), expected a finite number that f32 holds".to_owned())
    );
    for bits in [0x7ff8_0000_0000_0000_u64, 0x7ff0_0000_0000_0000, 1e300_f64.to_bits()] {
        let file = npy_of("<f8", "(1,)", &bits.to_le_bytes());
        assert_eq!(message(npy::read(&file).and_then(|array| array.features())).0, 724);
    }
    let largest = npy_of("<u8", "(1,)", &(1_u64 << 63).to_le_bytes());
    let (_, features) = npy::read(&largest).and_then(|array| array.features()).expect("a power of two");
    assert_eq!(features, [9_223_372_036_854_775_808.0]);
}

#[test]
fn a_label_outside_the_classes_is_named_with_its_example() {
    let file = idx_file(0x08, &[3], &[0, 1, 3]);
    let array = idx::read(&file).expect("a right file");
    assert_eq!(
        message(array.labels(Some(3))),
        (725, "found the label 3 for example 2 (counted from 0), expected an integer in 0..3".to_owned())
    );
    assert_eq!(classes(&array.labels(Some(4)).expect("inside").1), [0, 1, 3]);
    assert_eq!(array.labels(None).expect("targets"), (vec![3, 1], Labels::Targets(vec![0.0, 1.0, 3.0])));
    for (descr, data) in
        [("<f4", 0.5_f32.to_le_bytes()), ("<i4", (-1_i32).to_le_bytes()), ("<f4", f32::NAN.to_le_bytes())]
    {
        let file = npy_of(descr, "(1,)", &data);
        assert_eq!(message(npy::read(&file).and_then(|array| array.labels(Some(3)))).0, 725);
    }
    let column = npy_of("<f4", "(2, 1)", &[2.0_f32.to_le_bytes(), 0.0_f32.to_le_bytes()].concat());
    let (shape, labels) = npy::read(&column).and_then(|array| array.labels(Some(3))).expect("whole numbers");
    assert_eq!((shape, classes(&labels)), (vec![2], &[2, 0][..]));
}

#[test]
fn packed_bytes_are_told_by_their_start_and_have_a_limit() {
    let text = b"some text that is packed".repeat(100);
    let file = packed(&text);
    assert_eq!(gunzip::unpack(&file, 2400).expect("within the limit").as_ref(), text);
    assert_eq!(message(gunzip::unpack(&file, 2399)).0, 732);
    assert_eq!(gunzip::unpack(&text, 1).expect("not packed").as_ref(), text);
    let joined = [packed(b"ab"), packed(b"c")].concat();
    assert_eq!(gunzip::unpack(&joined, 9).expect("two members").as_ref(), b"abc");
    for cut in [1, 5, file.len() / 2] {
        assert_eq!(message(gunzip::unpack(&file[..file.len() - cut], 2400)).0, 722, "without the last {cut}");
    }
    let mut flipped = file;
    let last = flipped.len() - 5;
    flipped[last] ^= 1;
    assert_eq!(message(gunzip::unpack(&flipped, 2400)).0, 722, "another checksum");
}

#[test]
fn a_packed_idx_file_unpacks_to_what_it_declares_and_no_more() {
    let bomb = packed(&idx_file(0x08, &[4], &vec![0; 10_000_000]));
    assert_eq!(idx::limit(&bomb), 13);
    let fault = gunzip::unpack(&bomb, idx::limit(&bomb)).expect_err("a bomb");
    assert_eq!(told(&fault).0, 732);
    let honest = packed(&idx_file(0x08, &[4], &[1, 2, 3, 4]));
    assert_eq!(gunzip::unpack(&honest, idx::limit(&honest)).expect("whole").len(), 12);
}
