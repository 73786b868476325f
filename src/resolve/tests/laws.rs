//! Laws over generated texts: nothing panics, spelling never changes a digest, meaning always does.

use super::{BASE, compose, plan, resolved};
use crate::diag::render_text;
use crate::digest::Digest;
use crate::stdlib;
use crate::syntax;
use crate::world::Memory;
use proptest::prelude::*;

const MLP: &str = include_str!("../../../examples/digits/manifest.kdl");
const CNN: &str = include_str!("../../../examples/digits-cnn/manifest.kdl");

fn digest(manifest: &str) -> Digest {
    Digest::of(&plan(manifest))
}

/// Resolves and renders; only a panic fails.
fn survive(text: &str) {
    let world = Memory::default().with("net.kdl", text);
    let (_, faults, sources) = resolved(text, &world);
    let rendered = render_text(&faults, &sources, true);
    assert_eq!(rendered.is_empty(), faults.is_empty());
    let (_, faults, sources) = resolved("amp 1\nmodel \"./net.kdl\"\n", &world);
    assert!(!render_text(&faults, &sources, false).is_empty());
    let _ = syntax::format(text);
}

/// Words that meet in manifests and modules, so that random rows of them reach deep.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "amp",
        "run",
        "data",
        "model",
        "precision",
        "scaler",
        "optimizer",
        "schedule",
        "train",
        "evaluate",
        "checkpoint",
        "loss",
        "source",
        "sources",
        "columns",
        "batch",
        "split",
        "shape",
        "normalise",
        "format",
        "module",
        "parameter",
        "body",
        "repeat",
        "if",
        "else",
        "residual",
        "parallel",
        "chain",
        "use",
        "linear",
        "conv2d",
        "kernel",
        "relu",
        "one-of",
        "\"x\"",
        "\"mlp\"",
        "\"./net.kdl\"",
        "\"std:models/mlp\"",
        "\"model\"",
        "(expr)\"i * (n + 1)\"",
        "(expr)\"1/0\"",
        "(expr)\"not true\"",
        "(expr)\"if n > 1 then sizes[i] else length(sizes)\"",
        "(text)\"skip-{i + 1}\"",
        "(text)\"{\"",
        "freeze",
        "\"**\"",
        "parameters",
        "save",
        "recall",
        "share=\"linear\"",
        "share-weight=\"head\"",
        "type=\"list\"",
        "type=\"shape\"",
        "type=\"value\"",
        "of=\"integer\"",
        "default",
        "kind=\"model\"",
        "doc=\"d\"",
        "type=\"integer\"",
        "default=1",
        "min=0",
        "classes=10",
        "hidden=2",
        "out=3",
        "lr=1e-3",
        "1",
        "-1",
        "1e400",
        "#true",
        "#nan",
        "0x1f",
        ".5",
        "{",
        "}",
        "\n",
        ";",
        "/-",
        "//",
        "/*",
        "*/",
        "=",
        "\\",
        "(",
        ")",
        "\"\"\"",
        "#\"",
        " ",
        "é",
        "\u{200e}",
        "\u{feff}",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        survive(&text);
    }

    #[test]
    fn any_row_of_words_is_survived(words in prop::collection::vec(word(), 0..60), tight in any::<bool>()) {
        survive(&words.join(if tight { "" } else { " " }));
    }

    #[test]
    fn a_module_of_any_body_is_survived(words in prop::collection::vec(word(), 0..40)) {
        survive(&format!("module \"m\" kind=\"model\" doc=\"d\" {{ parameter \"n\" type=\"integer\" default=2 doc=\"d\"; body {{ {} }} }}", words.join(" ")));
    }

    #[test]
    fn a_cut_manifest_is_survived(cnn in any::<bool>(), from in 0_usize..900, length in 0_usize..900) {
        let text: String = if cnn { CNN } else { MLP }.chars().skip(from).take(length).collect();
        survive(&text);
    }

    #[test]
    fn a_mutated_manifest_is_survived(cnn in any::<bool>(), at in 0_usize..900, taken in 0_usize..4, piece in word()) {
        let mut text: Vec<char> = if cnn { CNN } else { MLP }.chars().collect();
        let at = at.min(text.len());
        let end = (at + taken).min(text.len());
        text.splice(at..end, piece.chars());
        survive(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_expression_is_survived(text in "[a-z0-9 .'()+*/%<>=!,-]{0,40}") {
        let text = format!("module \"m\" kind=\"model\" doc=\"d\" {{ parameter \"a\" type=\"integer\" default=2 doc=\"d\"; body {{ linear out=(expr)#\"{text}\"# }} }}");
        survive(&text);
    }

    #[test]
    fn any_row_of_expression_words_is_survived(words in prop::collection::vec(expression_word(), 0..14), text in any::<bool>()) {
        let expression = words.join(" ");
        let argument = if text { format!("(text)#\"x{{{expression}}}\"#") } else { format!("out=(expr)#\"{expression}\"#") };
        survive(&format!("module \"m\" kind=\"model\" doc=\"d\" {{ parameter \"a\" type=\"integer\" default=2 doc=\"d\"; parameter \"s\" type=\"list\" of=\"number\" doc=\"d\" {{ default 1 2.5 }}; body {{ linear {argument} }} }}"));
    }

    #[test]
    fn formatting_keeps_the_digest_and_is_done_in_one_go(cnn in any::<bool>(), at in 0_usize..60, piece in prop::sample::select(vec![" ", "/* c */", " \\\n ", "\t", " /- gone "])) {
        // Something that says nothing, at the blank with this number.
        let text = if cnn { CNN } else { MLP };
        let blanks: Vec<usize> = text.match_indices(' ').map(|(at, _)| at).collect();
        let at = blanks[at % blanks.len()];
        let changed = format!("{}{piece}{}", &text[..at], &text[at..]);
        let (Some(_), faults, _) = resolved(&changed, &Memory::default()) else { return Ok(()) };
        prop_assert!(faults.is_empty());
        let formatted = syntax::format(&changed).expect("a manifest that resolves can be formatted");
        prop_assert_eq!(digest(&formatted), digest(&changed));
        prop_assert_eq!(syntax::format(&formatted).expect("formatted text"), formatted);
    }

    #[test]
    fn the_order_of_properties_says_nothing(seed in any::<u64>()) {
        let shuffled: String = MLP.lines().map(|line| shuffle_properties(line, seed) + "\n").collect();
        prop_assert_eq!(digest(&shuffled), digest(MLP));
    }

    #[test]
    fn the_order_of_nodes_says_nothing(order in Just(BASE.to_vec()).prop_shuffle()) {
        let text: String = order.iter().map(|(_, node)| format!("{node}\n")).collect();
        let base: String = BASE.iter().map(|(_, node)| format!("{node}\n")).collect();
        prop_assert_eq!(digest(&text), digest(&base));
    }

    #[test]
    fn the_spelling_of_a_number_says_nothing(value in 1_u32..100_000, shift in 0_i32..12) {
        let lr = |spelling: &str| digest(&compose(&format!("optimizer \"adamw\" lr={spelling}\n")).0);
        let plain = f64::from(value) / 1e6;
        let exponent = format!("{}e{}", f64::from(value), -6);
        let shifted = format!("{value}{}e-{}", "0".repeat(shift as usize), 6 + shift);
        let underscored = format!("{}_", plain);
        prop_assert_eq!(lr(&format!("{plain}")), lr(&exponent));
        prop_assert_eq!(lr(&format!("{plain}")), lr(&shifted));
        prop_assert_eq!(lr(&format!("{plain}")), lr(&underscored));
        let seed = |spelling: &str| digest(&compose(&format!("run \"digits\" seed={spelling}\n")).0);
        for spelling in [format!("0x{value:x}"), format!("+{value}"), format!("0b{value:b}"), format!("0o{value:o}"), format!("00{value}")] {
            prop_assert_eq!(seed(&value.to_string()), seed(&spelling));
        }
    }
}

/// Words of expressions, so that random rows of them are often right for a while.
fn expression_word() -> impl Strategy<Value = &'static str> {
    let words = [
        "a",
        "s",
        "s[0]",
        "s[a]",
        "1",
        "0",
        "2.5",
        "9223372036854775807",
        "'x'",
        "true",
        "if",
        "then",
        "else",
        "and",
        "or",
        "not",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "<",
        "(",
        ")",
        "[",
        "]",
        ",",
        "min(",
        "power(a,",
        "sqrt(",
        "length(s)",
        "sum(s)",
        "floor(",
        "round-up(a,",
        "}",
        "{{",
    ];
    prop::sample::select(words.to_vec())
}

