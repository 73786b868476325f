//! A first look at files that nobody has described yet: what `amp init` writes about them.
//!
//! The readers of training read the whole file here too, so that what is written about it is right and not a guess from
//! its first lines. What cannot be known from numbers (which column is the label, whether whole numbers are classes) is
//! taken as people most often mean it, and said in a note.

use super::array::{Array, Number};
use super::spec::{Fit, Header, LabelColumn};
use super::table::{Labels, Table};
use super::{DataFault, codes, csv, gunzip, idx, images, npy, source, tensors, tokens};
use crate::world::World;
use camino::Utf8Path;
use std::borrow::Cow;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// `csv`, `idx`, `npy`, `safetensors` or `images`.
    pub format: &'static str,
    /// How the rows of a CSV file are read.
    pub columns: Option<Columns>,
    /// How many examples.
    pub examples: usize,
    /// The shape of one example's features.
    pub shape: Vec<usize>,
    /// How many classes the labels name; `None` for numbers to predict.
    pub classes: Option<u32>,
    /// Numbers that a label consists of.
    pub targets: usize,
    /// The largest feature, when all are whole and at least 0, as those of pictures are.
    pub whole_to: Option<f32>,
    /// How pictures come to the shape, when they are those of a folder.
    pub fit: Option<Fit>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// How the rows of a CSV file are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Between fields.
    pub delimiter: char,
    /// Whether the first row holds names.
    pub header: bool,
    /// The name of the label's column; `None` for the last column of a file without names.
    pub label: Option<String>,
}

/// Classes beyond this are more often numbers to predict, such as prices.
const MOST_CLASSES: u32 = 1000;

/// Names that people give to the column of the label.
const LABEL_NAMES: [&str; 6] = ["label", "target", "class", "y", "labels", "species"];

/// Reads a file and, for formats with one array in a file, the file of its labels.
///
/// # Errors
/// Those of the readers, 0720 to 0734; 0734 when the name tells no format, or the labels are not named.
pub fn look(
    features: &Utf8Path,
    labels: Option<&Utf8Path>,
    world: &dyn World,
) -> Result<Look, Vec<DataFault>> {
    let one = |fault: DataFault| vec![fault];
    let format = format_of(features).ok_or_else(|| one(unknown_format(features)))?;
    if format == "text" {
        return Err(one(no_numbers(features)));
    }
    let bytes = read(features, world).map_err(one)?;
    let bytes = unpacked(&bytes, format).map_err(|fault| one(fault.at(features)))?;
    match format {
        "csv" => look_at_csv(&bytes, features.as_str()),
        "safetensors" => {
            let array = |name| tensors::read(&bytes, name).map_err(|fault| one(fault.at(features)));
            look_at_arrays(format, &array("features")?, &array("labels")?)
        }
        _ => {
            let path = labels.ok_or_else(|| one(no_labels(features)))?;
            let packed = read(path, world).map_err(one)?;
            let other = unpacked(&packed, format).map_err(|fault| one(fault.at(path)))?;
            let array = |bytes, path: &Utf8Path| {
                let array = if format == "idx" { idx::read(bytes) } else { npy::read(bytes) };
                array.map_err(|fault| one(fault.at(path)))
            };
            look_at_arrays(format, &array(&bytes, features)?, &array(&other, path)?)
        }
    }
}

/// The side of examples that are cut out of pictures of many sizes.
const SIDE: usize = 64;
/// The longest side of pictures that are taken as they are.
const SMALL: usize = 128;

/// Lists a folder of pictures, and reads one picture of each class.
///
/// # Errors
/// Those of a folder and of pictures: 0720, 0721, 0732, 0742, 0743.
pub fn look_at_folder(path: &Utf8Path, world: &dyn World) -> Result<Look, Vec<DataFault>> {
    let here = Utf8Path::new("");
    let classes = images::names(path, here, world)?;
    let files = source::files_of(path, here, world).map_err(|fault| vec![fault])?;
    let first = |class: &String| {
        let folder = format!("{class}/");
        files.get(files.partition_point(|(name, _)| *name < folder)).map(|(_, file)| file)
    };
    let mut sizes = Vec::new();
    for file in classes.iter().filter_map(first) {
        let place = path.join(file);
        let decoded = read(&place, world).and_then(|bytes| images::decode(&bytes, 3));
        sizes.push(decoded.map_err(|fault| vec![fault.at(place)])?.size);
    }
    let count = classes.len();
    let mut notes = vec![match count {
        1 => "the one folder is a class".to_owned(),
        _ => format!("each of the {count} folders is a class"),
    }];
    let one_size = sizes.iter().all(|size| *size == sizes[0]) && sizes[0].iter().all(|side| *side <= SMALL);
    let ([height, width], fit) = match one_size {
        true => (sizes[0], Fit::Stretch),
        false => ([SIDE; 2], Fit::Centre { shorter: Some(SIDE) }),
    };
    if !one_size {
        notes.push(format!("the middle of each picture is taken, {SIDE}×{SIDE} of a shorter side of {SIDE}"));
    }
    Ok(Look {
        format: "images",
        columns: None,
        examples: files.len(),
        shape: vec![3, height, width],
        classes: u32::try_from(count).ok(),
        targets: 1,
        whole_to: Some(255.0),
        fit: Some(fit),
        notes,
    })
}

