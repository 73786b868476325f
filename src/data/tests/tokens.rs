//! Tokens, labels that follow from them, computed examples: on paper, against a second writing of the rules
//! (`testdata/examples.py`), under any order of batches, and with damage.

use super::super::spec::{
    DataSpec, Format, IGNORED, LabelRule, LastBatch, Masking, Part, Sources, Split, Synthetic,
    SyntheticFeatures, SyntheticLabels, TokenWidth, Tokens, Vocabulary, Windows,
};
use super::super::{
    Batches, DataFault, Draw, EVALUATION_EPOCH, Origin, Prepared, SplitView, Values, prepare,
};
use super::arrays::npy_file;
use super::{csv_spec, skip, store, told};
use crate::arithmetic::philox::Stream;
use crate::store::Store;
use crate::world::{Disk, Memory};
use camino::Utf8Path;
use proptest::prelude::*;

const DRAW: Draw = Draw { seed: 42, epoch: 1 };

fn windows(length: usize, stride: usize) -> Option<Windows> {
    Some(Windows { length, stride })
}

fn spec(path: &str, format: Format, vocabulary: Vocabulary, windows: Option<Windows>) -> DataSpec {
    DataSpec {
        format,
        tokens: Some(Tokens { vocabulary, windows }),
        labels: LabelRule::NextToken,
        classes: None,
        ..csv_spec(path)
    }
}

fn parts(parts: &[(&str, f64)], shuffle: Option<u64>) -> Split {
    let parts =
        parts.iter().map(|(name, fraction)| Part { name: (*name).to_owned(), fraction: *fraction }).collect();
    Split::Fractions { parts, shuffle }
}

fn ready(spec: &DataSpec, world: &Memory) -> Prepared {
    let (_folder, store) = store();
    prepare(spec, Utf8Path::new(""), world, &store).expect("prepares")
}

fn refused(spec: &DataSpec, world: &Memory) -> (u16, String) {
    let (_folder, store) = store();
    let faults: Vec<DataFault> = prepare(spec, Utf8Path::new(""), world, &store).expect_err("is refused");
    assert_eq!(faults.len(), 1, "{faults:?}");
    told(&faults[0])
}

fn integers(values: &Values) -> &[i32] {
    let Values::Integers(values) = values else { panic!("expected integers, found {values:?}") };
    values
}

fn floats(values: &Values) -> &[f32] {
    let Values::Floats(values) = values else { panic!("expected floats, found {values:?}") };
    values
}

/// Tokens and labels of one example.
fn example(split: &SplitView<'_>, index: u32, draw: Draw) -> (Vec<i32>, Vec<i32>) {
    let found = split.gather(&[index], draw);
    (integers(&found.features).to_vec(), integers(&found.labels).to_vec())
}

fn little_endian(tokens: &[u16]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
}

#[test]
fn windows_of_a_text_are_those_on_paper() {
    // Sorted by scalar value: ' ' 0, 'a' 1, 'b' 2, 'n' 3, 'é' 4.
    let world = Memory::default().with("t.txt", "banane é");
    let spec = spec("t.txt", Format::Text, Vocabulary::Characters, windows(3, 2));
    let found = ready(&spec, &world);
    // 'e' lies between 'b' and 'n', so there are six.
    let train = found.split("train").expect("a split");
    assert_eq!((train.length, train.shape, train.label_shape), (3, &[3][..], &[3][..]));
    assert_eq!(train.vocabulary, Some(6));
    // b a n a n e ␣ é = 2 1 4 1 4 3 0 5
    assert_eq!(example(&train, 0, DRAW), (vec![2, 1, 4], vec![1, 4, 1]));
    assert_eq!(example(&train, 1, DRAW), (vec![4, 1, 4], vec![1, 4, 3]));
    assert_eq!(example(&train, 2, DRAW), (vec![4, 3, 0], vec![3, 0, 5]));
    let both = train.gather(&[2, 0], DRAW);
    assert_eq!(integers(&both.features), [4, 3, 0, 2, 1, 4]);
    assert!(train.has_classes() && train.table().is_none() && found.classes_found().is_none());
}

