//! The frames of a TFRecord file: `length: u64, crc(length): u32, data, crc(data): u32`, little endian, checksums masked.

use super::crc32c::masked;

/// Adds a frame.
pub fn write(data: &[u8], out: &mut Vec<u8>) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend(length);
    out.extend(masked(&length).to_le_bytes());
    out.extend(data);
    out.extend(masked(data).to_le_bytes());
}
