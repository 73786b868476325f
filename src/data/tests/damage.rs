//! Damaged and arbitrary bytes: every reader answers with a fault or a table, and never panics.

use super::super::csv::{Rules, read};
use super::super::spec::{Header, LabelColumn};
use super::super::{gunzip, idx, npy, tensors};
use super::arrays::{idx_file, npy_file, packed, safetensors_file};
use proptest::prelude::*;

/// Right files of every format.
fn right_files() -> Vec<Vec<u8>> {
    let header = r#"{"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"y":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}}"#;
    let mut files = vec![
        b"name,\"a \"\"b\"\"\",label\n1,2.5,0\n-3,\"4\",1\r\n".to_vec(),
        idx_file(0x08, &[2, 3], &[1, 2, 3, 4, 5, 6]),
        idx_file(0x0d, &[1, 2], &[0x3f, 0x80, 0, 0, 0, 0, 0, 0]),
        npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }\n", &[0; 8]),
        npy_file("{'descr': '>i8', 'fortran_order': False, 'shape': (1,)}", &[0; 8]),
        safetensors_file(header, &[0; 16]),
    ];
    let packed_files: Vec<_> = files.iter().map(|file| packed(file)).collect();
    files.extend(packed_files);
    files
}

/// Gives bytes to every reader and everything behind it.
fn read_all(bytes: &[u8]) {
    for label in [LabelColumn::Last, LabelColumn::Index(1), LabelColumn::Name("label".to_owned())] {
        for header in [Header::Yes, Header::No, Header::Auto] {
            for classes in [Some(2), None] {
                let rules = Rules { header, delimiter: ',', label: &label, classes };
                if let Ok(table) = read(bytes, "x", rules) {
                    assert_eq!(table.features.len(), table.length * table.width());
                }
            }
        }
    }
    for array in [idx::read(bytes), npy::read(bytes), tensors::read(bytes, "x"), tensors::read(bytes, "y")]
        .into_iter()
        .flatten()
    {
        let count: usize = array.shape.iter().product();
        if let Ok((shape, features)) = array.features() {
            assert_eq!((shape, features.len()), (array.shape.clone(), count));
        }
        for classes in [Some(3), None] {
            if let Ok((_, labels)) = array.labels(classes) {
                assert_eq!(labels.len(), count);
            }
        }
    }
    let limit = idx::limit(bytes);
    assert!(limit <= gunzip::LIMIT);
    if gunzip::is_packed(bytes) {
        for limit in [limit.min(1 << 16), 1 << 16] {
            if let Ok(unpacked) = gunzip::unpack(bytes, limit) {
                assert!(unpacked.len() as u64 <= limit);
                read_all(&unpacked);
            }
        }
    }
}

#[test]
fn right_files_are_read_by_their_reader() {
    let files = right_files();
    let label = LabelColumn::Last;
    let rules = Rules { header: Header::Auto, delimiter: ',', label: &label, classes: Some(2) };
    assert_eq!(read(&files[0], "x", rules).expect("a right file").length, 2);
    for file in &files[1..3] {
        idx::read(file).expect("a right file");
    }
    for file in &files[3..5] {
        npy::read(file).expect("a right file");
    }
    tensors::read(&files[5], "x").expect("a right file");
    files.iter().for_each(|file| read_all(file));
}

#[test]
fn files_cut_anywhere_are_survived() {
    for file in right_files() {
        (0..file.len()).for_each(|length| read_all(&file[..length]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn arbitrary_text_is_survived(text in "[0-9a-z,;.\"\n\r eE+-]{0,80}") {
        read_all(text.as_bytes());
    }

    #[test]
    fn changed_files_are_survived(
        which in 0_usize..12,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..6),
    ) {
        let mut file = right_files().swap_remove(which);
        for (place, byte, change) in changes {
            if file.is_empty() {
                break;
            }
            let place = place.index(file.len());
            match change {
                0 => file[place] = byte,
                1 => file.insert(place, byte),
                _ => { file.remove(place); }
            }
        }
        read_all(&file);
    }

    #[test]
    fn written_numbers_come_back_bit_for_bit(
        rows in proptest::collection::vec((any::<f32>(), any::<f32>(), 0_u8..2, any::<bool>()), 1..20),
    ) {
        prop_assume!(rows.iter().all(|row| row.0.is_finite() && row.1.is_finite()));
        let text: String = rows
            .iter()
            .map(|(a, b, class, quoted)| if *quoted { format!("\"{a}\",{class},\"{b:e}\"\r\n") } else { format!("{a:e},{class}, {b} \n") })
            .collect();
        let label = LabelColumn::Index(1);
        let rules = Rules { header: Header::No, delimiter: ',', label: &label, classes: Some(2) };
        let table = read(text.as_bytes(), "x", rules).expect("a right file");
        let bits: Vec<u32> = table.features.iter().map(|feature| feature.to_bits()).collect();
        let expected: Vec<u32> = rows.iter().flat_map(|row| [row.0.to_bits(), row.1.to_bits()]).collect();
        prop_assert_eq!(bits, expected);
    }
}
