//! What a hostile disk, a changed file and an impatient person can do.

use super::{Answer, Place, SMALL};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The small manifest, long enough to be interfered with.
fn long() -> String {
    SMALL.replace("train epochs=2", "train epochs=4000")
}

#[expect(clippy::zombie_processes, reason = "every caller waits for the child")]
/// Starts a run and waits until its record has steps.
fn start(place: &Place) -> (Child, std::path::PathBuf) {
    let child = place
        .command(&["run", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("amp starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let record = find(&place.path(".amp/runs"), "record.ndjson");
        if let Some(record) = record
            && std::fs::read_to_string(&record).is_ok_and(|text| text.contains("\"event\":\"step\""))
        {
            return (child, record);
        }
        assert!(Instant::now() < deadline, "no step within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The first file of this name below a folder.
pub fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path, name) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|found| found == name) {
            return Some(path);
        }
    }
    None
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success());
}

#[cfg(unix)]
#[test]
fn an_interrupt_closes_the_record_and_leaves_a_checkpoint() {
    let place = Place::with_manifest(&long());
    let (child, record) = start(&place);
    interrupt(&child);
    let answer = Answer::of(child.wait_with_output().expect("amp ends")).ends(130);
    assert_eq!(answer.json()["interrupted"], true);
    let text = std::fs::read_to_string(&record).expect("the record");
    let last: serde_json::Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["event"], "stopped");
    assert_eq!(last["hashed"]["reason"], "interrupted");
    let checkpoint = std::fs::read(record.with_file_name("model.safetensors")).expect("a checkpoint");
    safetensors::SafeTensors::deserialize(&checkpoint).expect("a whole checkpoint");
}

#[cfg(unix)]
#[test]
fn data_that_changes_during_the_run_is_an_integrity_fault() {
    let place = Place::with_manifest(&long());
    let (child, _) = start(&place);
    let path = place.path("data/digits.csv.gz");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("the data");
    file.write_all(b"x").expect("a byte more");
    drop(file);
    interrupt(&child);
    let answer = Answer::of(child.wait_with_output().expect("amp ends")).ends(5);
    assert!(answer.stdout.contains("AMP0731"), "{}", answer.stdout);
}

#[test]
fn missing_and_damaged_data_are_faults_with_codes() {
    let place = Place::with_manifest(SMALL);
    std::fs::remove_file(place.path("data/digits.csv.gz")).expect("the data");
    let answer = place.amp(&["run"]).ends(4);
    assert!(answer.stderr.contains("AMP0720"), "{}", answer.stderr);
    place.write("data/digits.csv.gz", [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    let answer = place.amp(&["run"]).ends(2);
    assert!(answer.stderr.contains("AMP0722"), "{}", answer.stderr);
    place.write("data/digits.csv.gz", "1,2,3\n4,x,6\n");
    let answer = place.amp(&["run"]).ends(2);
    assert!(answer.stderr.contains("AMP0724") || answer.stderr.contains("AMP0723"), "{}", answer.stderr);
}

#[test]
fn a_damaged_lock_is_refused_and_never_written_over() {
    let place = Place::with_manifest(SMALL);
    let _ = place.amp(&["lock"]).ends(0);
    let whole = place.read("manifest.lock");
    let damaged = [
        whole[..whole.len() / 2].to_owned(),
        whole.replace("digest.step \"sha256:", "digest.step \"sha256:0"),
        format!("<<<<<<< ours\n{whole}=======\n{whole}>>>>>>> theirs\n"),
        whole.replace("version=1", "version=9"),
        "\u{0}".to_owned(),
        String::new(),
    ];
    for text in damaged {
        assert_ne!(text, whole);
        place.write("manifest.lock", &text);
        let answer = place.amp(&["run", "--locked"]).ends(5);
        assert!(answer.stderr.contains("AMP05"), "{}", answer.stderr);
        let _ = place.amp(&["lock", "--check"]).ends(5);
        assert_eq!(place.read("manifest.lock"), text);
    }
    // An edit of a value that people wrote is not damage: the lock no longer says what the manifest says.
    let edited = whole.replace("optimizer.lr 0.002", "optimizer.lr 0.003");
    assert_ne!(edited, whole);
    place.write("manifest.lock", &edited);
    let answer = place.amp(&["run", "--locked"]).ends(1);
    assert!(answer.stderr.contains("optimizer.lr"), "{}", answer.stderr);
    assert_eq!(place.read("manifest.lock"), edited);
}

#[test]
fn damaged_prepared_data_is_made_anew_with_the_same_bits() {
    let place = Place::with_manifest(SMALL);
    let first = place.amp(&["run", "--json"]).ends(0).json();
    let prepared = find(&place.path(".amp/prepared"), "tensors.safetensors").expect("prepared data");
    let mut bytes = std::fs::read(&prepared).expect("prepared data");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&prepared, bytes).expect("damage");
    let second = place.amp(&["run", "--json"]).ends(0);
    assert_eq!(second.json()["chain"], first["chain"]);
}

/// A small file system of its own, unmounted at the end; `None` where that is not allowed.
struct Mount(std::path::PathBuf);

impl Mount {
    #[expect(clippy::print_stderr, reason = "a skipped test says so loudly")]
    fn new(path: std::path::PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir_all(&path).ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&path)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!(
                "SKIPPED: mounting a tmpfs is not allowed here, so the disk cannot be made full or read-only"
            );
        }
        mounted.then_some(Self(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// The folders of all runs of a store.
fn run_folders(store: &Path) -> Vec<std::path::PathBuf> {
    let below = |folder: &Path| -> Vec<_> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    below(&store.join("runs")).iter().flat_map(|run| below(run)).collect()
}

#[test]
fn a_full_disk_is_an_error_and_leaves_no_half_file() {
    let place = Place::with_manifest(&SMALL.replace("train epochs=2", "train epochs=40"));
    for size in ["size=16k", "size=200k", "size=400k"] {
        let Some(mount) = Mount::new(place.path("full"), size) else { return };
        let answer = place.amp(&["run", "--store", "full"]).ends(3);
        assert!(answer.stderr.contains("AMP07"), "{}", answer.stderr);
        assert!(find(&mount.0, "model.safetensors").is_none(), "a checkpoint on a full disk");
        for folder in run_folders(&mount.0) {
            let record = std::fs::metadata(folder.join("record.ndjson"));
            assert!(record.is_ok_and(|record| record.len() > 0), "{} says nothing", folder.display());
        }
    }
}

#[test]
fn a_read_only_store_is_an_error_before_any_training() {
    let place = Place::with_manifest(SMALL);
    let Some(_mount) = Mount::new(place.path("closed"), "ro,size=1m") else { return };
    let answer = place.amp(&["run", "--store", "closed"]).ends(3);
    assert!(answer.stderr.contains("--store"), "{}", answer.stderr);
    let _ = place.amp(&["lock", "--store", "closed"]).ends(0);
}

#[test]
fn a_store_that_is_a_file_is_an_error() {
    let place = Place::with_manifest(SMALL);
    place.write("store", "a file");
    let answer = place.amp(&["run", "--store", "store"]).ends(2);
    assert!(answer.stderr.contains("store"), "{}", answer.stderr);
}
