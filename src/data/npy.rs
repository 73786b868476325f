//! NPY, NumPy's format for one array, versions 1 to 3 (NumPy Enhancement Proposal 1 and `numpy.lib.format`).
//!
//! The header is the text of a Python dictionary with exactly three keys; the few forms that NumPy writes are read
//! here, nothing is evaluated. Invariant: the count of bytes is exactly what the header declares.

use super::array::{Array, Number, bytes_of_shape};
use super::fault::shown;
use super::{DataFault, codes};
use crate::diag::number::counted;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads the array of a file.
///
/// # Errors
/// Code 0727 with what was found and what was expected.
pub fn read(bytes: &[u8]) -> Result<Array<'_>, DataFault> {
    let (text, data) = parts(bytes)?;
    let header = Header::parse(text)?;
    let (number, big_endian) = kind(&header.descr)?;
    if header.shape.is_empty() {
        return Err(refuse("found a single number, expected an array with the examples as first axis")
            .help("save an array of all examples, such as `numpy.stack(examples)`"));
    }
    match bytes_of_shape(&header.shape, number) {
        Some(expected) if expected == data.len() => Ok(Array {
            shape: header.shape,
            number,
            big_endian,
            columns_first: header.fortran_order,
            bytes: data,
        }),
        Some(expected) => Err(refuse(format!(
            "found {} of numbers, expected {expected} for the declared shape {:?}",
            counted(data.len(), "byte"),
            header.shape
        ))
        .help("the file is cut off or has more than one array; save it again with `numpy.save`")),
        None => Err(refuse(format!("found the shape {:?}, expected one that memory can hold", header.shape))
            .help("the header is damaged; save the array again with `numpy.save`, in several files if it is that large")),
    }
}

/// The text of the header and the bytes after it.
fn parts(bytes: &[u8]) -> Result<(&str, &[u8]), DataFault> {
    let Some([major, _minor, rest @ ..]) = bytes.strip_prefix(MAGIC) else {
        return Err(refuse(format!(
            "found the first bytes {}, expected `\\x93NUMPY` and a version",
            shown(&bytes[..bytes.len().min(8)])
        ))
        .help("save the array with `numpy.save`; `.npz` files hold several arrays and are not read"));
    };
    let length = match (major, rest) {
        (1, [a, b, ..]) => Some((usize::from(u16::from_le_bytes([*a, *b])), 2)),
        (2 | 3, [a, b, c, d, ..]) => Some((u32::from_le_bytes([*a, *b, *c, *d]) as usize, 4)),
        (1..=3, _) => None,
        _ => return Err(refuse(format!("found version {major} of the format, expected 1, 2 or 3"))),
    };
    let (header, data) =
        length.and_then(|(length, start)| rest.get(start..)?.split_at_checked(length)).ok_or_else(|| {
            let found = rest.len();
            let expected = match length {
                Some((length, start)) => {
                    format!("the {length} bytes that it declares, {} are there", found - start)
                }
                None => "its length of 2 or 4 bytes".to_owned(),
            };
            refuse(format!("found the end of the file inside the header, expected {expected}"))
                .help("the file is cut off; fetch it again, or save the array again with `numpy.save`")
        })?;
    let text = std::str::from_utf8(header).map_err(|_| {
        refuse(format!("found the header {}, expected UTF-8 text of a Python dictionary", shown(header)))
    })?;
    Ok((text, data))
}

/// The three values of a header.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Result<Self, DataFault> {
        let mut reader = Reader { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        reader.expect('{')?;
        while !reader.take('}') {
            let key = reader.string()?;
            reader.expect(':')?;
            match key {
                "descr" if descr.is_none() => descr = Some(reader.string()?.to_owned()),
                "fortran_order" if fortran_order.is_none() => fortran_order = Some(reader.boolean()?),
                "shape" if shape.is_none() => shape = Some(reader.shape()?),
                _ => {
                    return Err(refuse(format!(
                        "found the key {} in the header, expected descr, fortran_order and shape, once each",
                        shown(key.as_bytes())
                    )));
                }
            }
            if !reader.take(',') {
                reader.expect('}')?;
                break;
            }
        }
        if !reader.rest.trim().is_empty() {
            return Err(refuse(format!(
                "found {} after the header's dictionary, expected blanks alone",
                shown(reader.rest.trim().as_bytes())
            )));
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok(Self { descr, fortran_order, shape }),
            _ => Err(refuse(
                "found a header without all of descr, fortran_order and shape, expected each once",
            )),
        }
    }
}

/// Reads the Python literals that occur in a header.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, wanted: char) -> bool {
        match self.rest.trim_start().strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), DataFault> {
        if self.take(wanted) { Ok(()) } else { Err(self.unexpected(&format!("`{wanted}`"))) }
    }

    fn string(&mut self) -> Result<&'a str, DataFault> {
        let trimmed = self.rest.trim_start();
        let Some(quote) = trimmed.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
            return Err(self.unexpected("a text in quotes").help(
                "arrays of records and of Python objects are not read; save one plain array of numbers for the features and one for the labels",
            ));
        };
        match trimmed[1..].split_once(quote) {
            Some((text, rest)) => {
                self.rest = rest;
                Ok(text)
            }
            None => Err(self.unexpected("a closing quote")),
        }
    }

    fn boolean(&mut self) -> Result<bool, DataFault> {
        let trimmed = self.rest.trim_start();
        for (text, value) in [("True", true), ("False", false)] {
            if let Some(rest) = trimmed.strip_prefix(text) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.unexpected("`True` or `False`"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, DataFault> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            let trimmed = self.rest.trim_start();
            let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
            match trimmed[..digits].parse() {
                Ok(size) => shape.push(size),
                Err(_) => return Err(self.unexpected("the size of an axis")),
            }
            // Python 2 wrote long integers with an L.
            self.rest = trimmed[digits..].strip_prefix('L').unwrap_or(&trimmed[digits..]);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn unexpected(&self, wanted: &str) -> DataFault {
        refuse(format!("found {} in the header, expected {wanted}", shown(self.rest.trim_start().as_bytes())))
    }
}

/// The kind of number that a `descr` names, and whether its bytes are big endian.
fn kind(descr: &str) -> Result<(Number, bool), DataFault> {
    let unknown = || {
        refuse(format!(
            "found numbers of kind {}, expected b1, u1, u2, u4, u8, i1, i2, i4, i8, f2, f4 or f8",
            shown(descr.as_bytes())
        ))
        .help("convert the array, for example with `array.astype(\"<f4\")`, and save it again")
    };
    let mut characters = descr.chars();
    let order = characters.next().ok_or_else(unknown)?;
    let number = match characters.as_str() {
        "b1" => Number::Bool,
        "u1" => Number::U8,
        "u2" => Number::U16,
        "u4" => Number::U32,
        "u8" => Number::U64,
        "i1" => Number::I8,
        "i2" => Number::I16,
        "i4" => Number::I32,
        "i8" => Number::I64,
        "f2" => Number::F16,
        "f4" => Number::F32,
        "f8" => Number::F64,
        _ => return Err(unknown()),
    };
    match order {
        '<' => Ok((number, false)),
        '>' => Ok((number, true)),
        '|' if number.size() == 1 => Ok((number, false)),
        // `=` is the byte order of whichever machine wrote the file, which nothing here can know.
        _ => Err(unknown()),
    }
}

/// A fault with the help that fits damaged bytes; what has a better one replaces it.
fn refuse(message: impl Into<String>) -> DataFault {
    DataFault::new(codes::NPY, message).help(
        "the file is damaged, or NumPy did not write it: fetch it again, or save the array with `numpy.save`",
    )
}
