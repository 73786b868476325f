//! PNG (ISO/IEC 15948), 1 to 8 bits for each colour, interlaced or not.
//!
//! The format is lossless, so that the pixels are those that were written, whoever reads it; fewer than 8 bits are spread
//! over the range of a byte, palettes are looked up. Invariant: every checksum of a file was compared, and its end was found.

use super::decode::{FETCH_AGAIN, MOST_PIXELS, Raster, cut_off, refuse, too_large};
use crate::data::DataFault;
use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};
use std::io::Cursor;

/// What every file begins with.
pub const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Reads a picture.
///
/// # Errors
/// Codes 0742 (cannot be read) and 0732 (too many pixels).
pub fn read(bytes: &[u8]) -> Result<Raster, DataFault> {
    let damaged = |error: DecodingError| match error {
        DecodingError::IoError(_) => cut_off(bytes),
        error => refuse(format!("found a damaged PNG file: {}", error.to_string().trim_end_matches('.')))
            .help(FETCH_AGAIN),
    };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: 1 << 26 });
    decoder.ignore_checksums(false);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = [reader.info().height as usize, reader.info().width as usize];
    if size[0].saturating_mul(size[1]) > MOST_PIXELS {
        return Err(too_large(size));
    }
    if reader.info().bit_depth == BitDepth::Sixteen {
        return Err(refuse("found 16 bits for each colour, expected 8 or fewer")
            .help("save it with 8 bits, for example with `magick old.png -depth 8 new.png`"));
    }
    let (kind, _) = reader.output_color_type();
    let mut pixels = vec![0; reader.output_buffer_size().ok_or_else(|| too_large(size))?];
    reader.next_frame(&mut pixels).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    match kind {
        ColorType::Grayscale => Ok(Raster { size, channels: 1, pixels }),
        ColorType::Rgb => Ok(Raster { size, channels: 3, pixels }),
        ColorType::GrayscaleAlpha => opaque::<2>(size, &pixels),
        ColorType::Rgba => opaque::<4>(size, &pixels),
        ColorType::Indexed => Err(refuse("found a palette that is not there").help(FETCH_AGAIN)),
    }
}

/// Drops the last of `N` channels when it is 255 everywhere.
fn opaque<const N: usize>(size: [usize; 2], pixels: &[u8]) -> Result<Raster, DataFault> {
    let pixels = pixels.as_chunks::<N>().0;
    if let Some(found) = pixels.iter().position(|pixel| pixel[N - 1] != 255) {
        let (row, column) = (found / size[1], found % size[1]);
        let message = format!(
            "found a transparent pixel in row {row}, column {column} (counted from 0), expected opaque ones"
        );
        return Err(refuse(message).help(
            "put it on a background, for example with `magick old.png -background white -flatten new.png`",
        ));
    }
    let pixels = pixels.iter().flat_map(|pixel| &pixel[..N - 1]).copied().collect();
    Ok(Raster { size, channels: N - 1, pixels })
}
