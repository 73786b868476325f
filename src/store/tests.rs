//! The store on real folders: round trips, damage, two writers at once, disks that refuse.

#![expect(clippy::disallowed_methods, reason = "the tests damage files behind the store's back")]

use super::*;
use std::collections::BTreeSet;
use std::fs;

/// A folder that is removed at the end, and a store in it.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(&utf8(folder.path()).join("store"), false).expect("opens");
    (folder, store)
}

fn utf8(path: &std::path::Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.to_owned()).expect("a UTF-8 path")
}

/// Every name under a folder, sorted.
fn tree(folder: &Utf8Path) -> Vec<String> {
    let mut names: Vec<String> = walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|entry| utf8(entry.expect("an entry").path()))
        .filter(|path| path.is_file())
        .map(|path| path.strip_prefix(folder).expect("below").to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn blobs_lie_under_their_digest_and_come_back() {
    let (_folder, store) = store();
    let digest = store.put(b"abc").expect("puts");
    // FIPS 180-2, appendix B.1: the digest of "abc".
    assert_eq!(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let name = format!("blobs/sha256/ba/{}", digest.hex());
    assert_eq!(tree(store.root()), [name.as_str(), "locks/store", "version"]);
    assert_eq!(store.get(&digest).expect("gets"), b"abc");
    assert_eq!(store.put(b"abc").expect("puts again"), digest);
    assert!(store.holds(&digest));
}

#[test]
fn a_damaged_blob_is_refused_listed_and_mended_by_putting_it_again() {
    let (_folder, store) = store();
    let (good, bad) = (store.put(b"good").expect("puts"), store.put(b"will rot").expect("puts"));
    fs::write(store.blob_path(&bad), b"rotten!!").expect("damages");
    let error = store.get(&bad).expect_err("refused");
    assert_eq!(error.code().0, 765);
    assert_eq!(error.path(), store.blob_path(&bad));
    assert!(error.to_string().contains(&bad.to_string()), "{error}");
    let verification = store.verify().expect("verifies");
    assert_eq!(verification.checked, 2);
    let damaged: Vec<_> = verification.faults.iter().map(StoreError::path).collect();
    assert_eq!(damaged, [store.blob_path(&bad)]);
    assert_eq!(store.put(b"will rot").expect("mends"), bad);
    assert_eq!(store.get(&bad).expect("gets"), b"will rot");
    assert_eq!(store.get(&good).expect("gets"), b"good");
    assert!(store.verify().expect("verifies").faults.is_empty());
}

#[test]
fn a_missing_blob_is_named() {
    let (_folder, store) = store();
    let digest = Digest::of_bytes(b"never put");
    let error = store.get(&digest).expect_err("missing");
    assert_eq!(error.code().0, 764);
    assert!(error.is_not_found());
    assert!(error.to_string().contains(&digest.to_string()));
}

#[test]
fn a_file_is_replaced_whole_and_nothing_else_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = utf8(folder.path()).join("new/manifest.lock");
    write_file(&path, b"first").expect("writes, making the folder");
    write_file(&path, b"second").expect("replaces");
    assert_eq!(read_file(&path).expect("reads"), b"second");
    assert_eq!(tree(&utf8(folder.path())), ["new/manifest.lock"]);
}

#[test]
fn a_refused_write_leaves_no_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = utf8(folder.path()).join("taken");
    fs::create_dir_all(path.join("inside")).expect("a folder in the way");
    let error = write_file(&path, b"text").expect_err("a folder is in the way");
    assert_eq!(error.path(), path);
    assert!(tree(&utf8(folder.path())).is_empty());
}

#[cfg(unix)]
#[test]
fn links_and_permissions_survive_a_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (target, link) = (utf8(folder.path()).join("target"), utf8(folder.path()).join("link"));
    write_file(&target, b"old").expect("writes");
    assert_eq!(fs::metadata(&target).expect("metadata").permissions().mode() & 0o600, 0o600);
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).expect("sets permissions");
    std::os::unix::fs::symlink(&target, &link).expect("links");
    write_file(&link, b"new").expect("writes through the link");
    assert!(fs::symlink_metadata(&link).expect("metadata").file_type().is_symlink());
    assert_eq!(read_file(&target).expect("reads"), b"new");
    assert_eq!(fs::metadata(&target).expect("metadata").permissions().mode() & 0o777, 0o640);
}

