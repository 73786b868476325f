//! Folders of pictures: scaling against Pillow's recorded bytes, decoding, damaged files, layouts of folders, notes.
#![expect(
    clippy::disallowed_methods,
    reason = "pictures are read from the source tree, and folders are made on the disk"
)]

use super::*;
use crate::data::spec::{Fit, Format, LabelRule, LastBatch, Normalise, Over, Part, Sources};
use crate::data::{Draw, Origin, Prepared, SplitView, Values, at_a_glance, prepare, recheck};
use crate::store::Store;
use crate::world::{Disk, Memory};
use std::fs;

mod folders;

/// A file of `tests/pictures`.
fn file(name: &str) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures");
    fs::read(folder.join(name)).expect("a file of the tests")
}

fn text(name: &str) -> String {
    String::from_utf8(file(name)).expect("text")
}

fn from_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal"))
        .collect()
}

/// The picture that `tests/pictures/pillow.py` calls `picture`.
fn picture([height, width]: [usize; 2], channels: usize) -> Raster {
    let colour =
        |x: usize, y: usize, channel: usize| ((x * x * 7 + y * 13 + channel * 50 + x * y * 3) % 256) as u8;
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            pixels.extend((0..channels).map(|channel| colour(x, y, channel)));
        }
    }
    Raster { size: [height, width], channels, pixels }
}

/// The file of a picture.
fn encoded(raster: &Raster) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, raster.size[1] as u32, raster.size[0] as u32);
    encoder.set_color(if raster.channels == 3 { ::png::ColorType::Rgb } else { ::png::ColorType::Grayscale });
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&raster.pixels).expect("pixels");
    writer.finish().expect("an end");
    bytes
}

/// Channels first to channels last.
fn interleaved(planes: &[u8], channels: usize) -> Vec<u8> {
    let plane = planes.len() / channels;
    (0..plane).flat_map(|pixel| (0..channels).map(move |channel| planes[channel * plane + pixel])).collect()
}

#[test]
fn scaled_pictures_are_those_of_pillow_and_torchvision() {
    let mut cases = 0;
    for line in text("scaled.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [height, width, mode, how, to_height, to_width, expected] = fields[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<usize>().expect("a number");
        let raster = picture([number(height), number(width)], if mode == "L" { 1 } else { 3 });
        let size = [number(to_height), number(to_width)];
        let found = if how == "grey" {
            decode(&encoded(&raster), 1).expect("a picture").pixels
        } else {
            let fit = how.parse().map_or(Fit::Stretch, |shorter| Fit::Centre { shorter: Some(shorter) });
            let images = Images { channels: raster.channels, size: Some(size), fit };
            interleaved(&fitted(&raster, &images, size, "").expect("it fits"), raster.channels)
        };
        assert_eq!(found, from_hex(expected), "{line}");
        cases += 1;
    }
    assert_eq!(cases, 23);
}

#[test]
fn the_middle_is_rounded_to_even_and_the_longer_side_down() {
    // Python: round(0.5) = 0, round(1.5) = 2, round(2.5) = 2, round(3.5) = 4.
    assert_eq!([11, 13, 15, 17].map(|whole| resample::middle(whole, 10)), [0, 2, 2, 4]);
    assert_eq!(resample::in_proportion([375, 500], 256), [256, 341]);
    assert_eq!(resample::in_proportion([500, 375], 256), [341, 256]);
}

