//! Golden renderings of one diff in three forms, of a verdict, a run and a machine; numbers.

use super::*;
use crate::arithmetic::Isa;
use crate::diff::tests::{changed, record};
use crate::diff::{diff_locks, diff_records};
use crate::lock::derive;
use crate::lock::tests::{input, with_platform};
use crate::probe::{Cuda, Environment};
use crate::verify::{Against, Recorded, compare};

fn locks() -> crate::diff::LockDiff {
    diff_locks(&with_platform(derive(input())), &changed())
}

/// The run ids are checked elsewhere; here they would hide the form.
fn without_ids(text: &str) -> String {
    let diff = locks();
    let [old, new] = diff.run_ids;
    let short = |id: crate::digest::Digest| id.short();
    text.replace(&old.to_string(), "OLD")
        .replace(&new.to_string(), "NEW")
        .replace(&format!("sha256:{}", short(old)), "OLD")
        .replace(&format!("sha256:{}", short(new)), "NEW")
}

#[test]
fn a_lock_diff_as_text() {
    assert_eq!(
        without_ids(&text::lock_diff(&locks(), false)),
        r#"can change bits
  ~  data.batch       64 → 32
  +  optimizer.beta1  0.9
  ~  optimizer.lr     0.001 → 0.002

cannot change bits
  ~  module.std:models/mlp  digest="sha256:bbbbbbbbbbbb" → digest="sha256:bcbcbcbcbcbc"

derived
  ~  digest.plan.data       "sha256:111111111111" → "sha256:616161616161"  because data.batch
  ~  digest.plan.optimizer  "sha256:131313131313" → "sha256:636363636363"  because optimizer.beta1, optimizer.lr
  ~  digest.graph           "sha256:222222222222" → "sha256:626262626262"  because data.batch
  ~  digest.precision       "sha256:232323232323" → "sha256:656565656565"  because data.batch
  ~  digest.step            "sha256:242424242424" → "sha256:646464646464"  because data.batch, optimizer.beta1, optimizer.lr
  ~  run.id                 "OLD" → "NEW"  because data.batch, optimizer.beta1, optimizer.lr

platforms
  -  platform.cpu.pin.cublas          "13.0.2"
  -  platform.cpu.evaluation.test.22  chain="sha256:313131313131" examples=360 metric.accuracy=0.9638889 metric.loss="nan" step=22
  -  platform.cpu.result              chain="sha256:323232323232" parameters="sha256:333333333333" run="OLD" steps=440

bits can change, because of data.batch, optimizer.beta1, optimizer.lr
"#
    );
}

#[test]
fn a_lock_diff_as_markdown() {
    let mut diff = locks();
    diff.changes.retain(|change| ["data.batch", "optimizer.beta1", "run.id"].contains(&change.path.as_str()));
    assert_eq!(
        without_ids(&markdown::lock_diff(&diff)),
        "### amp: bits can change, because of data.batch, optimizer.beta1\n\
         \n\
         | node | before | after | change | bits | because |\n\
         |---|---|---|---|---|---|\n\
         | `data.batch` | `64` | `32` | value | **can change** |  |\n\
         | `optimizer.beta1` | – | `0.9` | added | **can change** |  |\n\
         | `run.id` | `\"OLD\"` | `\"NEW\"` | digest | **can change** | because data.batch, optimizer.beta1, optimizer.lr |\n"
    );
}

#[test]
fn a_lock_diff_as_json() {
    let mut diff = locks();
    diff.changes.retain(|change| ["optimizer.beta1", "digest.graph"].contains(&change.path.as_str()));
    let digest = |byte: &str| format!("\"sha256:{}\"", byte.repeat(32));
    let expected = serde_json::json!({
        "schema": "amp.diff/1",
        "kind": "lock",
        "same": false,
        "can_change_bits": true,
        "compared": 26,
        "old_run_id": diff.run_ids[0].to_string(),
        "new_run_id": diff.run_ids[1].to_string(),
        "changes": [
            {
                "path": "optimizer.beta1", "old": null, "new": "0.9", "class": "added", "bits": "can-change",
                "derived": false, "because": [],
            },
            {
                "path": "digest.graph", "old": digest("22"), "new": digest("62"), "class": "digest",
                "bits": "can-change", "derived": true, "because": ["data.batch"],
            },
        ],
    });
    assert_eq!(json::lock_diff(&diff), expected);
}