#[test]
fn runs_at_the_same_time_get_folders_of_their_own() {
    let (_folder, store) = store();
    let run_id = Digest::of_bytes(b"a lock");
    let mut serials: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (0..5).map(|_| store.new_run(&run_id).expect("a run").serial).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    serials.sort_unstable();
    assert_eq!(serials, (1..=40).collect::<Vec<u32>>());
    let runs = store.runs(&run_id).expect("lists");
    assert_eq!(runs.len(), 40);
    assert_eq!(runs[9].path, store.root().join("runs").join(run_id.short()).join("0010"));
    assert!(store.runs(&Digest::of_bytes(b"another lock")).expect("lists").is_empty());
}

#[test]
fn lines_are_added_and_a_record_is_never_written_over() {
    let (_folder, store) = store();
    let path = store.root().join("runs/record.ndjson");
    let mut record = Appender::create(&path).expect("creates");
    record.line("{\"step\":1}").expect("adds");
    record.line("{\"step\":2}").expect("adds");
    record.sync().expect("syncs");
    assert_eq!(record.length(), 22);
    assert_eq!(read_file(&path).expect("reads"), b"{\"step\":1}\n{\"step\":2}\n");
    assert_eq!(record.line("two\nlines").expect_err("refused").code().0, 766);
    let error = Appender::create(&path).expect_err("exists");
    assert_eq!((error.code().0, error.path()), (760, path.as_path()));
}

#[test]
fn a_record_goes_on_after_its_checkpoint() {
    let (_folder, store) = store();
    let path = store.root().join("record.ndjson");
    write_file(&path, b"one\ntwo\nhalf a li").expect("writes");
    assert_eq!(Appender::reopen(&path, 9).expect_err("inside a line").code().0, 766);
    assert_eq!(Appender::reopen(&path, 99).expect_err("past the end").code().0, 766);
    assert_eq!(read_file(&path).expect("reads"), b"one\ntwo\nhalf a li");
    let mut record = Appender::reopen(&path, 4).expect("reopens");
    record.line("again").expect("adds");
    drop(record);
    assert_eq!(read_file(&path).expect("reads"), b"one\nagain\n");
}

#[test]
fn the_second_process_waits_for_prepared_data() {
    let (_folder, store) = store();
    let key = Digest::of_bytes(b"key");
    let first = store.lock_prepared(&key).expect("locks");
    assert!(!first.waited);
    let other = store.lock_prepared(&Digest::of_bytes(b"another key")).expect("locks");
    assert!(!other.waited);
    std::thread::scope(|scope| {
        let (tell, hear) = std::sync::mpsc::channel();
        let store = &store;
        let second = scope.spawn(move || {
            let guard = store.lock_prepared(&key).expect("locks in the end");
            tell.send("second").expect("heard");
            guard.waited
        });
        let early = hear.recv_timeout(std::time::Duration::from_millis(200));
        assert!(early.is_err(), "the second got the lock while the first had it");
        drop(first);
        assert_eq!(hear.recv().expect("told"), "second");
        assert!(second.join().expect("no panic"));
    });
}

#[test]
fn prepared_data_is_mapped_after_a_check() {
    let (_folder, store) = store();
    let key = Digest::of_bytes(b"key");
    assert!(store.prepared(&key).expect("looks").is_none());
    let digest = store.put_prepared(&key, &[b"ab", b"", b"c"]).expect("puts");
    assert_eq!(digest, Digest::of_bytes(b"abc"));
    let (found, mapped) = store.prepared(&key).expect("looks").expect("is there");
    assert_eq!((found, &mapped[..]), (digest, &b"abc"[..]));
    let folder = store.root().join("prepared").join(key.hex());
    fs::write(folder.join("tensors.safetensors.new"), b"abd").expect("writes");
    fs::rename(folder.join("tensors.safetensors.new"), folder.join("tensors.safetensors")).expect("damages");
    assert_eq!(store.prepared(&key).expect_err("damaged").code().0, 765);
    assert_eq!(store.verify().expect("verifies").faults.len(), 1);
    fs::write(folder.join("digest"), b"nonsense").expect("damages");
    assert_eq!(store.prepared(&key).expect_err("damaged").code().0, 765);
    fs::remove_file(folder.join("digest")).expect("removes");
    assert!(store.prepared(&key).expect("unfinished counts as absent").is_none());
}

