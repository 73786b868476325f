//! Unpacking gzip, with a limit, so that a small file cannot fill the memory.
//!
//! Packed files are told by their first two bytes, not by their name. Invariant: at most the limit plus one byte is
//! ever unpacked.

use super::{DataFault, codes};
use crate::diag::number::counted;
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::io::Read as _;

/// Unpacked bytes that a source may have unless its header declares fewer: 4 GiB.
pub const LIMIT: u64 = 4 << 30;

/// True when the bytes begin as gzip does (RFC 1952).
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// The unpacked bytes; bytes that are not packed are returned as they are.
///
/// # Errors
/// Code 0722 for damaged bytes, 0732 for more than `limit` unpacked bytes.
pub fn unpack(bytes: &[u8], limit: u64) -> Result<Cow<'_, [u8]>, DataFault> {
    if !is_packed(bytes) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut unpacked = Vec::new();
    let outcome = MultiGzDecoder::new(bytes).take(limit.saturating_add(1)).read_to_end(&mut unpacked);
    if let Err(error) = outcome {
        return Err(DataFault::new(
            codes::GZIP,
            format!(
                "found damaged gzip after {} ({error}), expected a whole file",
                counted(unpacked.len(), "unpacked byte")
            ),
        )
        .help("the file is cut off or changed; fetch it again"));
    }
    if unpacked.len() as u64 > limit {
        return Err(DataFault::new(
            codes::TOO_LARGE,
            format!("found {} packed bytes that unpack to more than {limit} bytes, expected at most that", bytes.len()),
        )
        .help("a file that unpacks to more than it declares is damaged or hostile; unpack a large honest one by hand"));
    }
    Ok(Cow::Owned(unpacked))
}

/// At most the first `count` unpacked bytes; fewer when there are not as many or they are damaged.
pub fn unpack_start(bytes: &[u8], count: usize) -> Vec<u8> {
    let mut start = Vec::new();
    if is_packed(bytes) {
        // An error here is found again, and told, when the whole is unpacked.
        let _ = MultiGzDecoder::new(bytes).take(count as u64).read_to_end(&mut start);
    } else {
        start.extend_from_slice(&bytes[..bytes.len().min(count)]);
    }
    start
}