#[test]
fn bytes_may_be_anything_and_packed() {
    let spec = spec("t.txt", Format::Text, Vocabulary::Bytes, windows(2, 1));
    let plain = ready(&spec, &Memory::default().with("t.txt", [0xff, 0, 65, 0xc3]));
    let train = plain.split("train").expect("a split");
    assert_eq!((train.length, train.vocabulary), (2, Some(256)));
    assert_eq!(example(&train, 1, DRAW), (vec![0, 65], vec![65, 0xc3]));
    let packed = super::arrays::packed(&[0xff, 0, 65, 0xc3]);
    let unpacked = ready(&spec, &Memory::default().with("t.txt", packed));
    assert_eq!(unpacked.content, plain.content);
}

#[test]
fn parts_of_a_stream_are_contiguous_and_share_no_token() {
    let tokens: Vec<u16> = (0..100).collect();
    let world = Memory::default().with("t.bin", little_endian(&tokens));
    let format = Format::Tokens { width: TokenWidth::U16 };
    let mut spec = spec("t.bin", format, Vocabulary::Size(100), windows(4, 1));
    spec.split = parts(&[("train", 0.8), ("test", 0.1), ("validation", 0.1)], None);
    let found = ready(&spec, &world);
    let seen = |name: &str| {
        let split = found.split(name).expect("a split");
        let all: Vec<u32> = (0..split.length as u32).collect();
        let gathered = split.gather(&all, DRAW);
        let both = [integers(&gathered.features), integers(&gathered.labels)].concat();
        (both.iter().min().copied(), both.iter().max().copied(), split.length)
    };
    assert_eq!(seen("train"), (Some(0), Some(79), 76));
    assert_eq!(seen("test"), (Some(80), Some(89), 6));
    assert_eq!(seen("validation"), (Some(90), Some(99), 6));
    spec.split = parts(&[("train", 0.8), ("test", 0.2)], Some(1));
    assert_eq!(refused(&spec, &world).0, 730, "dealt out token by token");
}

#[test]
fn files_of_tokens_are_read_in_their_width_and_kept_narrow() {
    let two = Memory::default().with("t.bin", little_endian(&[1, 258, 65535]));
    let format = |width| Format::Tokens { width };
    let wide = spec("t.bin", format(TokenWidth::U16), Vocabulary::Size(65536), windows(2, 1));
    let found = ready(&wide, &two);
    assert_eq!(example(&found.split("train").expect("a split"), 0, DRAW), (vec![1, 258], vec![258, 65535]));
    assert!(found.bytes().len() < 200, "2 bytes a token, {} bytes in all", found.bytes().len());
    let four: Vec<u8> = [7_u32, 70_000, 69_999].iter().flat_map(|token| token.to_le_bytes()).collect();
    let four = Memory::default().with("t.bin", four);
    let wide = spec("t.bin", format(TokenWidth::U32), Vocabulary::Size(70_001), windows(2, 1));
    let found = ready(&wide, &four);
    assert_eq!(
        example(&found.split("train").expect("a split"), 0, DRAW),
        (vec![7, 70_000], vec![70_000, 69_999])
    );
}

#[test]
fn another_length_or_rule_prepares_nothing_anew() {
    let (_folder, store) = store();
    let world = Memory::default().with("t.txt", "to be or not to be");
    let first = spec("t.txt", Format::Text, Vocabulary::Characters, windows(3, 2));
    let folder = Utf8Path::new("");
    let made = prepare(&first, folder, &world, &store).expect("prepares");
    let mut second = spec("t.txt", Format::Text, Vocabulary::Characters, windows(5, 5));
    second.labels = LabelRule::Masked(Masking { probability: 0.5, mask_token: 0, kept: Vec::new() });
    let found = prepare(&second, folder, &world, &store).expect("prepares");
    assert_eq!((made.origin, found.origin), (Origin::Made, Origin::Found));
    assert_eq!(found.content, made.content);
    assert_eq!(found.split("train").expect("a split").length, 3, "18 characters, masked: no token beyond");
    assert_ne!(crate::digest::Digest::of(&first), crate::digest::Digest::of(&second));
}