/// What was found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLook {
    /// Its bytes.
    pub bytes: usize,
    /// Its characters.
    pub characters: usize,
    /// How many different characters.
    pub alphabet: usize,
}

/// Reads a text, which may be packed.
///
/// # Errors
/// Those of the readers; 0734 when the name tells another format, 0740 for what is no UTF-8, or has a zero byte.
pub fn look_at_text(path: &Utf8Path, world: &dyn World) -> Result<TextLook, Vec<DataFault>> {
    let one = |fault: DataFault| vec![fault];
    if format_of(path) != Some("text") {
        let message = format!("found the name `{path}`, expected a text's, which is learned as tokens");
        let help = "name the file …txt, also with .gz behind it; rows and pictures are for the other kinds";
        return Err(one(DataFault::new(codes::LAYOUT, message).help(help)));
    }
    let packed = read(path, world).map_err(one)?;
    let bytes = unpacked(&packed, "text").map_err(|fault| one(fault.at(path)))?;
    let text = tokens::text(&bytes).map_err(|fault| one(fault.at(path)))?;
    if let Some(offset) = bytes.iter().position(|byte| *byte == 0) {
        // The manifest of `--kind bert` hides bytes behind this one.
        let message = format!("found a zero byte at offset {offset}, expected text");
        return Err(one(DataFault::new(codes::TEXT, message).at(path).help("give a file of text alone")));
    }
    let alphabet = tokens::characters(std::iter::once(text)).len();
    Ok(TextLook { bytes: bytes.len(), characters: text.chars().count(), alphabet })
}

/// The format that a file's name tells, as in a manifest.
pub fn format_of(path: &Utf8Path) -> Option<&'static str> {
    let name = path.file_name()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let idx = name.ends_with("-ubyte") && (name.contains("-idx") || name.contains(".idx"));
    match name.rsplit('.').next() {
        Some("csv") => Some("csv"),
        Some("npy") => Some("npy"),
        Some("safetensors") => Some("safetensors"),
        Some("idx") => Some("idx"),
        Some("txt") => Some("text"),
        _ => idx.then_some("idx"),
    }
}

/// The file of the labels beside the pictures of an IDX data set, as MNIST names them.
pub fn labels_beside(features: &Utf8Path) -> Option<String> {
    let name = features.as_str();
    let other = name.replace("images", "labels").replace("-idx3", "-idx1").replace(".idx3", ".idx1");
    (other != name && format_of(features) == Some("idx")).then_some(other)
}

fn read(path: &Utf8Path, world: &dyn World) -> Result<Vec<u8>, DataFault> {
    super::read_source(path, Utf8Path::new(""), world).map(|(bytes, _)| bytes)
}

fn unpacked<'a>(bytes: &'a [u8], format: &str) -> Result<Cow<'a, [u8]>, DataFault> {
    if !gunzip::is_packed(bytes) {
        return Ok(Cow::Borrowed(bytes));
    }
    gunzip::unpack(bytes, if format == "idx" { idx::limit(bytes) } else { gunzip::LIMIT })
}

fn unknown_format(path: &Utf8Path) -> DataFault {
    DataFault::new(codes::LAYOUT, format!("found the name `{path}`, expected one that tells its format"))
        .help("name the file …csv, …npy, …safetensors or …-ubyte, each also with .gz behind it")
}

fn no_numbers(path: &Utf8Path) -> DataFault {
    DataFault::new(codes::LAYOUT, format!("found the text `{path}`, expected examples with labels"))
        .help("a text is read as tokens: write `--kind gpt` or `--kind bert`")
}

fn no_labels(path: &Utf8Path) -> DataFault {
    DataFault::new(
        codes::LAYOUT,
        format!("found the features in `{path}`, expected a file of the labels too"),
    )
    .help("name it with `--labels FILE`")
}

/// Reads a CSV file with its own delimiter, header and label.
fn look_at_csv(bytes: &[u8], name: &str) -> Result<Look, Vec<DataFault>> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let first = String::from_utf8_lossy(&bytes[..end]);
    let delimiter = [',', ';', '\t'].into_iter().max_by_key(|delimiter| {
        // Of equally many the first.
        (first.matches(*delimiter).count(), *delimiter == ',')
    });
    let delimiter = delimiter.unwrap_or(',');
    let fields: Vec<&str> = first.split(delimiter).map(|field| field.trim().trim_matches('"')).collect();
    let header = !fields.iter().any(|field| field.parse::<f64>().is_ok());
    let named = fields.iter().find(|field| LABEL_NAMES.contains(&field.to_ascii_lowercase().as_str()));
    let label = header.then(|| named.or(fields.last()).map(|name| (*name).to_owned())).flatten();
    let rules = csv::Rules {
        header: if header { Header::Yes } else { Header::No },
        delimiter,
        label: &label.clone().map_or(LabelColumn::Last, LabelColumn::Name),
        classes: None,
    };
    let table = csv::read(bytes, name, rules)?;
    let mut look = of_table("csv", &table);
    match &label {
        Some(label) => look.notes.insert(0, format!("the label is the column \"{label}\"")),
        None => look.notes.insert(0, "the label is the last column".to_owned()),
    }
    look.columns = Some(Columns { delimiter, header, label });
    Ok(look)
}

