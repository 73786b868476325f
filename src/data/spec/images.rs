//! What a manifest says about folders of pictures.

use crate::digest::{ContentHash, Hasher};

/// The decoder that decides pixels, by name and version: JPEG leaves the last bit of a pixel to whoever decodes it, so
/// another version is another preparation. PNG gives the pixels that were written, whoever reads it.
pub const JPEG_DECODER: &str = "zune-jpeg 0.5.15";

/// How pictures become examples of one shape, \[channels, height, width\] of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// 3, or 1 for shades of grey.
    pub channels: usize,
    /// Height and width of an example; `None` when all pictures have one size already.
    pub size: Option<[usize; 2]>,
    /// How a picture comes to that size.
    pub fit: Fit,
}

/// How a picture comes to the size of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Each side is scaled by itself.
    Stretch,
    /// The middle is cut out.
    Centre {
        /// What the shorter side is scaled to before, the other one in proportion; `None` scales nothing.
        shorter: Option<usize>,
    },
}

impl ContentHash for Images {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("images");
        hasher.tag(JPEG_DECODER);
        self.channels.content_hash(hasher);
        self.size.map(|[height, width]| (height, width)).content_hash(hasher);
        match self.fit {
            Fit::Stretch => hasher.tag("stretch"),
            Fit::Centre { shorter } => {
                hasher.tag("centre");
                shorter.content_hash(hasher);
            }
        }
    }
}
