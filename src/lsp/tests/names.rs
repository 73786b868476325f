//! References and renames.

use super::Session;
use crate::world::{Memory, World};
use serde_json::{Value, json};

const NET: &str = "file:///run/models/net.kdl";
const MANIFEST: &str = "file:///run/manifest.kdl";

const NET_TEXT: &str = r#"module "net" kind="model" doc="A skip over layers that share." {
    parameter "width" type="integer" default=8 min=1 max=64 doc="Width."
    parameter "widths" type="list" of="integer" min=1 doc="Widths." {
        default 4
    }
    body {
        embedding "tokens" vocabulary=16 size=(expr)"width"
        save "input"
        repeat 2 index="i" name="down" {
            linear "inner" out=(expr)"width * (i + 1)"
            linear out=(expr)"width" share="down.0.inner"
            save (text)"skip-{i}-{width}"
        }
        use "./join.kdl" "first" other="input" width=(expr)"width"
        repeat 2 index="width2" {
            linear out=(expr)"widths[0] + width2"
        }
        linear "head" out=16 share-weight="tokens"
    }
}
"#;
const JOIN_TEXT: &str = r#"module "join" kind="model" doc="Adds one of the caller's values." {
    parameter "other" type="value" doc="What is added."
    parameter "width" type="integer" min=1 doc="Width of the layer."
    body {
        parallel combine="sum" {
            chain
            chain {
                recall "other"
                linear out=(expr)"width"
            }
        }
    }
}
"#;
const RUN_TEXT: &str = r#"amp 1
data "d" {
    source "d.csv"
    batch 2
}
model "./models/net.kdl" width=4 {
    widths 1 2
}
optimizer "std:optimizers/adamw" lr=1e-3
train epochs=1
"#;

fn world() -> Memory {
    Memory::default()
        .with("/run/models/net.kdl", NET_TEXT)
        .with("/run/models/join.kdl", JOIN_TEXT)
        .with("/run/manifest.kdl", RUN_TEXT)
}

/// What stands at a range of a file.
fn piece(world: &Memory, uri: &str, range: &Value) -> (u64, String) {
    let path = uri.strip_prefix("file://").expect("a file");
    let text = String::from_utf8(world.read(path.into()).expect("there")).expect("UTF-8");
    let number = |value: &Value| value.as_u64().expect("a number");
    let (line, start) = (number(&range["start"]["line"]), number(&range["start"]["character"]));
    let end = number(&range["end"]["character"]);
    let found = text.lines().nth(line as usize).expect("a line")[start as usize..end as usize].to_owned();
    (line, found)
}

/// File name, line and text of each reference to what stands at a needle.
fn references(session: &mut Session<'_>, world: &Memory, needle: &str) -> Vec<(String, u64, String)> {
    let mut parameters = session.place(session.text.find(needle).expect("there"));
    parameters["context"] = json!({ "includeDeclaration": true });
    let answer = session.request("textDocument/references", parameters);
    let all = answer.as_array().cloned().unwrap_or_default();
    let one = |location: &Value| {
        let uri = location["uri"].as_str().expect("a URI");
        let (line, text) = piece(world, uri, &location["range"]);
        (uri.rsplit('/').next().expect("a name").to_owned(), line, text)
    };
    all.iter().map(one).collect()
}

fn at(file: &str, lines: &[u64], text: &str) -> Vec<(String, u64, String)> {
    lines.iter().map(|line| (file.to_owned(), *line, text.to_owned())).collect()
}

/// The texts after a rename, by URI; the reason where it is refused.
fn rename(session: &mut Session<'_>, needle: &str, new: &str) -> Result<Vec<(String, String)>, String> {
    let mut parameters = session.place(session.text.find(needle).expect("there"));
    parameters["newName"] = json!(new);
    let message =
        json!({ "jsonrpc": "2.0", "id": 99, "method": "textDocument/rename", "params": parameters });
    let answer = session.server.handle(&message).remove(0);
    if let Some(reason) = answer["error"]["message"].as_str() {
        return Err(reason.to_owned());
    }
    let changes = answer["result"]["changes"].as_object().cloned().expect("changes");
    let texts = [(NET, NET_TEXT), ("file:///run/models/join.kdl", JOIN_TEXT), (MANIFEST, RUN_TEXT)];
    let apply = |(uri, edits): (&String, &Value)| {
        let text = texts.iter().find(|(known, _)| known == uri).expect("a known file").1;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for edit in edits.as_array().expect("a list").iter().rev() {
            let number =
                |end: &str, axis: &str| edit["range"][end][axis].as_u64().expect("a number") as usize;
            let range = number("start", "character")..number("end", "character");
            lines[number("start", "line")].replace_range(range, edit["newText"].as_str().expect("text"));
        }
        (uri.clone(), lines.join("\n") + "\n")
    };
    Ok(changes.iter().map(apply).collect())
}

