//! How the splits of prepared data are cut into examples: what is decided at each use, not when data is prepared.
//!
//! So another length of windows or another rule of labels prepares nothing anew. Invariant: every example that a layout
//! promises lies within its split.

use super::prepared::{Origin, Place, Prepared, Tensors};
use super::spec::{DataSpec, LabelRule, Split, Synthetic, SyntheticLabels, Tokens, Vocabulary, Windows};
use super::{DataFault, codes, images, split};
use crate::diag::number::counted;
use crate::digest::{ContentHash as _, Hasher};
use std::collections::BTreeMap;

/// The examples of a split.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// How many.
    pub length: usize,
    /// The shape of one.
    pub shape: Vec<usize>,
    /// How many tokens there are, when they are tokens.
    pub vocabulary: Option<u32>,
    /// The shape of a label.
    pub label_shape: Vec<usize>,
    /// From the begin of one example to the next, of a stream.
    pub stride: usize,
    /// The number of the first example, of computed ones.
    pub first: usize,
    /// What each byte is worth, of pictures.
    pub levels: Vec<f32>,
}

/// The layouts of all splits of prepared data.
pub(super) fn layouts(spec: &DataSpec, tensors: &Tensors) -> Result<BTreeMap<String, Layout>, DataFault> {
    let vocabulary = spec.tokens.as_ref().map(|tokens| match tokens.vocabulary {
        Vocabulary::Size(size) => size,
        Vocabulary::Bytes => 256,
        // A text has at most 1,114,112 characters.
        Vocabulary::Characters => tensors.characters.unwrap_or_default() as u32,
    });
    check_rule(&spec.labels, vocabulary)?;
    let windows = spec.tokens.as_ref().and_then(|tokens: &Tokens| tokens.windows);
    let levels = match spec.has_images() {
        true => images::levels(&spec.normalise, &tensors.histogram)?,
        false => Vec::new(),
    };
    let mut found = BTreeMap::new();
    for (name, place) in &tensors.places {
        let layout = match place {
            Place::Table { length, shape, label_shape, .. } => Layout {
                length: *length,
                shape: shape.clone(),
                vocabulary,
                label_shape: label_shape.clone(),
                stride: 0,
                first: 0,
                levels: levels.clone(),
            },
            Place::Stream { shape, .. } => stream(name, shape, windows, &spec.labels, vocabulary)?,
        };
        found.insert(name.clone(), layout);
    }
    Ok(found)
}

/// The windows of a stream, or its rows.
fn stream(
    name: &str,
    shape: &[usize],
    windows: Option<Windows>,
    rule: &LabelRule,
    vocabulary: Option<u32>,
) -> Result<Layout, DataFault> {
    // The label of an example's last position is the token after the example.
    let beyond = usize::from(!matches!(rule, LabelRule::Masked(_)));
    let tokens: usize = shape.iter().product();
    let (length, stride) = match windows {
        Some(windows) => (windows.length, windows.stride),
        None => {
            let row = shape.get(1).copied().unwrap_or_default();
            (row.saturating_sub(beyond), row)
        }
    };
    let span = length.saturating_add(beyond);
    if tokens < span || length == 0 || stride == 0 {
        let after = if beyond == 1 { " and the token after it" } else { "" };
        return Err(DataFault::new(
            codes::WINDOW,
            format!("found {tokens} in the split `{name}`, expected at least {span} for one example of {length}{after}", tokens = counted(tokens, "token")),
        )
        .help("choose a smaller `length`, or give the split a larger share"));
    }
    let label_shape = vec![length];
    Ok(Layout {
        length: (tokens - span) / stride + 1,
        shape: vec![length],
        vocabulary,
        label_shape,
        stride,
        first: 0,
        levels: Vec::new(),
    })
}

/// Refuses tokens of a rule that are outside the vocabulary.
fn check_rule(rule: &LabelRule, vocabulary: Option<u32>) -> Result<(), DataFault> {
    let (LabelRule::Masked(masking), Some(vocabulary)) = (rule, vocabulary) else { return Ok(()) };
    match std::iter::once(&masking.mask_token).chain(&masking.kept).find(|token| **token >= vocabulary) {
        Some(token) => Err(DataFault::new(
            codes::TOKEN,
            format!("found the token {token} in `labels \"masked\"`, expected one in 0..{vocabulary}"),
        )
        .help("the mask token and those that are kept are tokens of the vocabulary themselves")),
        None => Ok(()),
    }
}

/// Data that is computed: nothing is read, nothing is kept.
pub(super) fn computed(spec: &DataSpec, synthetic: &Synthetic) -> Result<Prepared, DataFault> {
    check_rule(&spec.labels, synthetic.vocabulary())?;
    let names: Vec<(String, usize)> = match &spec.split {
        Split::Whole => vec![("train".to_owned(), synthetic.examples)],
        Split::Fractions { parts, .. } => {
            let counts = split::counts(parts, synthetic.examples)?;
            parts.iter().map(|part| part.name.clone()).zip(counts).collect()
        }
    };
    let shape = synthetic.shape();
    let label_shape = match &synthetic.labels {
        SyntheticLabels::Classes { shape, .. } | SyntheticLabels::Targets(shape) => shape.clone(),
        SyntheticLabels::FromTokens => shape.clone(),
    };
    let mut first = 0;
    let mut layouts = BTreeMap::new();
    for (name, length) in names {
        let (shape, label_shape) = (shape.clone(), label_shape.clone());
        let vocabulary = synthetic.vocabulary();
        layouts.insert(
            name,
            Layout { length, shape, vocabulary, label_shape, stride: 0, first, levels: Vec::new() },
        );
        first += length;
    }
    let mut hasher = Hasher::new();
    hasher.tag("amp.data.synthetic.v1");
    spec.preparation_digest().content_hash(&mut hasher);
    let digest = hasher.finish();
    Ok(Prepared {
        key: digest,
        content: digest,
        sources: Vec::new(),
        origin: Origin::Made,
        notes: Vec::new(),
        warnings: Vec::new(),
        layouts,
        rule: spec.labels.clone(),
        tensors: None,
        synthetic: Some(synthetic.clone()),
    })
}
