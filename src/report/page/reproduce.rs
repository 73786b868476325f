//! How to get the run again: the commands, and the digests that they have to give.

use super::{Subject, code, escape, table};
use crate::diag::number::counted;

/// The commands for one record.
pub fn section(subject: Subject<'_>) -> String {
    let started = &subject.record.started;
    let manifest = manifest(subject);
    let mut content = String::new();
    let sources = subject.followed().map(|lock| lock.sources()).unwrap_or_default();
    if !sources.is_empty() {
        content.push_str("<p>Beside the manifest lie its data, byte for byte:</p>");
        let rows: Vec<Vec<String>> = sources
            .iter()
            .map(|(path, digest, bytes)| vec![code(path), counted(*bytes, "byte"), code(&digest.to_string())])
            .collect();
        content.push_str(&table(&[], &rows));
    }
    let folder = quoted(subject.named);
    let commands = [
        (format!("amp lock {manifest} --check"), "the lock says what the manifest says"),
        (format!("amp run {manifest} --locked"), "prints the chain and the digest of the parameters"),
        (format!("amp verify {folder}"), "repeats this very record and compares every step"),
        (format!("amp verify {folder} --segments 3 --seed 1"), "the same for parts, each from a kept state"),
    ];
    content.push_str(&block(&commands));
    let mut rows = vec![
        vec!["run id".to_owned(), code(&started.run_id.to_string())],
        vec!["chain".to_owned(), code(&subject.record.chain().to_string())],
    ];
    if let Some(finished) = subject.record.finished() {
        rows.push(vec!["parameters".to_owned(), code(&finished.parameters.to_string())]);
    }
    content.push_str("<p>It is the same run if these are the same:</p>");
    content.push_str(&table(&[], &rows));
    content.push_str(match started.guarantee.as_str() {
        "portable" => {
            "<p class=\"faint\">The guarantee is <b>portable</b>: any processor, instruction set, number of threads and, built for \
             it, any GPU gives these bits.</p>"
        }
        _ => {
            "<p class=\"faint\">The guarantee is <b>device</b>: the same model of device with the same libraries gives these bits, \
             and no other is promised to.</p>"
        }
    });
    super::section("How to get it again", &content)
}

/// The commands for two records.
pub fn both(subjects: [Subject<'_>; 2]) -> String {
    let [old, new] = subjects.map(|subject| quoted(subject.named));
    let commands = [
        (format!("amp diff {old} {new}"), "what differs, as text"),
        (format!("amp bisect {old} {new}"), "the first op that differs, where both follow one lock"),
        (format!("amp verify {old}"), "which of the two this machine gives again"),
        (format!("amp verify {new}"), ""),
    ];
    super::section("How to look further", &block(&commands))
}

/// Commands, what each is for beside it.
fn block(commands: &[(String, &str)]) -> String {
    let widest = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let lines = commands.iter().map(|(command, what)| match what.is_empty() {
        true => command.clone(),
        false => format!("{command:widest$}  # {what}"),
    });
    format!("<pre><code>{}</code></pre>", escape(&lines.collect::<Vec<_>>().join("\n")))
}

/// The manifest as the lock names it, its folders left out.
fn manifest(subject: Subject<'_>) -> String {
    let named = subject.followed().map_or("manifest.kdl", |lock| lock.header.manifest.as_str());
    quoted(named.rsplit('/').next().unwrap_or(named))
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._/-+=:@%".contains(character);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
