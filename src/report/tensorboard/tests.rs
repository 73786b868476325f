//! Checksums against the vectors of RFC 3720, frames and fields against a reader of their own.

use super::crc32c::{crc32c, masked};
use super::{file, file_name, frame};
use crate::report::page::tests::{evaluation, finished, record, step};

#[test]
fn checksums_are_those_of_rfc_3720() {
    // Appendix B.4, "CRC Examples"; the bytes there are in the order of transmission, the lowest first.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    let up: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&up), 0x46dd_794e);
    let down: Vec<u8> = (0..32).rev().collect();
    assert_eq!(crc32c(&down), 0x113f_db5c);
    let mut read_10 =
        vec![0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14];
    read_10.extend([0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(crc32c(&read_10), 0xd996_3a56);
    // The check value of the catalogue of parametrised CRC algorithms.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn the_mask_is_a_rotation_and_a_sum() {
    // crc32c("") is 0: rotated it is 0, and the constant is left.
    assert_eq!(masked(b""), 0xa282_ead8);
    // 0xe3069283 by 15 bits to the right is 0x2507c60d; the sum is 0xc78ab0e5.
    assert_eq!(masked(b"123456789"), 0xc78a_b0e5);
}

/// The data of the frames; what does not fit is a fault.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_at(8);
        let (sum, rest) = rest.split_at(4);
        assert_eq!(sum, masked(length).to_le_bytes());
        let count = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
        let (data, rest) = rest.split_at(count);
        let (sum, rest) = rest.split_at(4);
        assert_eq!(sum, masked(data).to_le_bytes());
        out.push(data.to_vec());
        bytes = rest;
    }
    out
}

/// A field of a message: number and content; a fixed or variable number as eight bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let varint = |bytes: &mut &[u8]| {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let (byte, rest) = bytes.split_first().expect("a byte");
            *bytes = rest;
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if *byte < 128 {
                return value;
            }
        }
    };
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let content = match key & 7 {
            0 => varint(&mut bytes).to_le_bytes().to_vec(),
            kind => {
                let count = match kind {
                    1 => 8,
                    5 => 4,
                    2 => varint(&mut bytes) as usize,
                    other => panic!("a field of kind {other}"),
                };
                let (content, rest) = bytes.split_at(count);
                bytes = rest;
                content.to_vec()
            }
        };
        out.push((key >> 3, content));
    }
    out
}

fn only(fields: &[(u64, Vec<u8>)], number: u64) -> Vec<u8> {
    let found: Vec<_> = fields.iter().filter(|(field, _)| *field == number).collect();
    assert_eq!(found.len(), 1, "field {number} in {fields:?}");
    found[0].1.clone()
}

#[test]
fn a_frame_is_length_checksum_data_checksum() {
    let mut bytes = Vec::new();
    frame::write(b"123456789", &mut bytes);
    assert_eq!(bytes.len(), 8 + 4 + 9 + 4);
    assert_eq!(bytes[..8], [9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[21..], 0xc78a_b0e5_u32.to_le_bytes());
    assert_eq!(frames(&bytes), [b"123456789".to_vec()]);
}

#[test]
fn a_file_holds_the_numbers_of_the_record() {
    let mut events = vec![step(1, 2.5), step(300, f32::NAN)];
    events[0].unhashed.insert("seconds".to_owned(), serde_json::json!(0.5));
    events[1].unhashed.insert("seconds".to_owned(), serde_json::json!(2.0));
    events.push(evaluation(300, "test", 0.75));
    events.push(finished(300));
    let mut record = record(events);
    record.unhashed.insert("started_at".to_owned(), serde_json::json!(1_700_000_000));
    let name = file_name(&record);
    assert!(name.starts_with("events.out.tfevents.1700000000."), "{name}");
    let frames = frames(&file(&record));
    assert_eq!(frames.len(), 4, "the version, two steps and an evaluation");
    assert_eq!(only(&fields(&frames[0]), 3), b"brain.Event:2");
    let second = fields(&frames[2]);
    assert_eq!(only(&second, 1), 1_700_000_002.0_f64.to_le_bytes());
    assert_eq!(only(&second, 2), 300_u64.to_le_bytes());
    let values: Vec<_> = fields(&only(&second, 5)).into_iter().map(|(_, value)| fields(&value)).collect();
    let tags: Vec<String> =
        values.iter().map(|value| String::from_utf8(only(value, 1)).expect("a tag")).collect();
    assert_eq!(
        tags,
        ["train/loss", "train/learning_rate", "train/gradient_norm", "train/loss_scale", "train/skipped"]
    );
    let number = |bytes: Vec<u8>| f32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    assert!(number(only(&values[0], 2)).is_nan());
    assert_eq!(only(&fields(&only(&values[0], 9)), 1), [&[10, 7][..], b"scalars"].concat());
    let evaluated = fields(&only(&fields(&frames[3]), 5));
    let value = fields(&evaluated[0].1);
    assert_eq!((only(&value, 1), number(only(&value, 2))), (b"test/accuracy".to_vec(), 0.75));
}
