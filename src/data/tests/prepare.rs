//! Preparing: equal bytes, reuse, damage, read-only stores, sources that change.

use super::super::spec::{DataSpec, Format, LastBatch, Normalise, Over, Part, Sources, Split};
use super::super::{
    DataFault, Draw, Gathered, LabelView, Origin, Prepared, Values, prepare, recheck, source_digest,
};
use super::arrays::{idx_file, packed};
use super::{csv_spec, store, told};
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::store::Store;
use crate::world::Memory;
use camino::Utf8Path;

const FOLDER: &str = "project";

fn folder() -> &'static Utf8Path {
    Utf8Path::new(FOLDER)
}

fn world() -> Memory {
    Memory::default().with("project/d.csv", "1,2,0\n3,4,1\n5,6,2\n7,8,0\n9,10,1\n")
}

fn ready(spec: &DataSpec, world: &Memory, store: &Store) -> Prepared {
    prepare(spec, folder(), world, store).expect("prepares")
}

fn table<'a>(prepared: &'a Prepared, split: &str) -> (&'a [f32], LabelView<'a>) {
    prepared.split(split).expect("a split").table().expect("a table")
}

fn features<'a>(prepared: &'a Prepared, split: &str) -> &'a [f32] {
    table(prepared, split).0
}

fn labels<'a>(prepared: &'a Prepared, split: &str) -> LabelView<'a> {
    table(prepared, split).1
}

fn refused(spec: &DataSpec, world: &Memory) -> Vec<DataFault> {
    let (_folder, store) = store();
    let faults = prepare(spec, folder(), world, &store).expect_err("refused");
    assert!(!faults.is_empty());
    faults
}

fn fractions(parts: &[(&str, f64)], shuffle: Option<u64>) -> Split {
    let parts =
        parts.iter().map(|(name, fraction)| Part { name: (*name).to_owned(), fraction: *fraction }).collect();
    Split::Fractions { parts, shuffle }
}

#[test]
fn the_file_is_the_one_on_paper() {
    let (_folder, store) = store();
    let mut spec = csv_spec("d.csv");
    spec.split = fractions(&[("train", 0.6), ("test", 0.4)], None);
    spec.shape = Some(vec![1, 2]);
    let prepared = ready(&spec, &world(), &store);
    let json = concat!(
        r#"{"test.features":{"dtype":"F32","shape":[2,1,2],"data_offsets":[0,16]},"#,
        r#""test.labels":{"dtype":"I32","shape":[2],"data_offsets":[16,24]},"#,
        r#""train.features":{"dtype":"F32","shape":[3,1,2],"data_offsets":[24,48]},"#,
        r#""train.labels":{"dtype":"I32","shape":[3],"data_offsets":[48,60]}}"#,
    );
    // The text is 288 bytes long with the padding that brings it and the eight before it to a multiple of 64.
    let padded = (json.len() + 8).div_ceil(64) * 64 - 8;
    let mut expected = (padded as u64).to_le_bytes().to_vec();
    expected.extend_from_slice(format!("{json:padded$}").as_bytes());
    expected.extend([7.0_f32, 8.0, 9.0, 10.0].iter().flat_map(|number| number.to_le_bytes()));
    expected.extend([0_i32, 1].iter().flat_map(|label| label.to_le_bytes()));
    expected.extend([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|number| number.to_le_bytes()));
    expected.extend([0_i32, 1, 2].iter().flat_map(|label| label.to_le_bytes()));
    assert_eq!(prepared.bytes(), expected);
    assert_eq!(prepared.content, Digest::of_bytes(&expected));
    assert_eq!(prepared.names().collect::<Vec<_>>(), ["test", "train"]);
    assert_eq!(prepared.classes_found(), Some(3));
    let train = prepared.split("train").expect("a split");
    assert_eq!((train.length, train.shape, train.label_shape), (3, &[1, 2][..], &[][..]));
    assert_eq!(labels(&prepared, "train"), LabelView::Classes(&[0, 1, 2]));
    let Gathered { features, labels } = train.gather(&[2, 0], Draw { seed: 1, epoch: 0 });
    assert_eq!(features, Values::Floats(vec![5.0, 6.0, 1.0, 2.0]));
    assert_eq!(labels, Values::Integers(vec![2, 0]));
    assert!(prepared.split("validation").is_none());
}

