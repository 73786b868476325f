//! IDX, the format of MNIST: two zero bytes, the kind of number, the count of axes, each axis as 32 bits big endian,
//! then the numbers, big endian, the last axis fastest (LeCun, "The MNIST database of handwritten digits").
//!
//! Invariant: the count of bytes is exactly what the header declares; one missing or one too many is a fault.

use super::array::{Array, Number, bytes_of_shape};
use super::{DataFault, codes, gunzip};
use crate::diag::number::counted;

/// Reads the array of a file.
///
/// # Errors
/// Code 0726 with what was found and what was expected.
pub fn read(bytes: &[u8]) -> Result<Array<'_>, DataFault> {
    let (number, shape, start) = header(bytes)?;
    let found = bytes.len() - start;
    match bytes_of_shape(&shape, number) {
        Some(expected) if expected == found => {
            Ok(Array { shape, number, big_endian: true, columns_first: false, bytes: &bytes[start..] })
        }
        Some(expected) => Err(refuse(format!(
            "found {found} of numbers, expected {expected} for the declared shape {shape:?}",
            found = counted(found, "byte")
        ))
        .help("the file is cut off, or two files were joined; fetch it again")),
        None => Err(refuse(format!("found the shape {shape:?}, expected one that memory can hold"))),
    }
}

/// How many bytes a packed file may unpack to: what its header declares, and one to tell a longer one.
pub fn limit(packed: &[u8]) -> u64 {
    let start = gunzip::unpack_start(packed, 4 + 4 * 255);
    let declared = header(&start).ok().and_then(|(number, shape, start)| {
        bytes_of_shape(&shape, number)?.checked_add(start)?.checked_add(1)
    });
    declared.map_or(gunzip::LIMIT, |declared| (declared as u64).min(gunzip::LIMIT))
}

/// The kind of number, the shape, and where the numbers begin.
fn header(bytes: &[u8]) -> Result<(Number, Vec<usize>, usize), DataFault> {
    let [0, 0, kind, axes, rest @ ..] = bytes else {
        let found: Vec<String> = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let found = match found.is_empty() {
            true => "an empty file".to_owned(),
            false => format!("the first bytes {}", found.join(" ")),
        };
        return Err(refuse(format!("found {found}, expected 00 00, a kind of number, a count of axes"))
            .help("is this an IDX file? `format` says how a source is read; fetch it again if it is one"));
    };
    let number = match kind {
        0x08 => Number::U8,
        0x09 => Number::I8,
        0x0b => Number::I16,
        0x0c => Number::I32,
        0x0d => Number::F32,
        0x0e => Number::F64,
        _ => {
            return Err(refuse(format!(
                "found the kind of number {kind:#04x}, expected 0x08, 0x09, 0x0b, 0x0c, 0x0d or 0x0e"
            )));
        }
    };
    let axes = usize::from(*axes);
    if axes == 0 {
        return Err(refuse("found an array without axes, expected the examples as first axis".to_owned()));
    }
    let Some(sizes) = rest.get(..4 * axes) else {
        return Err(refuse(format!(
            "found {} bytes after the first four, expected {} for {axes} axes",
            rest.len(),
            4 * axes
        ))
        .help("the file is cut off; fetch it again"));
    };
    let shape = sizes.as_chunks::<4>().0.iter().map(|size| u32::from_be_bytes(*size) as usize).collect();
    Ok((number, shape, 4 + 4 * axes))
}

/// A fault with the help that fits damaged bytes; what has a better one replaces it.
fn refuse(message: String) -> DataFault {
    DataFault::new(codes::IDX, message)
        .help("the file is damaged, or is no IDX file: fetch it again, or say what it is with `format`")
}