/// Reverses or turns the properties of a line, whose values have no blanks.
fn shuffle_properties(line: &str, seed: u64) -> String {
    let is_property = |word: &&str| word.contains('=') && !line.trim_start().starts_with("//");
    let mut properties: Vec<&str> = line.split(' ').filter(is_property).collect();
    if properties.is_empty() {
        return line.to_owned();
    }
    let turn = seed as usize % properties.len();
    properties.rotate_left(turn);
    if seed.is_multiple_of(2) {
        properties.reverse();
    }
    let mut properties = properties.into_iter();
    let words: Vec<&str> = line
        .split(' ')
        .map(|word| if is_property(&word) { properties.next().unwrap_or(word) } else { word })
        .collect();
    words.join(" ")
}

/// One computation, said in other ways: by other names of parameters, by expressions, by lists, by other modules.
#[test]
fn the_way_a_model_is_written_says_nothing() {
    let net = |parameters: &str, body: &str| {
        format!("module \"net\" kind=\"model\" doc=\"A network.\" {{\n{parameters}\nbody {{\n{body}\n}}\n}}")
    };
    let digest = |manifest: &str, module: &str| {
        let world =
            Memory::default().with("net.kdl", module).with("inner.kdl", net("", "linear \"b\" out=16"));
        let (plan, faults, sources) = resolved(&compose(manifest).0, &world);
        assert_eq!(faults, [], "{}", render_text(&faults, &sources, false));
        Digest::of(&plan.expect("a plan"))
    };
    let own = "model \"./net.kdl\"\n";
    let plain = digest(
        own,
        &net("", "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false"),
    );
    let sizes = "parameter \"sizes\" type=\"list\" of=\"integer\" doc=\"Sizes.\" { default 8 16 }";
    for (manifest, parameters, body) in [
        (
            own,
            "",
            "linear \"a\" out=0x8; relu \"r\"; linear \"b\" out=1_6; linear \"head\" bias=#false out=10 // a comment",
        ),
        (
            own,
            "parameter \"n\" type=\"integer\" default=8 doc=\"N.\"",
            "linear \"a\" out=(expr)\"n\"; relu \"r\"; linear \"b\" out=(expr)\"n * 2\"; linear (text)\"{'head'}\" out=(expr)\"n + 2\" bias=(expr)\"n < 8\"",
        ),
        (
            own,
            sizes,
            "linear \"a\" out=(expr)\"sizes[0]\"; relu \"r\"; linear \"b\" out=(expr)\"sizes[length(sizes) - 1]\"; linear \"head\" out=10 bias=#false",
        ),
        (
            "model \"./net.kdl\" { sizes 16 0b1000 }\n",
            sizes,
            "linear \"a\" out=(expr)\"sizes[1]\"; relu \"r\"; linear \"b\" out=(expr)\"sizes[0]\"; linear \"head\" out=10 bias=#false",
        ),
        (
            own,
            "",
            "if (expr)\"1 < 2\" { linear \"a\" out=8; relu \"r\" }\nelse { tanh }\nlinear \"b\" out=16; linear \"head\" out=10 bias=#false",
        ),
    ] {
        assert_eq!(digest(manifest, &net(parameters, body)), plain, "{parameters} {body}");
    }
    for body in [
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#true",
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false share-weight=\"b\"",
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false share=\"b\"",
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false share=\"a\"",
        "linear \"a\" out=8; relu \"r\"; use \"./inner.kdl\" \"b\"; linear \"head\" out=10 bias=#false",
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false weight-init=\"truncated-normal\" weight-std=1",
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false weight-init=\"normal\" weight-std=1",
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false weight-init=\"kaiming-uniform\"",
        "linear \"a\" out=8; relu \"r\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false weight-init=\"xavier-normal\"",
        "linear \"a\" out=8; relu \"r\"; save \"x\"; linear \"b\" out=16; linear \"head\" out=10 bias=#false",
    ] {
        assert_ne!(digest(own, &net("", body)), plain, "{body}");
    }
}