#[test]
fn the_same_input_gives_the_same_bytes_in_any_store() {
    let ((_one, first), (_two, second)) = (store(), store());
    let mut spec = csv_spec("d.csv");
    spec.split = fractions(&[("train", 0.6), ("test", 0.4)], Some(42));
    spec.normalise = vec![Normalise::Standardise { over: Over::Feature }];
    let made = ready(&spec, &world(), &first);
    let found = ready(&spec, &world(), &first);
    let elsewhere = ready(&spec, &world(), &second);
    assert_eq!([made.origin, found.origin, elsewhere.origin], [Origin::Made, Origin::Found, Origin::Made]);
    for other in [&found, &elsewhere] {
        assert_eq!((made.key, made.content, made.bytes()), (other.key, other.content, other.bytes()));
        assert_eq!(other.sources, made.sources);
        assert!(other.notes.is_empty());
    }
    let text = String::from_utf8_lossy(made.bytes());
    assert!(text.contains("\"statistics.0.deviation\"") && text.contains("\"statistics.0.mean\""));
}

#[test]
fn only_what_decides_numbers_prepares_anew() {
    let (_folder, store) = store();
    let spec = csv_spec("d.csv");
    let first = ready(&spec, &world(), &store);
    let same = [
        DataSpec { name: "other".to_owned(), ..spec.clone() },
        DataSpec { batch: 5, shuffle: true, last: LastBatch::Drop, ..spec.clone() },
        DataSpec { sources: Sources::One { path: "copy.csv".into() }, ..spec.clone() },
    ];
    let copied = world().with("project/copy.csv", world().files[Utf8Path::new("project/d.csv")].clone());
    for same in same {
        let again = ready(&same, &copied, &store);
        assert_eq!((again.key, again.origin), (first.key, Origin::Found), "{same:?}");
    }
    let other = [
        DataSpec { classes: Some(4), ..spec.clone() },
        DataSpec { classes: None, ..spec.clone() },
        DataSpec { shape: Some(vec![2, 1]), ..spec.clone() },
        DataSpec { normalise: vec![Normalise::Divide { by: 2.0 }], ..spec.clone() },
        DataSpec { split: fractions(&[("train", 1.0)], None), ..spec.clone() },
        DataSpec { split: fractions(&[("train", 1.0)], Some(1)), ..spec.clone() },
        DataSpec { split: fractions(&[("train", 1.0)], Some(2)), ..spec.clone() },
    ];
    let mut keys = vec![first.key];
    for other in other {
        let made = ready(&other, &world(), &store);
        assert!(!keys.contains(&made.key), "{other:?}");
        keys.push(made.key);
    }
    let changed = Memory::default().with("project/d.csv", "1,2,0\n");
    assert!(!keys.contains(&ready(&spec, &changed, &store).key));
}

#[test]
fn damaged_prepared_data_is_made_anew_and_a_note_says_so() {
    let (_folder, store) = store();
    let spec = csv_spec("d.csv");
    let made = ready(&spec, &world(), &store);
    let (content, bytes) = (made.content, made.bytes().to_vec());
    drop(made);
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("not empty") ^= 1;
    let path = store
        .root()
        .join("prepared")
        .join(ready(&spec, &world(), &store).key.hex())
        .join("tensors.safetensors");
    crate::store::write_file(&path, &damaged).expect("damages");
    let again = ready(&spec, &world(), &store);
    assert_eq!((again.origin, again.content, again.bytes()), (Origin::MadeAnew, content, bytes.as_slice()));
    assert_eq!(again.notes.len(), 1);
    assert!(
        again.notes[0].contains("is damaged") && again.notes[0].contains("made anew"),
        "{:?}",
        again.notes
    );
    assert_eq!(ready(&spec, &world(), &store).origin, Origin::Found);
    // Whole by its digest, but not a file of tensors.
    store.put_prepared(&again.key, &[b"text"]).expect("puts");
    assert_eq!(ready(&spec, &world(), &store).origin, Origin::MadeAnew);
}

