//! From folders to batches.

use super::*;

/// A description of `pictures`, with nothing done to them.
fn spec() -> DataSpec {
    DataSpec {
        name: "pictures".to_owned(),
        sources: Sources::One { path: "pictures".into() },
        format: Format::Images(Images { channels: 3, size: None, fit: Fit::Stretch }),
        tokens: None,
        labels: LabelRule::Given,
        classes: None,
        shape: None,
        normalise: Vec::new(),
        split: Split::Whole,
        batch: 2,
        shuffle: false,
        last: LastBatch::Keep,
    }
}

fn with(images: Images) -> DataSpec {
    DataSpec { format: Format::Images(images), ..spec() }
}

/// A picture of 2×2 pixels of one colour.
fn plain(colour: [u8; 3]) -> Vec<u8> {
    encoded(&Raster { size: [2, 2], channels: 3, pixels: colour.repeat(4) })
}

fn world() -> Memory {
    Memory::default()
        .with("pictures/a/1.png", plain([1, 2, 3]))
        .with("pictures/a-b/1.PNG", plain([4, 5, 6]))
        .with("pictures/a/2.jpeg", plain([7, 8, 9]))
        .with("pictures/.DS_Store", "left behind")
        .with("pictures/a/Thumbs.db", "left behind")
}

fn here() -> &'static Utf8Path {
    Utf8Path::new("")
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = Utf8PathBuf::from_path_buf(folder.path().join("store")).expect("a UTF-8 path");
    let store = Store::open(&root, false).expect("opens");
    (folder, store)
}

fn prepared(spec: &DataSpec, world: &dyn World) -> Prepared {
    let (_folder, store) = store();
    prepare(spec, here(), world, &store).expect("the folder can be prepared")
}

fn faults(spec: &DataSpec, world: &dyn World) -> Vec<(u16, String)> {
    let (_folder, store) = store();
    let faults = prepare(spec, here(), world, &store).expect_err("faults");
    assert!(faults.iter().all(|fault| fault.help.is_some()), "{faults:?}");
    let place = |fault: &DataFault| fault.place.clone().unwrap_or_default();
    faults.iter().map(|fault| (fault.code.0, format!("{}: {}", place(fault), fault.message))).collect()
}

/// Features and labels of all examples of a split.
fn all(split: &SplitView<'_>) -> (Vec<f32>, Vec<i32>) {
    let indices: Vec<u32> = (0..split.length as u32).collect();
    let gathered = split.gather(&indices, Draw { seed: 0, epoch: 0 });
    let (Values::Floats(features), Values::Integers(labels)) = (gathered.features, gathered.labels) else {
        panic!("expected numbers and classes")
    };
    (features, labels)
}

#[test]
fn examples_lie_class_by_class_and_channels_come_first() {
    let found = prepared(&spec(), &world());
    let train = found.split("train").expect("a split");
    assert_eq!((train.length, train.shape), (3, [3, 2, 2].as_slice()));
    assert!(train.label_shape.is_empty() && train.has_classes());
    let (features, labels) = all(&train);
    // By bytes of paths `a-b/1.PNG` is before `a/1.png`; the class `a` is before `a-b`.
    assert_eq!(labels, [0, 0, 1]);
    let expected = [1, 2, 3, 7, 8, 9, 4, 5, 6].iter().flat_map(|value| [*value as f32; 4]);
    assert_eq!(features, expected.collect::<Vec<f32>>());
    assert_eq!(found.class_names(), ["a", "a-b"]);
    assert_eq!(found.classes_found(), Some(2));
    assert_eq!((found.sources.len(), found.sources[0].files), (1, 3));
}

#[test]
fn normalising_is_a_number_for_each_byte_and_prepares_nothing_anew() {
    let (_folder, store) = store();
    let plain = prepare(&spec(), here(), &world(), &store).expect("prepared");
    let constants = Normalise::Constants { mean: vec![0.5, 0.25, 0.0], deviation: vec![0.5, 0.25, 2.0] };
    let scaled = DataSpec { normalise: vec![Normalise::Divide { by: 4.0 }, constants], ..spec() };
    let found = prepare(&scaled, here(), &world(), &store).expect("prepared");
    assert_eq!((found.origin, found.content), (Origin::Found, plain.content));
    let (features, _) = all(&found.split("train").expect("a split"));
    // (1/4 - 1/2) / (1/2), (2/4 - 1/4) / (1/4), (3/4) / 2.
    assert_eq!((features[0], features[4], features[8]), (-0.5, 1.0, 0.375));
    assert_ne!(Digest::of(&scaled), Digest::of(&spec()));

    let one = DataSpec { normalise: vec![Normalise::Standardise { over: Over::All }], ..spec() };
    let found = prepare(&one, here(), &world(), &store).expect("prepared");
    // 1 to 9, each four times: mean 5, variance 60/9.
    assert_eq!(all(&found.split("train").expect("a split")).0[0], -4.0 / ((60.0_f64 / 9.0).sqrt() as f32));

    let each = DataSpec { normalise: vec![Normalise::Standardise { over: Over::Feature }], ..spec() };
    assert_eq!(prepare(&each, here(), &world(), &store).expect_err("refused")[0].code.0, 736);
}