#[test]
fn equal_locks_say_how_much_was_compared() {
    let lock = derive(input());
    let diff = diff_locks(&lock, &lock);
    assert_eq!(text::lock_diff(&diff, false), "same: 22 nodes compared, none differs\n");
    assert_eq!(markdown::lock_diff(&diff), "### amp: same: 22 nodes compared, none differs\n");
}

#[test]
fn a_digest_that_no_entry_accounts_for_is_laid_to_amp() {
    let mut other = input();
    other.step = crate::digest::Digest([0x77; 32]);
    let text = text::lock_diff(&diff_locks(&derive(input()), &derive(other)), false);
    assert!(text.contains("because another version of amp computed it"), "{text}");
    assert!(text.ends_with("\nbits can change, because of digest.step\n"), "{text}");
}

#[test]
fn a_record_diff_in_three_forms() {
    let diff = diff_records(&record(1.0, 0.75), &record(f32::from_bits(1.0f32.to_bits() + 1), 0.25));
    let chains: Vec<String> = diff
        .summary
        .last()
        .into_iter()
        .flat_map(|figure| [&figure.old, &figure.new])
        .flatten()
        .cloned()
        .collect();
    let shown = text::record_diff(&diff, false)
        .replace(&number::short_digests(&chains[0]), "A")
        .replace(&number::short_digests(&chains[1]), "B");
    assert_eq!(
        shown,
        "first difference: step at step 3
  loss  1 → 1.0000001  1 ulp

farthest apart
  evaluation test accuracy  12,582,912 ulps at step 4
  step loss                 1 ulp at step 3

results
  =  steps          4
  =  skipped        1
  ~  last loss      1 → 1.0000001
  ~  test accuracy  0.75 → 0.25
  =  parameters     sha256:090909090909
  ~  chain          A → B

first difference at step 3, equal through step 2; 3 of 6 compared steps and evaluations differ
"
    );
    let document = json::record_diff(&diff);
    assert_eq!(document["first"]["fields"][0]["ulps"], 1);
    assert_eq!(document["first"]["step"], 3);
    assert_eq!(document["schema"], "amp.diff/1");
    let markdown = markdown::record_diff(&diff);
    assert!(markdown.contains("| `loss` | `1` | `1.0000001` | 1 ulp |\n"), "{markdown}");
}

#[test]
fn verdicts_in_three_forms() {
    let (expected, actual) = (record(1.0, 0.75), record(1.5, 0.75));
    let same = compare(&Recorded::from_record(&expected), &expected);
    assert_eq!(
        text::verdict(&same, Against::Recorded, false),
        "same: 9 digests compared with what was recorded, all equal\n"
    );
    let differs = compare(&Recorded::from_record(&expected), &actual);
    let shown = text::verdict(&differs, Against::SecondRun, false);
    let head = "differs from a second run on this machine, first at step 3: 4 of 9 compared digests\n\ndifferences\n  \
                step 3 loss  expected 1, got 1.5  4,194,304 ulps\n  step 4 loss  ";
    assert!(shown.starts_with(head), "{shown}");
    let document = json::verdict(&differs, Against::SecondRun);
    assert_eq!(document["schema"], "amp.verdict/1");
    assert_eq!((&document["verdict"], &document["exit_code"]), (&"differs".into(), &6.into()));
    assert_eq!(document["code"], "AMP0802");
    let mut nothing = Recorded::from_record(&expected);
    nothing.run_id = None;
    let nothing = compare(&nothing, &expected);
    assert_eq!(
        markdown::verdict(&nothing, Against::Recorded),
        "### amp: inconclusive: nothing to compare with what was recorded\n\nNot compared:\n\n\
         - a recorded result for this platform\n"
    );
}

