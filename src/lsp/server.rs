//! The state of a session, and the answer to each message.

use super::actions::{Fix, fixes};
use super::analysis::{Analysis, Places, analyse};
use super::answers::{convert, edits, flatten, markup, watch_request, workspace_edit};
use super::capabilities::{Client, initialized};
use super::compiled::deepen;
use super::completion::completion;
use super::definition::definition;
use super::documents::{Documents, Overlay};
use super::faults::{Shown, shown};
use super::hover::hover;
use super::library::Library;
use super::position::Lines;
use super::references::Wanted;
use super::rename::{Found, everywhere, renamed};
use super::scene::Scene;
use super::symbols::symbols;
use super::target::target;
use super::transport::{answer, notification};
use super::{Ended, to_json};
use crate::syntax;
use crate::world::World;
use lsp_types::{
    ClientCapabilities, CodeAction, CodeActionKind, CodeActionParams, CompletionList, CompletionParams,
    DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    DocumentFormattingParams, DocumentSymbolParams, GotoDefinitionParams, Hover, HoverContents, HoverParams,
    InitializeParams, Location, PrepareRenameResponse, PublishDiagnosticsParams, ReferenceParams,
    RenameParams, TextDocumentPositionParams, TextEdit, Uri,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

/// The message is no request and no notification, or comes at a wrong time.
const INVALID_REQUEST: i64 = -32600;
/// The server has no such method.
const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are not those of the method.
const INVALID_PARAMETERS: i64 = -32602;
/// A bug.
const INTERNAL_ERROR: i64 = -32603;
/// It cannot be done, for a reason that a person should read.
const REQUEST_FAILED: i64 = -32803;
/// `initialize` comes first.
const NOT_INITIALIZED: i64 = -32002;

type Answer = Result<Value, (i64, String)>;

/// Where in its life a session is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Running,
    ShutDown,
    Exited(Ended),
}

/// A session.
pub struct Server<'world> {
    world: &'world dyn World,
    documents: Documents,
    analyses: BTreeMap<String, Analysis>,
    /// Documents that were changed, or may depend on one that was, since they were checked.
    stale: BTreeSet<String>,
    /// Documents that were resolved and not compiled since.
    shallow: BTreeSet<String>,
    /// Something happened since the client was told.
    news: bool,
    /// What each open document has to tell, at which URI.
    told: BTreeMap<String, Shown>,
    /// What the client was told last.
    published: Shown,
    library: Library,
    client: Client,
    phase: Phase,
}

impl<'world> Server<'world> {
    /// A session that has not begun.
    pub fn new(world: &'world dyn World) -> Self {
        Self {
            world,
            documents: Documents::default(),
            analyses: BTreeMap::new(),
            stale: BTreeSet::new(),
            shallow: BTreeSet::new(),
            news: false,
            told: BTreeMap::new(),
            published: Shown::new(),
            library: Library::default(),
            client: Client::new(&ClientCapabilities::default()),
            phase: Phase::New,
        }
    }

