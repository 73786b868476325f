//! Text into a lock, strictly: the canonical grammar and nothing else, with a place for every fault.
//!
//! Only the order of lines, empty lines, comments and carriage returns are forgiven, since a merge or a checkout can
//! change these without changing the meaning; `amp lock --check` still asks for the canonical bytes. No text makes the
//! reader panic.

use super::model::{Entry, Header, Lock, NAMED_BY_VALUE, Platform, RecordedEvaluation, RecordedResult};
use super::token::{Line, Word, parse_line};
use super::tuning;
use super::{CONFLICT, DUPLICATE, REVISION, SYNTAX, TRUNCATED, UNKNOWN_VERSION, VALUE, VERSION};
use crate::diag::number::counted;
use crate::diag::{Code, Diagnostic, FileId, Span};
use crate::digest::Digest;
use std::collections::BTreeMap;

/// How many faults of one text are told; a file that is no lock would have one a line.
const MOST_FAULTS: usize = 20;

/// Returns the lock that a text holds.
///
/// # Errors
/// All independent faults, each with its place: lines outside the grammar, conflict markers, an unknown version, a
/// truncated text, duplicate entries, values of known entries that are not of their type.
pub fn read(file: FileId, text: &str) -> Result<Lock, Vec<Diagnostic>> {
    let mut reader =
        Reader { file, text, faults: Vec::new(), header: Parts::default(), platform: None, lock_end: 0 };
    if let Some(conflict) = reader.conflict() {
        return Err(vec![conflict]);
    }
    let mut lock = Content::default();
    let mut start = 0;
    for raw in text.split_inclusive('\n') {
        reader.line(start, raw, &mut lock);
        start += raw.len();
        if reader.faults.len() >= MOST_FAULTS || reader.header.refused {
            break;
        }
    }
    reader.finish(lock)
}

/// The entries and platforms read so far.
#[derive(Default)]
struct Content {
    entries: BTreeMap<String, Entry>,
    platforms: BTreeMap<String, Platform>,
}

/// The header as far as it was read.
#[derive(Default)]
struct Parts {
    versions: Option<(u32, u32)>,
    manifest: Option<String>,
    run: Option<(String, Digest)>,
    refused: bool,
}

struct Reader<'a> {
    file: FileId,
    text: &'a str,
    faults: Vec<Diagnostic>,
    header: Parts,
    /// The open platform node, and where it was opened.
    platform: Option<(String, Platform, Span)>,
    lock_end: usize,
}

