//! `amp init`: a manifest that runs, for data that comes with amp (handwritten digits, computed tokens) or for a file of the
//! user's.
//!
//! A file of the user's is read whole (`data::look`), so that the columns, classes and shape that are written are those
//! of the file. What had to be assumed is said, in the manifest too. On a terminal the questions are asked that no option
//! answered; elsewhere none is.

mod ask;
pub mod ci;
mod kinds;
mod write;

pub use kinds::NAMES;

use super::args::InitArguments;
use super::pipeline::{file_failure, relative_to};
use super::{Exit, Failure, Ui};
use crate::data::look::{self, Look};
use crate::data::spec::Fit;
use crate::diag::number::counted;
use crate::store::write_file;
use crate::world::Disk;
use crate::{stdlib, syntax};
use camino::{Utf8Path, Utf8PathBuf};
use kinds::{Kind, Takes};
use serde_json::{Value, json};
use std::io::IsTerminal as _;

/// The digits of the first example: 57 kB, so that a new manifest runs anywhere.
const DIGITS: &[u8] = include_bytes!("../../examples/digits/data/digits.csv.gz");

/// What is to be written.
struct Wanted {
    kind: String,
    data: Option<Utf8PathBuf>,
    labels: Option<Utf8PathBuf>,
}

/// Runs the command; nothing that is there is written over.
pub fn run(arguments: &InitArguments, ui: &Ui) -> Result<Exit, Failure> {
    if let Some(kind) = &arguments.ci {
        return ci::run(kind, arguments, ui);
    }
    let manifest = arguments.folder.join("manifest.kdl");
    if manifest.exists() {
        return Err(
            Failure::new(Exit::Usage, format!("`{manifest}` is there already")).help("name another folder")
        );
    }
    let wanted = wanted(arguments, ui)?;
    let kind = Kind::of(&wanted.kind)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("there is no kind `{}`", wanted.kind)))?;
    let document = match (&wanted.data, kind.takes) {
        (None, Takes::Text) => computed(kind, &manifest)?,
        (None, _) => digits(arguments, kind, &manifest)?,
        (Some(data), Takes::Text) => own_text(arguments, kind, data, &manifest, ui)?,
        (Some(data), _) => own_data(arguments, &wanted, kind, data, &manifest, ui)?,
    };
    if ui.json {
        ui.document(&document);
    } else {
        ui.status("Created", manifest.as_str());
        ui.status("Next", &format!("amp run {manifest}"));
    }
    Ok(Exit::Done)
}

/// What the options say, and on a terminal what the person answers.
fn wanted(arguments: &InitArguments, ui: &Ui) -> Result<Wanted, Failure> {
    let mut wanted = Wanted {
        kind: arguments.kind.clone().unwrap_or_else(|| usual_kind(arguments.data.as_deref()).to_owned()),
        data: arguments.data.clone(),
        labels: arguments.labels.clone(),
    };
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !ui.json && !ui.quiet;
    if asks && arguments.kind.is_none() {
        let answers =
            ask::questions(&mut std::io::stdin().lock(), &mut std::io::stderr(), wanted.data.is_none());
        let answers = answers.map_err(|error| {
            Failure::new(Exit::Usage, format!("the answer could not be read: {error}"))
                .help("say it by an option: `amp init --kind mlp`")
        })?;
        wanted.kind = answers.kind;
        wanted.data = wanted.data.or(answers.data);
    }
    // Beside pictures that are named as those of MNIST, the labels are too.
    if let (Some(data), None) = (&wanted.data, &wanted.labels) {
        wanted.labels = look::labels_beside(data).map(Utf8PathBuf::from).filter(|path| path.is_file());
    }
    Ok(wanted)
}

/// The kind when none is asked for: one for pictures when those of a folder are given.
fn usual_kind(data: Option<&Utf8Path>) -> &'static str {
    if data.is_some_and(Utf8Path::is_dir) { "cnn" } else { "mlp" }
}

/// The template with the digits beside it.
fn digits(arguments: &InitArguments, kind: &Kind, manifest: &Utf8Path) -> Result<Value, Failure> {
    let data = arguments.folder.join("data/digits.csv.gz");
    if !data.exists() {
        write_file(&data, DIGITS)?;
    }
    write_file(manifest, template(kind)?.as_bytes())?;
    let shape: &[usize] = if kind.takes_pictures() { &[1, 8, 8] } else { &[64] };
    Ok(json!({
        "schema": "amp.init/1", "manifest": manifest.as_str(), "data": ["data/digits.csv.gz"], "kind": kind.name,
        "task": "classification", "classes": 10, "shape": shape, "notes": [],
    }))
}

