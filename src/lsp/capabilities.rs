//! What the client can do, and what the server tells it to expect.

use super::position::Encoding;
use lsp_types::{
    ClientCapabilities, CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CompletionOptions,
    HoverProviderCapability, InitializeResult, MarkupKind, OneOf, RenameOptions, ServerCapabilities,
    ServerInfo, TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
    TextDocumentSyncSaveOptions, WorkDoneProgressOptions,
};

/// What the client can do, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// How characters count.
    pub encoding: Encoding,
    /// Completions may have places to fill in.
    pub snippets: bool,
    /// Hovers may be Markdown.
    pub hover_markdown: bool,
    /// Documentation of completions may be Markdown.
    pub completion_markdown: bool,
    /// Symbols may be a tree.
    pub symbol_tree: bool,
    /// Actions may be more than commands.
    pub actions: bool,
    /// The client asks what is to be renamed before it asks for a name.
    pub prepares_renames: bool,
    /// The client tells of changed files when asked to.
    pub watches: bool,
}

impl Client {
    /// Reads what a client said; what it did not say it cannot do.
    pub fn new(capabilities: &ClientCapabilities) -> Self {
        let document = capabilities.text_document.as_ref();
        let completion = document.and_then(|document| document.completion.as_ref()?.completion_item.as_ref());
        let hover = document.and_then(|document| document.hover.as_ref()?.content_format.as_ref());
        let symbols = document.and_then(|document| document.document_symbol.as_ref());
        let action = document.and_then(|document| document.code_action.as_ref());
        let watched =
            capabilities.workspace.as_ref().and_then(|workspace| workspace.did_change_watched_files);
        let offered = capabilities.general.as_ref().and_then(|general| general.position_encodings.as_deref());
        let formats = completion.and_then(|item| item.documentation_format.as_ref());
        let markdown = |formats: Option<&Vec<MarkupKind>>| {
            formats.is_some_and(|formats| formats.contains(&MarkupKind::Markdown))
        };
        Self {
            encoding: Encoding::choose(offered),
            snippets: completion.and_then(|item| item.snippet_support) == Some(true),
            hover_markdown: markdown(hover),
            completion_markdown: markdown(formats),
            symbol_tree: symbols.and_then(|symbols| symbols.hierarchical_document_symbol_support)
                == Some(true),
            actions: action.is_some_and(|action| action.code_action_literal_support.is_some()),
            prepares_renames: document.and_then(|document| document.rename.as_ref()?.prepare_support)
                == Some(true),
            watches: watched.and_then(|watched| watched.dynamic_registration) == Some(true),
        }
    }
}

/// The answer to `initialize`.
pub fn initialized(client: Client) -> InitializeResult {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(TextDocumentSyncSaveOptions::Supported(true)),
        ..TextDocumentSyncOptions::default()
    };
    let triggers = [" ", "\"", "=", "(", "/"];
    let completion = CompletionOptions {
        trigger_characters: Some(triggers.map(str::to_owned).to_vec()),
        ..CompletionOptions::default()
    };
    let actions = CodeActionOptions {
        code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
        ..CodeActionOptions::default()
    };
    InitializeResult {
        capabilities: ServerCapabilities {
            position_encoding: Some(client.encoding.kind()),
            text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            definition_provider: Some(OneOf::Left(true)),
            references_provider: Some(OneOf::Left(true)),
            rename_provider: Some(match client.prepares_renames {
                true => OneOf::Right(RenameOptions {
                    prepare_provider: Some(true),
                    work_done_progress_options: WorkDoneProgressOptions::default(),
                }),
                false => OneOf::Left(true),
            }),
            completion_provider: Some(completion),
            document_formatting_provider: Some(OneOf::Left(true)),
            document_symbol_provider: Some(OneOf::Left(true)),
            code_action_provider: client.actions.then_some(CodeActionProviderCapability::Options(actions)),
            ..ServerCapabilities::default()
        },
        server_info: Some(ServerInfo {
            name: "amp".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    }
}