#[test]
fn a_parameter_is_found_in_its_module_and_at_its_callers() {
    let world = world();
    let mut session = Session::new(&world, NET, NET_TEXT);
    session.open(MANIFEST, RUN_TEXT);
    let mut expected = at("manifest.kdl", &[5], "width");
    expected.extend(at("net.kdl", &[1, 6, 9, 10, 11, 13], "width"));
    assert_eq!(references(&mut session, &world, "width\" type"), expected);
    // From a use, and from the use in a text.
    assert_eq!(references(&mut session, &world, "width * (i"), expected);
    assert_eq!(references(&mut session, &world, "width}"), expected);
    // The parameter of the same name of another module.
    let mut other = at("join.kdl", &[2, 8], "width");
    other.extend(at("net.kdl", &[13], "width"));
    assert_eq!(references(&mut session, &world, "width=(expr)\"width\"\n        repeat"), other);
    let mut lists = at("manifest.kdl", &[6], "widths");
    lists.extend(at("net.kdl", &[2, 15], "widths"));
    assert_eq!(references(&mut session, &world, "widths[0]"), lists);
}

#[test]
fn indices_values_layers_and_modules_are_found() {
    let world = world();
    let mut session = Session::new(&world, NET, NET_TEXT);
    assert_eq!(references(&mut session, &world, "i + 1"), at("net.kdl", &[8, 9, 11], "i"));
    assert_eq!(references(&mut session, &world, "width2\" {"), at("net.kdl", &[14, 15], "width2"));
    assert_eq!(references(&mut session, &world, "input\"\n"), at("net.kdl", &[7, 13], "input"));
    assert_eq!(references(&mut session, &world, "tokens\" vocabulary"), at("net.kdl", &[6, 17], "tokens"));
    assert_eq!(references(&mut session, &world, "down.0"), at("net.kdl", &[9, 10], "inner"));
    let mut module = at("join.kdl", &[0], "join");
    module.extend(at("net.kdl", &[13], "./join.kdl"));
    assert_eq!(references(&mut session, &world, "./join.kdl"), module);
    assert_eq!(references(&mut session, &world, "other="), {
        let mut lent = at("join.kdl", &[1, 7], "other");
        lent.extend(at("net.kdl", &[13], "other"));
        lent
    });
    assert_eq!(references(&mut session, &world, "doc=\"A skip"), []);
}

#[test]
fn a_rename_changes_every_file_and_nothing_else() {
    let world = world();
    let mut session = Session::new(&world, NET, NET_TEXT);
    session.open(MANIFEST, RUN_TEXT);
    let texts = rename(&mut session, "width\" type", "size").expect("a free name");
    assert_eq!(texts[0].1, RUN_TEXT.replace("width=4", "size=4"));
    let expected = NET_TEXT
        .replace("parameter \"width\"", "parameter \"size\"")
        .replace("(expr)\"width", "(expr)\"size")
        .replace("(expr)\"sizes", "(expr)\"widths")
        .replace("{width}", "{size}");
    assert_eq!((texts.len(), texts[1].1.as_str()), (2, expected.as_str()));
    let texts = rename(&mut session, "inner", "outer").expect("a free name");
    assert_eq!(texts, [(NET.to_owned(), NET_TEXT.replace("inner", "outer"))]);
    let texts = rename(&mut session, "other=", "joined").expect("a free name");
    assert_eq!(texts[0].1, JOIN_TEXT.replace("\"other\"", "\"joined\""));
    assert_eq!(texts[1].1, NET_TEXT.replace("other=", "joined="));
    let texts = rename(&mut session, "net\" kind", "network").expect("a free name");
    assert_eq!(texts, [(NET.to_owned(), NET_TEXT.replace("\"net\"", "\"network\""))]);
}

#[test]
fn a_rename_that_breaks_something_is_refused_with_the_reason() {
    let world = world();
    let mut session = Session::new(&world, NET, NET_TEXT);
    session.open(MANIFEST, RUN_TEXT);
    for (needle, new, reason) in [
        ("width\" type", "widths", "the parameter `widths` is declared twice"),
        ("width\" type", "if", "`if` is a word of expressions"),
        ("width\" type", "a b", "a name consists of letters"),
        ("width\" type", "", "a name consists of letters"),
        ("i\" name", "width", "width"),
        ("inner", "a.b", "the name of a layer has no `.`"),
        ("kind=", "sort", "nothing is named here"),
    ] {
        let refused = rename(&mut session, needle, new).expect_err(needle);
        assert!(refused.contains(reason), "{needle} → {new}: {refused}");
    }
    session.uri = MANIFEST.to_owned();
    session.text = RUN_TEXT.to_owned();
    let refused = rename(&mut session, "lr=", "rate").expect_err("the library's");
    assert_eq!(refused, "`lr` is declared by the library, `std:optimizers/adamw`");
    let place = session.place(RUN_TEXT.find("lr=").expect("there"));
    assert_eq!(session.request("textDocument/prepareRename", place), Value::Null);
    let place = session.place(RUN_TEXT.find("idth=4").expect("there"));
    let range = json!({ "start": { "line": 5, "character": 25 }, "end": { "line": 5, "character": 30 } });
    assert_eq!(
        session.request("textDocument/prepareRename", place),
        json!({ "range": range, "placeholder": "width" })
    );
}
