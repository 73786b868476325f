//! `amp verify --hostile`: the same run again and again, each time with something else around it that must not matter.
//!
//! Invariant: a variation that could not be made is said and is no success; every other one is compared with the plain run, digest
//! by digest. Each has a store of its own, so that its data is prepared under the variation too.

use super::args::Machine;
use super::repeat::{self, Around, Repetition};
use super::verify::Target;
use super::{Exit, Failure, Ui, pipeline};
use crate::arithmetic::Isa;
use crate::exec::clock::Stopwatch;
use crate::record::Record;
use crate::report::findings::of_variations;
use crate::report::variations::{self, Outcome, Report, Variation as Reported};
use crate::store::write_file;
use crate::verify::{Answer, Recorded, compare};
use crate::world::{Disk, World as _};
use camino::{Utf8Path, Utf8PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something else around the run.
struct Variation {
    name: &'static str,
    what: String,
    around: Around,
    machine: Machine,
    /// Whether the manifest and its data are copied, the last file first.
    copied: bool,
}

/// Files of a manifest's folder that are copied to another place, in bytes at most.
const MOST_COPIED: u64 = 1 << 28;

/// Runs the command.
pub fn run(target: &Target, machine: &Machine, stop: &Arc<AtomicBool>, ui: &Ui) -> Result<Exit, Failure> {
    let failed =
        |why: String| Failure::new(Exit::Machine, format!("no temporary folder could be made: {why}"));
    let temporary = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let folder =
        Utf8Path::from_path(temporary.path()).ok_or_else(|| failed("its name is not UTF-8".to_owned()))?;
    let repeater = Repeater {
        manifest: pipeline::absolute(&target.manifest)?,
        lock: target.lock.as_deref().map(pipeline::absolute).transpose()?,
        algorithms: target.algorithms.as_deref().map(pipeline::absolute).transpose()?,
        folder: folder.to_owned(),
        stop: Arc::clone(stop),
        ui,
    };
    ui.status("Repeating", &format!("{} as it is", target.manifest));
    let watch = Stopwatch::start();
    let plain = repeater.repeat("plain", &Around::default(), machine)?;
    let seconds = watch.seconds();
    let recorded = target.expected.run_id.is_some().then(|| compare(&target.expected, &plain));
    let expected = Recorded::from_record(&plain);
    let mut report = Report { run_id: plain.started.run_id, recorded, variations: Vec::new() };
    for variation in variations(machine, folder) {
        ui.status("Varying", &format!("{}: {} (about {seconds:.1} s)", variation.name, variation.what));
        let watch = Stopwatch::start();
        let outcome = repeater.outcome(&variation, &expected);
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::new(
                Exit::Interrupted,
                "interrupted; the repeated run was stopped and nothing is left",
            ));
        }
        report.variations.push(Reported {
            name: variation.name.to_owned(),
            what: variation.what,
            outcome,
            seconds: watch.seconds(),
        });
    }
    let exit = exit(&report);
    let document = variations::json(&report, exit.code());
    ui.whole_answer(
        &document,
        |color| variations::text(&report, color),
        &of_variations(ui.command, &report),
        exit,
    );
    Ok(exit)
}

fn exit(report: &Report) -> Exit {
    match report.answer() {
        Answer::Differs if report.varied_differs() => Exit::NotDeterministic,
        Answer::Differs => Exit::No,
        Answer::Same => Exit::Done,
        Answer::Inconclusive => Exit::Inconclusive,
    }
}

/// What is the same for all variations.
struct Repeater<'a> {
    manifest: Utf8PathBuf,
    lock: Option<Utf8PathBuf>,
    algorithms: Option<Utf8PathBuf>,
    folder: Utf8PathBuf,
    stop: Arc<AtomicBool>,
    ui: &'a Ui,
}

impl Repeater<'_> {
    fn repeat(&self, name: &str, around: &Around, machine: &Machine) -> Result<Record, Failure> {
        repeat::run(
            &Repetition {
                manifest: &self.manifest,
                lock: self.lock.as_deref(),
                algorithms: self.algorithms.as_deref(),
                machine,
                store: &self.folder.join(name).join("store"),
                folder: &self.folder,
                stop: Arc::clone(&self.stop),
                around: around.clone(),
            },
            self.ui,
        )
    }

    fn outcome(&self, variation: &Variation, expected: &Recorded) -> Outcome {
        let result = if variation.copied {
            self.copy(variation.name).and_then(|manifest| {
                let moved = Repeater {
                    manifest,
                    lock: None,
                    algorithms: self.algorithms.clone(),
                    folder: self.folder.clone(),
                    stop: Arc::clone(&self.stop),
                    ui: self.ui,
                };
                moved.repeat(variation.name, &variation.around, &variation.machine)
            })
        } else {
            self.repeat(variation.name, &variation.around, &variation.machine)
        };
        match result {
            Err(failure) => Outcome::Skipped(failure.text()),
            Ok(actual) => {
                let verdict = compare(expected, &actual);
                match verdict.answer {
                    Answer::Same => Outcome::Same(verdict.compared),
                    Answer::Differs => Outcome::Differs(Box::new(verdict)),
                    Answer::Inconclusive => Outcome::Skipped("not all could be compared".to_owned()),
                }
            }
        }
    }

    /// Copies the folder of the manifest, the last name first, so that folders list their files in another order.
    fn copy(&self, name: &str) -> Result<Utf8PathBuf, Failure> {
        let source = pipeline::folder_of(&self.manifest);
        let failed = |error: std::io::Error| Failure::new(Exit::Machine, error.to_string());
        let mut files = Disk.files_under(source).map_err(failed)?;
        files.retain(|file| !file.components().any(|part| part.as_str() == ".amp"));
        files.sort_by(|left, right| right.cmp(left));
        let target = self.folder.join(name).join("another place");
        let mut copied = 0;
        for file in files {
            let path = if file.is_absolute() { file.clone() } else { source.join(&file) };
            let bytes = Disk.read(&path).map_err(failed)?;
            copied += bytes.len() as u64;
            if copied > MOST_COPIED {
                return Err(Failure::new(
                    Exit::Machine,
                    "the folder of the manifest is too large to be copied",
                ));
            }
            let relative = path.strip_prefix(source).unwrap_or(&file).to_owned();
            write_file(&target.join(relative), &bytes)?;
        }
        Ok(target.join(self.manifest.file_name().unwrap_or("manifest.kdl")))
    }
}

