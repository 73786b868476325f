//! CRC-32C, the checksum of iSCSI (RFC 3720, appendix B.4): polynomial 0x1EDC6F41, reflected, all ones before and after.

/// The polynomial with its bits reversed.
const REVERSED: u32 = 0x82f6_3b78;

/// What each byte does to the register.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            register = if register & 1 == 1 { register >> 1 ^ REVERSED } else { register >> 1 };
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

/// The checksum of bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |register: u32, byte: &u8| TABLE[usize::from(register as u8 ^ byte)] ^ register >> 8;
    !bytes.iter().fold(u32::MAX, step)
}

/// The checksum as TFRecord stores it: rotated right by 15 bits and moved by a constant, since the checksum of a text that holds
/// its own checksum says little.
pub fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