#[test]
fn a_collection_keeps_roots_and_runs() {
    let (_folder, store) = store();
    let (kept, loose) = (store.put(b"kept").expect("puts"), store.put(b"loose").expect("puts"));
    let (kept_key, loose_key) = (Digest::of_bytes(b"kept key"), Digest::of_bytes(b"loose key"));
    store.put_prepared(&kept_key, &[b"1"]).expect("puts");
    store.put_prepared(&loose_key, &[b"2"]).expect("puts");
    let (kept_note, loose_note) = (Digest::of_bytes(b"kept note"), Digest::of_bytes(b"loose note"));
    store.put_note(&kept_note, b"of a root").expect("puts");
    store.put_note(&loose_note, b"of nothing").expect("puts");
    let run = store.new_run(&kept).expect("a run");
    fs::write(run.path.join(RECORD), b"{}\n").expect("an event");
    let folder = store.root().join("blobs/sha256/00");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(".amp-x1.tmp"), b"half").expect("a leftover");
    fs::write(folder.join("notes.txt"), b"a person's").expect("a foreign file");
    let roots = BTreeSet::from([kept, kept_key, kept_note]);
    let before = tree(store.root());
    let planned = store.collect(&roots, true).expect("plans");
    assert_eq!(tree(store.root()), before, "a dry run removes nothing");
    assert_eq!(store.collect(&roots, false).expect("collects"), planned);
    let removed: Vec<_> = planned.iter().map(|entry| (entry.kind, entry.digest)).collect();
    assert_eq!(
        removed,
        [
            (EntryKind::Blob, Some(loose)),
            (EntryKind::Prepared, Some(loose_key)),
            (EntryKind::Note, Some(loose_note)),
            (EntryKind::Leftover, None)
        ]
    );
    assert!(store.note(&kept_note).is_some() && store.note(&loose_note).is_none());
    assert_eq!(planned.iter().map(|entry| entry.bytes).collect::<Vec<_>>(), [5, 1 + 72, 10, 4]);
    assert!(store.holds(&kept) && !store.holds(&loose) && run.path.is_dir());
    assert!(store.prepared(&kept_key).expect("looks").is_some());
    assert!(folder.join("notes.txt").exists(), "what is not amp's stays");
    assert_eq!(store.collect(&roots, false).expect("collects"), []);
}

#[test]
fn a_collection_removes_what_killed_runs_left_and_nothing_of_one_that_lasts() {
    let (_folder, store) = store();
    let id = Digest::of_bytes(b"a run");
    let whole = store.new_run(&id).expect("a run");
    fs::write(whole.path.join(RECORD), b"{}\n").expect("an event");
    fs::write(whole.path.join(".amp-x1.tmp"), b"half").expect("a leftover");
    let killed = store.new_run(&Digest::of_bytes(b"killed")).expect("a run");
    fs::write(killed.path.join("manifest.lock"), b"lock").expect("a lock");
    fs::write(killed.path.join(RECORD), b"{\"cut").expect("half an event");
    let emptied = store.new_run(&id).expect("a run");
    fs::write(emptied.path.join(RECORD), b"").expect("a record that lost its events");
    fs::write(emptied.path.join("model.safetensors"), b"model").expect("a checkpoint");
    let (begun, held) = store.begin_run(&id).expect("a run");
    let removed = store.collect(&BTreeSet::new(), false).expect("collects");
    let removed: BTreeSet<_> = removed.into_iter().map(|entry| (entry.kind, entry.path)).collect();
    let leftover = |path| (EntryKind::Leftover, path);
    let expected = [leftover(killed.path.clone()), leftover(whole.path.join(".amp-x1.tmp"))];
    assert_eq!(removed, BTreeSet::from(expected));
    assert!(!killed.path.parent().expect("its lock's folder").exists(), "it held nothing else");
    assert!(begun.path.is_dir() && emptied.path.is_dir() && whole.path.join(RECORD).is_file());
    drop(held);
    let removed = store.collect(&BTreeSet::new(), false).expect("collects");
    assert_eq!(removed.into_iter().map(|entry| entry.path).collect::<Vec<_>>(), [begun.path]);
}

#[test]
fn the_note_of_the_layout_needs_no_line_end() {
    let (_folder, store) = store();
    let open = |content: &[u8]| {
        fs::write(store.root().join("version"), content).expect("a note");
        Store::open(store.root(), false)
    };
    for same in [&b"1"[..], b"1\n", b"1\r\n"] {
        assert_eq!(open(same).expect("opens").root(), store.root());
    }
    let error = open(b"2\n").expect_err("another layout");
    assert_eq!(error.code().0, 767);
    assert!(error.help().expect("help").contains("use that amp"), "{error}");
}

#[test]
fn prepared_data_that_is_being_made_is_not_collected() {
    let (_folder, store) = store();
    let key = Digest::of_bytes(b"key");
    store.put_prepared(&key, &[b"1"]).expect("puts");
    let guard = store.lock_prepared(&key).expect("locks");
    assert_eq!(store.collect(&BTreeSet::new(), false).expect("collects"), []);
    drop(guard);
    assert_eq!(store.collect(&BTreeSet::new(), false).expect("collects").len(), 1);
}

