//! Comma-separated values: text to numbers, with the line and the column of every fault.
//!
//! Fields follow RFC 4180: quoted or not, a quote inside quotes doubled, lines ended by LF or CR LF. What that document
//! leaves open is refused rather than guessed: a quote inside an unquoted field, text after a closing quote, a quote
//! that is never closed, rows of unequal length. Empty lines are skipped. Numbers go from text to f32 in one rounding
//! (Rust's parser is correctly rounded). Invariant: no row is dropped silently.

use super::array::{LABEL_HELP, class_of};
use super::fault::shown;
use super::spec::{Header, LabelColumn};
use super::table::{Labels, Table};
use super::{DataFault, codes};
use crate::diag::nearest;
use crate::diag::number::counted;
use std::borrow::Cow;

/// A file with more faults than this is told the first ones only.
const MOST_FAULTS: usize = 10;

/// How a CSV file is read.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Whether the first row holds names.
    pub header: Header,
    /// Between fields.
    pub delimiter: char,
    /// Which column is the label.
    pub label: &'a LabelColumn,
    /// How many classes; `None` for regression.
    pub classes: Option<u32>,
}

/// Reads a whole file; `name` is its path in messages.
///
/// # Errors
/// Codes 0723 (rows), 0724 (numbers), 0725 (labels), 0733 (no row), 0738 (names where numbers are declared); the first
/// ten faults.
pub fn read(bytes: &[u8], name: &str, rules: Rules<'_>) -> Result<Table, Vec<DataFault>> {
    let mut rows = Rows::new(bytes, name, rules.delimiter).map_err(|fault| vec![fault])?;
    let mut fields = Vec::new();
    let Some(line) = rows.next(&mut fields).map_err(|fault| vec![fault])? else {
        return Err(vec![empty(name)]);
    };
    let names = header(&fields, name, line, rules.header).map_err(|fault| vec![fault])?;
    let width = fields.len();
    let label = label_column(rules.label, names.as_deref(), width)
        .map_err(|fault| vec![fault.at(format_args!("{name}:{line}"))])?;
    let mut reading =
        Reading { name, rules, label, features: Vec::new(), classes: Vec::new(), targets: Vec::new() };
    let mut faults = Vec::new();
    let mut examples = 0_usize;
    let mut line = if names.is_some() { None } else { Some(line) };
    loop {
        if let Some(line) = line {
            examples += 1;
            if fields.len() == width {
                faults.extend(reading.row(&fields, line));
            } else {
                faults.push(
                    DataFault::new(
                        codes::ROW,
                        format!("found {}, expected {width} as in the first row", counted(fields.len(), "field")),
                    )
                    .at(format_args!("{name}:{line}"))
                    .help("give every row as many fields; a field that holds the delimiter or a line end stands in quotes"),
                );
            }
            if faults.len() >= MOST_FAULTS {
                faults.truncate(MOST_FAULTS);
                faults.push(
                    DataFault::new(codes::ROW, "more faults may follow; these are the first ten")
                        .at(name)
                        .help("mend these first; many faults of one kind come from a wrong `delimiter` or `header`"),
                );
                return Err(faults);
            }
        }
        match rows.next(&mut fields) {
            Ok(Some(next)) => line = Some(next),
            Ok(None) => break,
            Err(fault) => {
                faults.push(fault);
                break;
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    if examples == 0 {
        return Err(vec![empty(name)]);
    }
    let labels = match rules.classes {
        Some(_) => (vec![examples], Labels::Classes(reading.classes)),
        None => (vec![examples, 1], Labels::Targets(reading.targets)),
    };
    Table::new((vec![examples, width - 1], reading.features), labels).map_err(|fault| vec![fault.at(name)])
}

fn empty(name: &str) -> DataFault {
    DataFault::new(codes::EMPTY, "found no row of data, expected at least one")
        .at(name)
        .help("put examples into the file, one a row, or name the file that has them")
}

/// The numbers read so far.
struct Reading<'a> {
    name: &'a str,
    rules: Rules<'a>,
    label: usize,
    features: Vec<f32>,
    classes: Vec<i32>,
    targets: Vec<f32>,
}

impl Reading<'_> {
    /// Adds one row, or tells all that is wrong with it.
    fn row(&mut self, fields: &[Cow<'_, [u8]>], line: usize) -> Vec<DataFault> {
        let mut faults = Vec::new();
        for (column, field) in fields.iter().enumerate() {
            let outcome = match (column == self.label, self.rules.classes) {
                (true, Some(classes)) => class(field, classes).map(|class| self.classes.push(class)),
                (true, None) => number(field).map_err(named_class).map(|target| self.targets.push(target)),
                (false, _) => number(field).map(|feature| self.features.push(feature)),
            };
            if let Err(fault) = outcome {
                faults.push(fault.at(format_args!("{}:{line}:{}", self.name, column + 1)));
            }
        }
        faults
    }
}

/// A field as text without the blanks around it.
fn trimmed<'a>(field: &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(field).ok().map(|text: &'a str| text.trim_matches([' ', '\t']))
}

