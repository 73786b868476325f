//! JPEG (ITU-T T.81), baseline and progressive, one or three components of 8 bits.
//!
//! What the format leaves open is decided by the pinned decoder: integers alone, no vector instructions, one thread, so that
//! the pixels are one on every machine ([`JPEG_DECODER`](crate::data::spec::JPEG_DECODER) is in the digest of what is
//! prepared). Marker segments are walked here before, since decoders fill up what is missing: a file without its end is
//! refused, and so is every kind that is not named above. Invariant: no bytes make a reader panic; a decoder that does is
//! a file that cannot be read.

use super::decode::{MOST_PIXELS, Raster, cut_off, refuse, too_large};
use crate::data::DataFault;
use crate::diag::number::counted;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// What every file begins with.
pub const MAGIC: &[u8] = &[0xff, 0xd8, 0xff];

/// Saves a picture as a kind that is read.
const SAVE_AGAIN: &str =
    "save it as baseline JPEG or as PNG, for example with `magick old.jpg -colorspace sRGB new.png`";

/// What a frame's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    size: [usize; 2],
    components: u8,
}

/// Reads a picture.
///
/// # Errors
/// Codes 0742 (cannot be read) and 0732 (too many pixels).
pub fn read(bytes: &[u8]) -> Result<Raster, DataFault> {
    let frame = walk(bytes)?;
    let [height, width] = frame.size;
    if height * width > MOST_PIXELS {
        return Err(too_large(frame.size));
    }
    let (channels, space) = match frame.components {
        1 => (1, ColorSpace::Luma),
        _ => (3, ColorSpace::RGB),
    };
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_use_unsafe(false)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(space);
    let damaged =
        |what: String| refuse(format!("found a damaged JPEG file: {what}")).help(super::decode::FETCH_AGAIN);
    // A decoder of somebody else's: what it cannot cope with is a fault of the file and never the end of the process.
    let decoded =
        std::panic::catch_unwind(|| JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode());
    match decoded {
        Ok(Ok(pixels)) if pixels.len() == height * width * channels => {
            Ok(Raster { size: frame.size, channels, pixels })
        }
        Ok(Ok(pixels)) => Err(damaged(format!("it decodes to {} bytes of pixels", pixels.len()))),
        Ok(Err(error)) => Err(damaged(error.to_string().trim_end_matches('.').to_owned())),
        Err(_) => Err(damaged("it cannot be decoded".to_owned())),
    }
}

/// Walks the marker segments up to the end of the picture; what comes behind that is no part of it.
fn walk(bytes: &[u8]) -> Result<Frame, DataFault> {
    let mut frame = None;
    let mut has_scan = false;
    let mut at = 2;
    loop {
        let marker = next_marker(bytes, &mut at, has_scan)?;
        match marker {
            0xd9 => break,
            0x01 | 0xd0..=0xd7 => continue,
            0x00 | 0xd8 => {
                return Err(refuse(format!(
                    "found the marker ff{marker:02x} at byte {}, expected a segment",
                    at - 2
                ))
                .help(super::decode::FETCH_AGAIN));
            }
            _ => {}
        }
        let segment = bytes
            .get(at..)
            .and_then(|rest| rest.split_first_chunk::<2>())
            .and_then(|(length, rest)| rest.get(..usize::from(u16::from_be_bytes(*length)).checked_sub(2)?));
        let segment = segment.ok_or_else(|| cut_off(bytes))?;
        at += 2 + segment.len();
        match marker {
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xc2 if frame.is_none() => frame = Some(header(segment)?),
            0xc0..=0xcf => return Err(other_process(marker)),
            0xda => has_scan = true,
            _ => {}
        }
    }
    frame.filter(|_| has_scan).ok_or_else(|| {
        refuse("found the end of the picture, expected a frame and a scan before it")
            .help(super::decode::FETCH_AGAIN)
    })
}

/// The next marker, and its end; coded data before it is passed over where there may be some.
fn next_marker(bytes: &[u8], at: &mut usize, has_scan: bool) -> Result<u8, DataFault> {
    loop {
        let rest = bytes.get(*at..).unwrap_or_default();
        let Some(distance) = rest.iter().position(|byte| *byte == 0xff) else { return Err(cut_off(bytes)) };
        if distance > 0 && !has_scan {
            return Err(refuse(format!("found the byte {:02x} at byte {at}, expected a marker", rest[0]))
                .help(super::decode::FETCH_AGAIN));
        }
        let Some(fill) = rest[distance..].iter().position(|byte| *byte != 0xff) else {
            return Err(cut_off(bytes));
        };
        let marker = rest[distance + fill];
        *at += distance + fill + 1;
        // Coded data has ff00 for a byte ff.
        if marker != 0 || !has_scan {
            return Ok(marker);
        }
    }
}

/// The header of a frame.
fn header(segment: &[u8]) -> Result<Frame, DataFault> {
    let [bits, height_high, height_low, width_high, width_low, components, ..] = segment else {
        return Err(refuse(format!("found a frame of {} bytes, expected 8 or more", segment.len()))
            .help(super::decode::FETCH_AGAIN));
    };
    let side = |high: &u8, low: &u8| usize::from(u16::from_be_bytes([*high, *low]));
    let size = [side(height_high, height_low), side(width_high, width_low)];
    if *bits != 8 {
        return Err(
            refuse(format!("found {} for each colour, expected 8", counted(*bits, "bit"))).help(SAVE_AGAIN)
        );
    }
    if size.contains(&0) {
        let [height, width] = size;
        return Err(refuse(format!(
            "found a picture of height {height} and width {width}, expected at least one pixel"
        ))
        .help(SAVE_AGAIN));
    }
    match components {
        1 | 3 => Ok(Frame { size, components: *components }),
        4 => Err(refuse("found four inks (CMYK), expected shades of grey or RGB").help(SAVE_AGAIN)),
        other => Err(refuse(format!("found {other} colours, expected one or three")).help(SAVE_AGAIN)),
    }
}

/// A process of the format that is not read.
fn other_process(marker: u8) -> DataFault {
    let what = match marker {
        0xc0..=0xc2 => "a second frame",
        0xc3 => "a lossless JPEG",
        0xc5..=0xc7 => "a hierarchical JPEG",
        _ => "a JPEG with arithmetic coding",
    };
    refuse(format!("found {what}, expected a baseline or progressive one")).help(SAVE_AGAIN)
}
