//! What one example of a data set is, as the compiler asks it: from prepared data, or from its declaration alone.
//!
//! The declaration is enough where it says the shape and what labels are. Invariant: where it is, both come to the same; where
//! it is not, there is no answer, since a guess would raise faults that a run does not have.

use super::{Features, LabelKind};
use crate::data::spec::{DataSpec, Format, LabelRule, Sources, Split, Vocabulary};
use crate::data::{Prepared, SplitView};

/// Features and label of one example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The features.
    pub features: Features,
    /// The label.
    pub labels: LabelKind,
}

impl Example {
    /// As prepared data has it, in its training split; `None` when there is no such split.
    pub fn of_prepared(spec: &DataSpec, prepared: &Prepared) -> Option<Self> {
        let split = prepared.split("train")?;
        let labels = if split.has_classes() {
            // Labels that follow from tokens are tokens.
            let tokens = split.vocabulary.filter(|_| *split.rule != LabelRule::Given);
            let declared = spec.classes.or(tokens).or_else(|| prepared.classes_found());
            classes(declared, split.label_shape.to_vec())
        } else {
            LabelKind::Target(split.label_shape.to_vec())
        };
        Some(Self { features: features_of(&split), labels })
    }

    /// As the declaration alone has it; `None` when it does not say enough.
    pub fn declared(spec: &DataSpec) -> Option<Self> {
        if let Some(tokens) = &spec.tokens {
            let size = match tokens.vocabulary {
                Vocabulary::Size(size) => size,
                Vocabulary::Bytes => 256,
                Vocabulary::Characters => return None,
            };
            let length = tokens.windows.filter(|_| spec.labels != LabelRule::Given)?.length;
            return Some(Self {
                features: Features { shape: vec![length], tokens: Some(size as usize) },
                labels: classes(Some(size), vec![length]),
            });
        }
        if let Format::Images(images) = &spec.format {
            let [height, width] = images.size?;
            let features = Features { shape: vec![images.channels, height, width], tokens: None };
            return Some(Self { features, labels: classes(Some(spec.classes?), Vec::new()) });
        }
        // Arrays may have more than one label an example; rows of a table have one.
        let Format::Csv { .. } = spec.format else { return None };
        let labels = match spec.classes {
            Some(declared) => classes(Some(declared), Vec::new()),
            None => LabelKind::Target(vec![1]),
        };
        Some(Self { features: Features { shape: spec.shape.clone()?, tokens: None }, labels })
    }
}

/// Whether the declaration has a part `test`, or files for one.
pub fn declares_test(spec: &DataSpec) -> bool {
    let part =
        matches!(&spec.split, Split::Fractions { parts, .. } if parts.iter().any(|part| part.name == "test"));
    part || matches!(spec.sources, Sources::Pairs { test: Some(_), .. })
}

fn features_of(split: &SplitView<'_>) -> Features {
    Features { shape: split.shape.to_vec(), tokens: split.vocabulary.map(|tokens| tokens as usize) }
}

fn classes(declared: Option<u32>, shape: Vec<usize>) -> LabelKind {
    LabelKind::ClassIndex { classes: declared.map(|classes| classes as usize), shape }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::prepare;
    use crate::data::spec::{Header, LabelColumn, LastBatch, Masking, Part, TokenWidth, Tokens, Windows};
    use crate::store::Store;
    use crate::world::Memory;
    use camino::Utf8Path;

    fn spec(format: Format) -> DataSpec {
        DataSpec {
            name: "d".to_owned(),
            sources: Sources::One { path: "d".into() },
            format,
            tokens: None,
            labels: LabelRule::Given,
            classes: None,
            shape: None,
            normalise: Vec::new(),
            split: Split::Whole,
            batch: 1,
            shuffle: true,
            last: LastBatch::Keep,
        }
    }

    fn csv() -> DataSpec {
        spec(Format::Csv { header: Header::No, delimiter: ',', label: LabelColumn::Last })
    }

    fn text(vocabulary: Vocabulary, labels: LabelRule) -> DataSpec {
        let windows = Some(Windows { length: 4, stride: 4 });
        DataSpec { tokens: Some(Tokens { vocabulary, windows }), labels, ..spec(Format::Text) }
    }

    /// What is declared, and what the data comes to.
    fn both(spec: &DataSpec, bytes: &[u8]) -> (Option<Example>, Example) {
        let world = Memory::default().with("d", bytes);
        let store = Store::open_read_only(Utf8Path::new("tests/no-store")).expect("no store is one to read");
        let prepared = prepare(spec, Utf8Path::new(""), &world, &store).expect("the data is right");
        (Example::declared(spec), Example::of_prepared(spec, &prepared).expect("a training split"))
    }

    #[test]
    fn a_declaration_that_says_enough_comes_to_what_the_data_does() {
        let rows = b"1,2,3,4,0\n5,6,7,8,1\n";
        let masking = Masking { probability: 0.5, mask_token: 1, kept: Vec::new() };
        let tokens =
            Tokens { vocabulary: Vocabulary::Size(30_000), windows: Some(Windows { length: 2, stride: 1 }) };
        let cases = [
            (DataSpec { shape: Some(vec![1, 2, 2]), classes: Some(2), ..csv() }, &rows[..]),
            (DataSpec { shape: Some(vec![4]), ..csv() }, &rows[..]),
            (text(Vocabulary::Bytes, LabelRule::NextToken), b"abcdefgh"),
            (text(Vocabulary::Bytes, LabelRule::Masked(masking)), b"abcdefgh"),
            (
                DataSpec {
                    tokens: Some(tokens),
                    labels: LabelRule::NextToken,
                    ..spec(Format::Tokens { width: TokenWidth::U16 })
                },
                b"abcdefgh",
            ),
        ];
        for (spec, bytes) in cases {
            let (declared, prepared) = both(&spec, bytes);
            assert_eq!(declared, Some(prepared), "{spec:?}");
        }
    }

    #[test]
    fn a_declaration_that_leaves_something_to_the_data_says_nothing() {
        let (declared, prepared) = both(&csv(), b"1,2,3,4,0\n");
        assert_eq!((declared, prepared.features.shape), (None, vec![4]));
        let (declared, prepared) = both(&text(Vocabulary::Characters, LabelRule::NextToken), b"abcab");
        assert_eq!((declared, prepared.features.tokens), (None, Some(3)));
        assert_eq!(Example::declared(&DataSpec { shape: Some(vec![1, 2, 2]), ..spec(Format::Idx) }), None);
    }

    #[test]
    fn a_test_part_is_a_part_or_files() {
        let parts = vec![Part { name: "test".to_owned(), fraction: 0.5 }];
        assert!(!declares_test(&csv()));
        assert!(declares_test(&DataSpec { split: Split::Fractions { parts, shuffle: None }, ..csv() }));
        let pair = || ("a".into(), "b".into());
        let pairs = |test| DataSpec { sources: Sources::Pairs { train: pair(), test }, ..csv() };
        assert!(declares_test(&pairs(Some(pair()))) && !declares_test(&pairs(None)));
    }
}