#[test]
fn statistics_are_those_of_training() {
    let part = |(name, fraction): (&str, f64)| Part { name: name.to_owned(), fraction };
    let split =
        Split::Fractions { parts: [("train", 0.34), ("rest", 0.66)].map(part).to_vec(), shuffle: None };
    let normalise = vec![Normalise::Standardise { over: Over::Channel }];
    let found = prepared(&DataSpec { split, normalise, ..spec() }, &world());
    // Of 3 pictures training has 0.34 × 3 = 1 and what is left over, 1: the pictures of `a`, in each channel 3 from the mean.
    let (features, labels) = all(&found.split("train").expect("a split"));
    let expected = [-1.0_f32, 1.0].map(|value| [value; 12]);
    assert_eq!((features.as_slice(), labels), (expected.as_flattened(), vec![0, 0]));
    // 4, 5, 6 are the means.
    assert_eq!(all(&found.split("rest").expect("a split")), (vec![0.0; 12], vec![1]));
}

#[test]
fn test_pictures_have_a_folder_of_their_own() {
    let pair = |path: &str| (Utf8PathBuf::from(path), Utf8PathBuf::from(path));
    let sources = Sources::Pairs { train: pair("pictures"), test: Some(pair("val")) };
    let spec = DataSpec { sources, ..spec() };
    let found = prepared(&spec, &world().with("val/a-b/9.png", plain([9, 9, 9])));
    // Its only class is number 1 in training.
    assert_eq!(all(&found.split("test").expect("a split")), (vec![9.0; 12], vec![1]));
    let told = "val/c: found the class `c` in `val`, expected one of those in `pictures`";
    assert_eq!(faults(&spec, &world().with("val/c/9.png", plain([9, 9, 9]))), [(725, told.to_owned())]);
}

#[test]
fn pictures_of_unlike_sizes_need_a_size() {
    let larger = world().with("pictures/a/3.png", encoded(&picture([5, 4], 3)));
    let told = "pictures/a/3.png: found a picture of 5×4 pixels, expected 2×2 as `pictures/a/1.png` has";
    assert_eq!(faults(&spec(), &larger), [(729, told.to_owned())]);
    let stretched = prepared(&with(Images { channels: 3, size: Some([3, 3]), fit: Fit::Stretch }), &larger);
    assert_eq!(stretched.split("train").expect("a split").shape, [3, 3, 3]);
    let cut = with(Images { channels: 1, size: Some([3, 3]), fit: Fit::Centre { shorter: None } });
    let told = faults(&cut, &larger);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].1.ends_with("found a picture of 2×2 pixels, expected at least 3×3, which is cut out of it")
    );
}

#[test]
fn every_faulty_picture_is_named() {
    let world =
        world().with("pictures/a/2.jpeg", "text").with("pictures/a-b/0.jpg", &file("cmyk.jpg")[..100]);
    let told = faults(&with(Images { channels: 3, size: Some([2, 2]), fit: Fit::Stretch }), &world);
    let places: Vec<(u16, &str)> =
        told.iter().map(|(code, told)| (*code, told.split(':').next().unwrap_or_default())).collect();
    assert_eq!(places, [(742, "pictures/a/2.jpeg"), (742, "pictures/a-b/0.jpg")]);
    let many = (0..30).fold(world, |world, number| world.with(&format!("pictures/a/x{number}.png"), "no"));
    let told = faults(&spec(), &many);
    assert_eq!(told.len(), 20);
    assert!(told[19].1.ends_with("; 12 more files have faults"), "{}", told[19].1);
}

#[test]
fn a_folder_of_another_layout_is_refused() {
    let told = |world: Memory| faults(&spec(), &world);
    let one = |place: &str, message: &str| vec![(743, format!("{place}: {message}"))];
    assert_eq!(
        told(world().with("pictures/c/d/1.png", "")),
        one("pictures/c/d", "found a folder inside the class `c`, expected pictures alone")
    );
    assert_eq!(
        told(world().with("pictures/1.png", "")),
        one("pictures/1.png", "found a file beside the folders of the classes in `pictures`")
    );
    assert_eq!(
        told(world().with("pictures/a/notes.txt", "")),
        one("pictures/a/notes.txt", "found a file that is no .png, .jpg or .jpeg, expected pictures alone")
    );
    assert_eq!(
        told(Memory::default().with("pictures", "a file")),
        one("pictures", "found a file at `pictures`, expected a folder with a folder for each class")
    );
    assert_eq!(told(Memory::default())[0].0, 720);
    assert_eq!(
        faults(&DataSpec { classes: Some(3), ..spec() }, &world()),
        [(725, "pictures: found 2 folders of classes in `pictures`, expected 3".to_owned())]
    );
}