fn number(field: &[u8]) -> Result<f32, DataFault> {
    match trimmed(field).and_then(|text| text.parse::<f32>().ok()) {
        Some(number) if number.is_finite() => Ok(number),
        Some(_) => Err(DataFault::new(
            codes::NUMBER,
            format!("found {}, expected a finite number of at most 3.4e38", shown(field)),
        )
        .help("remove the row, or put a number there; a missing value has no meaning in training")),
        None if field.trim_ascii().is_empty() => Err(DataFault::new(
            codes::NUMBER,
            "found an empty field, expected a number",
        )
        .help("remove the row, or put a number there; a missing value has no meaning in training")),
        None => Err(DataFault::new(codes::NUMBER, format!("found {}, expected a number", shown(field)))
            .help("remove the row, put a number there, or say whether the first row holds names (`header=#true`)")),
    }
}

/// A label that is no number is mostly the name of a class.
fn named_class(fault: DataFault) -> DataFault {
    match fault.message.starts_with("found `") {
        true => fault.help("write a whole number for each class, from 0 on, and `classes=` in `columns`; a value that is learned as it is has to be a number"),
        false => fault,
    }
}

fn class(field: &[u8], classes: u32) -> Result<i32, DataFault> {
    let found =
        trimmed(field).and_then(|text| text.parse::<f64>().ok()).and_then(|value| class_of(value, classes));
    found.ok_or_else(|| {
        DataFault::new(
            codes::LABEL,
            format!("found the label {}, expected an integer in 0..{classes}", shown(field)),
        )
        .help(LABEL_HELP)
    })
}

/// A warning when a first row that is read as names holds numbers alone: an example would be lost without a word.
pub fn header_of_numbers(start: &[u8], name: &str, delimiter: char) -> Option<DataFault> {
    let mut fields = Vec::new();
    let line = Rows::new(start, name, delimiter).ok()?.next(&mut fields).ok()??;
    // A cut row's last field may be cut too; it begins like a number then.
    let numbers = fields.iter().all(|field| trimmed(field).is_some_and(|text| text.parse::<f64>().is_ok()));
    numbers.then(|| {
        DataFault::new(
            codes::HEADER,
            format!(
                "found {} in the first row, which `header=#true` reads as names and leaves out",
                counted(fields.len(), "number")
            ),
        )
        .at(format_args!("{name}:{line}"))
        .help("write `header=#false` if it is an example, or leave `header` out: it is found out then")
    })
}