/// Nothing in the language reads a clock, the network, the environment, the machine or a file that is no module: each
/// attempt is an ordinary fault, and the world is asked for the modules alone.
#[test]
fn modules_reach_nothing_but_what_they_are_given() {
    for (body, code) in [
        ("linear out=(expr)\"now()\"", 219),
        ("linear out=(expr)\"time\"", 220),
        ("linear out=(expr)\"random(1, 2)\"", 219),
        ("linear out=(expr)\"env('HOME')\"", 219),
        ("linear (text)\"{HOME}\" out=1", 220),
        ("linear (text)\"{environment.name}\" out=1", 219),
        ("linear out=(expr)\"read('size.txt')\"", 219),
        ("linear out=(env)\"SIZE\"", 231),
        ("linear out=(expr)\"$SIZE\"", 219),
        ("linear out=(expr)\"`nproc`\"", 219),
        ("linear out=(expr)\"threads\"", 220),
        ("linear out=(expr)\"seed\"", 220),
        ("use \"https://example.org/net.kdl\"", 215),
        ("use \"/etc/net.kdl\"", 215),
        ("use \"C:/net.kdl\"", 215),
        ("use \"~/net.kdl\"", 200),
        ("use \"$HOME/net.kdl\"", 200),
        ("use (expr)\"'./' + name\"", 220),
        ("include \"net\"", 201),
        ("run \"date\"", 201),
    ] {
        let module = format!("module \"net\" kind=\"model\" doc=\"d\" {{ body {{ {body} }} }}");
        let world = Memory::default().with("net.kdl", module.as_str()).with("size.txt", "8");
        let (plan, faults, _) = resolved(&compose("model \"./net.kdl\"\n").0, &world);
        assert!(plan.is_none(), "{body}");
        assert_eq!(faults.iter().map(|fault| fault.code.0).collect::<Vec<_>>(), [code], "{body}");
    }
}