#[test]
fn a_run_at_a_glance() {
    let summary = RunSummary::of(&record(1.0, 0.75));
    let id = "01".repeat(32);
    let parameters = "09".repeat(32);
    assert_eq!(
        text::run_summary(&summary, false),
        format!(
            "run         digits\n\
             run id      sha256:{id}\n\
             platform    cpu (portable)\n\
             end         finished\n\
             steps       4 of 4, 1 skipped\n\
             loss        2.5 → 1\n\
             loss scale  65536\n\
             test        accuracy 0.75 (step 4, 360 examples)\n\
             time        1 min 15 s\n\
             chain       {}\n\
             parameters  sha256:{parameters}\n",
            summary.chain
        )
    );
    let document = json::run_summary(&summary);
    assert_eq!(document["last_loss"], serde_json::json!({ "bits": "0x3f800000", "value": 1.0 }));
    assert!(markdown::run_summary(&summary).contains("| test accuracy | 0.75 (step 4) |\n"));
}

#[test]
fn a_machine() {
    let environment = Environment {
        amp: "0.1.0".to_owned(),
        cpu: None,
        architecture: "x86_64".to_owned(),
        cores: 2,
        memory_bytes: Some(25_276_502_016),
        isas: vec![Isa::Scalar, Isa::Avx2],
        os: "linux".to_owned(),
        system: Some("Debian | 12".to_owned()),
        kernel: Some("6.18".to_owned()),
        ieee_floats: true,
        cuda: Cuda::NotInThisBuild,
    };
    assert_eq!(
        text::environment(&environment, false),
        "amp               0.1.0\n\
         processor         unknown\n\
         architecture      x86_64\n\
         cores             2\n\
         memory            23.5 GiB\n\
         instruction sets  scalar, avx2\n\
         system            Debian | 12\n\
         kernel            6.18\n\
         floats            IEEE 754\n\
         cuda              no CUDA in this build\n"
    );
    assert!(markdown::environment(&environment).contains("| system | Debian \\| 12 |\n"));
}

#[test]
fn colour_adds_escapes_and_no_words() {
    let plain = text::lock_diff(&locks(), false);
    let colored = text::lock_diff(&locks(), true);
    assert!(colored.contains("\u{1b}[1mcan change bits\u{1b}[0m"), "{colored}");
    assert!(!plain.contains('\u{1b}'));
    let mut stripped = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').expect("a colour ends").1;
    }
    stripped.push_str(rest);
    assert_eq!(stripped, plain);
}

#[test]
fn numbers_for_people() {
    let bytes = [
        (0, "0 B"),
        (1023, "1023 B"),
        (57523, "56.2 KiB"),
        (1 << 20, "1.00 MiB"),
        ((1 << 20) - 1, "1.00 MiB"),
    ];
    for (value, text) in bytes {
        assert_eq!(number::bytes(value), text);
    }
    assert_eq!(number::bytes(u64::MAX), "16.0 EiB");
    for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(number::count(value), text);
    }
    let times = [
        (0.0, "0 s"),
        (1.5e-8, "15.0 ns"),
        (0.0123, "12.3 ms"),
        (0.99996, "1.00 s"),
        (59.9, "59.9 s"),
        (59.96, "1 min 0 s"),
        (75.0, "1 min 15 s"),
        (7322.0, "2 h 2 min"),
        (-1.0, "-1 s"),
    ];
    for (value, text) in times {
        assert_eq!(number::duration(value), text);
    }
    assert_eq!(number::duration(f64::NAN), "NaN s");
    let digest = format!("a sha256:{} b sha256:12 c", "ab".repeat(32));
    assert_eq!(number::short_digests(&digest), "a sha256:abababababab b sha256:12 c");
}
