//! Faults and advice from below the plan, as one types.

use super::{MANIFEST, PATH, Session, Told};
use crate::data::prepare;
use crate::resolve::resolve_text;
use crate::store::Store;
use crate::world::{Disk, Memory};
use camino::Utf8Path;

const COMPUTED: &str = "amp 1
run \"r\" seed=1
environment \"std:environments/t4\"
data \"d\" {
    synthetic examples=64 { features 3 32 32 }
    labels \"classes\" classes=16
    batch 8
}
model \"std:models/vit\" image=32 patch=8 width=64 layers=2 heads=4 classes=16
precision \"std:precision/amp-fp16\"
scaler \"std:scalers/dynamic\"
optimizer \"std:optimizers/adamw\" lr=1e-3 weight-decay=0.0
train epochs=1
";

/// The codes that are told of the manifest.
fn codes(told: &[Told]) -> Vec<&str> {
    let own = told.iter().filter(|(uri, _)| uri == PATH);
    own.flat_map(|(_, told)| told.iter().map(|(code, _)| code.as_str())).collect()
}

fn session<'world>(world: &'world Memory, text: &str) -> Session<'world> {
    Session::new(world, PATH, text)
}

#[test]
fn shapes_precision_and_advice_are_told_for_computed_data() {
    let world = Memory::default();
    assert_eq!(session(&world, COMPUTED).told(), [(PATH.to_owned(), vec![])]);
    for (right, wrong, code, place) in [
        ("labels \"classes\" classes=16", "labels \"classes\" classes=17", "AMP0307", [8, 0, 8, 76]),
        ("features 3 32 32", "features 3072", "AMP0301", [8, 0, 8, 76]),
        // A T4 has no bf16.
        (
            "precision \"std:precision/amp-fp16\"\nscaler \"std:scalers/dynamic\"",
            "precision \"std:precision/amp-bf16\"",
            "AMP0416",
            [9, 10, 9, 34],
        ),
        ("amp-fp16\"", "amp-fp16\" { layer \"haed\" dtype=\"f32\"; }", "AMP0401", [9, 37, 9, 61]),
        ("train epochs=1", "schedule \"cosine\" warmup=99\ntrain epochs=1", "AMP0414", [12, 25, 12, 27]),
    ] {
        let text = COMPUTED.replace(right, wrong);
        let told = session(&world, &text).told();
        assert_eq!(codes(&told), [code], "{wrong}: {told:?}");
        assert_eq!(told[0].1[0].1, place, "{wrong}");
    }
}

#[test]
fn a_short_last_batch_is_compiled_too() {
    let world = Memory::default();
    let vit = "vit\" image=32 patch=8 width=64 layers=2 heads=4";
    // Of 65 examples the ninth batch has one, and the last stage of the net sees one pixel.
    let short = COMPUTED.replace("examples=64", "examples=65").replace(vit, "resnet\" depth=18 width=8");
    let told = session(&world, &short).told();
    // Two normalisations of the stage, and the one of its shortcut.
    assert_eq!(codes(&told), ["AMP0314"; 3], "{told:?}");
    let dropped = short.replace("batch 8", "batch 8 last=\"drop\"");
    assert_eq!(session(&world, &dropped).told(), [(PATH.to_owned(), vec![])]);
}

#[test]
fn a_fault_of_a_shape_goes_when_it_is_mended_and_hovers_do_not_wait_for_it() {
    let world = Memory::default();
    let mut session = session(&world, &COMPUTED.replace("heads=4", "heads=5"));
    assert!(session.hover("heads=5").contains("Attention heads."));
    assert!(!codes(&session.told()).is_empty());
    session.text = COMPUTED.to_owned();
    session.change();
    assert_eq!(session.told(), [(PATH.to_owned(), vec![])]);
}

#[test]
fn a_declared_shape_is_enough_and_an_unknown_one_says_nothing() {
    let world = Memory::default();
    // Seven by seven by one pixels of a CSV file: declared, and pooled once too often.
    let wrong = MANIFEST.replace("shape 1 8 8", "shape 64");
    assert!(codes(&session(&world, &wrong).told()).iter().all(|code| code.starts_with("AMP03")));
    assert!(!codes(&session(&world, &wrong).told()).is_empty());
    let unknown = MANIFEST.replace("    shape 1 8 8\n", "");
    assert_eq!(codes(&session(&world, &unknown).told()), Vec::<&str>::new());
}

#[test]
fn what_only_data_can_raise_may_be_allowed_before_the_data_is_known() {
    let world = Memory::default();
    let allow = "allow \"AMP0416\" reason=\"it is short\"\n";
    let told = session(&world, &format!("{MANIFEST}{allow}")).told();
    assert_eq!(codes(&told), Vec::<&str>::new());
    // With all known it is idle.
    let told = session(&world, &format!("{COMPUTED}{allow}")).told();
    assert_eq!(codes(&told), ["AMP0417"]);
}

#[test]
fn what_the_store_knows_of_unchanged_data_counts() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = Utf8Path::from_path(place.path()).expect("UTF-8");
    let path = folder.join("manifest.kdl");
    let rows: String = (0..40).map(|row| format!("{row},1,2,{}\n", row % 3)).collect();
    crate::store::write_file(&folder.join("rows.csv"), rows.as_bytes()).expect("a file");
    let text = COMPUTED
        .replace("    synthetic examples=64 { features 3 32 32 }\n", "    source \"rows.csv\"\n")
        .replace("    labels \"classes\" classes=16\n", "    columns header=#false classes=3\n");
    let uri = format!("file://{path}");
    // A note is trusted when it is younger than the file by a tick of the file system's clock.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let told = |text: &str| Session::new(&Disk, &uri, text).told();
    assert_eq!(told(&text), [(uri.clone(), vec![])], "nobody knows the rows yet");
    let mut sources = crate::diag::SourceMap::default();
    let (plan, _) = resolve_text(&path, &text, &Disk, &mut sources);
    let store = Store::open(&folder.join(".amp"), false).expect("a store");
    let _ = prepare(&plan.expect("a plan").data, folder, &Disk, &store).expect("the rows are right");
    let known = told(&text);
    assert_eq!(known[0].1[0].0, "AMP0301", "three numbers are no picture: {known:?}");
    // A changed file is not known any more.
    crate::store::write_file(&folder.join("rows.csv"), format!("{rows}1,1,1,1\n").as_bytes())
        .expect("a file");
    assert_eq!(told(&text), [(uri.clone(), vec![])]);
}
