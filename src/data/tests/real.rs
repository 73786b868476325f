//! Real data: the digits that lie beside the example, and MNIST where it is at hand.

use super::super::spec::{DataSpec, Format, Normalise, Over, Part, Sources, Split};
use super::super::{LabelView, Origin, prepare};
use super::{csv_spec, skip, store};
use crate::world::Disk;
use camino::Utf8Path;

fn project() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn digits() -> DataSpec {
    let mut spec = csv_spec("examples/digits/data/digits.csv.gz");
    spec.classes = Some(10);
    spec.shape = Some(vec![1, 8, 8]);
    spec.normalise = vec![Normalise::Divide { by: 16.0 }];
    let part = |name: &str, fraction| Part { name: name.to_owned(), fraction };
    spec.split = Split::Fractions { parts: vec![part("train", 0.8), part("test", 0.2)], shuffle: Some(42) };
    spec
}

#[test]
fn the_digits_are_those_of_the_paper() {
    let (_folder, store) = store();
    let whole = DataSpec { split: Split::Whole, normalise: Vec::new(), ..digits() };
    let prepared = prepare(&whole, project(), &Disk, &store).expect("prepares");
    let all = prepared.split("train").expect("a split");
    assert_eq!((all.length, all.shape), (1797, &[1, 8, 8][..]));
    let Some((features, LabelView::Classes(labels))) = all.table() else { panic!("expected classes") };
    // The counts that scikit-learn's copy of the set has.
    let counts: Vec<usize> =
        (0..10).map(|class| labels.iter().filter(|label| **label == class).count()).collect();
    assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    assert_eq!(features[..10], [0.0, 0.0, 5.0, 13.0, 9.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert!(features.iter().all(|pixel| (0.0..=16.0).contains(pixel) && pixel.fract() == 0.0));
}

#[test]
fn the_digits_are_prepared_to_the_same_bytes_everywhere() {
    let (_folder, store) = store();
    let prepared = prepare(&digits(), project(), &Disk, &store).expect("prepares");
    let (train, test) = (prepared.split("train").expect("train"), prepared.split("test").expect("test"));
    assert_eq!((train.length, test.length), (1438, 359));
    assert_eq!(prepared.classes_found(), Some(10));
    assert_eq!(prepared.content.to_string(), CONTENT);
}

/// From an implementation of the reader, Philox, the shuffle and the file's layout in another language.
const CONTENT: &str = "sha256:d481968085491fb854afad6d91f0d6eb3edb1523ff0450973277489d7de0f367";

#[test]
fn mnist_is_read_in_pairs() {
    // `shared/` lies beside the project or above it.
    let places = project().ancestors().map(|folder| folder.join("shared/data/mnist"));
    let Some(mnist) = places.into_iter().find(|place| place.is_dir()) else {
        return skip("MNIST is not in ../shared/data/mnist");
    };
    let (_folder, store) = store();
    let mut spec = csv_spec("unused");
    spec.classes = Some(10);
    spec.format = Format::Idx;
    spec.normalise = vec![Normalise::Divide { by: 255.0 }, Normalise::Standardise { over: Over::All }];
    let pair = |name: &str| {
        (format!("{name}-images-idx3-ubyte.gz").into(), format!("{name}-labels-idx1-ubyte.gz").into())
    };
    spec.sources = Sources::Pairs { train: pair("train"), test: Some(pair("t10k")) };
    let made = prepare(&spec, &mnist, &Disk, &store).expect("prepares");
    let (train, test) = (made.split("train").expect("train"), made.split("test").expect("test"));
    assert_eq!(
        (train.length, train.shape, test.length, test.shape),
        (60_000, &[28, 28][..], 10_000, &[28, 28][..])
    );
    let (Some((pixels, LabelView::Classes(train_labels))), Some((_, LabelView::Classes(test_labels)))) =
        (train.table(), test.table())
    else {
        panic!("expected classes")
    };
    assert_eq!(train_labels[..10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]);
    assert_eq!(test_labels[..10], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]);
    // The usual constants of this set are 0.1307 and 0.3081, so a black pixel is at -0.4242 and a white one at 2.8215.
    let least = pixels.iter().copied().fold(f32::INFINITY, f32::min);
    let most = pixels.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    assert_eq!((format!("{least:.3}"), format!("{most:.3}")), ("-0.424".to_owned(), "2.822".to_owned()));
    let found = prepare(&spec, &mnist, &Disk, &store).expect("prepares");
    assert_eq!((found.origin, found.content), (Origin::Found, made.content));
}