#[test]
fn files_decode_as_pillow_decodes_them() {
    let mut exact = 0;
    for line in text("decoded.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, mode, height, width, expected] = fields[..] else { panic!("{line}") };
        if ["cmyk.jpg", "transparent.png", "palette-hole.png", "sixteen.png"].contains(&name) {
            continue;
        }
        let found = decode(&file(name), if mode == "L" { 1 } else { 3 }).expect(name);
        assert_eq!(
            found.size,
            [height, width].map(|side| side.parse::<usize>().expect("a number")),
            "{name}"
        );
        let expected = from_hex(expected);
        if name.ends_with(".png") {
            assert_eq!(found.pixels, expected, "{name}");
            exact += 1;
        }
        // T.81 leaves the rounding of the transforms open: what decoders may differ by is a little.
        let furthest =
            found.pixels.iter().zip(&expected).map(|(found, expected)| found.abs_diff(*expected)).max();
        assert!(furthest <= Some(4), "{name}: {furthest:?}");
    }
    assert_eq!(exact, 5);
}

/// Pixels of JPEG files are what this version of the decoder makes of them; another one is another preparation.
#[test]
fn the_decoder_is_the_one_that_is_named() {
    let lock = include_str!("../../../Cargo.lock");
    let (name, version) = crate::data::spec::JPEG_DECODER.split_once(' ').expect("a name and a version");
    assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "another {name}");
    let mut pixels = Vec::new();
    for name in
        ["baseline-rgb", "progressive-rgb", "two-by-two", "two-by-two-progressive", "restarts", "rgb-inside"]
    {
        pixels.extend(decode(&file(&format!("{name}.jpg")), 3).expect(name).pixels);
    }
    assert_eq!(Digest::of_bytes(&pixels).short(), PIXELS);
}

const PIXELS: &str = "e15504bd31e5";

fn refused(bytes: &[u8]) -> (u16, String) {
    let fault = decode(bytes, 3).expect_err("a fault");
    assert!(fault.help.is_some(), "{fault}");
    (fault.code.0, fault.message)
}

#[test]
fn what_cannot_be_vouched_for_is_refused() {
    let cases = [
        ("cmyk.jpg", "found four inks (CMYK), expected shades of grey or RGB"),
        (
            "transparent.png",
            "found a transparent pixel in row 1, column 2 (counted from 0), expected opaque ones",
        ),
        ("sixteen.png", "found 16 bits for each colour, expected 8 or fewer"),
    ];
    for (name, expected) in cases {
        assert_eq!(refused(&file(name)), (742, expected.to_owned()), "{name}");
    }
    assert!(refused(&file("palette-hole.png")).1.starts_with("found a transparent pixel in row"));
    assert_eq!(refused(b"").1, "found an empty file, expected a picture");
    assert_eq!(refused(b"GIF89a").1, "found the first bytes 47 49 46 38, expected those of PNG or JPEG");
    // The kind of frame is the byte after ff: arithmetic coding, lossless.
    for (kind, expected) in [(0xc9, "a JPEG with arithmetic coding"), (0xc3, "a lossless JPEG")] {
        let mut bytes = file("baseline-l.jpg");
        let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).expect("a frame");
        bytes[frame + 1] = kind;
        assert!(refused(&bytes).1.contains(expected), "{kind:x}");
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    for name in
        ["rgb.png", "palette.png", "baseline-l.jpg", "two-by-two.jpg", "progressive-l.jpg", "restarts.jpg"]
    {
        let bytes = file(name);
        for end in 0..bytes.len() {
            let fault = decode(&bytes[..end], 3).expect_err(name);
            assert_eq!(fault.code.0, 742, "{name} {end}: {fault}");
        }
    }
}

/// Any byte may be another one: a fault or other pixels, and never the end of the process.
#[test]
fn damaged_files_are_survived() {
    let mut faults = 0;
    for name in ["rgb.png", "palette.png", "baseline-l.jpg", "progressive-l.jpg", "restarts.jpg"] {
        let bytes = file(name);
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                faults += usize::from(decode(&damaged, 3).is_err());
            }
        }
    }
    assert!(faults > 300, "{faults} faults");
}

#[test]
fn a_picture_of_too_many_pixels_is_refused_before_it_is_unpacked() {
    let mut bytes = file("baseline-l.jpg");
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).expect("a frame");
    bytes[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert_eq!(refused(&bytes).0, 732);
}
