//! What a manifest says about a data set, with every default filled in: plain data, built by the resolver.
//!
//! Invariant: everything here that can change a number is in the [`ContentHash`], and the name is not; paths are relative to the
//! manifest's folder, so that the digest does not depend on where the project lies.

use crate::digest::{ContentHash, Digest, Hasher};
use camino::Utf8PathBuf;

mod images;
mod tokens;

pub use images::{Fit, Images, JPEG_DECODER};
pub use tokens::{
    IGNORED, LabelRule, Masking, Synthetic, SyntheticFeatures, SyntheticLabels, TokenWidth, Tokens,
    Vocabulary, Windows,
};

/// A data set: where it is, how it is read, prepared, split and cut into batches.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSpec {
    /// The name in the manifest: shown to people, part of no digest.
    pub name: String,
    /// The files, if there are any.
    pub sources: Sources,
    /// How the files are read.
    pub format: Format,
    /// Says that the features are tokens, and how examples are cut out of them; `None` for numbers.
    pub tokens: Option<Tokens>,
    /// What labels are.
    pub labels: LabelRule,
    /// How many classes the labels name; `None` when labels are numbers to be predicted (regression), tokens, or what the
    /// folders of pictures are called.
    pub classes: Option<u32>,
    /// The shape of one example; `None` keeps the shape that the file gives.
    pub shape: Option<Vec<usize>>,
    /// What is done to the features, in this order.
    pub normalise: Vec<Normalise>,
    /// How examples become splits.
    pub split: Split,
    /// Examples in a batch.
    pub batch: usize,
    /// True when each epoch has its own order of the training split.
    pub shuffle: bool,
    /// What becomes of a last batch that is not full.
    pub last: LastBatch,
}

/// Files of a data set, relative to the manifest's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// One file with features and labels.
    One {
        /// The file.
        path: Utf8PathBuf,
    },
    /// Features and labels of the training data, and of the test data if that has files of its own. A format that
    /// keeps both in one file names that file twice.
    Pairs {
        /// Features and labels.
        train: (Utf8PathBuf, Utf8PathBuf),
        /// Features and labels.
        test: Option<(Utf8PathBuf, Utf8PathBuf)>,
    },
    /// None: the examples are computed.
    None,
}

/// How the bytes of a file are read; every format may be gzipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values: one example a row, one label column, all others features.
    Csv {
        /// Whether the first row holds names.
        header: Header,
        /// Between fields; one ASCII character.
        delimiter: char,
        /// Which column is the label.
        label: LabelColumn,
    },
    /// The format of MNIST: one array a file.
    Idx,
    /// NumPy's format: one array a file.
    Npy,
    /// Named tensors in one file.
    Safetensors {
        /// The name of the features.
        features: String,
        /// The name of the labels.
        labels: String,
    },
    /// Text: its bytes or its characters are the tokens.
    Text,
    /// Tokens one after the other, little endian, nothing else.
    Tokens {
        /// How wide one is.
        width: TokenWidth,
    },
    /// Folders of pictures, PNG or JPEG; a folder in them is a class.
    Images(Images),
    /// Computed from a seed.
    Synthetic(Synthetic),
}

/// Whether the first row of a CSV file holds names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It does when none of its fields is a number; a mixed row is a fault.
    Auto,
}

/// Which column of a CSV file is the label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelColumn {
    /// The one with this name in the header.
    Name(String),
    /// The one with this index, counted from 0.
    Index(usize),
    /// The last one.
    Last,
}

/// A change of the features, computed in f32 in the order that is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Normalise {
    /// `x / by`.
    Divide {
        /// The divisor.
        by: f32,
    },
    /// `x * multiply + add`, rounded after each of the two.
    Scale {
        /// The factor.
        multiply: f32,
        /// The summand.
        add: f32,
    },
    /// `(x - mean[c]) / deviation[c]`, one constant for each channel, the first axis of an example.
    Constants {
        /// One for each channel.
        mean: Vec<f32>,
        /// One for each channel.
        deviation: Vec<f32>,
    },
    /// `(x - mean) / deviation` with the mean and the population standard deviation of the training split.
    Standardise {
        /// What has a mean of its own.
        over: Over,
    },
}

/// What has a mean and a deviation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Each element of an example.
    Feature,
    /// Each index of the first axis of an example.
    Channel,
    /// All elements together.
    All,
}

/// How examples become splits.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    /// All examples of the source are the split `train`; test files, if any, are the split `test`.
    Whole,
    /// The training source is cut; test files, if any, are the split `test` besides.
    Fractions {
        /// The parts, one of which is called `train`.
        parts: Vec<Part>,
        /// The seed of the order in which examples are dealt out; `None` keeps the order of the file.
        shuffle: Option<u64>,
    },
}

/// One part of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Small letters, digits, `-` and `_`.
    pub name: String,
    /// Above 0, at most 1; taken as the decimal number that it prints as.
    pub fraction: f64,
}

/// What becomes of a last batch that is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastBatch {
    /// It is used as it is.
    Keep,
    /// It is left out.
    Drop,
}

impl DataSpec {
    /// The digest of all that decides the prepared tensors besides the content of the sources: not the name, not the
    /// paths, not the batches. So another batch size prepares nothing anew.
    pub fn preparation_digest(&self) -> Digest {
        let mut hasher = Hasher::new();
        hasher.tag("amp.data.preparation.v1");
        self.hash_preparation(&mut hasher);
        hasher.finish()
    }

