//! The faces of findings, each against its own rules.

use super::{
    CAN_CHANGE, Check, Finding, Findings, Level, MOST_ANNOTATIONS, Outcome, Place, Rule, github, junit,
    of_proof, of_verdict, sarif,
};
use crate::diag::tests::{example, span};
use crate::diag::{Diagnostic, FileId, SourceMap, codes};
use crate::report::page::tests::{evaluation, finished, record, step};
use crate::verify::{Against, Proof, Recorded, compare};
use proptest::prelude::*;

fn annotations(faults: &[Diagnostic], sources: &SourceMap) -> String {
    github(&Findings::of_diagnostics("amp check", "m", faults, sources))
}

#[test]
fn github_annotations_are_one_escaped_line_at_a_file_of_the_repository() {
    let (fault, mut sources) = example();
    let expected = "::error file=run/manifest.kdl,line=2,endLine=2,col=10,endColumn=11,title=AMP0207::\
                    `lr` is 2,%0Aand must be below 1 (must be below 1)%0Astd:optimizers/x:2:15: declared here%0Ahelp: write 50%25\n";
    assert_eq!(annotations(&[fault], &sources), expected);
    let odd = sources.add("a,b:c.kdl", "x\ny\n");
    let long = Diagnostic::warning(codes::NO_SCALER, "m").at(span(odd, 0, 3), "t");
    let expected = "::warning file=a%2Cb%3Ac.kdl,line=1,endLine=2,title=AMP0229::m (t)\n";
    assert_eq!(annotations(&[long], &sources), expected);
    let library = Diagnostic::warning(codes::NO_SCALER, "m").at(span(FileId(1), 0, 3), "t");
    assert_eq!(annotations(&[library], &sources), "::warning title=AMP0229::m (t)\n");
}

#[test]
fn github_shows_ten_of_a_level_and_says_what_it_leaves_out() {
    let mut check = Check::new("m", Outcome::Failed);
    for number in 0..25 {
        check.findings.push(Finding::new(CAN_CHANGE, Level::Error, format!("n{number}")));
    }
    check.findings.push(Finding::new(CAN_CHANGE, Level::Note, "a note"));
    let text = github(&Findings { command: "amp diff".to_owned(), checks: vec![check] });
    assert_eq!(text.matches("::error ").count(), MOST_ANNOTATIONS);
    assert!(text.contains("16 more findings"), "{text}");
    assert!(text.ends_with("::notice title=diff/can-change-bits::a note\n"), "{text}");
}

#[test]
fn junit_has_a_case_for_each_check() {
    let (fault, sources) = example();
    let mut findings = Findings::of_diagnostics("amp check", "a<b>.kdl", &[fault], &sources);
    findings.checks.push(Check { seconds: Some(1.25), ..Check::new("lock", Outcome::Passed) });
    let odd = Finding::new(Rule::Code(codes::VERIFY_INCONCLUSIVE), Level::Error, "a \"b\"\n\u{1b}[31m");
    findings.checks.push(Check::new("run", Outcome::Inconclusive).with(odd));
    findings.checks.push(Check::new("umask", Outcome::Skipped));
    let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <testsuites name=\"amp check\" tests=\"4\" failures=\"1\" errors=\"1\" time=\"1.250\">\n\
        <testsuite name=\"amp check\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"1.250\">\n\
        <testcase classname=\"amp.check\" name=\"a&lt;b&gt;.kdl\"><failure message=\"`lr` is 2,&#10;and must be below 1\" \
        type=\"AMP0207\">run/manifest.kdl:2:10: AMP0207 `lr` is 2,\nand must be below 1 (must be below 1)\n\
        std:optimizers/x:2:15: declared here\nhelp: write 50%</failure></testcase>\n\
        <testcase classname=\"amp.check\" name=\"lock\" time=\"1.250\"></testcase>\n\
        <testcase classname=\"amp.check\" name=\"run\"><error message=\"a &quot;b&quot;&#10;\\u{1b}[31m\" \
        type=\"AMP0803\">AMP0803 a \"b\"\n\\u{1b}[31m</error></testcase>\n\
        <testcase classname=\"amp.check\" name=\"umask\"><skipped message=\"\"/></testcase>\n\
        </testsuite>\n</testsuites>\n";
    assert_eq!(junit(&findings), expected);
}

#[test]
fn sarif_has_rules_results_and_places() {
    let (fault, sources) = example();
    let findings = Findings::of_diagnostics("amp check", "m", &[fault.clone(), fault], &sources);
    let document = sarif(&findings, 2, false);
    assert_eq!(document["version"], "2.1.0");
    let run = &document["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    assert_eq!((rules.len(), rules[0]["id"].as_str()), (1, Some("AMP0207")));
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    assert_eq!(
        (&results[0]["ruleId"], &results[0]["ruleIndex"], &results[0]["level"]),
        (&"AMP0207".into(), &0.into(), &"error".into())
    );
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "run/manifest.kdl");
    let region = serde_json::json!({ "startLine": 2, "startColumn": 10, "endLine": 2, "endColumn": 11 });
    assert_eq!(place["region"], region);
    assert_eq!(results[0]["partialFingerprints"], results[1]["partialFingerprints"]);
    // The library's line is no file: it is told in the message.
    assert!(results[0].get("relatedLocations").is_none());
    assert!(
        results[0]["message"]["text"].as_str().is_some_and(|text| text.contains("std:optimizers/x:2:15"))
    );
    assert_eq!(run["invocations"][0], serde_json::json!({ "executionSuccessful": false, "exitCode": 2 }));
}

