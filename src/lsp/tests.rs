//! Sessions without a process: messages in, messages out, over files in memory.

use super::server::Server;
use super::{Ended, serve, transport};
use crate::world::{Memory, World};
use serde_json::{Value, json};

mod names;
mod shapes;

const MANIFEST: &str = include_str!("../../examples/digits-cnn/manifest.kdl");
const MODULE: &str = include_str!("../../stdlib/models/cnn.kdl");
const PATH: &str = "file:///run/manifest.kdl";

/// A URI with the codes and ranges that are told of it.
type Told = (String, Vec<(String, [u64; 4])>);

/// A session with one open document.
struct Session<'world> {
    server: Server<'world>,
    text: String,
    uri: String,
    requests: u64,
}

impl<'world> Session<'world> {
    fn new(world: &'world dyn World, uri: &str, text: &str) -> Self {
        let mut session =
            Self { server: Server::new(world), text: text.to_owned(), uri: uri.to_owned(), requests: 0 };
        let capabilities = json!({
            "general": { "positionEncodings": ["utf-8", "utf-16"] },
            "textDocument": {
                "completion": { "completionItem": { "snippetSupport": true, "documentationFormat": ["markdown"] } },
                "hover": { "contentFormat": ["markdown", "plaintext"] },
                "codeAction": { "codeActionLiteralSupport": { "codeActionKind": { "valueSet": [] } } },
                "documentSymbol": { "hierarchicalDocumentSymbolSupport": true },
            },
        });
        let answer = session.request("initialize", json!({ "capabilities": capabilities }));
        assert_eq!(answer["capabilities"]["positionEncoding"], "utf-8");
        session.open(uri, text);
        session
    }

    fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "kdl", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn notify(&mut self, method: &str, parameters: Value) {
        let _ = self.server.handle(&transport::notification(method, parameters));
    }

