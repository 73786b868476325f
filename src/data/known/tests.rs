//! What is read, counted byte by byte, when data was prepared before.

use super::*;
use crate::data::spec::{Format, Header, LabelColumn, LabelRule, LastBatch, Sources, Split};
use crate::world::Memory;
use camino::Utf8PathBuf;
use std::cell::Cell;
use std::io;

/// A world that counts the bytes it gives, and stamps files as it is told.
struct Counting {
    files: Memory,
    stamp: Option<Stamp>,
    read: Cell<usize>,
}

impl Counting {
    fn new(text: &str, stamp: Option<Stamp>) -> Self {
        Self { files: Memory::default().with("d.csv", text), stamp, read: Cell::new(0) }
    }

    /// The bytes read since the last question.
    fn taken(&self) -> usize {
        self.read.take()
    }
}

impl World for Counting {
    fn read(&self, path: &Utf8Path) -> io::Result<Vec<u8>> {
        let bytes = self.files.read(path)?;
        self.read.set(self.read.get() + bytes.len());
        Ok(bytes)
    }

    fn is_folder(&self, path: &Utf8Path) -> bool {
        self.files.is_folder(path)
    }

    fn files_under(&self, folder: &Utf8Path) -> io::Result<Vec<Utf8PathBuf>> {
        self.files.files_under(folder)
    }

    fn entries(&self, folder: &Utf8Path) -> Vec<(String, bool)> {
        self.files.entries(folder)
    }

    fn stamp(&self, _path: &Utf8Path) -> Option<Stamp> {
        self.stamp
    }
}

const TEXT: &str = "1,2,0\n3,4,1\n5,6,2\n";
const STAMP: Stamp = Stamp { device: 1, file: 2, bytes: 18, modified: 1_000, changed: 2_000 };

fn spec(header: Header) -> DataSpec {
    DataSpec {
        name: "d".to_owned(),
        sources: Sources::One { path: "d.csv".into() },
        format: Format::Csv { header, delimiter: ',', label: LabelColumn::Last },
        tokens: None,
        labels: LabelRule::Given,
        classes: Some(3),
        shape: None,
        normalise: Vec::new(),
        split: Split::Whole,
        batch: 2,
        shuffle: true,
        last: LastBatch::Keep,
    }
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn root(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.folder.path().join("store")).expect("UTF-8")
    }

    fn writable(&self) -> Store {
        Store::open(&self.root(), false).expect("a store")
    }

    /// What a check reads, and the shape that it finds.
    fn check(&self, world: &Counting, header: Header) -> (usize, Vec<usize>) {
        let store = Store::open_read_only(&self.root()).expect("a store");
        let prepared =
            prepare_known(&spec(header), Utf8Path::new("."), world, &store).expect("the data is right");
        assert_eq!(
            prepared.sources[0].digest,
            Digest::of_bytes(world.files.files[Utf8Path::new("d.csv")].as_slice())
        );
        (world.taken(), prepared.split("train").expect("a split").shape.to_vec())
    }
}

fn lock(place: &Place, world: &Counting, header: Header) -> usize {
    prepare(&spec(header), Utf8Path::new("."), world, &place.writable()).expect("the data is right");
    world.taken()
}

#[test]
fn a_check_of_unchanged_data_reads_nothing_and_a_lock_reads_everything() {
    let (place, world) = (Place::new(), Counting::new(TEXT, Some(STAMP)));
    // Before anything was locked there is nothing to know.
    assert_eq!(place.check(&world, Header::No), (TEXT.len(), vec![2]));
    assert_eq!(lock(&place, &world, Header::No), TEXT.len());
    assert_eq!(place.check(&world, Header::No), (0, vec![2]));
    assert_eq!(place.check(&world, Header::No), (0, vec![2]));
    assert_eq!(lock(&place, &world, Header::No), TEXT.len());
    // Of another description nothing is known.
    assert_eq!(place.check(&world, Header::Auto).0, TEXT.len());
}

