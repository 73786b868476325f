//! One picture: bytes of a file to pixels of an example, by what the file begins with and never by its name.
//!
//! Colours are taken as they stand in the file: profiles, gamma and the orientation of a camera are not applied, as Pillow
//! does not apply them unasked. Grey becomes RGB by repeating it; RGB becomes grey by the weights of ITU-R BT.601 in 16 bits,
//! as Pillow's `convert("L")` does. Transparency is dropped where every pixel is opaque and refused elsewhere, since what
//! lies behind a picture is nobody's to guess.

use super::resample::{in_proportion, middle, scale};
use super::{jpeg, png};
use crate::data::spec::{Fit, Images};
use crate::data::{DataFault, codes};
use crate::diag::number::counted;

/// Pixels of the largest picture: more than any camera of a data set, and less than what exhausts memory.
pub const MOST_PIXELS: usize = 1 << 27;

/// What to do about a damaged file.
pub(super) const FETCH_AGAIN: &str =
    "the file is damaged or cut off: fetch it again, or take it out of the folder";

/// A picture: \[height, width, channels\] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raster {
    /// Height and width.
    pub size: [usize; 2],
    /// 1 or 3.
    pub channels: usize,
    /// The pixels, channels fastest.
    pub pixels: Vec<u8>,
}

/// A picture that cannot be read.
pub(super) fn refuse(message: impl Into<String>) -> DataFault {
    DataFault::new(codes::PICTURE, message)
}

/// A file that ends too early.
pub(super) fn cut_off(bytes: &[u8]) -> DataFault {
    refuse(format!(
        "found the end of the file after {}, expected the end of the picture before it",
        counted(bytes.len(), "byte")
    ))
    .help(FETCH_AGAIN)
}

/// A picture of more pixels than are read.
pub(super) fn too_large([height, width]: [usize; 2]) -> DataFault {
    let message =
        format!("found a picture of {height}×{width} pixels, expected at most {MOST_PIXELS} pixels");
    DataFault::new(codes::TOO_LARGE, message).help("scale it down, or take it out of the folder")
}

/// Reads a picture with so many channels, 1 or 3.
///
/// # Errors
/// Codes 0742 (cannot be read) and 0732 (too many pixels).
pub fn decode(bytes: &[u8], channels: usize) -> Result<Raster, DataFault> {
    let raster = if bytes.starts_with(jpeg::MAGIC) {
        jpeg::read(bytes)?
    } else if bytes.starts_with(png::MAGIC) {
        png::read(bytes)?
    } else if bytes.is_empty() {
        return Err(refuse("found an empty file, expected a picture").help(FETCH_AGAIN));
    } else if jpeg::MAGIC.starts_with(bytes) || png::MAGIC.starts_with(bytes) {
        return Err(cut_off(bytes));
    } else {
        let found: Vec<String> = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        return Err(refuse(format!("found the first bytes {}, expected those of PNG or JPEG", found.join(" ")))
            .help("its name says that it is a picture, and it is none that is read: convert it to PNG, or take it out"));
    };
    Ok(match (raster.channels, channels) {
        (1, 3) => {
            Raster { channels, pixels: raster.pixels.iter().flat_map(|grey| [*grey; 3]).collect(), ..raster }
        }
        (3, 1) => {
            Raster { channels, pixels: raster.pixels.as_chunks::<3>().0.iter().map(grey).collect(), ..raster }
        }
        _ => raster,
    })
}

/// 0.299 R + 0.587 G + 0.114 B, in units of 2^-16, rounded.
fn grey([red, green, blue]: &[u8; 3]) -> u8 {
    let sum = 19_595 * u32::from(*red) + 38_470 * u32::from(*green) + 7_471 * u32::from(*blue);
    ((sum + 0x8000) >> 16) as u8
}

/// A picture as an example, \[channels, height, width\], of this size.
///
/// # Errors
/// Code 0729 for a picture that is smaller than what is cut out of it, or has another size when nothing says how to change
/// it; `first` is the picture whose size all others have to have then.
pub fn fitted(raster: &Raster, images: &Images, size: [usize; 2], first: &str) -> Result<Vec<u8>, DataFault> {
    let [height, width] = size;
    let unfit = |expected: String, help: String| {
        let [height, width] = raster.size;
        let message = format!("found a picture of {height}×{width} pixels, expected {expected}");
        Err(DataFault::new(codes::SHAPE, message).help(help))
    };
    let whole = match images.fit {
        _ if images.size.is_none() && raster.size != size => {
            return unfit(
                format!("{height}×{width} as `{first}` has"),
                format!("say what all are brought to: `size {height} {width}` in `data`"),
            );
        }
        Fit::Stretch => size,
        Fit::Centre { shorter: None } => raster.size,
        Fit::Centre { shorter: Some(shorter) } => in_proportion(raster.size, shorter),
    };
    if whole[0] < height || whole[1] < width {
        return unfit(
            format!("at least {height}×{width}, which is cut out of it"),
            format!(
                "scale all pictures before: `size {height} {width} resize={} crop=\"center\"`",
                height.max(width)
            ),
        );
    }
    let (top, left) = (middle(whole[0], height), middle(whole[1], width));
    let (rows, columns) = (top..top + height, left..left + width);
    let pixels = scale(&raster.pixels, raster.size, raster.channels, whole, rows, columns);
    Ok(planes(&pixels, raster.channels))
}

/// Channels last to channels first.
fn planes(pixels: &[u8], channels: usize) -> Vec<u8> {
    let plane = |channel| pixels.iter().skip(channel).step_by(channels).copied();
    (0..channels).flat_map(plane).collect()
}