#[test]
fn rows_of_an_array_are_examples() {
    let bytes: Vec<u8> = [1_u16, 2, 3, 4, 5, 6].iter().flat_map(|token| token.to_le_bytes()).collect();
    let file = npy_file("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }\n", &bytes);
    let labels = npy_file("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", &[1, 0]);
    let world = Memory::default().with("x.npy", file).with("y.npy", labels);
    let mut spec = spec("x.npy", Format::Npy, Vocabulary::Size(7), None);
    let next = ready(&spec, &world);
    assert_eq!(example(&next.split("train").expect("a split"), 1, DRAW), (vec![4, 5], vec![5, 6]));
    spec.labels = LabelRule::Masked(Masking { probability: 1.0, mask_token: 0, kept: vec![4] });
    let masked = ready(&spec, &world);
    let (_, labels) = example(&masked.split("train").expect("a split"), 1, DRAW);
    assert_eq!(labels, [IGNORED, 5, 6]);
    spec.labels = LabelRule::Given;
    spec.classes = Some(2);
    spec.sources = Sources::Pairs { train: ("x.npy".into(), "y.npy".into()), test: None };
    let given = ready(&spec, &world);
    let train = given.split("train").expect("a split");
    assert_eq!((train.shape, train.label_shape, train.vocabulary), (&[3][..], &[][..], Some(7)));
    let found = train.gather(&[1, 0], DRAW);
    assert_eq!(integers(&found.features), [4, 5, 6, 1, 2, 3]);
    assert_eq!(integers(&found.labels), [0, 1]);
    spec.tokens = Some(Tokens { vocabulary: Vocabulary::Size(6), windows: None });
    let (code, text) = refused(&spec, &world);
    assert_eq!((code, text.contains("found the token 6 at position 5")), (739, true), "{text}");
}

#[test]
fn damaged_files_say_what_is_wrong_and_where() {
    let of = |bytes: &[u8]| Memory::default().with("t", bytes);
    let tokens = spec("t", Format::Tokens { width: TokenWidth::U16 }, Vocabulary::Size(50257), windows(2, 2));
    let whole = little_endian(&[15496, 995, 50256]);
    assert_eq!(ready(&tokens, &of(&whole)).split("train").expect("a split").length, 1);
    let (code, text) = refused(&tokens, &of(&whole[..5]));
    assert_eq!((code, text.as_str()), (740, "t: found 5 bytes, expected 2 for each token (u16)"));
    let (code, text) = refused(&tokens, &of(&whole[..4]));
    assert_eq!(code, 741, "{text}");
    assert!(text.contains("found 2 tokens in the split `train`, expected at least 3"), "{text}");
    assert_eq!(refused(&tokens, &of(&[])).0, 733);
    let (code, text) = refused(&tokens, &of(&little_endian(&[1, 2, 50257])));
    assert_eq!(code, 739);
    assert!(
        text.contains("the token 50257 at position 2 (counted from 0), expected one in 0..50257"),
        "{text}"
    );
    let text_spec = spec("t", Format::Text, Vocabulary::Characters, windows(2, 2));
    let (code, text) = refused(&text_spec, &of(b"ab\xe9cd"));
    assert_eq!((code, text.as_str()), (740, "t: found bytes that are not UTF-8 at offset 2, expected text"));
    let wide: Vec<u8> = "\u{feff}ab".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let found = ["the byte order mark ff fe of UTF-16", "a zero byte at offset 1, as UTF-16 has them"];
    for (bytes, found) in [&wide, &wide[2..]].into_iter().zip(found) {
        let expected = format!("t: found {found}, expected UTF-8 text");
        assert_eq!(refused(&text_spec, &of(bytes)), (740, expected));
    }
    assert_eq!(refused(&text_spec, &of(b"")).0, 733);
    let mut masked = text_spec;
    masked.labels = LabelRule::Masked(Masking { probability: 0.5, mask_token: 3, kept: Vec::new() });
    assert_eq!(refused(&masked, &of(b"abc")).0, 739, "a mask token that is no character of the text");
}

