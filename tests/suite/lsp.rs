//! `amp lsp` as an editor meets it: a process, the protocol over its standard streams.

use super::{Place, SMALL, amp, repository};
use serde_json::{Value, json};
use std::io::{BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest wait for a message; the server answers in milliseconds, the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client with a server of its own.
struct Client {
    server: Child,
    messages: Receiver<Value>,
    requests: u64,
}

impl Client {
    /// Starts a server that counts characters in this encoding.
    fn start(encoding: &str) -> Self {
        let mut command: Command = amp(&["lsp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("amp starts");
        let mut output = BufReader::new(server.stdout.take().expect("a stream"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut client = Self { server, messages, requests: 0 };
        let capabilities = json!({ "general": { "positionEncodings": [encoding] } });
        let answer = client.request(
            "initialize",
            json!({ "processId": null, "rootUri": null, "capabilities": capabilities }),
        );
        assert_eq!(answer["capabilities"]["positionEncoding"], encoding);
        client.notify("initialized", json!({}));
        client
    }

    fn raw(&mut self, bytes: &[u8]) {
        let input = self.server.stdin.as_mut().expect("a stream");
        input.write_all(bytes).expect("the server reads");
        input.flush().expect("the server reads");
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    fn notify(&mut self, method: &str, parameters: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": parameters }));
    }

    fn next(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("the server answers")
    }

    /// The whole answer to a request; notifications before it are passed over.
    fn answer(&mut self, method: &str, parameters: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn request(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.answer(method, parameters);
        assert_eq!(answer["error"], Value::Null, "{method}");
        answer["result"].clone()
    }

    /// The next diagnostics that are told of a document.
    fn diagnostics(&mut self, uri: &str) -> Vec<Value> {
        loop {
            let message = self.next();
            if message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri {
                return message["params"]["diagnostics"].as_array().cloned().expect("a list");
            }
        }
    }

    fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "kdl", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, uri: &str, changes: Value) {
        let document = json!({ "uri": uri, "version": 2 });
        self.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    fn end(mut self) -> i32 {
        let _ = self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.server.wait().expect("amp ends").code().unwrap_or(-1)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A failed test leaves no server behind; one that has ended is no fault.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn read(output: &mut impl std::io::BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim().strip_prefix("Content-Length: ") {
            Some(value) => length = value.parse::<usize>().ok(),
            None => break,
        }
    }
    let mut body = vec![0; length?];
    output.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn range(line: u64, start: u64, end: u64) -> Value {
    json!({ "start": { "line": line, "character": start }, "end": { "line": line, "character": end } })
}

/// [`SMALL`] without the decay of norms, of which there is advice.
fn without_advice() -> String {
    SMALL.replace("weight-decay=0.01", "weight-decay=0.0")
}

fn uri(place: &Place, name: &str) -> String {
    format!("file://{}", place.path(name).display())
}

#[test]
fn a_fault_is_shown_where_it_is_and_goes_when_it_is_mended() {
    let place = Place::with_manifest(SMALL);
    let uri = uri(&place, "manifest.kdl");
    // A clef before the fault: four bytes, two UTF-16 units.
    let text = without_advice().replace("run \"small\" seed=7", "run \"𝄞\" seed=-7");
    for (encoding, column) in [("utf-16", 14), ("utf-8", 16)] {
        let mut client = Client::start(encoding);
        client.open(&uri, &text);
        let told = client.diagnostics(&uri);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0]["code"].as_str(), told[0]["severity"].as_u64()), (Some("AMP0207"), Some(1)));
        assert_eq!(told[0]["range"], range(2, column, column + 2), "{encoding}");
        let page = told[0]["codeDescription"]["href"].as_str().and_then(|href| href.strip_prefix("file://"));
        let page = std::fs::read_to_string(page.expect("a page")).expect("the page is there");
        assert!(page.starts_with("# AMP0207: "), "{page}");
        client.change(&uri, json!([{ "range": range(2, column, column + 1), "text": "" }]));
        assert_eq!(client.diagnostics(&uri), Vec::<Value>::new());
        assert_eq!(client.end(), 0);
    }
}

#[test]
fn a_fault_names_the_librarys_line() {
    let place = Place::with_manifest(SMALL);
    let uri = uri(&place, "manifest.kdl");
    let mut client = Client::start("utf-16");
    client.open(&uri, &SMALL.replace("dropout=0.25", "dropout=1.25"));
    let told = client.diagnostics(&uri);
    assert_eq!(told[0]["code"], "AMP0207");
    let related = &told[0]["relatedInformation"][0];
    let path =
        related["location"]["uri"].as_str().and_then(|uri| uri.strip_prefix("file://")).expect("a file");
    let library = std::fs::read_to_string(path).expect("the library's text is there");
    let line = related["location"]["range"]["start"]["line"].as_u64().expect("a line") as usize;
    assert!(
        library.lines().nth(line).is_some_and(|line| line.contains("parameter \"dropout\"")),
        "{related}"
    );
    assert_eq!(client.end(), 0);
    assert!(!std::path::Path::new(path).exists(), "the server takes its copies with it");
}

#[test]
fn hovers_definitions_completions_and_formatting() {
    let place = Place::with_manifest(SMALL);
    let uri = uri(&place, "manifest.kdl");
    let mut client = Client::start("utf-16");
    let text = SMALL.replace("train epochs=2", "train   epochs=2");
    client.open(&uri, &text);
    let line = text.lines().position(|line| line.starts_with("model")).expect("a model");
    let at = |needle: &str| {
        let column = text.lines().nth(line).and_then(|line| line.find(needle)).expect("there");
        json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": column } })
    };
    let hover = client.request("textDocument/hover", at("channels"));
    let said = hover["contents"]["value"].as_str().expect("text");
    assert!(said.starts_with("`channels` (integer, at least 1 and at most 65536, default 32)"), "{said}");
    assert!(said.ends_with("`model.channels` = `8`"), "{said}");
    let definition = client.request("textDocument/definition", at("channels"));
    assert!(
        definition["uri"].as_str().is_some_and(|uri| uri.ends_with("/std/models/cnn.kdl")),
        "{definition}"
    );
    assert_eq!(definition["range"], range(2, 14, 24));
    let completion = client.request("textDocument/completion", at("hannels"));
    let labels: Vec<&str> = completion["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["label"].as_str())
        .collect();
    assert_eq!(labels, ["channels", "hidden"]);
    let parameters =
        json!({ "textDocument": { "uri": uri }, "options": { "tabSize": 4, "insertSpaces": true } });
    let edits = client.request("textDocument/formatting", parameters.clone());
    assert_eq!(edits[0]["newText"], "train epochs=2 clip-norm=1.0\n", "{edits}");
    let outline = client.request("textDocument/documentSymbol", parameters);
    assert!(outline.as_array().is_some_and(|outline| outline.len() > 10), "{outline}");
    assert_eq!(client.end(), 0);
}

#[test]
fn a_fault_of_a_shape_is_shown_and_a_parameter_gets_another_name() {
    let module = "module \"net\" kind=\"model\" doc=\"d\" {\n    parameter \"width\" type=\"integer\" default=8 min=1 doc=\"Width.\"\n    \
                  body {\n        linear out=(expr)\"width\"\n        linear \"head\" out=3\n    }\n}\n";
    let manifest = "amp 1\nrun \"r\" seed=1\nenvironment \"std:environments/cpu\"\ndata \"d\" {\n    synthetic examples=8 { features 4 }\n    \
                    labels \"classes\" classes=5\n    batch 2\n}\nmodel \"./net.kdl\" width=16\nprecision \"std:precision/fp32\"\n\
                    optimizer \"std:optimizers/sgd\" lr=0.1\ntrain epochs=1\n";
    let place = Place::with_manifest(manifest);
    place.write("net.kdl", module);
    let (uri, net) = (uri(&place, "manifest.kdl"), uri(&place, "net.kdl"));
    let mut client = Client::start("utf-16");
    client.open(&uri, manifest);
    // Three outputs for five classes, known from the declaration alone; told at the line of the open document, beside the
    // module's.
    let told = client.diagnostics(&uri);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0]["code"].as_str(), &told[0]["range"]), (Some("AMP0307"), &range(5, 29, 30)));
    let beside = &told[0]["relatedInformation"][0]["location"];
    assert_eq!(*beside, json!({ "uri": net, "range": range(4, 8, 27) }));
    client.change(&uri, json!([{ "range": range(5, 29, 30), "text": "3" }]));
    assert_eq!(client.diagnostics(&uri), Vec::<Value>::new());
    let mut parameters =
        json!({ "textDocument": { "uri": uri }, "position": { "line": 8, "character": 20 } });
    parameters["context"] = json!({ "includeDeclaration": false });
    let references = client.request("textDocument/references", parameters.clone());
    let use_of = |uri: &str, range: Value| json!({ "uri": uri, "range": range });
    assert_eq!(references, json!([use_of(&uri, range(8, 18, 23)), use_of(&net, range(3, 26, 31))]));
    parameters["newName"] = json!("size");
    let renamed = client.request("textDocument/rename", parameters.clone());
    let edit = |range: Value| json!({ "range": range, "newText": "size" });
    assert_eq!(renamed["changes"][&uri], json!([edit(range(8, 18, 23))]));
    assert_eq!(renamed["changes"][&net], json!([edit(range(1, 15, 20)), edit(range(3, 26, 31))]));
    parameters["newName"] = json!("if");
    let refused = client.answer("textDocument/rename", parameters);
    assert_eq!(refused["error"]["code"], -32803, "{refused}");
    assert_eq!(client.end(), 0);
}

#[test]
fn what_is_no_message_is_answered_and_passed_over() {
    let mut client = Client::start("utf-16");
    client.raw(b"Content-Length: 4\r\n\r\n{{{{");
    assert_eq!(client.next()["error"]["code"], -32700);
    client.raw(b"Content-Length: 6\r\n\r\n\"\xff\xfe\xfd\xfc\"");
    assert_eq!(client.next()["error"]["code"], -32700);
    client.raw(b"nonsense\r\n");
    assert_eq!(client.next()["error"]["code"], -32700);
    client.send(&json!([1, 2]));
    assert_eq!(client.next()["error"]["code"], -32600);
    assert_eq!(client.answer("no/such", json!({}))["error"]["code"], -32601);
    assert_eq!(client.answer("textDocument/hover", json!({ "position": "x" }))["error"]["code"], -32602);
    client.notify("textDocument/didChange", json!({ "textDocument": 3 }));
    client.notify("no/such", json!(null));
    let nowhere = json!({ "textDocument": { "uri": "file:///nowhere" }, "position": { "line": 4000000000_u32, "character": 9 } });
    assert_eq!(client.request("textDocument/hover", nowhere), Value::Null);
    assert_eq!(client.end(), 0);
}

#[test]
fn an_end_without_shutdown_is_exit_1() {
    let mut client = Client::start("utf-16");
    client.notify("exit", Value::Null);
    assert_eq!(client.server.wait().expect("amp ends").code(), Some(1));
    let mut client = Client::start("utf-16");
    drop(client.server.stdin.take());
    assert_eq!(client.server.wait().expect("amp ends").code(), Some(1));
}

/// Two hundred edits of the repository's manifests, each followed by requests; every one is answered.
#[test]
fn two_hundred_edits_are_answered() {
    let manifest = |name: &str| {
        std::fs::read_to_string(repository().join("examples").join(name).join("manifest.kdl"))
            .expect("an example")
    };
    let examples = [manifest("digits"), manifest("digits-cnn"), manifest("mnist-cnn")];
    let place = Place::with_manifest(SMALL);
    let uri = uri(&place, "manifest.kdl");
    let mut client = Client::start("utf-8");
    client.open(&uri, SMALL);
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let pieces = [
        "{",
        "}",
        "\"",
        "=",
        "(expr)\"",
        "é𝄞",
        "\\",
        "/*",
        "#tru",
        "\n\n",
        "repeat 3 {",
        "/-",
        "\u{1}",
        " lr=1e999 ",
    ];
    for turn in 0..200 {
        if turn % 5 == 0 {
            let example = &examples[turn / 5 % 3];
            let prefix: String = example.chars().take(random(example.chars().count() + 1)).collect();
            client.change(&uri, json!([{ "text": prefix }]));
        } else {
            // Positions that need not exist, ends before beginnings.
            let mut position = || json!({ "line": random(40), "character": random(60) });
            let (start, end) = (position(), position());
            let range = json!({ "start": start, "end": end });
            client.change(&uri, json!([{ "range": range, "text": pieces[random(pieces.len())] }]));
        }
        let position = json!({ "line": random(40), "character": random(80) });
        let method =
            ["hover", "completion", "definition", "documentSymbol", "formatting", "codeAction", "references"]
                [turn % 7];
        let parameters = json!({
            "textDocument": { "uri": uri }, "position": position, "range": { "start": position, "end": position },
            "context": { "diagnostics": [], "triggerKind": 1, "includeDeclaration": true }, "options": { "tabSize": 4, "insertSpaces": true },
        });
        let _ = client.request(&format!("textDocument/{method}"), parameters);
    }
    client.change(&uri, json!([{ "text": without_advice() }]));
    assert_eq!(client.diagnostics_at_last(&uri), Vec::<Value>::new());
    assert_eq!(client.end(), 0);
}

impl Client {
    /// What is told of a document last, once nothing is being checked any more.
    fn diagnostics_at_last(&mut self, uri: &str) -> Vec<Value> {
        let mut last = self.diagnostics(uri);
        while let Ok(message) = self.messages.recv_timeout(Duration::from_millis(500)) {
            if message["params"]["uri"] == uri {
                last = message["params"]["diagnostics"].as_array().cloned().expect("a list");
            }
        }
        last
    }
}