#[test]
fn each_part_of_the_stamp_counts() {
    let place = Place::new();
    lock(&place, &Counting::new(TEXT, Some(STAMP)), Header::No);
    let changed = "9,2,0\n3,4,1\n5,6,2\n";
    for stamp in [
        Stamp { device: 9, ..STAMP },
        Stamp { file: 9, ..STAMP },
        Stamp { bytes: 19, ..STAMP },
        Stamp { modified: 1_001, ..STAMP },
        Stamp { changed: 2_001, ..STAMP },
    ] {
        assert_eq!(
            place.check(&Counting::new(changed, Some(stamp)), Header::No).0,
            changed.len(),
            "{stamp:?}"
        );
    }
    assert_eq!(place.check(&Counting::new(changed, None), Header::No).0, changed.len());
}

#[test]
fn a_file_that_changed_in_the_tick_of_the_note_is_read_again() {
    let late = Stamp { changed: i128::MAX, ..STAMP };
    let (place, world) = (Place::new(), Counting::new(TEXT, Some(late)));
    lock(&place, &world, Header::No);
    assert_eq!(place.check(&world, Header::No).0, TEXT.len());
}

#[test]
fn sources_with_a_warning_are_looked_at_each_time() {
    // A first row of numbers that is read as names.
    let (place, world) = (Place::new(), Counting::new(TEXT, Some(STAMP)));
    lock(&place, &world, Header::Yes);
    assert_eq!(place.check(&world, Header::Yes).0, TEXT.len());
}

#[test]
fn damaged_notes_and_damaged_data_are_no_hindrance() {
    let (place, world) = (Place::new(), Counting::new(TEXT, Some(STAMP)));
    lock(&place, &world, Header::No);
    let store = place.writable();
    let name = name(&spec(Header::No));
    for text in ["", "x", "sha256:00 1", "\u{fffd}\n\n\n"] {
        store.put_note(&name, text.as_bytes()).expect("the store can be written");
        assert_eq!(place.check(&world, Header::No).0, TEXT.len(), "{text:?}");
    }
    lock(&place, &world, Header::No);
    assert_eq!(place.check(&world, Header::No).0, 0);
    let prepared = place.root().join("prepared");
    crate::store::write_file(
        &prepared
            .join(key_of(&spec(Header::No), |_| Some(Digest::of_bytes(TEXT.as_bytes()))).hex())
            .join("tensors.safetensors"),
        b"cut",
    )
    .expect("the store can be written");
    assert_eq!(place.check(&world, Header::No).0, TEXT.len());
}

#[test]
fn a_file_that_was_right_is_known_while_its_stamp_is_the_same() {
    let (place, world) = (Place::new(), Counting::new(TEXT, Some(STAMP)));
    let (question, other) = (Digest::of_bytes(b"fits"), Digest::of_bytes(b"another model"));
    let (path, folder) = (Utf8Path::new("d.csv"), Utf8Path::new("."));
    let knows = |question: &Digest, world: &Counting| {
        let store = Store::open_read_only(&place.root()).expect("a store");
        knows_file(question, path, folder, world, &store)
    };
    let store = place.writable();
    assert!(!knows(&question, &world));
    remember_file(&question, path, folder, Some(STAMP), &world, &store);
    assert!(knows(&question, &world) && !knows(&other, &world));
    assert_eq!(world.taken(), 0);
    let changed = Counting::new(TEXT, Some(Stamp { changed: 2_001, ..STAMP }));
    assert!(!knows(&question, &changed) && !knows(&question, &Counting::new(TEXT, None)));
    // A file that changed while it was read is not remembered, nor one that changed in the tick of the note.
    remember_file(&other, path, folder, Some(STAMP), &changed, &store);
    assert!(!knows(&other, &changed));
    let late = Stamp { changed: i128::MAX, ..STAMP };
    remember_file(&other, path, folder, Some(late), &Counting::new(TEXT, Some(late)), &store);
    assert!(!knows(&other, &Counting::new(TEXT, Some(late))));
}