/// The template over computed tokens.
fn computed(kind: &Kind, manifest: &Utf8Path) -> Result<Value, Failure> {
    write_file(manifest, template(kind)?.as_bytes())?;
    let note = "the tokens are computed; for a text of yours, write `--data FILE.txt`";
    Ok(json!({
        "schema": "amp.init/1", "manifest": manifest.as_str(), "data": [], "kind": kind.name, "task": task(kind),
        "classes": 256, "shape": [32], "notes": [note],
    }))
}

fn template(kind: &Kind) -> Result<&'static str, Failure> {
    let name = kind.name;
    stdlib::template(name).ok_or_else(|| Failure::new(Exit::Usage, format!("there is no template `{name}`")))
}

/// What is learned of tokens.
fn task(kind: &Kind) -> &'static str {
    if kind.name == "bert" { "masked-tokens" } else { "next-token" }
}

/// The fewest bytes of a text: a tenth is kept for the evaluation, and still holds two examples of 8 tokens.
const SHORTEST: usize = 200;

/// A manifest for a text of the user's.
fn own_text(
    arguments: &InitArguments,
    kind: &Kind,
    data: &Utf8Path,
    manifest: &Utf8Path,
    ui: &Ui,
) -> Result<Value, Failure> {
    let found = look::look_at_text(data, &Disk).map_err(file_failure)?;
    if found.characters < SHORTEST {
        let message =
            format!("`{data}` has {}, expected {SHORTEST} or more", counted(found.characters, "character"));
        return Err(Failure::new(Exit::Usage, message).help("give a longer text"));
    }
    if !arguments.shape.is_empty() {
        let message = format!("found `--shape` with `--kind {}`, whose examples are tokens", kind.name);
        return Err(Failure::new(Exit::Usage, message).help("leave `--shape` out"));
    }
    // Two examples at least in the tenth that is kept.
    let length = 64.min(1 << (found.characters / 20).ilog2());
    let files = vec![relative_to(&arguments.folder, data)?];
    let text = write::text_manifest(kind, &files[0], &found, length);
    write_file(manifest, canonical(&text, data)?.as_bytes())?;
    let note = format!(
        "examples have {}, and the last tenth of the text is for the evaluation",
        counted(length, "token")
    );
    if !ui.json {
        ui.status(
            "Read",
            &format!(
                "{data}: {}, {} of them different",
                counted(found.characters, "character"),
                found.alphabet
            ),
        );
        ui.status("Assumed", &note);
    }
    let vocabulary = if kind.name == "bert" { 256 } else { found.alphabet.max(2) };
    Ok(json!({
        "schema": "amp.init/1", "manifest": manifest.as_str(), "data": files, "kind": kind.name, "task": task(kind),
        "classes": vocabulary, "shape": [length], "notes": [note],
    }))
}

/// A manifest in canonical form.
fn canonical(text: &str, data: &Utf8Path) -> Result<String, Failure> {
    syntax::format(text).map_err(|_| {
        Failure::new(Exit::Usage, format!("the name `{data}` cannot stand in a manifest"))
            .help("rename the file: letters, digits, `-`, `_` and `.`")
    })
}

/// A manifest for a file of the user's.
fn own_data(
    arguments: &InitArguments,
    wanted: &Wanted,
    kind: &Kind,
    data: &Utf8Path,
    manifest: &Utf8Path,
    ui: &Ui,
) -> Result<Value, Failure> {
    let is_folder = data.is_dir();
    let look = match is_folder {
        true => look::look_at_folder(data, &Disk),
        false => look::look(data, wanted.labels.as_deref(), &Disk),
    };
    let mut look = look.map_err(file_failure)?;
    let shape = match is_folder {
        true => picture_shape(kind, &mut look, &arguments.shape)?,
        false => example_shape(kind, &mut look, &arguments.shape)?,
    };
    let labels = wanted.labels.as_deref().filter(|_| matches!(look.format, "idx" | "npy"));
    let files = std::iter::once(data).chain(labels);
    let files = files.map(|file| relative_to(&arguments.folder, file)).collect::<Result<Vec<_>, _>>()?;
    let text = canonical(&write::manifest(kind, &files, &look, &shape), data)?;
    write_file(manifest, text.as_bytes())?;
    if !ui.json {
        ui.status(
            "Read",
            &format!("{data}: {} of shape {:?}", counted(look.examples, "example"), look.shape),
        );
        look.notes.iter().for_each(|note| ui.status("Assumed", note));
    }
    Ok(json!({
        "schema": "amp.init/1", "manifest": manifest.as_str(), "data": files, "kind": kind.name,
        "task": if look.classes.is_some() { "classification" } else { "regression" },
        "classes": look.classes, "shape": shape, "notes": look.notes,
    }))
}

