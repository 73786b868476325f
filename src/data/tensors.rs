//! Safetensors: named arrays in one file, read with the crate of that name, which checks that offsets are within the
//! file and do not overlap.
//!
//! Invariant: a name that is not there is answered with the names that are, in order.

use super::array::{Array, Number};
use super::{DataFault, codes};
use crate::diag::nearest;
use safetensors::{Dtype, SafeTensors};

/// Reads one array of a file.
///
/// # Errors
/// Code 0728 with what was found and what was expected.
pub fn read<'a>(bytes: &'a [u8], name: &str) -> Result<Array<'a>, DataFault> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| {
        refuse(format!("found damaged safetensors ({error}), expected a whole file")).help(
            "is this a safetensors file? `format` says how a source is read; fetch it again if it is one",
        )
    })?;
    let Ok(tensor) = file.tensor(name) else {
        let mut names = file.names();
        names.sort_unstable();
        let listed: Vec<String> =
            names.iter().take(20).map(|known| format!("`{}`", known.escape_debug())).collect();
        let more = if names.len() > 20 { ", …" } else { "" };
        let message = format!("found no tensor `{name}` among {}{more}", listed.join(", "));
        return Err(match nearest(name, names.iter().copied()) {
            Some(near) => refuse(message).help(format!("did you mean `{near}`?")),
            None => refuse(message).help("name one of them in `format`: `features=\"…\"` and `labels=\"…\"`"),
        });
    };
    let number = match tensor.dtype() {
        Dtype::BOOL => Number::Bool,
        Dtype::U8 => Number::U8,
        Dtype::I8 => Number::I8,
        Dtype::U16 => Number::U16,
        Dtype::I16 => Number::I16,
        Dtype::U32 => Number::U32,
        Dtype::I32 => Number::I32,
        Dtype::U64 => Number::U64,
        Dtype::I64 => Number::I64,
        Dtype::F16 => Number::F16,
        Dtype::BF16 => Number::Bf16,
        Dtype::F32 => Number::F32,
        Dtype::F64 => Number::F64,
        other => {
            return Err(refuse(format!(
                "found `{name}` with numbers of kind {other}, expected integers, BOOL, F16, BF16, F32 or F64"
            ))
            .help("convert the tensor before it is saved"));
        }
    };
    if tensor.shape().is_empty() {
        return Err(refuse(format!(
            "found the single number `{name}`, expected an array with the examples as first axis"
        ))
        .help("save an array of all examples under that name"));
    }
    // `data` borrows from the file's bytes, not from the reader of its header.
    Ok(Array {
        shape: tensor.shape().to_vec(),
        number,
        big_endian: false,
        columns_first: false,
        bytes: tensor.data(),
    })
}

fn refuse(message: impl Into<String>) -> DataFault {
    DataFault::new(codes::SAFETENSORS, message)
}