impl Reader<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        let limit = self.text.len();
        Span { file: self.file, start: start.min(limit) as u32, end: end.min(limit) as u32 }
    }

    fn fault(&mut self, code: Code, start: usize, end: usize, message: impl Into<String>) -> &mut Diagnostic {
        let span = self.span(start, end);
        self.faults.push(Diagnostic::error(code, message).at(span, "here"));
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }

    /// A fault of a value that a known line must have.
    fn value_fault(&mut self, start: usize, end: usize, message: impl Into<String>) {
        self.fault(VALUE, start, end, message).help = Some(RELOCK.to_owned());
    }

    fn conflict(&self) -> Option<Diagnostic> {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            if ["<<<<<<<", "=======", ">>>>>>>", "|||||||"].iter().any(|marker| line.starts_with(marker)) {
                let span = self.span(start, start + line.trim_end().len());
                return Some(
                    Diagnostic::error(CONFLICT, "found the conflict markers of a merge, expected a lock")
                        .at(span, "an unfinished merge")
                        .help("take either side of the file, then run `amp lock`: it writes the lock of the merged manifest"),
                );
            }
            start += line.len();
        }
        None
    }

    fn line(&mut self, start: usize, raw: &str, lock: &mut Content) {
        let text = raw.trim_end_matches(['\n', '\r']);
        let indent = text.len() - text.trim_start_matches(' ').len();
        let content = &text[indent..];
        if content.is_empty() || content.starts_with("//") {
            return;
        }
        self.lock_end = start + text.len();
        if content == "}" {
            match self.platform.take() {
                Some((name, platform, _)) => {
                    lock.platforms.insert(name, platform);
                }
                None => {
                    self.fault(SYNTAX, start + indent, start + text.len(), "found `}` where no node is open");
                }
            }
            return;
        }
        match parse_line(content, start + indent) {
            Err(fault) => {
                // A fault on a last line without its line feed is how a cut file looks.
                let code = if raw.ends_with('\n') { SYNTAX } else { TRUNCATED };
                self.fault(code, fault.start, fault.end, fault.message).help = Some(RELOCK.to_owned());
            }
            Ok(line) if self.platform.is_some() => self.platform_line(&line, start + text.len()),
            Ok(line) => self.top_line(line, start + text.len(), lock),
        }
    }

    fn top_line(&mut self, line: Line, end: usize, lock: &mut Content) {
        let start = line.name.start;
        match line.name.text.as_str() {
            "platform" if line.bare => return self.open_platform(&line, end, lock),
            _ if line.opens => {
                self.fault(
                    SYNTAX,
                    start,
                    end,
                    format!("found `{{` after `{}`; only `platform` opens a node", line.name.text),
                );
                return;
            }
            "lock" if line.bare => return self.lock_line(&line, end),
            "manifest" if line.bare => {
                let Some(value) = self.only_value(&line, end) else { return };
                if self.header.manifest.replace(value).is_some() {
                    self.fault(DUPLICATE, start, end, "found a second `manifest` line");
                }
                return;
            }
            "run" if line.bare => {
                let Some(value) = self.only_value(&line, end) else { return };
                let Some(id) = self.digest(&line, "id", end) else { return };
                if self.header.run.replace((value, id)).is_some() {
                    self.fault(DUPLICATE, start, end, "found a second `run` line");
                }
                return;
            }
            _ => {}
        }
        let Some(entry) = self.entry(&line, end) else { return };
        let named = NAMED_BY_VALUE.contains(&line.name.text.as_str());
        let path = if named { format!("{}.{}", line.name.text, entry.value) } else { line.name.text };
        self.known_value(&path, &entry, start, end);
        if lock.entries.insert(path.clone(), entry).is_some() {
            self.fault(DUPLICATE, start, end, format!("found a second entry `{path}`")).help =
                Some(RELOCK.to_owned());
        }
    }

    /// Entries whose form the format fixes.
    fn known_value(&mut self, path: &str, entry: &Entry, start: usize, end: usize) {
        let digest = if path.starts_with("digest.") {
            Some(&entry.value)
        } else if path.starts_with("module.") || path.starts_with("data.source.") {
            entry.properties.get("digest")
        } else {
            None
        };
        if let Some(digest) = digest
            && Digest::parse(digest).is_none()
        {
            self.value_fault(
                start,
                end,
                format!("found `{digest}`, expected `sha256:` and 64 hexadecimal digits"),
            );
        }
        if path == "arithmetic" && entry.value.parse::<u32>().is_err() {
            self.value_fault(
                start,
                end,
                format!("found arithmetic `{}`, expected a whole number", entry.value),
            );
        }
    }

    fn lock_line(&mut self, line: &Line, end: usize) {
        let (Some(version), Some(revision)) =
            (self.number(line, "version", end), self.number(line, "revision", end))
        else {
            return;
        };
        if version != u64::from(VERSION) {
            self.header.refused = true;
            let message = format!("found a lock of version {version}, this amp reads version {VERSION}");
            self.faults.clear();
            self.fault(UNKNOWN_VERSION, line.name.start, end, message).help = Some(
                "run an amp that reads this version, or run `amp lock` to write the lock anew; its run id may change".to_owned(),
            );
            return;
        }
        let revision = u32::try_from(revision).unwrap_or(u32::MAX);
        if self.header.versions.replace((VERSION, revision)).is_some() {
            self.fault(DUPLICATE, line.name.start, end, "found a second `lock` line");
        }
    }

    fn open_platform(&mut self, line: &Line, end: usize, lock: &Content) {
        let start = line.name.start;
        let ([name], true, []) = (line.values.as_slice(), line.opens, line.properties.as_slice()) else {
            self.fault(SYNTAX, start, end, "found a `platform` line without one name and `{`").help =
                Some(RELOCK.to_owned());
            return;
        };
        if lock.platforms.contains_key(&name.text) {
            self.fault(DUPLICATE, start, end, format!("found a second platform `{}`", name.text)).help = Some(
                "remove one of the two nodes, or run the platform again with `amp run --record`".to_owned(),
            );
        }
        self.platform = Some((name.text.clone(), Platform::default(), self.span(start, end)));
    }

    fn platform_line(&mut self, line: &Line, end: usize) {
        let start = line.name.start;
        if line.opens {
            self.fault(SYNTAX, start, end, "found a node within a platform node, expected entries and `}`");
            return;
        }
        let second = match line.name.text.as_str() {
            "result" if line.bare => {
                let Some(result) = self.result(line, end) else { return };
                self.platform
                    .as_mut()
                    .is_some_and(|(_, platform, _)| platform.result.replace(result).is_some())
            }
            "evaluation" if line.bare => {
                let Some((key, evaluation)) = self.evaluation(line, end) else { return };
                self.platform
                    .as_mut()
                    .is_some_and(|(_, platform, _)| platform.evaluations.insert(key, evaluation).is_some())
            }
            name => {
                let Some(entry) = self.entry(line, end) else { return };
                if let Some(fault) = tuning::fault_of(name, &entry) {
                    return self.value_fault(start, end, fault);
                }
                self.platform.as_mut().is_some_and(|(_, platform, _)| {
                    platform.properties.insert(name.to_owned(), entry).is_some()
                })
            }
        };
        if second {
            self.fault(
                DUPLICATE,
                start,
                end,
                format!("found a second `{}` in the platform node", line.name.text),
            );
        }
    }

    fn result(&mut self, line: &Line, end: usize) -> Option<RecordedResult> {
        Some(RecordedResult {
            run: self.digest(line, "run", end)?,
            steps: self.number(line, "steps", end)?,
            chain: self.digest(line, "chain", end)?,
            parameters: self.digest(line, "parameters", end)?,
        })
    }

    fn evaluation(&mut self, line: &Line, end: usize) -> Option<((u64, String), RecordedEvaluation)> {
        let split = self.only_value(line, end)?;
        let step = self.number(line, "step", end)?;
        let chain = self.digest(line, "chain", end)?;
        let examples = self.number(line, "examples", end)?;
        let mut metrics = BTreeMap::new();
        for (name, value) in &line.properties {
            let Some(metric) = name.text.strip_prefix("metric.") else { continue };
            match value.text.parse::<f32>() {
                Ok(number) => metrics.insert(metric.to_owned(), number),
                Err(_) => {
                    self.value_fault(
                        value.start,
                        value.end,
                        format!("found `{}`, expected a number", value.text),
                    );
                    return None;
                }
            };
        }
        Some(((step, split), RecordedEvaluation { chain, examples, metrics }))
    }

    /// A line of the general form: a name, one value, properties.
    fn entry(&mut self, line: &Line, end: usize) -> Option<Entry> {
        let value = self.only_value(line, end)?;
        let mut properties = BTreeMap::new();
        for (name, value) in &line.properties {
            if properties.insert(name.text.clone(), value.text.clone()).is_some() {
                self.fault(
                    DUPLICATE,
                    name.start,
                    value.end,
                    format!("found a second property `{}`", name.text),
                );
                return None;
            }
        }
        Some(Entry { value, properties })
    }

    fn only_value(&mut self, line: &Line, end: usize) -> Option<String> {
        if let [value] = line.values.as_slice() {
            return Some(value.text.clone());
        }
        let message =
            format!("found {} after `{}`, expected one", counted(line.values.len(), "value"), line.name.text);
        self.fault(SYNTAX, line.name.start, end, message).help = Some(RELOCK.to_owned());
        None
    }

    fn property<'l>(&mut self, line: &'l Line, name: &str, end: usize) -> Option<&'l Word> {
        let mut found = line.properties.iter().filter(|(property, _)| property.text == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            (None, _) => {
                self.value_fault(
                    line.name.start,
                    end,
                    format!("found `{}` without the property `{name}`", line.name.text),
                );
                None
            }
            (Some(_), Some((second, value))) => {
                self.fault(DUPLICATE, second.start, value.end, format!("found a second property `{name}`"));
                None
            }
        }
    }

    fn digest(&mut self, line: &Line, name: &str, end: usize) -> Option<Digest> {
        let word = self.property(line, name, end)?;
        let digest = Digest::parse(&word.text);
        if digest.is_none() {
            let message = format!("found `{}`, expected `sha256:` and 64 hexadecimal digits", word.text);
            self.value_fault(word.start, word.end, message);
        }
        digest
    }

    fn number(&mut self, line: &Line, name: &str, end: usize) -> Option<u64> {
        let word = self.property(line, name, end)?;
        let number = word.text.parse().ok();
        if number.is_none() {
            self.value_fault(word.start, word.end, format!("found `{}`, expected a whole number", word.text));
        }
        number
    }

    fn finish(mut self, content: Content) -> Result<Lock, Vec<Diagnostic>> {
        if let Some((name, _, span)) = self.platform.take()
            && self.faults.len() < MOST_FAULTS
        {
            let message = format!("the text ends within the node of platform `{name}`, expected `}}`");
            self.faults.push(Diagnostic::error(TRUNCATED, message).at(span, "opened here").help(RELOCK));
        }
        if self.faults.is_empty() {
            let Parts { versions, manifest, run, .. } = std::mem::take(&mut self.header);
            match (versions, manifest, run) {
                (Some((version, revision)), Some(manifest), Some((run, id))) => {
                    if !self.text.ends_with('\n') {
                        let end = self.text.len();
                        self.fault(
                            TRUNCATED,
                            self.lock_end.saturating_sub(1),
                            end,
                            "the text ends without a line feed",
                        )
                        .help = Some(RELOCK.to_owned());
                        return Err(self.faults);
                    }
                    let header = Header { version, revision, manifest, run, id };
                    return Ok(Lock { header, entries: content.entries, platforms: content.platforms });
                }
                (versions, manifest, run) => {
                    let missing = [
                        ("lock", versions.is_none()),
                        ("manifest", manifest.is_none()),
                        ("run", run.is_none()),
                    ];
                    let missing: Vec<_> =
                        missing.iter().filter(|line| line.1).map(|line| format!("`{}`", line.0)).collect();
                    let message =
                        format!("found no {} line, expected the header of a lock", missing.join(", no "));
                    self.fault(TRUNCATED, 0, self.text.find('\n').unwrap_or(self.text.len()), message).help =
                        Some(RELOCK.to_owned());
                }
            }
        }
        Err(self.faults)
    }
}

/// What to type when a lock's text is no use.
const RELOCK: &str = "run `amp lock` to write the lock anew, or take the file from version control";

/// True when the lock was written by an amp that adds more than this one knows.
pub fn is_newer(lock: &Lock) -> bool {
    lock.header.revision > REVISION
}
