//! The questions of `amp init`, over any two streams, so that a test can answer them.

use super::kinds::{KINDS, Kind, Takes};
use camino::Utf8PathBuf;
use std::io::{BufRead, Error, ErrorKind, Write};

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Answers {
    /// The kind of model.
    pub kind: String,
    /// A file of the user's.
    pub data: Option<Utf8PathBuf>,
}

/// Asks for the kind, and for the data when no option said it.
///
/// # Errors
/// Those of the streams; the end of the input before an answer is one.
pub fn questions(input: &mut dyn BufRead, output: &mut dyn Write, asks_data: bool) -> Result<Answers, Error> {
    writeln!(output, "What kind of model?")?;
    for Kind { name, what, .. } in &KINDS {
        writeln!(output, "  {name:<6}  {what}")?;
    }
    let kind = loop {
        let answer = ask(input, output, "Kind [mlp]: ")?;
        match Kind::of(if answer.is_empty() { "mlp" } else { &answer }) {
            Some(kind) => break kind,
            None => writeln!(output, "`{}` is none of them.", answer.escape_debug())?,
        }
    };
    let mut data = None;
    if asks_data {
        let question = match kind.takes {
            Takes::Text => "A text of yours (a .txt file) [computed tokens]: ",
            _ => {
                "A data file of yours (CSV, IDX, NPY, safetensors), or a folder of pictures [handwritten digits]: "
            }
        };
        let answer = ask(input, output, question)?;
        data = (!answer.is_empty()).then(|| answer.into());
    }
    Ok(Answers { kind: kind.name.to_owned(), data })
}

fn ask(input: &mut dyn BufRead, output: &mut dyn Write, question: &str) -> Result<String, Error> {
    write!(output, "{question}")?;
    output.flush()?;
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the input ended"));
    }
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(typed: &str, asks_data: bool) -> (Result<Answers, ErrorKind>, String) {
        let mut shown = Vec::new();
        let answers = questions(&mut typed.as_bytes(), &mut shown, asks_data).map_err(|error| error.kind());
        (answers, String::from_utf8(shown).expect("text"))
    }

    #[test]
    fn a_line_end_takes_what_is_offered() {
        let (answers, shown) = answered("\n\n", true);
        assert_eq!(answers, Ok(Answers { kind: "mlp".to_owned(), data: None }));
        assert!(shown.contains("Kind [mlp]: "), "{shown}");
    }

    #[test]
    fn an_unknown_kind_is_asked_for_again() {
        let (answers, shown) = answered("transformer\ncnn\n a.csv \n", true);
        assert_eq!(answers, Ok(Answers { kind: "cnn".to_owned(), data: Some("a.csv".into()) }));
        assert!(shown.contains("`transformer` is none of them."), "{shown}");
        assert_eq!(shown.matches("Kind [mlp]: ").count(), 2);
    }

    #[test]
    fn data_that_an_option_named_is_not_asked_for() {
        assert_eq!(answered("cnn\n", false).0, Ok(Answers { kind: "cnn".to_owned(), data: None }));
    }

    #[test]
    fn the_end_of_the_input_is_no_answer() {
        assert_eq!(answered("", true).0, Err(ErrorKind::UnexpectedEof));
    }
}