/// The names of the columns, if the first row holds them.
fn header(
    fields: &[Cow<'_, [u8]>],
    name: &str,
    line: usize,
    header: Header,
) -> Result<Option<Vec<String>>, DataFault> {
    let names = || fields.iter().map(|field| String::from_utf8_lossy(field).trim().to_owned()).collect();
    let is_number = |field: &Cow<'_, [u8]>| trimmed(field).is_some_and(|text| text.parse::<f64>().is_ok());
    match header {
        Header::Yes => Ok(Some(names())),
        Header::No if fields.len() > 1 && !fields.iter().any(is_number) => {
            let first: Vec<String> = fields.iter().take(4).map(|field| shown(field)).collect();
            let more = if fields.len() > 4 { ", …" } else { "" };
            Err(DataFault::new(
                codes::HEADER,
                format!(
                    "found the names {}{more} in the first row, expected numbers, as `header=#false` says",
                    first.join(", ")
                ),
            )
            .at(format_args!("{name}:{line}"))
            .help("write `header=#true`, or leave `header` out: it is found out then"))
        }
        Header::No => Ok(None),
        Header::Auto => match fields.iter().filter(|field| is_number(field)).count() {
            0 => Ok(Some(names())),
            numbers if numbers == fields.len() => Ok(None),
            numbers => {
                let other = fields.iter().position(|field| !is_number(field)).unwrap_or_default();
                Err(DataFault::new(
                    codes::ROW,
                    format!(
                        "found {numbers} and {}, such as {}, in the first row, expected names or numbers only",
                        counted(fields.len() - numbers, "other field"),
                        shown(&fields[other]), numbers = counted(numbers, "number")
                    ),
                )
                .at(format_args!("{name}:{line}:{}", other + 1))
                .help("say whether the first row holds names: `header=#true` or `header=#false`"))
            }
        },
    }
}

/// The index of the label's column among `width`.
fn label_column(label: &LabelColumn, names: Option<&[String]>, width: usize) -> Result<usize, DataFault> {
    if width < 2 {
        return Err(DataFault::new(
            codes::ROW,
            format!("found {width} column, expected a label and at least one feature"),
        )
        .help("is `delimiter` the character between the fields?"));
    }
    match (label, names) {
        (LabelColumn::Last, _) => Ok(width - 1),
        (LabelColumn::Index(index), _) if *index < width => Ok(*index),
        (LabelColumn::Index(index), _) => Err(DataFault::new(
            codes::LABEL,
            format!(
                "found {width}, expected more than {index} for a label in column {index} (counted from 0)",
                width = counted(width, "column")
            ),
        )
        .help(format!("columns are counted from 0, so the last is `label-index={}`", width - 1))),
        (LabelColumn::Name(name), None) => Err(DataFault::new(
            codes::LABEL,
            format!("found a file without names of columns, expected a column `{name}` for the label"),
        )
        .help("write `label-index=`, counted from 0, or `label=\"last\"`")),
        (LabelColumn::Name(name), Some(names)) => {
            let mut places =
                names.iter().enumerate().filter(|(_, known)| *known == name).map(|(index, _)| index);
            match (places.next(), places.next()) {
                (Some(index), None) => Ok(index),
                (Some(_), Some(_)) => Err(DataFault::new(
                    codes::LABEL,
                    format!("found two columns called `{name}`, expected one"),
                )
                .help("write `label-index=`, counted from 0, instead of the name")),
                (None, _) => Err(unknown_column(name, names)),
            }
        }
    }
}

fn unknown_column(name: &str, names: &[String]) -> DataFault {
    let shown: Vec<String> =
        names.iter().take(20).map(|known| format!("`{}`", known.escape_debug())).collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    let message = format!("found no column `{name}` for the label among {}{more}", shown.join(", "));
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => DataFault::new(codes::LABEL, message).help(format!("did you mean `{near}`?")),
        None => DataFault::new(codes::LABEL, message)
            .help("name one of them, or write `label-index=`, counted from 0, or `label=\"last\"`"),
    }
}

/// Cuts bytes into rows and fields.
struct Rows<'a> {
    rest: &'a [u8],
    name: &'a str,
    delimiter: u8,
    /// The line, counted from 1, that `rest` begins with.
    line: usize,
}

impl<'a> Rows<'a> {
    fn new(bytes: &'a [u8], name: &'a str, delimiter: char) -> Result<Self, DataFault> {
        let usable =
            delimiter.is_ascii() && !matches!(delimiter, '"' | '\n' | '\r' | '.' | '+' | '-' | '0'..='9');
        if !usable {
            return Err(DataFault::new(
                codes::LAYOUT,
                format!("found the delimiter {delimiter:?}, expected one ASCII character that is no part of a number"),
            )
            .help("usual ones are `,`, `;` and a tabulator"));
        }
        encoding(bytes, name)?;
        // Spreadsheets put a byte order mark first.
        let rest = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        Ok(Self { rest, name, delimiter: delimiter as u8, line: 1 })
    }

