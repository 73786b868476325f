//! Another name for a thing, in all files that name it; refused with its reason where the texts would have a fault then that
//! they do not have now.

use super::analysis::{Analysis, analyse};
use super::documents::{Document, Documents, Overlay};
use super::references::{Place, Wanted, clean, places};
use super::scene::Scene;
use super::target::Sort;
use crate::diag::{Diagnostic, Severity};
use crate::world::World;
use camino::Utf8PathBuf;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The places in one file.
pub struct Found {
    /// The file.
    pub path: Utf8PathBuf,
    /// Its text.
    pub text: Arc<str>,
    /// Where it names what was looked for; not empty.
    pub places: Vec<Place>,
}

/// The places in all open documents, in the user's modules that they read, and in the file of the declaration.
pub fn everywhere<'a>(
    wanted: &Wanted,
    documents: &Documents,
    analyses: impl Iterator<Item = &'a Analysis>,
    world: &dyn World,
) -> Vec<Found> {
    let overlay = Overlay { documents, world };
    let mut texts: BTreeMap<Utf8PathBuf, Arc<str>> =
        documents.all().map(|(_, document)| (document.path.clone(), Arc::clone(&document.text))).collect();
    let read = analyses.flat_map(|analysis| analysis.sources.files());
    for file in read.filter(|file| !file.name.starts_with("std:")) {
        texts.entry(clean(file.name.as_str().into())).or_insert_with(|| Arc::clone(&file.text));
    }
    if !wanted.is_of_library()
        && !texts.contains_key(&wanted.file)
        && let Some(text) = overlay.read(&wanted.file).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    {
        texts.insert(wanted.file.clone(), text.into());
    }
    let found = texts.into_iter().map(|(path, text)| {
        let analysis = Analysis::of_tree(&text);
        let places = places(&Scene { analysis: &analysis, path: &path, world: &overlay }, wanted);
        Found { path, text, places }
    });
    found.filter(|found| !found.places.is_empty()).collect()
}

/// Leaves of what was found the places that another name is written to.
///
/// # Errors
/// Why the name cannot be taken.
pub fn renamed(
    wanted: &Wanted,
    new: &str,
    mut found: Vec<Found>,
    documents: &Documents,
    world: &dyn World,
) -> Result<Vec<Found>, String> {
    if wanted.is_of_library() {
        return Err(format!("`{}` is declared by the library, `{}`", wanted.name, wanted.file));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if new.is_empty() || !new.bytes().all(plain) {
        return Err("a name consists of letters, digits, `-`, `_` and `.`".to_owned());
    }
    // Files that use a module name its path, which stays.
    found.iter_mut().for_each(|file| file.places.retain(|place| !place.path));
    found.retain(|file| !file.places.is_empty());
    if wanted.sort == Sort::Layer && new.contains('.') {
        return Err("the name of a layer has no `.`".to_owned());
    }
    let mut after = Documents::default();
    for (uri, document) in documents.all() {
        after.open(uri, document.text.to_string(), document.version);
    }
    let (mut before, mut then) = (Vec::new(), Vec::new());
    for file in &found {
        let text = replaced(&file.text, &file.places, new);
        let uri = documents
            .at(&file.path)
            .map_or_else(|| format!("file://{}", file.path), |(uri, _)| uri.to_owned());
        after.open(&uri, text.clone(), 0);
        before.push(Document { path: file.path.clone(), text: Arc::clone(&file.text), version: 0 });
        then.push(Document { path: file.path.clone(), text: text.into(), version: 0 });
    }
    // What reads a changed file may break too.
    let changed = |document: &Document| found.iter().any(|file| file.path == document.path);
    for (_, document) in documents.all().filter(|(_, document)| !changed(document)) {
        before.push(document.clone());
        then.push(document.clone());
    }
    let faults = |documents: &Documents, checked: &[Document]| {
        let overlay = Overlay { documents, world };
        let all = checked.iter().flat_map(|document| analyse(document, &overlay).diagnostics);
        all.filter(|fault| fault.severity == Severity::Error).collect::<Vec<Diagnostic>>()
    };
    let (old, new_faults) = (faults(documents, &before), faults(&after, &then));
    let count = |faults: &[Diagnostic], like: &Diagnostic| {
        faults.iter().filter(|fault| fault.code == like.code).count()
    };
    // By code, since the texts of faults that were there before may tell of the name.
    match new_faults.iter().find(|fault| count(&new_faults, fault) > count(&old, fault)) {
        Some(fault) => Err(fault.message.clone()),
        None => Ok(found),
    }
}

/// A text with another name in these places, which are in order and apart.
fn replaced(text: &str, places: &[Place], new: &str) -> String {
    let mut after = String::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        after.push_str(text.get(done..place.start).unwrap_or_default());
        after.push_str(new);
        done = place.end;
    }
    after.push_str(text.get(done..).unwrap_or_default());
    after
}