#[test]
fn a_place_is_a_uri_below_the_folder_of_the_step() {
    for (file, uri) in
        [("./a/b.kdl", "a/b.kdl"), ("/x y/ä.kdl", "file:///x%20y/%C3%A4.kdl"), ("a?#b", "a%3F%23b")]
    {
        let finding = Finding::new(CAN_CHANGE, Level::Note, "m").at(Some(Place::file(file)));
        let findings = Findings {
            command: "c".to_owned(),
            checks: vec![Check::new("n", Outcome::Passed).with(finding)],
        };
        let place = &sarif(&findings, 0, true)["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], uri);
        assert!(place.get("region").is_none());
    }
    let lock = "lock version=1\noptimizer.lr 0.1\n    result chain=\"x\"\n";
    let place = Place::line_where("m.lock", lock, |line| line.starts_with("    result "));
    let region = place.region.expect("a line");
    assert_eq!((region.start, region.end), ((3, 5), (3, 21)));
    assert_eq!(Place::line_where("m.lock", lock, |_| false), Place::file("m.lock"));
}

#[test]
fn a_verdict_is_a_check_and_its_differences_are_findings() {
    let expected = record(vec![step(1, 2.0), step(2, 1.0), evaluation(2, "test", 0.5), finished(2)]);
    let actual = record(vec![step(1, 2.0), step(2, 1.5), evaluation(2, "test", 0.25), finished(2)]);
    let place = |_: Option<&crate::verify::Difference>| Some(Place::file("m.lock"));
    let of = |expected: &Recorded, actual| {
        let verdict = compare(expected, actual);
        of_verdict("amp verify", "m.lock", &verdict, Against::Recorded, 2.0, &place)
    };
    let recorded = Recorded::from_record(&expected);
    let same = of(&recorded, &expected);
    assert_eq!((same.checks[0].outcome, same.all().count()), (Outcome::Passed, 0));
    let differs = of(&recorded, &actual);
    assert_eq!(differs.checks[0].outcome, Outcome::Failed);
    let messages: Vec<&str> = differs.all().map(|finding| finding.message.as_str()).collect();
    assert_eq!(messages.len(), 3, "{messages:#?}");
    assert!(messages[0].contains("first at step 2"));
    // 1.0 is 0x3f800000 and 1.5 is 0x3fc00000: 2^22 places apart.
    assert_eq!(messages[1], "step 2 loss: expected 1, got 1.5 (4,194,304 ulps)");
    assert!(differs.all().all(|finding| finding.rule.id() == "AMP0801" && finding.level == Level::Error));
    let cut = record(vec![step(1, 2.0)]);
    let inconclusive = of(&recorded, &cut);
    assert_eq!(inconclusive.checks[0].outcome, Outcome::Inconclusive);
    assert!(
        junit(&inconclusive).contains("errors=\"1\"")
            && junit(&inconclusive).contains("not compared: step 2")
    );
    assert!(github(&inconclusive).starts_with("::error file=m.lock,title=AMP0803::"));
    assert_eq!(sarif(&inconclusive, 7, false)["runs"][0]["invocations"][0]["executionSuccessful"], false);
    let nothing = Proof { steps: 2, available: 0, repeated: Vec::new() };
    let nothing = of_proof("amp verify", "runs/1", &nothing, &Place::file("runs/1/record.ndjson"));
    assert_eq!(nothing.checks[0].outcome, Outcome::Inconclusive);
}

proptest! {
    /// Whatever the texts, an annotation is one line, and XML has no character that it forbids.
    #[test]
    fn no_text_breaks_a_face(message in ".{0,60}", file in ".{1,30}", help in "(.|\n|\r){0,60}") {
        let finding = Finding::new(CAN_CHANGE, Level::Warning, message).at(Some(Place::file(file))).help(help);
        let findings = Findings { command: "c".to_owned(), checks: vec![Check::new("n", Outcome::Failed).with(finding)] };
        prop_assert_eq!(github(&findings).trim_end_matches('\n').lines().count(), 1);
        let xml = junit(&findings);
        let is_forbidden = |c: char| c.is_control() && !"\n\t".contains(c) || "\u{fffe}\u{ffff}".contains(c);
        prop_assert!(!xml.chars().any(is_forbidden));
        prop_assert_eq!(xml.matches('<').count(), xml.matches('>').count());
        prop_assert_eq!(xml.matches('<').count(), 9);
        let uri = sarif(&findings, 1, true)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].clone();
        prop_assert!(uri.as_str().is_some_and(|uri| uri.is_ascii() && !uri.contains(' ')));
    }
}