    /// The next row that is not an empty line, and the line it begins on.
    fn next(&mut self, fields: &mut Vec<Cow<'a, [u8]>>) -> Result<Option<usize>, DataFault> {
        fields.clear();
        while let Some(length) = line_end(self.rest) {
            self.rest = &self.rest[length..];
            self.line += 1;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.line;
        loop {
            let field = match self.rest.first() {
                Some(b'"') => self.quoted(fields.len() + 1)?,
                _ => self.plain(fields.len() + 1)?,
            };
            fields.push(field);
            if let Some(length) = line_end(self.rest) {
                self.rest = &self.rest[length..];
                self.line += 1;
                return Ok(Some(line));
            }
            match self.rest.split_first() {
                None => return Ok(Some(line)),
                Some((byte, rest)) if *byte == self.delimiter => self.rest = rest,
                Some(_) => {
                    let found = shown(&self.rest[..self.rest.len().min(8)]);
                    let message =
                        format!("found {found} after a closing quote, expected the end of the field");
                    return Err(self
                        .fault(fields.len(), message)
                        .help("a quote within a field in quotes is written twice: \"\""));
                }
            }
        }
    }

    /// A field up to the next delimiter or line end.
    fn plain(&mut self, column: usize) -> Result<Cow<'a, [u8]>, DataFault> {
        let mut end = 0;
        while let Some(byte) = self.rest.get(end) {
            if *byte == self.delimiter || line_end(&self.rest[end..]).is_some() {
                break;
            }
            if *byte == b'"' {
                let message = "found a quote inside an unquoted field, expected the whole field in quotes";
                return Err(self
                    .fault(column, message.to_owned())
                    .help("remove the quote, or put the field in quotes and write that quote twice"));
            }
            end += 1;
        }
        let (field, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Cow::Borrowed(field))
    }

    /// A field in quotes, which may hold delimiters, line ends and doubled quotes.
    fn quoted(&mut self, column: usize) -> Result<Cow<'a, [u8]>, DataFault> {
        let unclosed = self
            .fault(column, "found no closing quote before the end of the file".to_owned())
            .help("close the field's quote; the field begins here");
        let mut field: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        self.rest = &self.rest[1..];
        loop {
            let Some(end) = self.rest.iter().position(|byte| *byte == b'"') else { return Err(unclosed) };
            let (piece, rest) = self.rest.split_at(end);
            self.line += piece.iter().filter(|byte| **byte == b'\n').count();
            if field.is_empty() {
                field = Cow::Borrowed(piece)
            } else {
                field.to_mut().extend_from_slice(piece)
            }
            self.rest = &rest[1..];
            if self.rest.first() != Some(&b'"') {
                return Ok(field);
            }
            field.to_mut().push(b'"');
            self.rest = &self.rest[1..];
        }
    }

    fn fault(&self, column: usize, message: String) -> DataFault {
        DataFault::new(codes::ROW, message).at(format_args!("{}:{}:{column}", self.name, self.line))
    }
}

/// What shows that a text has two bytes a character, from its beginning.
pub(super) fn wide(bytes: &[u8]) -> Option<String> {
    let zeros = bytes.iter().take(4).position(|byte| *byte == 0);
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some(format!("the byte order mark {:02x} {:02x} of UTF-16", bytes[0], bytes[1]))
        }
        _ => zeros.map(|place| format!("a zero byte at offset {place}, as UTF-16 has them")),
    }
}

/// Refuses text of two bytes a character, and text whose lines end in a way that would make one row of all.
fn encoding(bytes: &[u8], name: &str) -> Result<(), DataFault> {
    let refuse = |message: String, help: String| {
        Err(DataFault::new(codes::ROW, message).at(format_args!("{name}:1")).help(help))
    };
    if let Some(found) = wide(bytes) {
        let help = "save the file as UTF-8, for example with `iconv -f UTF-16 -t UTF-8 old.csv > new.csv`";
        return refuse(format!("found {found}, expected UTF-8 text"), help.to_owned());
    }
    let returns = bytes.iter().filter(|byte| **byte == b'\r').count();
    if returns > 0 && !bytes.contains(&b'\n') {
        let message = format!(
            "found {returns} of CR alone, expected LF or CR LF",
            returns = counted(returns, "line end")
        );
        return refuse(message, "write LF: `tr '\\r' '\\n' < old.csv > new.csv`".to_owned());
    }
    Ok(())
}

/// The length of the line end that the bytes begin with.
fn line_end(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}