#[test]
fn of_many_at_the_same_time_one_prepares() {
    let (_folder, store) = store();
    let origins: Vec<Origin> = std::thread::scope(|scope| {
        let one = || scope.spawn(|| ready(&csv_spec("d.csv"), &world(), &store).origin);
        let threads: Vec<_> = (0..6).map(|_| one()).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(origins.iter().filter(|origin| **origin == Origin::Made).count(), 1, "{origins:?}");
    assert!(origins.iter().all(|origin| *origin != Origin::MadeAnew), "{origins:?}");
}

#[test]
fn a_store_that_cannot_be_written_serves_from_memory() {
    let (_folder, store) = store();
    let spec = csv_spec("d.csv");
    let reader = Store::open_read_only(store.root()).expect("opens");
    let held = ready(&spec, &world(), &reader);
    assert_eq!(held.origin, Origin::Made);
    assert!(held.notes[0].contains("read-only") && held.notes[0].contains("memory"), "{:?}", held.notes);
    let made = ready(&spec, &world(), &store);
    assert_eq!(made.origin, Origin::Made, "the reader wrote nothing");
    assert_eq!((held.key, held.content, held.bytes()), (made.key, made.content, made.bytes()));
    assert_eq!(held.split("train"), made.split("train"));
    assert_eq!(ready(&spec, &world(), &reader).origin, Origin::Found);
}

#[test]
fn a_source_that_changes_during_the_run_is_told_with_both_digests() {
    let (_folder, store) = store();
    let prepared = ready(&csv_spec("d.csv"), &world(), &store);
    recheck(&prepared.sources, folder(), &world()).expect("unchanged");
    let changed = Memory::default().with("project/d.csv", "1,2,0\n");
    let faults = recheck(&prepared.sources, folder(), &changed).expect_err("changed");
    let (before, after) = (prepared.sources[0].digest, Digest::of_bytes(b"1,2,0\n"));
    let message = format!(
        "d.csv: `d.csv` changed during the run: found {after} after it, expected {before} as before it"
    );
    assert_eq!(faults.iter().map(told).collect::<Vec<_>>(), [(731, message)]);
    let gone = recheck(&prepared.sources, folder(), &Memory::default()).expect_err("gone");
    assert_eq!(gone[0].code.0, 720);
}

#[test]
fn pairs_of_files_are_train_and_test() {
    let (_folder, store) = store();
    let world = Memory::default()
        .with("project/train-x", packed(&idx_file(0x08, &[4, 1, 2], &[1, 2, 3, 4, 5, 6, 7, 8])))
        .with("project/train-y", idx_file(0x08, &[4], &[0, 1, 2, 0]))
        .with("project/test-x", idx_file(0x08, &[1, 1, 2], &[9, 10]))
        .with("project/test-y", idx_file(0x08, &[1], &[1]));
    let mut spec = csv_spec("unused");
    spec.format = Format::Idx;
    let pair = |name: &str| (format!("{name}-x").into(), format!("{name}-y").into());
    spec.sources = Sources::Pairs { train: pair("train"), test: Some(pair("test")) };
    let whole = ready(&spec, &world, &store);
    assert_eq!(whole.names().collect::<Vec<_>>(), ["test", "train"]);
    assert_eq!(
        whole.sources.iter().map(|source| source.path.as_str()).collect::<Vec<_>>(),
        ["test-x", "test-y", "train-x", "train-y"]
    );
    assert_eq!(features(&whole, "test"), [9.0, 10.0]);
    assert_eq!(labels(&whole, "train"), LabelView::Classes(&[0, 1, 2, 0]));
    spec.split = fractions(&[("train", 0.75), ("validation", 0.25)], None);
    let cut = ready(&spec, &world, &store);
    assert_eq!(cut.names().collect::<Vec<_>>(), ["test", "train", "validation"]);
    assert_eq!(features(&cut, "validation"), [7.0, 8.0]);
    spec.split = fractions(&[("train", 0.75), ("test", 0.25)], None);
    assert_eq!(refused(&spec, &world)[0].code.0, 730);
    let swapped = DataSpec {
        sources: Sources::Pairs { train: pair("train"), test: None },
        split: Split::Whole,
        ..spec.clone()
    };
    let short = world.clone().with("project/train-y", idx_file(0x08, &[3], &[0, 1, 2]));
    assert_eq!(
        told(&refused(&swapped, &short)[0]),
        (
            729,
            "train-x: found 4 examples with features and 3 with labels, expected as many of each".to_owned()
        )
    );
    let wider = world.with("project/test-x", idx_file(0x08, &[1, 2, 2], &[1, 2, 3, 4]));
    spec.split = Split::Whole;
    assert_eq!(
        refused(&spec, &wider)[0].message,
        "found test examples of shape [2, 2] and training examples of shape [1, 2], expected equal shapes"
    );
}

#[test]
fn all_missing_sources_are_told_at_once() {
    let mut spec = csv_spec("unused");
    spec.format = Format::Npy;
    spec.sources = Sources::Pairs { train: ("x.npy".into(), "y.npy".into()), test: None };
    let faults: Vec<_> = refused(&spec, &world()).iter().map(told).collect();
    let missing = |name: &str| (720, format!("{name}: found no file or folder at `{name}`"));
    assert_eq!(faults, [missing("x.npy"), missing("y.npy")]);
}

#[test]
fn descriptions_that_cannot_be_are_refused_before_anything_is_read() {
    let nothing = Memory::default();
    let code = |change: &dyn Fn(&mut DataSpec)| {
        let mut spec = csv_spec("d.csv");
        change(&mut spec);
        refused(&spec, &nothing)[0].code.0
    };
    assert_eq!(code(&|spec| spec.split = fractions(&[("train", 0.9), ("test", 0.2)], None)), 730);
    assert_eq!(code(&|spec| spec.classes = Some(0)), 725);
    assert_eq!(code(&|spec| spec.format = Format::Idx), 734);
    let pairs = Sources::Pairs { train: ("a.csv".into(), "b.csv".into()), test: None };
    assert_eq!(code(&|spec| spec.sources = pairs.clone()), 734);
    let mut spec = csv_spec("d.csv");
    spec.shape = Some(vec![3, usize::MAX]);
    let fault = &refused(&spec, &world())[0];
    assert_eq!(
        told(fault).1,
        "d.csv: found 2 numbers in an example (shape [2]), expected more than memory can hold for the shape [3, 18446744073709551615]"
    );
    spec.shape = Some(vec![3]);
    assert_eq!(
        refused(&spec, &world())[0].message,
        "found 2 numbers in an example (shape [2]), expected 3 for the shape [3]"
    );
    spec = csv_spec("folder");
    assert_eq!(refused(&spec, &Memory::default().with("project/folder/d.csv", "1,0\n"))[0].code.0, 734);
}

#[test]
fn faults_inside_a_file_name_the_file_once() {
    let world = Memory::default().with("project/d.csv", packed(b"1,2,0\n1,x,0\n"));
    assert_eq!(
        told(&refused(&csv_spec("d.csv"), &world)[0]),
        (724, "d.csv:2:2: found `x`, expected a number".to_owned())
    );
    let cut = packed(&b"1,2,0\n".repeat(50));
    let world = Memory::default().with("project/d.csv", &cut[..cut.len() - 3]);
    let fault = told(&refused(&csv_spec("d.csv"), &world)[0]);
    assert_eq!(fault.0, 722);
    assert!(fault.1.starts_with("d.csv: found damaged gzip after 300 unpacked bytes"), "{}", fault.1);
}

#[test]
fn a_folder_is_hashed_as_its_sorted_tree() {
    // By bytes `a-b` comes before `a/b`, by components after it: the digest must use bytes.
    let world = Memory::default().with("project/set/a/b", "2").with("project/set/a-b", "1");
    let found = source_digest(Utf8Path::new("set"), folder(), &world).expect("a folder");
    let mut hasher = Hasher::new();
    hasher.tag("amp.tree.v1");
    2_usize.content_hash(&mut hasher);
    for (name, content) in [("a-b", b"1"), ("a/b", b"2")] {
        name.content_hash(&mut hasher);
        1_usize.content_hash(&mut hasher);
        Digest::of_bytes(content).content_hash(&mut hasher);
    }
    assert_eq!((found.digest, found.bytes, found.files), (hasher.finish(), 2, 2));
    let renamed = Memory::default().with("project/set/a/c", "2").with("project/set/a-b", "1");
    assert_ne!(
        source_digest(Utf8Path::new("set"), folder(), &renamed).expect("a folder").digest,
        found.digest
    );
    let missing = source_digest(Utf8Path::new("none"), folder(), &world).expect_err("missing");
    assert_eq!(missing.code.0, 720);
}

#[test]
fn every_field_but_the_name_is_in_the_digest() {
    let spec = csv_spec("d.csv");
    let digest = Digest::of(&spec);
    assert_eq!(Digest::of(&DataSpec { name: "other".to_owned(), ..spec.clone() }), digest);
    let changed = [
        DataSpec { sources: Sources::One { path: "e.csv".into() }, ..spec.clone() },
        DataSpec { format: Format::Idx, ..spec.clone() },
        DataSpec { classes: None, ..spec.clone() },
        DataSpec { shape: Some(vec![2]), ..spec.clone() },
        DataSpec { normalise: vec![Normalise::Divide { by: 2.0 }], ..spec.clone() },
        DataSpec { split: fractions(&[("train", 1.0)], None), ..spec.clone() },
        DataSpec { batch: 3, ..spec.clone() },
        DataSpec { shuffle: true, ..spec.clone() },
        DataSpec { last: LastBatch::Drop, ..spec.clone() },
    ];
    let mut digests: Vec<Digest> = changed.iter().map(Digest::of).chain([digest]).collect();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), changed.len() + 1);
}