#[test]
fn a_read_only_store_answers_and_refuses() {
    let (_folder, store) = store();
    let digest = store.put(b"abc").expect("puts");
    let reader = Store::open_read_only(store.root()).expect("opens");
    assert!(reader.is_read_only());
    assert_eq!(reader.get(&digest).expect("gets"), b"abc");
    assert_eq!(reader.put(b"abc").expect("is there already"), digest);
    for error in [
        reader.put(b"new").expect_err("refused"),
        reader.new_run(&digest).expect_err("refused"),
        reader.put_prepared(&digest, &[b"new"]).expect_err("refused"),
        reader.collect(&BTreeSet::new(), false).expect_err("refused"),
    ] {
        assert_eq!(error.code().0, 762, "{error}");
        assert!(error.help().expect("help").contains("--store"));
    }
    let nowhere = Store::open_read_only(Utf8Path::new("/no/such/folder")).expect("an empty store");
    assert_eq!(nowhere.list().expect("lists"), []);
}

#[test]
fn something_else_in_the_place_of_a_store_is_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = utf8(folder.path());
    fs::write(root.join("file"), b"text").expect("writes");
    assert_eq!(Store::open(&root.join("file"), true).expect_err("a file").code().0, 767);
    fs::create_dir_all(root.join("later")).expect("a folder");
    fs::write(root.join("later/version"), b"2\n").expect("writes");
    let error = Store::open(&root.join("later"), true).expect_err("another layout");
    assert_eq!(error.code().0, 767);
    assert!(error.to_string().contains("layout \"2\""), "{error}");
    assert_eq!(tree(&root), ["file", "later/version"]);
}

#[test]
fn causes_have_codes_of_their_own() {
    let path = Utf8Path::new("a/b");
    for (kind, code) in [
        (std::io::ErrorKind::StorageFull, 761),
        (std::io::ErrorKind::QuotaExceeded, 761),
        (std::io::ErrorKind::ReadOnlyFilesystem, 762),
        (std::io::ErrorKind::PermissionDenied, 763),
        (std::io::ErrorKind::NotFound, 760),
    ] {
        let error = StoreError::io("write", path, kind.into());
        assert_eq!((error.code().0, error.path()), (code, path));
        assert!(error.to_string().starts_with("cannot write `a/b`"), "{error}");
    }
}

#[test]
fn numbers_and_bytes_are_views_of_each_other() {
    let numbers = [1.0_f32, -2.5];
    let bytes = bytes_of(&numbers);
    assert_eq!(bytes, [0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]);
    assert_eq!(numbers_of::<f32>(bytes), Some(&numbers[..]));
    assert_eq!(numbers_of::<f32>(&bytes[..7]), None, "ragged");
    assert_eq!(numbers_of::<f32>(&bytes[1..5]), None, "misaligned");
}

/// Says why a test could not be made here.
#[expect(clippy::print_stderr, reason = "a test that was skipped must be seen")]
fn skip(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = utf8(folder.path());
    let mount = |arguments: &[&str]| {
        std::process::Command::new(arguments[0])
            .args(&arguments[1..])
            .output()
            .is_ok_and(|done| done.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", root.as_str()]) {
        return skip("mounting a small disk is not permitted here");
    }
    let outcome = std::panic::catch_unwind(|| {
        let path = root.join("manifest.lock");
        write_file(&path, b"old").expect("fits");
        let error = write_file(&path, &[7; 1 << 20]).expect_err("does not fit");
        assert_eq!((error.code().0, error.path()), (761, path.as_path()));
        assert_eq!(read_file(&path).expect("reads"), b"old");
        assert_eq!(tree(&root), ["manifest.lock"], "no temporary file stays");
        let mut record = Appender::create(&root.join("record.ndjson")).expect("creates");
        record.line("first").expect("waits");
        record.flush().expect("fits");
        let error = record.line(&"x".repeat(1 << 20)).expect_err("does not fit");
        assert_eq!(error.code().0, 761);
        assert_eq!(read_file(&root.join("record.ndjson")).expect("reads"), b"first\n", "whole lines only");
        // An open file would keep the disk from becoming read-only.
        drop(record);
        assert!(mount(&["mount", "-o", "remount,ro", root.as_str()]), "remounts");
        let error = write_file(&path, b"new").expect_err("read-only");
        assert_eq!(error.code().0, 762);
        assert!(Store::open(&root.join("store"), true).expect("opens").is_read_only());
        assert_eq!(Store::open(&root.join("store"), false).expect_err("must write").code().0, 762);
    });
    assert!(mount(&["umount", "-l", root.as_str()]), "unmounts");
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