fn synthetic(features: SyntheticFeatures, labels: SyntheticLabels, examples: usize) -> DataSpec {
    DataSpec {
        sources: Sources::None,
        format: Format::Synthetic(Synthetic { seed: 7, examples, features, labels }),
        classes: None,
        ..csv_spec("")
    }
}

fn tokens_spec(rule: LabelRule) -> DataSpec {
    let features = SyntheticFeatures::Tokens { vocabulary: 50257, length: 5 };
    DataSpec { labels: rule, ..synthetic(features, SyntheticLabels::FromTokens, 1024) }
}

#[test]
fn computed_examples_are_those_of_the_second_writing() {
    let found = ready(&tokens_spec(LabelRule::NextToken), &Memory::default());
    let train = found.split("train").expect("a split");
    assert_eq!((train.length, train.shape, train.vocabulary), (1024, &[5][..], Some(50257)));
    let zero = [30779, 30028, 9033, 19414, 49927, 15380];
    assert_eq!(example(&train, 0, DRAW), (zero[..5].to_vec(), zero[1..].to_vec()));
    let three = [1906, 46116, 20704, 7694, 4733, 4674];
    assert_eq!(example(&train, 3, DRAW), (three[..5].to_vec(), three[1..].to_vec()));
    let labels = SyntheticLabels::Classes { classes: 1000, shape: Vec::new() };
    let images = ready(&synthetic(SyntheticFeatures::Uniform(vec![5]), labels, 8), &Memory::default());
    let batch = images.split("train").expect("a split").gather(&[0, 1, 2, 3, 4, 5, 6, 7], DRAW);
    assert_eq!(integers(&batch.labels), [589, 519, 689, 689, 286, 806, 706, 988]);
    // Multiples of 2^-24, which f32 holds.
    let expected = [0.233_580_291_271_209_72, 0.826_172_471_046_447_8, 0.602_141_201_496_124_3];
    assert_eq!(floats(&batch.features)[10..13], expected.map(|number: f64| number as f32));
    let normal = ready(
        &synthetic(SyntheticFeatures::Normal(vec![2, 2]), SyntheticLabels::Targets(vec![3]), 8),
        &Memory::default(),
    );
    let batch = normal.split("train").expect("a split").gather(&[6], DRAW);
    let features = Stream::new(7, u64::from_le_bytes(*b"features"));
    let targets = Stream::new(7, u64::from_le_bytes(*b"labels\0\0"));
    assert_eq!(floats(&batch.features), [0, 1, 2, 3].map(|element| features.normal(6, element)));
    assert_eq!(floats(&batch.labels), [0, 1, 2].map(|element| targets.normal(6, element)));
}

#[test]
fn the_largest_computed_set_costs_nothing_to_declare() {
    let labels = SyntheticLabels::Classes { classes: 1000, shape: Vec::new() };
    let mut spec = synthetic(SyntheticFeatures::Normal(vec![3, 224, 224]), labels, u32::MAX as usize);
    spec.split = parts(&[("train", 0.75), ("test", 0.25)], None);
    // A store that is nowhere, and a world without files.
    let store = Store::open_read_only(Utf8Path::new("nowhere/at/all")).expect("opens");
    let found = prepare(&spec, Utf8Path::new(""), &Memory::default(), &store).expect("prepares");
    let (train, test) = (found.split("train").expect("train"), found.split("test").expect("test"));
    assert_eq!((train.length, test.length), (3_221_225_472, 1_073_741_823));
    assert!(found.bytes().is_empty() && found.sources.is_empty());
    let last = test.gather(&[test.length as u32 - 1], DRAW);
    assert_eq!(floats(&last.features).len(), 3 * 224 * 224);
    assert_ne!(train.gather(&[5], DRAW), test.gather(&[5], DRAW), "splits have examples of their own");
    let other = ready(&DataSpec { batch: 9, shuffle: true, ..spec.clone() }, &Memory::default());
    assert_eq!(other.content, found.content);
    let Format::Synthetic(synthetic) = &mut spec.format else { panic!("computed") };
    synthetic.seed = 8;
    assert_ne!(ready(&spec, &Memory::default()).content, found.content);
}