fn look_at_arrays(
    format: &'static str,
    features: &Array<'_>,
    labels: &Array<'_>,
) -> Result<Look, Vec<DataFault>> {
    let one = |fault: DataFault| vec![fault];
    let table =
        Table::new(features.features().map_err(one)?, labels.labels(None).map_err(one)?).map_err(one)?;
    let mut look = of_table(format, &table);
    if features.number == Number::U8 {
        // A dark file's largest byte says nothing; the format's does.
        look.whole_to = Some(255.0);
    }
    Ok(look)
}

fn of_table(format: &'static str, table: &Table) -> Look {
    let whole = table.features.iter().all(|value| *value >= 0.0 && value.fract() == 0.0);
    let largest = table.features.iter().copied().fold(0.0_f32, f32::max);
    let classes = classes(table);
    let note = match classes {
        Some(classes) => format!("the labels are the classes 0 to {}", classes - 1),
        None => "the labels are numbers to predict, no classes".to_owned(),
    };
    Look {
        format,
        columns: None,
        examples: table.length,
        shape: table.shape.clone(),
        classes,
        targets: table.label_width(),
        whole_to: (whole && largest > 1.0 && largest <= 255.0).then_some(largest),
        fit: None,
        notes: vec![note],
    }
}

/// How many classes, when the labels are whole numbers from 0 on, each example has one, and most of them occur.
fn classes(table: &Table) -> Option<u32> {
    let Labels::Targets(labels) = &table.labels else { return None };
    if table.label_width() != 1 {
        return None;
    }
    let limit = MOST_CLASSES as f32;
    if !labels.iter().all(|label| *label >= 0.0 && label.fract() == 0.0 && *label < limit) {
        return None;
    }
    let mut seen = vec![false; MOST_CLASSES as usize];
    labels.iter().for_each(|label| seen[*label as usize] = true);
    let highest = seen.iter().rposition(|seen| *seen)?;
    let occurring = seen.iter().filter(|seen| **seen).count();
    let count = u32::try_from(highest + 1).ok()?;
    (count >= 2 && occurring * 2 > highest).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Memory;

    fn looked(name: &str, text: &str) -> Look {
        let world = Memory::default().with(name, text.as_bytes());
        look(Utf8Path::new(name), None, &world).expect("the file can be read")
    }

    #[test]
    fn a_csv_file_tells_its_header_label_classes_and_delimiter() {
        let look = looked("a.csv", "label;x;y\n0;1.5;2\n1;-3;4\n2;5;6\n");
        let columns = look.columns.expect("a CSV file");
        assert_eq!((columns.delimiter, columns.header, columns.label.as_deref()), (';', true, Some("label")));
        assert_eq!((look.examples, look.shape, look.classes, look.whole_to), (3, vec![2], Some(3), None));
    }

    #[test]
    fn a_file_without_names_has_its_label_last() {
        let look = looked("a.csv", "1,16,0\n2,3,1\n");
        assert_eq!(look.columns.map(|columns| (columns.header, columns.label)), Some((false, None)));
        assert_eq!((look.classes, look.whole_to), (Some(2), Some(16.0)));
    }

    #[test]
    fn prices_are_no_classes() {
        assert_eq!(looked("a.csv", "size,price\n50,99.5\n70,120\n").classes, None);
        assert_eq!(looked("a.csv", "size,price\n50,100\n70,900\n").classes, None);
    }

    #[test]
    fn pictures_and_labels_stand_in_two_files() {
        let pictures = [[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2].as_slice(), &[7; 8]].concat();
        let labels = [0, 0, 8, 1, 0, 0, 0, 2, 0, 1];
        let path = Utf8Path::new("train-images-idx3-ubyte");
        let beside = labels_beside(path).expect("as MNIST names them");
        assert_eq!(beside, "train-labels-idx1-ubyte");
        let world = Memory::default().with(path.as_str(), pictures).with(&beside, labels);
        let found = look(path, Some(Utf8Path::new(&beside)), &world).expect("two arrays");
        assert_eq!((found.format, found.examples, found.shape), ("idx", 2, vec![2, 2]));
        assert_eq!((found.classes, found.whole_to), (Some(2), Some(255.0)));
        let fault = look(path, None, &world).expect_err("no labels");
        assert_eq!(fault[0].code, codes::LAYOUT);
    }
}