    fn request(&mut self, method: &str, parameters: Value) -> Value {
        self.requests += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.requests, "method": method, "params": parameters });
        let answers = self.server.handle(&message);
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0]["id"], self.requests);
        assert_eq!(answers[0]["error"], Value::Null, "{answers:?}");
        answers[0]["result"].clone()
    }

    /// The parameters of a request at a byte of the text.
    fn place(&self, offset: usize) -> Value {
        let before = &self.text[..offset];
        let line = before.matches('\n').count();
        let character = offset - before.rfind('\n').map_or(0, |at| at + 1);
        json!({
            "textDocument": { "uri": self.uri },
            "position": { "line": line, "character": character },
        })
    }

    /// A request at the first place of a text.
    fn at(&mut self, method: &str, needle: &str) -> Value {
        let offset = self.text.find(needle).unwrap_or_else(|| panic!("{needle} in {}", self.text));
        self.request(method, self.place(offset))
    }

    fn hover(&mut self, needle: &str) -> String {
        let answer = self.at("textDocument/hover", needle);
        answer["contents"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// Replaces the text; the place of `|` in it is where completions are asked for.
    fn labels(&mut self, marked: &str) -> Vec<String> {
        let items = self.items(marked);
        items.iter().filter_map(|item| item["label"].as_str().map(str::to_owned)).collect()
    }

    fn items(&mut self, marked: &str) -> Vec<Value> {
        let offset = marked.find('|').expect("a mark");
        self.text = marked.replacen('|', "", 1);
        self.change();
        let answer = self.request("textDocument/completion", self.place(offset));
        let mut items = answer["items"].as_array().cloned().expect("items");
        items.sort_by_key(|item| item["sortText"].as_str().map(str::to_owned));
        items
    }

    fn change(&mut self) {
        let document = json!({ "uri": self.uri, "version": 2 });
        let changes = json!([{ "text": self.text }]);
        self.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// Code and range of every diagnostic that is told now, by URI.
    fn told(&mut self) -> Vec<Told> {
        let messages = self.server.publish();
        let number = |value: &Value| value.as_u64().expect("a number");
        let one = |diagnostic: &Value| {
            let range = &diagnostic["range"];
            let place = [
                number(&range["start"]["line"]),
                number(&range["start"]["character"]),
                number(&range["end"]["line"]),
                number(&range["end"]["character"]),
            ];
            (diagnostic["code"].as_str().expect("a code").to_owned(), place)
        };
        let each = messages.iter().map(|message| {
            let parameters = &message["params"];
            let diagnostics = parameters["diagnostics"].as_array().expect("a list");
            (parameters["uri"].as_str().expect("a URI").to_owned(), diagnostics.iter().map(one).collect())
        });
        each.collect()
    }
}

#[test]
fn faults_are_told_and_taken_back() {
    let world = Memory::default();
    let mut session = Session::new(&world, PATH, &MANIFEST.replace("lr=2e-3", "lr=-1"));
    let expected = vec![("AMP0207".to_owned(), [20, 36, 20, 38])];
    assert_eq!(session.told(), [(PATH.to_owned(), expected)]);
    assert_eq!(session.told(), [], "nothing is told twice");
    session.text = MANIFEST.to_owned();
    session.change();
    assert_eq!(session.told(), [(PATH.to_owned(), vec![])]);
    session.notify("textDocument/didClose", json!({ "textDocument": { "uri": PATH } }));
    assert_eq!(session.told(), []);
}

#[test]
fn faults_of_a_module_are_told_at_its_file_whether_open_or_not() {
    let (manifest, module) = ("file:///run/manifest.kdl", "file:///run/models/mine.kdl");
    let broken = MODULE.replace("linear \"head\"", "liner \"head\"");
    let world = Memory::default().with("/run/models/mine.kdl", broken.as_str());
    let text = MANIFEST.replace("std:models/cnn", "./models/mine.kdl");
    let mut session = Session::new(&world, manifest, &text);
    let fault = vec![("AMP0201".to_owned(), [25, 8, 25, 13])];
    let told = session.told();
    assert_eq!(told, [(manifest.to_owned(), vec![]), (module.to_owned(), fault)]);
    // Opened and mended in the editor alone: the disk still has the fault.
    session.open(module, MODULE);
    assert_eq!(session.told(), [(module.to_owned(), vec![])]);
}

#[test]
fn other_peoples_kdl_is_left_alone() {
    let world = Memory::default();
    let mut session = Session::new(&world, "file:///config.kdl", "keybinds { normal }\n");
    assert_eq!(session.told(), [("file:///config.kdl".to_owned(), vec![])]);
}

#[test]
fn hovers_tell_type_default_documentation_value_and_origin() {
    let world = Memory::default();
    let mut session = Session::new(&world, PATH, MANIFEST);
    let optimizer = session.hover("optimizer");
    for part in [
        "**`optimizer`**: the update rule",
        "**`std:optimizers/adamw`** (optimizer): Adam with decoupled weight decay",
        "- `beta1` (number, at least 0 and below 1, default 0.9): Decay of the first moment.",
        "- `optimizer.lr` = `0.002`\n",
        "- `optimizer.beta1` = `0.9`, by std:optimizers/adamw",
    ] {
        assert!(optimizer.contains(part), "{part:?} in\n{optimizer}");
    }
    assert_eq!(
        session.hover("lr="),
        "`lr` (number, above 0, default 1e-3): Base learning rate.\n\nResolved: `optimizer.lr` = `0.002`"
    );
    assert_eq!(
        session.hover("epochs=15"),
        "`epochs` (integer, at least 1 and at most 4294967295, optional): Passes over the training split.\n\n\
         Resolved: `train.epochs` = `15`"
    );
    assert!(
        session.hover("std:models/cnn").starts_with("**`std:models/cnn`** (model): A small convolutional")
    );
    assert!(session.hover("64 shuffle").starts_with("`size` (integer"));
    assert_eq!(session.hover("// Handwritten"), "");
    session.text = MANIFEST.replace("lr=2e-3", "lr=-1");
    session.change();
    assert!(session.hover("-1").contains("### AMP0207: a value is outside its range"));
}

#[test]
fn hovers_in_modules_compute_expressions_from_the_defaults() {
    let world = Memory::default();
    let mut session = Session::new(&world, "file:///cnn.kdl", MODULE);
    assert_eq!(
        session.hover("channels * (i"),
        "`channels * (i + 1)` = `32` with the defaults, in the first turn\n\n\
         `channels` (integer, at least 1 and at most 65536, default 32): Channels of the first convolution; the second has \
         twice as many."
    );
    assert!(session.hover("i + 1").ends_with("`i`: the number of the turn, from 0"));
    assert!(
        session
            .hover("(expr)\"classes\"")
            .contains("has no value with the defaults: `classes` has no default")
    );
    assert!(session.hover("conv2d").starts_with("**`conv2d`**: 2-D convolution over [N, C, H, W]"));
    assert!(session.hover("\"conv\" out").starts_with("the layer's name"));
    assert!(session.hover("kernel=3").contains("Height and width of the kernel."));
    assert!(session.hover("min=1 max=1000000 doc=\"Outputs").starts_with("`min` (integer"));
}

#[test]
fn definitions_lead_to_modules_parameters_and_indices() {
    let world = Memory::default().with("/run/models/mine.kdl", MODULE);
    let text = MANIFEST.replace("std:models/cnn", "./models/mine.kdl");
    let mut session = Session::new(&world, PATH, &text);
    let start = |answer: &Value| {
        let start = &answer["range"]["start"];
        (start["line"].as_u64(), start["character"].as_u64())
    };
    let module = session.at("textDocument/definition", "./models/mine");
    assert_eq!(module["uri"], "file:///run/models/mine.kdl");
    assert_eq!(start(&module), (Some(0), Some(7)));
    let parameter = session.at("textDocument/definition", "channels=32");
    assert_eq!(
        (parameter["uri"].as_str(), start(&parameter)),
        (Some("file:///run/models/mine.kdl"), (Some(2), Some(14)))
    );
    let library = session.at("textDocument/definition", "weight-decay");
    assert!(
        library["uri"].as_str().is_some_and(|uri| uri.ends_with("/std/optimizers/adamw.kdl")),
        "{library}"
    );
    assert_eq!(start(&library), (Some(5), Some(14)));
    assert_eq!(session.at("textDocument/definition", "train epochs"), Value::Null);

    let mut session = Session::new(&world, "file:///cnn.kdl", MODULE);
    assert_eq!(start(&session.at("textDocument/definition", "channels * (i")), (Some(2), Some(14)));
    assert_eq!(start(&session.at("textDocument/definition", "i + 1")), (Some(8), Some(23)));
}

#[test]
fn completions_know_where_they_are() {
    let world = Memory::default();
    let mut session = Session::new(&world, PATH, MANIFEST);
    let top = session.labels("amp 1\nrun \"x\"\n|");
    assert_eq!(top[0], "data", "required nodes first: {top:?}");
    assert!(top.contains(&"scaler".to_owned()) && !top.contains(&"run".to_owned()), "{top:?}");
    let inside = session.labels("amp 1\ndata \"d\" {\n    batch 3\n    |\n}\n");
    assert!(inside.contains(&"normalise".to_owned()) && !inside.contains(&"batch".to_owned()), "{inside:?}");
    let items = session.items("amp 1\noptimizer \"adamw\" lr=1 b|");
    let labels: Vec<_> = items.iter().filter_map(|item| item["label"].as_str()).collect();
    assert_eq!(labels, ["beta1", "beta2", "eps", "weight-decay"].map(|name| name));
    assert_eq!(items[0]["detail"], "number, at least 0 and below 1, default 0.9");
    assert_eq!(items[0]["textEdit"]["newText"], "beta1=${1:0.9}");
    assert_eq!(items[0]["textEdit"]["range"]["start"], json!({ "line": 1, "character": 23 }));
    let again = session.items("amp 1\nmodel \"cnn\" |channels=1 hid|den=2".replacen('|', "", 1).as_str());
    let labels: Vec<_> = again.iter().filter_map(|item| item["label"].as_str()).collect();
    assert_eq!(labels, ["classes", "hidden", "norm", "dropout"]);
    assert_eq!(again[1]["textEdit"]["newText"], "hidden", "`=` stands there already");
    assert_eq!(session.labels("run \"x\" guarantee=|"), ["\"portable\"", "\"device\""]);
    assert_eq!(session.labels("run \"x\" guarantee=\"d|\""), ["portable", "device"]);
    assert_eq!(session.labels("data \"d\" { batch 8 shuffle=#| }"), ["#true", "#false"]);
    let models = session.labels("model \"|\n");
    assert!(
        ["std:models/cnn", "std:models/mlp"].iter().all(|name| models.contains(&(*name).to_owned())),
        "{models:?}"
    );
    assert!(models.iter().all(|name| name.starts_with("std:models/")), "{models:?}");
    assert_eq!(session.labels("scaler |\n")[..1], ["\"std:scalers/dynamic\""]);
    assert_eq!(session.labels("loss |\n")[..2], ["\"cross-entropy\"", "\"mean-squared-error\""]);
    assert_eq!(session.labels("run \"x\" // |\n"), Vec::<String>::new());
}

#[test]
fn completions_in_modules_know_layers_and_names() {
    let world = Memory::default();
    let mut session = Session::new(&world, "file:///m.kdl", MODULE);
    let head = "module \"m\" kind=\"model\" doc=\"d\" {\nparameter \"width\" type=\"integer\" default=1 doc=\"w\"\nbody {\n";
    let layers = session.labels(&format!("{head}repeat 2 {{\nli|\n}} }} }}"));
    assert!(layers.contains(&"linear".to_owned()) && layers.contains(&"residual".to_owned()), "{layers:?}");
    let names = session.labels(&format!("{head}repeat 2 index=\"i\" {{ linear out=(expr)\"wi|\n"));
    assert_eq!(names[..2], ["width", "i"]);
    let values = session.labels(&format!("{head}gelu approximate=|\n"));
    assert_eq!(values, ["\"none\"", "\"tanh\"", "(expr)"]);
    let saved = session.labels(&format!("{head}save \"skip\"\nrelu\nrecall \"|\n"));
    assert_eq!(saved, ["skip"]);
    let kinds = session.labels("module \"m\" kind=|");
    assert!(kinds.contains(&"\"optimizer\"".to_owned()), "{kinds:?}");
    let ends = session.labels("module \"m\" kind=\"model\" doc=\"\" {\nparameter \"a\" type=\"text\" |\n");
    assert!(ends.contains(&"default".to_owned()) && !ends.contains(&"min".to_owned()), "{ends:?}");
}

#[test]
fn formatting_outline_and_fixes() {
    let world = Memory::default();
    let text = MANIFEST.replace("train epochs", "train    epoch");
    let mut session = Session::new(&world, PATH, &text);
    let document =
        json!({ "textDocument": { "uri": PATH }, "options": { "tabSize": 4, "insertSpaces": true } });
    let edits = session.request("textDocument/formatting", document.clone());
    assert_eq!(
        edits,
        json!([{
            "range": { "start": { "line": 24, "character": 0 }, "end": { "line": 25, "character": 0 } },
            "newText": "train epoch=15 clip-norm=1.0\n",
        }])
    );
    let outline = session.request("textDocument/documentSymbol", json!({ "textDocument": { "uri": PATH } }));
    let data = &outline[3];
    assert_eq!((data["name"].as_str(), data["detail"].as_str()), (Some("data"), Some("digits")));
    assert_eq!(data["children"].as_array().map(Vec::len), Some(6));
    let range = json!({ "start": { "line": 24, "character": 10 }, "end": { "line": 24, "character": 12 } });
    let parameters = json!({
        "textDocument": { "uri": PATH }, "range": range, "context": { "diagnostics": [] },
    });
    let actions = session.request("textDocument/codeAction", parameters);
    assert_eq!(actions[0]["title"], "Replace `epoch` by `epochs`");
    assert_eq!(actions[0]["edit"]["changes"][PATH][0]["newText"], "epochs");
    session.text = MANIFEST.replace("15", "15 {");
    session.change();
    assert_eq!(session.request("textDocument/formatting", document), Value::Null);
}

#[test]
fn fixes_are_offered_when_they_mend() {
    let world = Memory::default();
    for (right, wrong, fixed) in [
        ("\"std:models/cnn\"", "\"std:models/cnnn\"", "\"std:models/cnn\""),
        ("lr=2e-3", "lr=\"2e-3\"", "2e-3"),
        ("\"portable\"", "\"portabel\"", "\"portable\""),
        ("norm=#true", "norm=true", "#true"),
        ("schedule \"std", "shedule \"std", "schedule"),
    ] {
        let text = MANIFEST.replace(right, wrong);
        let mut session = Session::new(&world, PATH, &text);
        let place =
            session.place(text.find(wrong).expect("there") + wrong.len().min(8) - 1)["position"].clone();
        let parameters = json!({
            "textDocument": { "uri": PATH }, "range": { "start": place, "end": place },
            "context": { "diagnostics": [] },
        });
        let actions = session.request("textDocument/codeAction", parameters);
        let new = &actions[0]["edit"]["changes"][PATH][0]["newText"];
        assert_eq!(new, fixed, "{wrong}: {actions}");
    }
}

#[test]
fn a_session_over_streams_ends_as_the_protocol_says() {
    let session = |messages: &[&str]| {
        let mut input = Vec::new();
        for message in messages {
            input.extend(format!("Content-Length: {}\r\n\r\n{message}", message.len()).into_bytes());
        }
        let mut output = Vec::new();
        let ended = serve(std::io::Cursor::new(input), &mut output, &Memory::default());
        (ended, String::from_utf8(output).expect("text"))
    };
    let initialize = r#"{"id":"a","method":"initialize","params":{"capabilities":{}}}"#;
    let (ended, output) = session(&[initialize, r#"{"id":2,"method":"shutdown"}"#, r#"{"method":"exit"}"#]);
    assert_eq!(ended, Ended::Orderly);
    assert!(output.contains(r#""id":"a""#) && output.ends_with(r#"{"id":2,"jsonrpc":"2.0","result":null}"#));
    assert_eq!(session(&[initialize, r#"{"method":"exit"}"#]).0, Ended::Abrupt);
    assert_eq!(session(&[initialize]).0, Ended::Abrupt);
    let strange = [
        "[]",
        "7",
        r#"{"id":1}"#,
        r#"{"id":1,"method":"x/y"}"#,
        r#"{"method":"textDocument/didOpen","params":4}"#,
    ];
    let (_, output) = session(&[&[initialize][..], &strange[..]].concat());
    assert_eq!(output.matches("-32600").count(), 3, "{output}");
    assert_eq!(output.matches("-32601").count(), 1, "{output}");
    assert!(session(&[r#"{"id":1,"method":"shutdown"}"#]).1.contains("-32002"));
}

#[test]
fn parameters_that_are_lists_are_nodes_of_the_block() {
    let module = "module \"m\" kind=\"model\" doc=\"d\" {\n    parameter \"depths\" type=\"list\" of=\"integer\" \
                  min-length=1 min=1 doc=\"Blocks of each stage.\" {\n        default 2 2\n    }\n    body {\n        flatten\n        \
                  linear \"head\" out=10\n    }\n}\n";
    let world = Memory::default().with("/run/mine.kdl", module);
    let text = MANIFEST.replace(
        "model \"std:models/cnn\" channels=32 classes=10 norm=#true",
        "model \"./mine.kdl\" {\n    depths 3 4\n}",
    );
    let text = text.replace(" \"**.norm.weight\"", "");
    let mut session = Session::new(&world, PATH, &text);
    assert_eq!(session.told(), [(PATH.to_owned(), vec![])]);
    let hover = session.hover("depths 3");
    assert_eq!(
        hover,
        "`depths` (list of integer, length at least 1, at least 1, default 2 2): Blocks of each stage."
    );
    let definition = session.at("textDocument/definition", "depths 3");
    assert_eq!(definition["uri"], "file:///run/mine.kdl");
    assert_eq!(definition["range"]["start"], json!({ "line": 1, "character": 14 }));
    let labels = session.labels("model \"./mine.kdl\" {\n    |\n}\n");
    assert!(labels.contains(&"depths".to_owned()) && labels.contains(&"freeze".to_owned()), "{labels:?}");
    assert_eq!(
        session.labels("model \"./mine.kdl\" |\n").iter().filter(|label| *label == "depths").count(),
        0
    );
}

#[test]
fn completions_of_paths_go_one_folder_at_a_time() {
    let world = Memory::default()
        .with("/run/models/mine.kdl", MODULE)
        .with("/run/models/notes.txt", "")
        .with("/run/manifest.kdl", MANIFEST)
        .with("/run/data/a.csv", "");
    let mut session = Session::new(&world, PATH, MANIFEST);
    let modules = session.labels("model \"|\"\n");
    assert_eq!(modules[modules.len() - 2..], ["./data/", "./models/"]);
    assert_eq!(session.labels("model \"./|\n"), ["data/", "models/"]);
    let items = session.items("model \"./models/m|\n");
    assert_eq!((items.len(), items[0]["label"].as_str()), (1, Some("mine.kdl")));
    assert_eq!(items[0]["textEdit"]["range"]["start"], json!({ "line": 0, "character": 16 }));
    assert_eq!(session.labels("data \"d\" { source \"data/|\" }\n"), ["a.csv"]);
    assert_eq!(session.labels("model \"/|\n"), Vec::<String>::new(), "absolute paths are refused");
}

/// Every request at many places of many damaged texts is answered.
#[test]
fn damaged_texts_at_any_place_are_answered() {
    let world = Memory::default();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let pieces = [
        "{",
        "}",
        "\"",
        "=",
        "(expr)",
        "é",
        "𝄞",
        "\\",
        "/*",
        "#",
        "\n",
        "repeat 3 {",
        "/-",
        "\u{0}",
        "model ",
    ];
    let mut session = Session::new(&world, PATH, MANIFEST);
    let mut answered = 0;
    for turn in 0..400 {
        let base = if turn % 2 == 0 { MANIFEST } else { MODULE };
        let boundary = |text: &str, mut at: usize| {
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let mut text = base[..boundary(base, random(base.len() + 1))].to_owned();
        for _ in 0..random(4) {
            let at = boundary(&text, random(text.len() + 1));
            let end = boundary(&text, (at + random(6)).min(text.len())).max(at);
            text.replace_range(at..end, pieces[random(pieces.len())]);
        }
        session.text = text;
        session.change();
        let _ = session.told();
        let offset = boundary(&session.text, random(session.text.len() + 1));
        let place = session.place(offset);
        for method in ["hover", "definition", "completion"] {
            let _ = session.request(&format!("textDocument/{method}"), place.clone());
            answered += 1;
        }
        let document = json!({ "uri": PATH });
        let range = json!({ "start": place["position"], "end": { "line": 9999, "character": 9999 } });
        let parameters = json!({
            "textDocument": document, "range": range, "context": { "diagnostics": [] },
            "options": { "tabSize": 4, "insertSpaces": true },
        });
        for method in ["documentSymbol", "formatting", "codeAction"] {
            let _ = session.request(&format!("textDocument/{method}"), parameters.clone());
            answered += 1;
        }
    }
    assert_eq!(answered, 2400);
}