#[test]
fn hidden_tokens_are_those_of_the_second_writing() {
    let stream = Stream::new(42, super::super::masking::MASKING_STREAM);
    let mut tokens: Vec<i32> = (0..24).map(|index| (3 * index + 1) % 50).collect();
    let mut labels = vec![0; 24];
    let masking = Masking { probability: 0.5, mask_token: 103, kept: vec![1, 4] };
    masking.apply(&stream, 1, 5, 200, &mut tokens, &mut labels);
    let hidden = [
        1, 4, 103, 10, 13, 103, 19, 103, 103, 103, 103, 34, 37, 40, 11, 103, 103, 103, 103, 8, 103, 24, 17,
        20,
    ];
    let own = [
        -100, -100, 7, -100, -100, 16, 19, 22, 25, 28, 31, 34, -100, -100, 43, 46, 49, 2, 5, -100, 11, 14,
        -100, -100,
    ];
    assert_eq!((tokens.as_slice(), labels.as_slice()), (&hidden[..], &own[..]));
    let mut tokens = vec![1, 4, 7, 10, 13, 16];
    let mut labels = vec![0; 6];
    let rare = Masking { probability: 1e-6, mask_token: 103, kept: Vec::new() };
    rare.apply(&stream, 1, 9, 200, &mut tokens, &mut labels);
    assert_eq!(tokens, [1, 4, 103, 10, 13, 16], "chance chose none, so that one is taken");
    assert_eq!(labels, [-100, -100, 7, -100, -100, -100]);
}

#[test]
fn tokens_are_hidden_in_the_declared_shares() {
    let rule = Masking { probability: 0.15, mask_token: 103, kept: vec![0] };
    let stream = Stream::new(3, super::super::masking::MASKING_STREAM);
    let (mut chosen, mut masked, mut kept, mut all) = (0.0, 0.0, 0.0, 0.0);
    for example in 0..200 {
        // A tenth is padding, 0; no other token is the mask token or 0.
        let before: Vec<i32> = (0..500).map(|at| if at >= 450 { 0 } else { 1000 + at }).collect();
        let (mut tokens, mut labels) = (before.clone(), vec![0; 500]);
        rule.apply(&stream, 2, example, 30_000, &mut tokens, &mut labels);
        for ((before, after), label) in before.iter().zip(&tokens).zip(&labels) {
            if *label == IGNORED {
                assert_eq!(before, after, "what is not chosen stays");
                all += f64::from(*before != 0);
                continue;
            }
            assert_eq!(label, before);
            assert_ne!(*before, 0, "padding is never hidden");
            all += 1.0;
            chosen += 1.0;
            masked += f64::from(*after == 103);
            kept += f64::from(after == before);
        }
    }
    // Five standard deviations of a binomial count.
    let near = |count: f64, of: f64, share: f64| {
        let deviation = (of * share * (1.0 - share)).sqrt();
        assert!((count - of * share).abs() < 5.0 * deviation, "{count} of {of}, expected {share}");
    };
    assert_eq!(all, 90_000.0);
    near(chosen, all, 0.15);
    near(masked, chosen, 0.8);
    near(kept, chosen, 0.1);
}