#[test]
fn names_comments_and_module_names_say_nothing() {
    for (from, to) in [
        ("run \"digits\"", "run \"other\""),
        ("data \"digits\"", "data \"other\""),
        ("amp 1", "// a comment\namp 1 /* another */"),
        ("\"std:models/mlp\"", "\"mlp\""),
        ("layers=2", "layers=2 activation=\"relu\" dropout=0"),
        ("lr=1e-3", "lr=0.001"),
        ("seed=42", "seed=0x2a"),
        ("source \"data/digits.csv.gz\"", "source \"./other/file.csv\""),
        ("train=0.8 test=0.2", "train=0.8 test=0.2 seed=0 shuffle=#true"),
        ("evaluate every=\"epoch\" metrics=\"accuracy\"", ""),
        ("evaluate every=\"epoch\"", "checkpoint steps=5 keep=3 best=\"accuracy\"\nevaluate every=\"epoch\""),
        ("environment \"std:environments/cpu\"", ""),
        (
            "schedule \"std:schedules/cosine\" warmup=20",
            "schedule \"std:schedules/cosine\" warmup=20 final-factor=0.0",
        ),
        ("clip-norm=1.0", "clip-norm=1.0 accumulate=1 shards=1"),
        ("clip-norm=1.0", "clip-norm=1"),
    ] {
        assert!(MLP.contains(from), "{from}");
        assert_eq!(digest(&MLP.replace(from, to)), digest(MLP), "{from} → {to}");
    }
}

