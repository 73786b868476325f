//! Lines of steps, which are nearly all of a record, read at once and in one pass.

use super::Line;
use crate::digest::Digest;
use crate::record::SCHEMA;
use crate::record::event::{Event, Step, Unhashed};
use serde::Deserialize;

/// The line of a step as amp writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    schema: &'a str,
    event: &'a str,
    hashed: Step,
    chain: &'a str,
    #[serde(default)]
    unhashed: Unhashed,
}

/// The line of a step; `None` for any other line, and for one that has a fault or another form, which the reader of all lines tells
/// apart.
pub(super) fn step(raw: &[u8]) -> Option<Line> {
    let Written { schema, event, hashed, chain, unhashed } = serde_json::from_slice(raw).ok()?;
    let chain = Some(Digest::parse(chain)?);
    (schema == SCHEMA && event == "step").then_some(Line { event: Event::Step(hashed), chain, unhashed })
}

#[cfg(test)]
mod tests {
    use super::super::{Place, parse_any};
    use super::*;
    use crate::diag::{FileId, Span};

    const LINE: &str = r#"{"schema":"amp.record/1","event":"step","hashed":{"step":2,"epoch":0,"loss":{"bits":"0x4013536e","value":2.3019671},"gradient_norm":{"bits":"0x7fc00000","value":null},"scale":{"bits":"0x47800000","value":65536.0},"learning_rate":{"bits":"0x38c7ba91","value":0.0000952381},"skipped":false,"fingerprint":"sha256:0bd1a6554e6026ef9afcd6489b553e44709a828d469aa2084014304f5efaddfb","growth_tracker":2},"chain":"sha256:5eb0c4258ba4fda94b08dfd6731740e7971cfc55725ce126d7d55ac74def67ce","unhashed":{"seconds":0.001906674}}
"#;

    fn any(raw: &str) -> Option<Line> {
        let place = Place { number: 1, span: Span { file: FileId(0), start: 0, end: 0 } };
        parse_any(raw.as_bytes(), &place).ok()
    }

    #[test]
    fn what_is_read_at_once_is_what_the_reader_of_all_lines_reads() {
        let forms = [
            LINE.to_owned(),
            LINE.replace("\":", "\" : "),
            LINE.replace(",\"growth_tracker\":2", ""),
            LINE.replace(",\"unhashed\":{\"seconds\":0.001906674}", ""),
            LINE.replace("{\"seconds\":0.001906674}", "{}"),
            LINE.replacen(
                "{\"schema\":\"amp.record/1\",\"event\":\"step\",",
                "{\"event\":\"step\",\"schema\":\"amp.record/1\",",
                1,
            ),
        ];
        for form in forms {
            let line = step(form.as_bytes());
            // As text, for no NaN equals itself.
            assert_eq!(format!("{line:?}"), format!("{:?}", any(&form)), "{form}");
            assert!(line.is_some(), "{form}");
        }
    }

    #[test]
    fn any_other_line_is_left_to_the_reader_of_all_lines() {
        // Lines that it takes, which are no lines of steps as amp writes them, or mean something else.
        let fingerprint = "sha256:0bd1a6554e6026ef9afcd6489b553e44709a828d469aa2084014304f5efaddfb";
        let chain = "\"chain\":\"sha256:5eb0c4258ba4fda94b08dfd6731740e7971cfc55725ce126d7d55ac74def67ce\",";
        let taken = [
            LINE.replace("\"event\":\"step\"", "\"event\":\"st\\u0065p\""),
            LINE.replace(chain, ""),
            LINE.replace("\"event\":\"step\",", "\"event\":\"step\",\"more\":1,"),
        ];
        for form in taken {
            assert!(step(form.as_bytes()).is_none() && any(&form).is_some(), "{form}");
        }
        // Lines with a fault, which the reader of all lines tells.
        let faulty = [
            LINE.replace("amp.record/1", "amp.record/2"),
            LINE.replace("\"event\":\"step\"", "\"event\":\"evaluation\""),
            LINE.replace("\"value\":65536.0", "\"value\":32768.0"),
            LINE.replace("0x47800000", "0x4780000g"),
            LINE.replace("0x47800000", "0x+7800000"),
            LINE.replace("0x4013536e", "0x4013536E"),
            LINE.replace("\"epoch\":0", "\"epoch\":0,\"epoch\":0"),
            LINE.replace(fingerprint, &fingerprint[..70]),
            LINE.replace(fingerprint, &fingerprint.replace('a', "A")),
            LINE.replace("sha256:5eb0", "sha256:+eb0"),
            LINE[..200].to_owned(),
        ];
        for form in faulty {
            assert!(step(form.as_bytes()).is_none() && any(&form).is_none(), "{form}");
        }
    }
}
