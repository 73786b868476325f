//! Recording what a run gave in the lock that it followed.
//!
//! Invariant: the lock is read again while its folder is held, one platform node of it is changed, and it is written only
//! if it is still the lock of this run: what others wrote during the run stays, or the recording is refused.

use super::exit::Exit;
use super::failure::Failure;
use super::lockfile;
use super::ui::Ui;
use crate::diag::Diagnostic;
use crate::lock::{self, Dropped, Lock, RecordedEvaluation, RecordedResult};
use camino::Utf8Path;
use std::collections::BTreeMap;

/// What a run gave, for one platform.
pub struct Results<'a> {
    /// Name of the platform.
    pub platform: &'a str,
    /// The end.
    pub result: &'a RecordedResult,
    /// The evaluations by step and split.
    pub evaluations: &'a BTreeMap<(u64, String), RecordedEvaluation>,
}

/// What a lock recorded of this run on a platform; a result of another run id is none.
pub fn recorded(lock: &Lock, platform: &str) -> Option<RecordedResult> {
    let result = lock.platforms.get(platform)?.result.as_ref()?;
    (result.run == lock.header.id).then(|| result.clone())
}

/// The lines of a platform's node by which bits may differ, as a lock writes them.
fn choices_of(lock: &Lock, platform: &str) -> Vec<(String, String)> {
    let lines = lock::tuning::lines_of(lock.platforms.get(platform)).into_iter();
    lines.map(|(name, entry)| (name.to_owned(), lock::write::entry_text(entry))).collect()
}

/// What the results took the place of.
pub struct Before {
    /// What the lock recorded of this very run.
    pub same_run: Option<RecordedResult>,
    /// What it recorded of another run id on this platform.
    pub dropped: Vec<Dropped>,
}

/// Writes the results into the lock; returns what they took the place of.
///
/// # Errors
/// The lock is gone, damaged, or by now the lock of another run or with other algorithms; it is then left as it is.
pub fn record(path: &Utf8Path, followed: &Lock, results: &Results<'_>) -> Result<Before, Failure> {
    let _held = lockfile::hold(path)?;
    let Some((text, mut now)) = lockfile::read(path)? else {
        return Err(Failure::new(
            Exit::No,
            format!("nothing was recorded: the lock `{path}` was removed during the run"),
        )
        .code(lock::MISSING)
        .help("take the lock back, then `amp run --record` again: it gives the same result"));
    };
    if now.header.id != followed.header.id {
        let message = format!(
            "nothing was recorded: during the run `{path}` became the lock of another run, {} instead of {}",
            now.header.id, followed.header.id
        );
        return Err(Failure::new(Exit::No, message)
            .code(lock::STALE)
            .help("`amp run --record` runs and records the lock that is there now; this run's record stays in the store"));
    }
    let choices = |lock: &Lock| choices_of(lock, results.platform);
    if choices(&now) != choices(followed) {
        let message = format!(
            "nothing was recorded: during the run other algorithms were chosen in `{path}` for the platform `{}`",
            results.platform
        );
        return Err(Failure::new(Exit::No, message)
            .code(lock::STALE)
            .help("`amp run --record` runs and records with those that are there now; this run's record stays in the store"));
    }
    let earlier = now.clone();
    let platform = now.platforms.entry(results.platform.to_owned()).or_default();
    platform.result = Some(results.result.clone());
    platform.evaluations.clone_from(results.evaluations);
    lockfile::write(path, &lock::write(&now), Some(&text))?;
    let same_run = recorded(&earlier, results.platform);
    let dropped = if same_run.is_some() { Vec::new() } else { lock::dropped(&earlier, &now) };
    Ok(Before { same_run, dropped })
}

/// Says that another result of the same run was replaced, which should not be.
pub fn warn_replaced(ui: &Ui, path: &Utf8Path, before: &RecordedResult, result: &RecordedResult) {
    let message = format!(
        "`{path}` recorded another result of this very run, and `--record` replaced it: chain {} → {}, parameters {} → {}",
        before.chain, result.chain, before.parameters, result.parameters
    );
    let help = "one lock should give one result: before you commit this, run `amp verify --twice`, and `git diff` shows the \
                results that were there";
    lockfile::warn(ui, &Diagnostic::warning(crate::verify::DIFFERS, message).help(help));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::tests::{input, with_platform};
    use crate::lock::{Algorithm, TunedOn, Tuning, derive, retune};

    #[test]
    fn a_result_is_not_recorded_beside_algorithms_that_gave_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = Utf8Path::from_path(folder.path()).expect("UTF-8").join("manifest.lock");
        let on = TunedOn {
            device: "GPU".to_owned(),
            multiprocessors: 1,
            library: "cublaslt".to_owned(),
            version: 1,
        };
        let tuned = |tile: u32| {
            let products = [("bf16.8x8x8.nt".to_owned(), Algorithm { tile, ..Algorithm::default() })].into();
            let mut lock = with_platform(derive(input()));
            retune(&mut lock, "cuda-sm90", &Tuning { on: on.clone(), products });
            lock
        };
        let followed = tuned(1);
        let result = followed.platforms["cpu"].result.clone().expect("a result");
        let (platform, evaluations) = ("cuda-sm90", BTreeMap::new());
        let results = Results { platform, result: &result, evaluations: &evaluations };
        let written = |lock: &Lock| lockfile::write(&path, &lock::write(lock), None).expect("a disk");
        written(&tuned(2));
        let Err(Failure::Plain { exit, message, .. }) = record(&path, &followed, &results) else {
            panic!("it was recorded")
        };
        assert_eq!(exit, Exit::No);
        assert!(message.contains("other algorithms"), "{message}");
        written(&followed);
        record(&path, &followed, &results).map_err(|failure| failure.text()).expect("its own lock");
        let now = lockfile::read(&path).map_err(|failure| failure.text()).expect("a lock").expect("a file").1;
        assert_eq!(now.platforms["cuda-sm90"].result, Some(result));
        assert_eq!(choices_of(&now, platform), choices_of(&followed, platform));
    }
}