/// A folder on the disk with the pictures of [`world`].
fn on_disk() -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = Utf8PathBuf::from_path_buf(folder.path().to_owned()).expect("a UTF-8 path");
    for (path, bytes) in world().files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    (folder, root)
}

#[test]
fn an_empty_class_and_a_broken_link_are_seen_on_the_disk() {
    let (_folder, root) = on_disk();
    let (_place, store) = store();
    fs::create_dir(root.join("pictures/empty")).expect("a folder");
    let told = prepare(&spec(), &root, &Disk, &store).expect_err("refused");
    assert_eq!(told[0].message, "found no picture of the class `empty`, expected at least one");
    fs::remove_dir(root.join("pictures/empty")).expect("an empty folder");
    #[cfg(unix)]
    {
        // A link to a picture is that picture; a link to nothing is a fault.
        std::os::unix::fs::symlink("1.png", root.join("pictures/a/3.png")).expect("a link");
        assert_eq!(prepare(&spec(), &root, &Disk, &store).expect("prepared").sources[0].files, 4);
        std::os::unix::fs::symlink("gone.png", root.join("pictures/a/4.png")).expect("a link");
        let told = prepare(&spec(), &root, &Disk, &store).expect_err("refused");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].code.0, 720);
        assert_eq!(told[0].message, "found a link at `pictures/a/4.png` to `gone.png`, and nothing there");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_in_a_folder_is_told_by_its_own_name() {
    let (_folder, root) = on_disk();
    let (_place, store) = store();
    let told = || prepare(&spec(), &root, &Disk, &store).expect_err("refused").remove(0);
    let pipe = std::process::Command::new("mkfifo").arg(root.join("pictures/a/3.png")).status();
    assert!(pipe.expect("mkfifo runs").success());
    assert_eq!(told().message, "found a pipe at `pictures/a/3.png`, expected a file");
    fs::remove_file(root.join("pictures/a/3.png")).expect("the pipe");
    std::os::unix::fs::symlink("../../pictures", root.join("pictures/a/above")).expect("a link");
    let fault = told();
    assert!(fault.message.starts_with("cannot read `pictures/a/above`: a link back to"), "{fault:?}");
}

#[test]
fn an_unchanged_folder_is_known_and_a_changed_one_is_not() {
    let (_folder, root) = on_disk();
    let (_place, store) = store();
    let known =
        |root: &Utf8Path| at_a_glance(&spec(), root, &Disk, &store).map(|found| found.expect("sound"));
    assert!(known(&root).is_none());
    // A note counts only when it is younger than what it knows.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let made = prepare(&spec(), &root, &Disk, &store).expect("prepared");
    let found = known(&root).expect("known");
    assert_eq!((found.content, &found.sources), (made.content, &made.sources));
    assert_eq!(found.class_names(), ["a", "a-b"]);
    // What a file manager leaves behind changes nothing; a picture that comes or goes does.
    fs::write(root.join("pictures/a/.hidden"), "x").expect("a file");
    assert!(known(&root).is_some());
    recheck(&made.sources, &root, &Disk).expect("unchanged");
    fs::write(root.join("pictures/a/0.png"), plain([0, 0, 0])).expect("a file");
    assert!(known(&root).is_none());
    assert_eq!(recheck(&made.sources, &root, &Disk).expect_err("changed")[0].code.0, 731);
    fs::remove_file(root.join("pictures/a/0.png")).expect("the file");
    assert!(known(&root).is_some());
    fs::remove_file(root.join("pictures/a/1.png")).expect("the file");
    assert!(known(&root).is_none());
}

#[test]
fn a_store_that_cannot_be_written_holds_the_same_bytes_in_memory() {
    let nowhere = Store::open_read_only(Utf8Path::new("no-such-folder")).expect("opens");
    let held = prepare(&spec(), here(), &world(), &nowhere).expect("prepared");
    let kept = prepared(&spec(), &world());
    assert_eq!((held.bytes(), held.content), (kept.bytes(), kept.content));
    assert_eq!(held.notes.len(), 1);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let part = |name: &str| Part { name: name.to_owned(), fraction: 0.5 };
    let split = Split::Fractions { parts: vec![part("train"), part("test")], shuffle: Some(3) };
    let images = Images { channels: 3, size: Some([6, 5]), fit: Fit::Centre { shorter: Some(7) } };
    let spec = DataSpec { split, ..with(images) };
    let many = (0..60).fold(Memory::default(), |world, number| {
        let raster = picture([7 + number % 5, 8 + number % 7], 1 + 2 * (number % 2));
        world.with(&format!("pictures/{}/{number}.png", number % 3), encoded(&raster))
    });
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let content = prepared(&spec, &many).content;
    let one = alone.install(|| prepared(&spec, &many).content);
    assert_eq!(one, content);
}