/// The shape of examples of a folder of pictures: any that is asked for, since pictures are scaled.
fn picture_shape(kind: &Kind, look: &mut Look, asked: &[u32]) -> Result<Vec<usize>, Failure> {
    let asked: Vec<usize> = asked.iter().map(|size| *size as usize).collect();
    let shape = match asked.as_slice() {
        [] if kind.name == "vit" && look.shape[1] != look.shape[2] => {
            let side = look.shape[1].min(look.shape[2]);
            vec![look.shape[0], side, side]
        }
        [] => look.shape.clone(),
        [1 | 3, _, _] => asked,
        _ => {
            let message =
                format!("found the shape {asked:?}, expected channels (3, or 1 for grey), height and width");
            return Err(Failure::new(Exit::Usage, message).help("write, for example, `--shape 3,224,224`"));
        }
    };
    if kind.takes_pictures() && !fits(kind, &shape) {
        let message = format!("an example of shape {shape:?} is no picture that `{}` can take", kind.name);
        return Err(
            Failure::new(Exit::Usage, message).help("write another `--shape`, such as `--shape 3,64,64`")
        );
    }
    if shape != look.shape {
        look.fit = Some(Fit::Centre { shorter: Some(shape[1].max(shape[2])) });
        look.shape.clone_from(&shape);
    }
    Ok(shape)
}

/// The shape of an example as the model wants it: (C, H, W) for models of pictures.
fn example_shape(kind: &Kind, look: &mut Look, asked: &[u32]) -> Result<Vec<usize>, Failure> {
    let count: usize = look.shape.iter().product();
    let asked: Vec<usize> = asked.iter().map(|size| *size as usize).collect();
    let no_picture = |shape: &[usize]| {
        let message = format!("an example of shape {shape:?} is no picture that `{}` can take", kind.name);
        Failure::new(Exit::Usage, message)
            .help("write `--kind mlp`, or say the channels, height and width: `--shape 1,28,28`")
    };
    if !asked.is_empty() {
        let product = asked.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        if product != Some(count) {
            let message =
                format!("an example has {}, and the shape {asked:?} other ones", counted(count, "number"));
            return Err(
                Failure::new(Exit::Usage, message).help(format!("give sizes whose product is {count}"))
            );
        }
        if kind.takes_pictures() && !fits(kind, &asked) {
            return Err(no_picture(&asked));
        }
        return Ok(asked);
    }
    if !kind.takes_pictures() {
        return Ok(look.shape.clone());
    }
    let shape = match look.shape.as_slice() {
        [height, width] => vec![1, *height, *width],
        [width] => {
            let side = width.isqrt();
            if side * side != *width {
                return Err(no_picture(&look.shape));
            }
            look.notes.push(format!("the {width} numbers of an example are a picture of {side} by {side}"));
            vec![1, side, side]
        }
        whole => whole.to_vec(),
    };
    if fits(kind, &shape) { Ok(shape) } else { Err(no_picture(&look.shape)) }
}

/// Whether a model of pictures can take this one; the patches of `vit` cut a square.
fn fits(kind: &Kind, shape: &[usize]) -> bool {
    is_picture(shape) && (kind.name != "vit" || shape[1] == shape[2])
}

/// Channels come first and are fewer than pixels; pooling halves height and width.
fn is_picture(shape: &[usize]) -> bool {
    matches!(shape, [channels, height, width] if *height >= 2 && *width >= 2 && *channels <= height * width
        && !(matches!(width, 2..=4) && *channels > 4))
}