#[test]
fn each_change_of_meaning_changes_the_digest_of_its_section_alone() {
    let changes = [
        ("run", "seed=42", "seed=43"),
        ("run", "guarantee=\"portable\"", "guarantee=\"device\""),
        ("environment", "environment \"std:environments/cpu\"", "environment \"cpu\" { pin \"x\" \"1\" }"),
        ("data", "header=#false", "header=#true"),
        ("data", "label=\"last\" header=#false", "label-index=3 header=#false"),
        ("data", "label=\"last\" header=#false classes=10", "label=\"digit\" classes=10"),
        ("data", "header=#false", "header=#false delimiter=\";\""),
        (
            "data",
            "columns label=\"last\" header=#false classes=10",
            "columns label=\"last\" header=#false classes=11",
        ),
        ("data", "divide=16.0", "divide=15.0"),
        ("data", "divide=16.0", "multiply=0.0625"),
        ("data", "normalise \"scale\" divide=16.0", "normalise \"standardise\""),
        ("data", "normalise \"scale\" divide=16.0", "shape 1 8 8; normalise \"scale\" divide=16.0"),
        ("data", "train=0.8 test=0.2", "train=0.7 test=0.3"),
        ("data", "train=0.8 test=0.2", "train=0.8 validation=0.2"),
        ("data", "train=0.8 test=0.2", "train=0.8 test=0.2 seed=1"),
        ("data", "train=0.8 test=0.2", "train=0.8 test=0.2 shuffle=#false"),
        ("data", "split train=0.8 test=0.2", ""),
        ("data", "batch 64", "batch 65"),
        ("data", "shuffle=#true", "shuffle=#false"),
        ("data", "shuffle=#true", "shuffle=#true last=\"drop\""),
        ("model", "hidden=256", "hidden=255"),
        ("model", "layers=2", "layers=3"),
        (
            "model",
            "model \"std:models/mlp\" hidden=256 layers=2 classes=10",
            "model \"std:models/mlp\" hidden=256 layers=2 classes=11",
        ),
        ("model", "layers=2", "layers=2 activation=\"gelu\""),
        ("model", "layers=2", "layers=2 dropout=0.1"),
        (
            "model",
            "hidden=256 layers=2 classes=10",
            "hidden=256 layers=2 classes=10 { freeze \"hidden.**\" }",
        ),
        (
            "model",
            "hidden=256 layers=2 classes=10",
            "hidden=256 layers=2 classes=10 { freeze \"hidden.0.**\" }",
        ),
        (
            "model",
            "hidden=256 layers=2 classes=10",
            "hidden=256 layers=2 classes=10 { initial \"w.safetensors\" }",
        ),
        (
            "model",
            "hidden=256 layers=2 classes=10",
            "hidden=256 layers=2 classes=10 { initial \"w.safetensors\" { missing \"head.**\" } }",
        ),
        ("loss", "scaler ", "loss \"cross-entropy\" label-smoothing=0.1\nscaler "),
        ("loss", "scaler ", "loss \"cross-entropy\" ignore-index=-1\nscaler "),
        ("precision", "layer \"head\" dtype=\"f32\"", "layer \"hidden.**\" dtype=\"f32\""),
        ("precision", "layer \"head\" dtype=\"f32\"", "layer \"head\" dtype=\"bf16\""),
        ("precision", "layer \"head\" dtype=\"f32\"", "op \"linear\" dtype=\"f32\""),
        ("precision", "layer \"head\" dtype=\"f32\"", ""),
        ("scaler", "init=65536.0", "init=32768.0"),
        ("scaler", "interval=200", "interval=201"),
        ("scaler", "interval=200", "interval=200 growth=4"),
        ("scaler", "interval=200", "interval=200 backoff=0.25"),
        ("scaler", "interval=200", "interval=200 floor=2"),
        (
            "scaler",
            "scaler \"std:scalers/dynamic\" init=65536.0 interval=200",
            "scaler \"static\" scale=65536",
        ),
        ("scaler", "dynamic\" init=65536.0 interval=200", "static\" scale=65536 check=\"after-unscale\""),
        ("scaler", "dynamic\" init=65536.0", "guarded\" hysteresis=2 init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" hysteresis=2 refill=\"good-step\" init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" late-growth=#true init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" at-floor=\"hold\" init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" at-floor=\"hold-once\" init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" ceiling=65536.0 init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" check=\"after-unscale\" init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" lr-on-skip=\"hold\" init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" max-skips=3 init=65536.0"),
        ("scaler", "dynamic\" init=65536.0", "guarded\" max-skips-total=3 init=65536.0"),
        ("optimizer", "lr=1e-3", "lr=1.0000002e-3"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.02"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.01 beta1=0.8"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.01 beta2=0.99"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.01 eps=1e-7"),
        ("optimizer", "std:optimizers/adamw", "std:optimizers/sgd"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.01 { parameters \"**.bias\" weight-decay=0 }"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.01 { parameters \"**.bias\" weight-decay=0.001 }"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.01 { parameters \"**.weight\" weight-decay=0 }"),
        ("optimizer", "weight-decay=0.01", "weight-decay=0.01 { parameters \"**.bias\" lr=2e-3 }"),
        (
            "optimizer",
            "weight-decay=0.01",
            "weight-decay=0.01 { parameters \"**.bias\" lr=2e-3; parameters \"**\" beta1=0.8 }",
        ),
        (
            "optimizer",
            "weight-decay=0.01",
            "weight-decay=0.01 { parameters \"**\" beta1=0.8; parameters \"**.bias\" lr=2e-3 }",
        ),
        ("schedule", "warmup=20", "warmup=21"),
        ("schedule", "warmup=20", "warmup=20 final-factor=0.1"),
        ("schedule", "std:schedules/cosine", "std:schedules/linear"),
        ("train", "epochs=20", "epochs=21"),
        ("train", "epochs=20", "steps=20"),
        ("train", "clip-norm=1.0", "clip-norm=2.0"),
        ("train", " clip-norm=1.0", ""),
        ("evaluate", "every=\"epoch\"", "every=\"end\""),
        ("evaluate", "every=\"epoch\"", "steps=7"),
        ("evaluate", "metrics=\"accuracy\"", "metrics=\"accuracy,loss\""),
    ];
    let before = plan(MLP);
    let mut seen = vec![Digest::of(&before)];
    for (section, from, to) in changes {
        assert!(MLP.contains(from), "{from}");
        let after = plan(&MLP.replacen(from, to, 1));
        let (old, new) = (before.section_digests(), after.section_digests());
        let changed: Vec<&str> = old
            .iter()
            .filter(|(name, digest)| new.get(*name) != Some(*digest))
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(changed, [section], "{from} → {to}");
        let digest = Digest::of(&after);
        assert!(!seen.contains(&digest), "{from} → {to} has the digest of another change");
        seen.push(digest);
    }
}

#[test]
fn every_value_has_an_origin_and_every_origin_a_value_or_a_node() {
    for text in [MLP, CNN] {
        let plan = plan(text);
        for (path, value) in plan.entries() {
            let known = path.split('.').next() == Some("precision")
                || path.starts_with("data.source")
                || path == "data.format";
            let node = ["environment.target", "model", "scaler", "optimizer", "schedule", "environment"]
                .contains(&path.as_str());
            assert!(known || node || plan.origins.contains_key(&path), "{path} {value} has no origin");
        }
    }
}

#[test]
fn templates_and_the_library_are_right_and_formatted() {
    for kind in ["mlp", "cnn"] {
        plan(stdlib::template(kind).expect("a template"));
    }
    assert_eq!(stdlib::template("rnn"), None);
    let (library, faults) = crate::resolve::catalogue();
    assert_eq!(faults, []);
    assert_eq!(library.len(), stdlib::SOURCES.len());
    assert!(library.iter().all(|module| !module.doc.is_empty() && module.parameters.iter().all(|rule| !rule.doc.is_empty())));
    for (name, text) in stdlib::SOURCES.iter().copied().chain([("mlp", MLP), ("cnn", CNN)]) {
        assert_eq!(syntax::format(text).expect("the library can be read"), text, "{name}");
    }
}

/// Each of these is small on disk and large when it is taken at its word.
#[test]
fn hostile_manifests_and_modules_end_soon() {
    let module = |body: &str| format!("module \"m\" kind=\"model\" doc=\"d\" {{ body {{ {body} }} }}");
    let codes = |world: &Memory, manifest: &str| {
        let (_, faults, _) = resolved(&compose(manifest).0, world);
        faults.iter().map(|fault| fault.code.0).collect::<Vec<_>>()
    };
    let own = "model \"./m0.kdl\"\n";
    // Blocks inside one another, over many modules that use each other in a row.
    let mut world = Memory::default();
    for index in 0..40 {
        let next = format!("use \"./m{}.kdl\"", index + 1);
        let body = format!("{}{next}{}", "if (expr)\"true\" { residual {".repeat(20), "}}".repeat(20));
        world = world.with(&format!("m{index}.kdl"), module(&body));
    }
    assert_eq!(codes(&world, own), [223]);
    // Each module uses the next one twice.
    let mut world = Memory::default();
    for index in 0..50 {
        let body = format!("use \"./m{}.kdl\" \"a\"; use \"./m{}.kdl\" \"b\"", index + 1, index + 1);
        world = world.with(&format!("m{index}.kdl"), module(&body));
    }
    world = world.with("m50.kdl", module("relu"));
    assert_eq!(codes(&world, own), [223]);
    // A hundred thousand turns of nothing, many times.
    let world = Memory::default().with("m0.kdl", module(&"repeat 100000 { }\n".repeat(1000)));
    assert_eq!(codes(&world, own), [223]);
    // Many faults, of which a hundred are told.
    let properties: String = (0..20_000).map(|index| format!(" p{index}=1")).collect();
    let faults = codes(&Memory::default(), &format!("run \"digits\"{properties}\n"));
    assert_eq!(faults, [202; 100]);
    // A name as long as a book.
    assert_eq!(codes(&Memory::default(), &format!("{} 1\n", "a".repeat(500_000))), [201]);
}