    /// How the session ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        match self.phase {
            Phase::Exited(ended) => Some(ended),
            _ => None,
        }
    }

    /// Handles a message; a request has exactly one answer among what comes back.
    pub fn handle(&mut self, message: &Value) -> Vec<Value> {
        let id = message.get("id").filter(|id| id.is_string() || id.is_number());
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // Answers of the client need none.
            let is_answer =
                id.is_some() && (message.get("result").is_some() || message.get("error").is_some());
            let fault = (INVALID_REQUEST, "neither a request nor a notification".to_owned());
            return if is_answer { Vec::new() } else { vec![answer(&Value::Null, Err(fault))] };
        };
        let parameters = message.get("params").cloned().unwrap_or(Value::Null);
        match id {
            Some(id) => {
                let result = guarded(|| self.request(method, parameters));
                let bug = |_| Err((INTERNAL_ERROR, format!("a bug in amp, at `{method}`")));
                vec![answer(id, result.unwrap_or_else(bug))]
            }
            None => guarded(|| self.notified(method, parameters)).unwrap_or_default(),
        }
    }

    /// Whether something happened since the client was told.
    pub fn has_news(&self) -> bool {
        self.news
    }

    /// Checks what was changed, and returns what the client must be told.
    pub fn publish(&mut self) -> Vec<Value> {
        if !std::mem::take(&mut self.news) {
            return Vec::new();
        }
        for uri in std::mem::take(&mut self.stale) {
            let _ = guarded(|| self.check(&uri));
        }
        for uri in std::mem::take(&mut self.shallow) {
            // After a bug below, what was found above it is told.
            let _ = guarded(|| self.compile(&uri));
            let _ = guarded(|| self.tell(&uri));
        }
        let mut now: Shown = Shown::new();
        for shown in self.told.values() {
            for (uri, diagnostics) in shown {
                let all = now.entry(uri.clone()).or_default();
                for diagnostic in diagnostics {
                    // A module and each manifest that uses it may find the same.
                    let same = |other: &lsp_types::Diagnostic| {
                        (&other.code, other.range, &other.message)
                            == (&diagnostic.code, diagnostic.range, &diagnostic.message)
                    };
                    if !all.iter().any(same) {
                        all.push(diagnostic.clone());
                    }
                }
            }
        }
        let uris: BTreeSet<String> = now.keys().chain(self.published.keys()).cloned().collect();
        let mut messages = Vec::new();
        for text in uris {
            let diagnostics = now.get(&text).cloned().unwrap_or_default();
            let (before, Ok(uri)) = (self.published.get(&text), Uri::from_str(&text)) else { continue };
            if before == Some(&diagnostics) {
                continue;
            }
            let version = self.documents.get(&text).map(|document| document.version);
            let parameters = PublishDiagnosticsParams { uri, diagnostics, version };
            messages.push(notification("textDocument/publishDiagnostics", to_json(parameters)));
        }
        now.retain(|_, diagnostics| !diagnostics.is_empty());
        // An open document that was clean from the start is told so once.
        for (uri, _) in self.documents.all().filter(|(uri, _)| self.told.contains_key(*uri)) {
            now.entry(uri.to_owned()).or_default();
        }
        self.published = now;
        messages
    }

    /// Resolves a document: what hovers and completions need, while someone waits for them.
    fn check(&mut self, uri: &str) {
        let Some(document) = self.documents.get(uri) else { return };
        let overlay = Overlay { documents: &self.documents, world: self.world };
        self.analyses.insert(uri.to_owned(), analyse(document, &overlay));
        self.shallow.insert(uri.to_owned());
    }

    /// Compiles a document that was resolved: what only diagnostics need, when no message waits.
    fn compile(&mut self, uri: &str) {
        let (Some(document), Some(analysis)) = (self.documents.get(uri), self.analyses.get_mut(uri)) else {
            return;
        };
        deepen(analysis, &document.path, &Overlay { documents: &self.documents, world: self.world });
    }

    /// Takes down what a document has to tell.
    fn tell(&mut self, uri: &str) {
        let Some(analysis) = self.analyses.get(uri) else { return };
        let mut places =
            Places { documents: &self.documents, library: &mut self.library, encoding: self.client.encoding };
        let mut shown = shown(uri, analysis, &mut places);
        shown.entry(uri.to_owned()).or_default();
        self.told.insert(uri.to_owned(), shown);
    }

    /// A document's analysis, made anew when it is stale.
    fn refresh(&mut self, uri: &str) {
        if self.stale.remove(uri) || !self.analyses.contains_key(uri) {
            self.check(uri);
        }
    }

    /// A document changed: it and those that read it.
    fn stale_readers(&mut self, uri: &str) {
        self.news = true;
        let Some(path) = self.documents.get(uri).map(|document| document.path.clone()) else { return };
        let reads = |other: &str| {
            // What could not be resolved may be waiting for this very file.
            self.analyses.get(other).is_none_or(|analysis| {
                analysis.plan.is_none()
                    || analysis.sources.files().iter().any(|file| file.name == path.as_str())
            })
        };
        let readers: Vec<String> = self
            .documents
            .all()
            .map(|(other, _)| other)
            .filter(|other| *other == uri || reads(other))
            .map(str::to_owned)
            .collect();
        self.stale.extend(readers);
    }

    /// Every open document may depend on a file that changed.
    fn all_stale(&mut self) {
        self.news = true;
        self.stale = self.documents.all().map(|(uri, _)| uri.to_owned()).collect();
    }

    fn notified(&mut self, method: &str, parameters: Value) -> Vec<Value> {
        match (method, self.phase) {
            ("exit", Phase::ShutDown) => self.phase = Phase::Exited(Ended::Orderly),
            ("exit", _) => self.phase = Phase::Exited(Ended::Abrupt),
            ("initialized", Phase::Running) if self.client.watches => return vec![watch_request()],
            ("textDocument/didOpen", Phase::Running) => {
                if let Ok(DidOpenTextDocumentParams { text_document: opened }) = read(parameters) {
                    self.documents.open(opened.uri.as_str(), opened.text, opened.version);
                    self.all_stale();
                }
            }
            ("textDocument/didChange", Phase::Running) => {
                if let Ok(DidChangeTextDocumentParams { text_document, content_changes }) = read(parameters) {
                    let (uri, version) = (text_document.uri.as_str(), text_document.version);
                    self.documents.change(uri, version, content_changes, self.client.encoding);
                    self.stale_readers(uri);
                }
            }
            ("textDocument/didClose", Phase::Running) => {
                if let Ok(DidCloseTextDocumentParams { text_document }) = read(parameters) {
                    let uri = text_document.uri.as_str();
                    self.documents.close(uri);
                    self.analyses.remove(uri);
                    self.told.remove(uri);
                    self.all_stale();
                }
            }
            ("textDocument/didSave" | "workspace/didChangeWatchedFiles", Phase::Running) => self.all_stale(),
            // Others need no answer, by the protocol.
            _ => {}
        }
        Vec::new()
    }

    fn request(&mut self, method: &str, parameters: Value) -> Answer {
        match (method, self.phase) {
            ("initialize", Phase::New) => {
                let parameters: InitializeParams = read(parameters)?;
                self.client = Client::new(&parameters.capabilities);
                self.phase = Phase::Running;
                Ok(to_json(initialized(self.client)))
            }
            (_, Phase::New) => Err((NOT_INITIALIZED, "`initialize` comes first".to_owned())),
            ("shutdown", Phase::Running) => {
                self.phase = Phase::ShutDown;
                Ok(Value::Null)
            }
            (_, Phase::ShutDown | Phase::Exited(_)) => {
                Err((INVALID_REQUEST, "the session was shut down".to_owned()))
            }
            ("initialize", _) => Err((INVALID_REQUEST, "the session was initialized already".to_owned())),
            ("textDocument/hover", _) => self.hover(read(parameters)?),
            ("textDocument/definition", _) => self.definition(read(parameters)?),
            ("textDocument/completion", _) => self.completion(read(parameters)?),
            ("textDocument/formatting", _) => self.formatting(read(parameters)?),
            ("textDocument/documentSymbol", _) => self.symbols(read(parameters)?),
            ("textDocument/codeAction", _) => self.actions(read(parameters)?),
            ("textDocument/references", _) => self.references(read(parameters)?),
            ("textDocument/prepareRename", _) => Ok(self.prepare_rename(read(parameters)?)),
            ("textDocument/rename", _) => self.rename(read(parameters)?),
            _ => Err((METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
        }
    }

    /// Calls with the scene of an open document, its lines, and the byte of a position.
    fn at<T>(
        &mut self,
        place: &TextDocumentPositionParams,
        call: impl FnOnce(&Scene<'_>, &Lines<'_>, &str, usize) -> T,
    ) -> Option<T> {
        let uri = place.text_document.uri.as_str();
        self.refresh(uri);
        let (document, analysis) = (self.documents.get(uri)?, self.analyses.get(uri)?);
        let overlay = Overlay { documents: &self.documents, world: self.world };
        let scene = Scene { analysis, path: &document.path, world: &overlay };
        let lines = Lines::new(&document.text, self.client.encoding);
        Some(call(&scene, &lines, &document.text, lines.offset(place.position)))
    }

    fn hover(&mut self, parameters: HoverParams) -> Answer {
        let markdown = self.client.hover_markdown;
        let found = self.at(&parameters.text_document_position_params, |scene, lines, _, offset| {
            let found = hover(scene, offset)?;
            let range = found.span.map(|span| lines.range(span.start as usize, span.end as usize));
            Some(Hover { contents: HoverContents::Markup(markup(found.text, markdown)), range })
        });
        Ok(to_json(found.flatten()))
    }

    fn definition(&mut self, parameters: GotoDefinitionParams) -> Answer {
        let place = parameters.text_document_position_params;
        let found = self.at(&place, |scene, lines, _, offset| {
            let (span, sources) = definition(scene, offset)?;
            Some((span, sources, lines.range(span.start as usize, span.end as usize)))
        });
        let Some((span, sources, range)) = found.flatten() else { return Ok(Value::Null) };
        let mut places =
            Places { documents: &self.documents, library: &mut self.library, encoding: self.client.encoding };
        Ok(match sources {
            None => to_json(Location { uri: place.text_document.uri, range }),
            Some(sources) => to_json(places.location(span, &sources)),
        })
    }

    /// What a position names, and where it is named.
    fn named(&mut self, place: &TextDocumentPositionParams) -> Option<(Wanted, Vec<Found>)> {
        let uris: Vec<String> = self.documents.all().map(|(uri, _)| uri.to_owned()).collect();
        uris.iter().for_each(|uri| self.refresh(uri));
        let wanted = self
            .at(place, |scene, _, _, offset| Wanted::new(&target(scene, offset)?, scene.path))
            .flatten()?;
        let found = everywhere(&wanted, &self.documents, self.analyses.values(), self.world);
        Some((wanted, found))
    }

    /// The URI of a file that is no part of the library, and its lines.
    fn lines_of<'text>(&mut self, found: &'text Found) -> Option<(Uri, Lines<'text>)> {
        let encoding = self.client.encoding;
        let mut places = Places { documents: &self.documents, library: &mut self.library, encoding };
        Some((places.uri(found.path.as_str())?, Lines::new(&found.text, encoding)))
    }

    fn references(&mut self, parameters: ReferenceParams) -> Answer {
        let declaration = parameters.context.include_declaration;
        let Some((_, found)) = self.named(&parameters.text_document_position) else { return Ok(Value::Null) };
        let mut locations = Vec::new();
        for file in &found {
            let Some((uri, lines)) = self.lines_of(file) else { continue };
            let shown = file.places.iter().filter(|place| declaration || !place.declares);
            locations.extend(
                shown.map(|place| Location { uri: uri.clone(), range: lines.range(place.start, place.end) }),
            );
        }
        Ok(to_json(locations))
    }

    /// The name at a position, when it can be another.
    fn prepare_rename(&mut self, place: TextDocumentPositionParams) -> Value {
        let Some((wanted, _)) = self.named(&place).filter(|(wanted, _)| !wanted.is_of_library()) else {
            return Value::Null;
        };
        let range = self.at(&place, |scene, lines, _, offset| {
            let places = super::references::places(scene, &wanted);
            let here =
                places.into_iter().find(|place| place.start <= offset && offset <= place.end && !place.path);
            here.map(|place| lines.range(place.start, place.end))
        });
        let placeholder = wanted.name;
        to_json(
            range.flatten().map(|range| PrepareRenameResponse::RangeWithPlaceholder { range, placeholder }),
        )
    }

    fn rename(&mut self, parameters: RenameParams) -> Answer {
        let failed = |reason: String| (REQUEST_FAILED, reason);
        let named = self.named(&parameters.text_document_position);
        let (wanted, found) = named.ok_or_else(|| failed("nothing is named here".to_owned()))?;
        let new = parameters.new_name;
        let found = renamed(&wanted, &new, found, &self.documents, self.world).map_err(failed)?;
        let mut edits = Vec::new();
        for file in &found {
            let Some((uri, lines)) = self.lines_of(file) else { continue };
            let edit = |place: &super::references::Place| TextEdit {
                range: lines.range(place.start, place.end),
                new_text: new.clone(),
            };
            edits.push((uri, file.places.iter().map(edit).collect()));
        }
        Ok(to_json(workspace_edit(edits)))
    }

    fn completion(&mut self, parameters: CompletionParams) -> Answer {
        let client = self.client;
        let items = self.at(&parameters.text_document_position, |scene, lines, text, offset| {
            let items = completion(scene, text, offset);
            items.into_iter().enumerate().map(|(index, item)| convert(item, index, lines, client)).collect()
        });
        Ok(to_json(CompletionList { is_incomplete: false, items: items.unwrap_or_default() }))
    }

    fn formatting(&mut self, parameters: DocumentFormattingParams) -> Answer {
        let Some(document) = self.documents.get(parameters.text_document.uri.as_str()) else {
            return Ok(Value::Null);
        };
        let Ok(formatted) = syntax::format(&document.text) else { return Ok(Value::Null) };
        Ok(to_json(edits(&document.text, &formatted, self.client.encoding)))
    }

    fn symbols(&mut self, parameters: DocumentSymbolParams) -> Answer {
        let uri = parameters.text_document.uri;
        self.refresh(uri.as_str());
        let (Some(document), Some(analysis)) =
            (self.documents.get(uri.as_str()), self.analyses.get(uri.as_str()))
        else {
            return Ok(Value::Null);
        };
        let tree = symbols(&analysis.tree, &Lines::new(&document.text, self.client.encoding));
        if self.client.symbol_tree {
            return Ok(to_json(tree));
        }
        let mut flat = Vec::new();
        tree.into_iter().for_each(|symbol| flatten(symbol, None, &uri, &mut flat));
        Ok(to_json(flat))
    }

    fn actions(&mut self, parameters: CodeActionParams) -> Answer {
        let uri = parameters.text_document.uri;
        self.refresh(uri.as_str());
        let (Some(document), Some(analysis)) =
            (self.documents.get(uri.as_str()), self.analyses.get(uri.as_str()))
        else {
            return Ok(Value::Null);
        };
        let overlay = Overlay { documents: &self.documents, world: self.world };
        let lines = Lines::new(&document.text, self.client.encoding);
        let (start, end) = lines.bytes(parameters.range);
        let found = fixes(document, analysis, start, end, &overlay);
        let convert = |fix: Fix| {
            let primary = super::faults::primary(&analysis.diagnostics[fix.diagnostic], &analysis.sources);
            let range = primary.map(|label| lines.range(label.span.start as usize, label.span.end as usize));
            let code = analysis.diagnostics[fix.diagnostic].code.to_string();
            let given = parameters.context.diagnostics.iter().filter(|given| {
                Some(given.range) == range
                    && given.code == Some(lsp_types::NumberOrString::String(code.clone()))
            });
            let edit = TextEdit { range: lines.range(fix.start, fix.end), new_text: fix.text };
            CodeAction {
                title: fix.title,
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(given.cloned().collect()),
                edit: Some(workspace_edit([(uri.clone(), vec![edit])])),
                is_preferred: Some(true),
                ..CodeAction::default()
            }
        };
        Ok(to_json(found.into_iter().map(convert).collect::<Vec<_>>()))
    }
}

/// Runs something that may have a bug; `Err` when it had one.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, ()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|_| ())
}

fn read<T: DeserializeOwned>(parameters: Value) -> Result<T, (i64, String)> {
    serde_json::from_value(parameters)
        .map_err(|error| (INVALID_PARAMETERS, format!("the parameters are not those of the method: {error}")))
}