#[test]
fn what_is_hidden_follows_the_epoch_and_nothing_else() {
    let rule = LabelRule::Masked(Masking { probability: 0.3, mask_token: 0, kept: Vec::new() });
    let found = ready(&tokens_spec(rule), &Memory::default());
    let train = found.split("train").expect("a split");
    let of = |epoch| train.gather(&[4, 9, 11], Draw { seed: 1, epoch });
    assert_eq!(of(0), of(0));
    assert_ne!(of(0), of(1));
    assert_eq!(of(EVALUATION_EPOCH), of(EVALUATION_EPOCH));
    assert_ne!(of(0), train.gather(&[4, 9, 11], Draw { seed: 2, epoch: 0 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An example is the same alone, in any batch, at any place of it, and on any thread.
    #[test]
    fn an_example_is_the_same_in_any_batch(
        order in prop::collection::vec(0_u32..40, 1..20),
        masked in any::<bool>(),
        stored in any::<bool>(),
        epoch in any::<u64>(),
    ) {
        let rule = match masked {
            true => LabelRule::Masked(Masking { probability: 0.3, mask_token: 1, kept: vec![2] }),
            false => LabelRule::NextToken,
        };
        let draw = Draw { seed: 5, epoch };
        let (spec, world) = if stored {
            let bytes: Vec<u16> = (0..400).map(|index| index * 37 % 251).collect();
            let format = Format::Tokens { width: TokenWidth::U16 };
            let spec = spec("t.bin", format, Vocabulary::Size(251), windows(6, 7));
            (DataSpec { labels: rule, ..spec }, Memory::default().with("t.bin", little_endian(&bytes)))
        } else {
            (tokens_spec(rule), Memory::default())
        };
        let found = ready(&spec, &world);
        let train = found.split("train").expect("a split");
        let together = train.gather(&order, draw);
        let alone: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = order
                .iter()
                .map(|index| { let train = &train; scope.spawn(move || example(train, *index, draw)) })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        let features: Vec<i32> = alone.iter().flat_map(|(features, _)| features.clone()).collect();
        let labels: Vec<i32> = alone.iter().flat_map(|(_, labels)| labels.clone()).collect();
        prop_assert_eq!(integers(&together.features), features);
        prop_assert_eq!(integers(&together.labels), labels);
    }
}

#[test]
fn shakespeare_has_the_characters_that_are_known() {
    // `shared/` lies beside the project or above it.
    let project = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut places = project.ancestors().map(|folder| folder.join("shared/data"));
    let Some(folder) = places.find(|folder| folder.join("tinyshakespeare.txt").exists()) else {
        return skip("tiny Shakespeare is not in ../shared/data");
    };
    let mut spec = spec("tinyshakespeare.txt", Format::Text, Vocabulary::Characters, windows(256, 64));
    spec.split = parts(&[("train", 0.9), ("test", 0.1)], None);
    spec.batch = 32;
    spec.last = LastBatch::Drop;
    let (_folder, store) = store();
    let found = prepare(&spec, &folder, &Disk, &store).expect("prepares");
    let (train, test) = (found.split("train").expect("train"), found.split("test").expect("test"));
    // `sorted(set(text))` in Python: 64 characters (this copy has no `$`), and the indices of "First Citizen:".
    assert_eq!((train.vocabulary, test.vocabulary), (Some(64), Some(64)));
    assert_eq!(example(&train, 0, DRAW).0[..14], [17, 46, 55, 56, 57, 1, 14, 46, 57, 46, 63, 42, 51, 9]);
    // 111,539 for `test`, rounded down; the rest is `train`: (1,003,855 - 257) div 64 + 1.
    assert_eq!((train.length, test.length), (15_682, 1_739));
    let batches = Batches::new(train.length, 32, true, 1, spec.last).expect("batches");
    let batch = train.gather(&batches.indices(0, 3), DRAW);
    assert_eq!(integers(&batch.features).len(), 32 * 256);
}