    fn hash_preparation(&self, hasher: &mut Hasher) {
        self.format.content_hash(hasher);
        self.classes.content_hash(hasher);
        self.shape.content_hash(hasher);
        // Pictures are kept as bytes, and normalised at each use.
        if !self.has_images() {
            self.normalise.content_hash(hasher);
        }
        self.split.content_hash(hasher);
        if let Some(tokens) = &self.tokens {
            tokens.vocabulary.content_hash(hasher);
            tokens.windows.is_some().content_hash(hasher);
            matches!(self.labels, LabelRule::Given).content_hash(hasher);
        }
    }

    /// Hashes what is done to prepared tokens and pictures at every use: nothing for data of other kinds.
    pub fn hash_use(&self, hasher: &mut Hasher) {
        if self.has_images() {
            hasher.tag("normalise");
            self.normalise.content_hash(hasher);
        }
        if let Some(Tokens { windows: Some(windows), .. }) = &self.tokens {
            hasher.tag("windows");
            windows.length.content_hash(hasher);
            windows.stride.content_hash(hasher);
        }
        self.labels.content_hash(hasher);
    }

    /// Whether labels name one of several: classes or tokens, not numbers to be predicted.
    pub fn labels_are_classes(&self) -> bool {
        self.classes.is_some() || self.labels != LabelRule::Given || self.has_images()
    }

    /// Whether examples are pictures of folders.
    pub fn has_images(&self) -> bool {
        matches!(self.format, Format::Images(_))
    }
}

impl ContentHash for DataSpec {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.data.v1");
        self.sources.content_hash(hasher);
        self.hash_preparation(hasher);
        self.batch.content_hash(hasher);
        self.shuffle.content_hash(hasher);
        hasher.tag(match self.last {
            LastBatch::Keep => "keep",
            LastBatch::Drop => "drop",
        });
        self.hash_use(hasher);
    }
}

impl ContentHash for Sources {
    fn content_hash(&self, hasher: &mut Hasher) {
        let pair = |(features, labels): &(Utf8PathBuf, Utf8PathBuf), hasher: &mut Hasher| {
            features.as_str().content_hash(hasher);
            labels.as_str().content_hash(hasher);
        };
        match self {
            Self::One { path } => {
                hasher.tag("one");
                path.as_str().content_hash(hasher);
            }
            Self::Pairs { train, test } => {
                hasher.tag("pairs");
                pair(train, hasher);
                test.is_some().content_hash(hasher);
                if let Some(test) = test {
                    pair(test, hasher);
                }
            }
            Self::None => hasher.tag("none"),
        }
    }
}

impl ContentHash for Format {
    fn content_hash(&self, hasher: &mut Hasher) {
        match self {
            Self::Csv { header, delimiter, label } => {
                hasher.tag("csv");
                hasher.tag(match header {
                    Header::Yes => "header",
                    Header::No => "no-header",
                    Header::Auto => "auto",
                });
                u32::from(*delimiter).content_hash(hasher);
                match label {
                    LabelColumn::Name(name) => {
                        hasher.tag("name");
                        name.content_hash(hasher);
                    }
                    LabelColumn::Index(index) => {
                        hasher.tag("index");
                        index.content_hash(hasher);
                    }
                    LabelColumn::Last => hasher.tag("last"),
                }
            }
            Self::Idx => hasher.tag("idx"),
            Self::Npy => hasher.tag("npy"),
            Self::Safetensors { features, labels } => {
                hasher.tag("safetensors");
                features.content_hash(hasher);
                labels.content_hash(hasher);
            }
            Self::Text => hasher.tag("text"),
            Self::Tokens { width } => hasher.tag(match width {
                TokenWidth::U16 => "tokens-u16",
                TokenWidth::U32 => "tokens-u32",
            }),
            Self::Images(images) => images.content_hash(hasher),
            Self::Synthetic(synthetic) => synthetic.content_hash(hasher),
        }
    }
}

impl ContentHash for Normalise {
    fn content_hash(&self, hasher: &mut Hasher) {
        match self {
            Self::Divide { by } => {
                hasher.tag("divide");
                by.content_hash(hasher);
            }
            Self::Scale { multiply, add } => {
                hasher.tag("scale");
                multiply.content_hash(hasher);
                add.content_hash(hasher);
            }
            Self::Constants { mean, deviation } => {
                hasher.tag("constants");
                mean.content_hash(hasher);
                deviation.content_hash(hasher);
            }
            Self::Standardise { over } => {
                hasher.tag("standardise");
                hasher.tag(match over {
                    Over::Feature => "feature",
                    Over::Channel => "channel",
                    Over::All => "all",
                });
            }
        }
    }
}

impl ContentHash for Split {
    fn content_hash(&self, hasher: &mut Hasher) {
        match self {
            Self::Whole => hasher.tag("whole"),
            Self::Fractions { parts, shuffle } => {
                hasher.tag("fractions");
                parts.len().content_hash(hasher);
                for part in parts {
                    part.name.content_hash(hasher);
                    part.fraction.content_hash(hasher);
                }
                shuffle.content_hash(hasher);
            }
        }
    }
}