/// Everything that is varied.
fn variations(machine: &Machine, folder: &Utf8Path) -> Vec<Variation> {
    let plain = |name, what: &str, around: Around| Variation {
        name,
        what: what.to_owned(),
        around,
        machine: machine.clone(),
        copied: false,
    };
    let with = |pairs: &[(&str, &str)]| Around {
        variables: pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Around::default()
    };
    let through = |words: &[&str]| Around {
        through: words.iter().map(|word| (*word).to_owned()).collect(),
        ..Around::default()
    };
    let elsewhere = Around { folder: Some(folder.to_owned()), ..Around::default() };
    let mut all = vec![
        plain(
            "locale",
            "LC_ALL=tr_TR.UTF-8, LANG=de_DE.UTF-8",
            with(&[("LC_ALL", "tr_TR.UTF-8"), ("LANG", "de_DE.UTF-8")]),
        ),
        plain("time zone", "TZ=Pacific/Kiritimati", with(&[("TZ", "Pacific/Kiritimati")])),
        plain("umask", "umask 077", through(&["sh", "-c", "umask 077; exec \"$0\" \"$@\""])),
        plain(
            "home",
            "HOME=/nonexistent",
            with(&[("HOME", "/nonexistent"), ("XDG_CONFIG_HOME", "/nonexistent"), ("USER", "nobody")]),
        ),
        plain("working folder", "another working folder", elsewhere),
        plain("environment", "noise, and variables of other libraries", noise()),
        plain(
            "memory poison",
            "MALLOC_PERTURB_=165, one arena",
            with(&[("MALLOC_PERTURB_", "165"), ("MALLOC_ARENA_MAX", "1")]),
        ),
        plain("addresses", "no random layout of addresses", through(&["setarch", "-R"])),
        plain("processors", "one processor of this machine", through(&["taskset", "-c", "0"])),
    ];
    let mut copied = plain("file order", "a copy in another place, the last file first", Around::default());
    copied.copied = true;
    all.push(copied);
    let cores = crate::exec::cpu::threads::available();
    for (name, count) in
        [("one thread", 1), ("two threads", 2), ("three threads", 3), ("many threads", 2 * cores + 3)]
    {
        let threads = u16::try_from(count).ok();
        let machine = Machine { threads, ..machine.clone() };
        let what = format!("--threads {count}");
        all.push(Variation { name, what, around: Around::default(), machine, copied: false });
    }
    for isa in Isa::available() {
        let name = match isa.to_string().as_str() {
            "scalar" => "scalar kernels",
            "avx2" => "AVX2 kernels",
            "avx512" => "AVX-512 kernels",
            _ => "NEON kernels",
        };
        let machine = Machine { isa: Some(isa.to_string()), ..machine.clone() };
        all.push(Variation {
            name,
            what: format!("--isa {isa}"),
            around: Around::default(),
            machine,
            copied: false,
        });
    }
    all
}

/// Variables that other libraries listen to, and many that nobody knows.
fn noise() -> Around {
    let known = [
        ("OMP_NUM_THREADS", "3"),
        ("RAYON_NUM_THREADS", "3"),
        ("MKL_CBWR", "SSE2"),
        ("OPENBLAS_CORETYPE", "Nehalem"),
        ("CUBLAS_WORKSPACE_CONFIG", ":16:8"),
        ("NVIDIA_TF32_OVERRIDE", "1"),
        ("PYTHONHASHSEED", "7"),
        ("RUST_BACKTRACE", "full"),
        ("RUST_MIN_STACK", "8388608"),
        ("SOURCE_DATE_EPOCH", "1"),
        ("NO_COLOR", ""),
    ];
    let known = known.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let unknown = (0..200).map(|index| (format!("NOISE_{index}"), "x".repeat(index)));
    Around { variables: known.chain(unknown).collect(), ..Around::default() }
}
