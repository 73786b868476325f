//! `amp doc [NAME]`: the library, the layers and the nodes of the manifest, as the checker knows them.
//!
//! A name is a module (`std:models/mlp`, `mlp`, `./net.kdl`), a layer (`linear`), a node (`optimizer`, `data.batch`), or one
//! of the lists of [`LISTS`]. Where several have one name, the first of this order is shown, and it names the others.

use super::args::DocArguments;
use super::{Exit, Failure, Ui};
use crate::diag::{SourceMap, nearest};
use crate::report::reference::{self, Group, NodePage, NodeSort, Page};
use crate::resolve::describe::{self, ModuleDoc, TextSort};
use crate::resolve::{LibraryModule, ModuleKind, NodeRule};
use crate::world::Disk;
use crate::{resolve, stdlib, syntax};
use camino::Utf8Path;

/// The lists that have a name, with what each holds.
pub const LISTS: [(&str, &str); 5] = [
    ("library", "every module of the library"),
    ("manifest", "the nodes of a manifest"),
    ("layers", "the layers, and the nodes that shape a model's body"),
    ("module", "what the file of a module holds"),
    ("expressions", "the functions of expressions"),
];

/// Runs the command.
pub fn run(arguments: &DocArguments, ui: &Ui) -> Result<Exit, Failure> {
    let mut page = match arguments.name.as_deref() {
        None => Page::List(overview()),
        Some(name) => find(name)?,
    };
    if let Page::Module { module, source } = &mut page {
        if arguments.source && source.is_none() {
            *source = stdlib::source(&module.name).map(str::to_owned);
        } else if !arguments.source {
            *source = None;
        }
    } else if arguments.source {
        return Err(
            Failure::new(Exit::Usage, "only a module has a text").help("name one, such as std:models/mlp")
        );
    }
    if arguments.full {
        page = in_full(page, arguments.name.as_deref());
    }
    if ui.json {
        ui.document(&reference::json(&page));
    } else if arguments.markdown {
        ui.data(&reference::markdown(&page));
    } else {
        ui.data(&reference::text(&page, ui.data_color()));
    }
    Ok(Exit::Done)
}

/// Every name that the command knows, with what it is; for completions and for suggestions.
pub fn names() -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> =
        LISTS.iter().map(|(name, doc)| ((*name).to_owned(), (*doc).to_owned())).collect();
    names.extend(resolve::catalogue().0.into_iter().map(|module| (module.name.to_owned(), module.doc)));
    for page in body_nodes().into_iter().chain(manifest_nodes()) {
        if !names.iter().any(|(known, _)| *known == page.path) {
            names.push((page.path, page.rule.doc.to_owned()));
        }
    }
    names
}

fn find(name: &str) -> Result<Page, Failure> {
    if name.ends_with(".kdl") || name.starts_with(['.', '/']) {
        return file(Utf8Path::new(name));
    }
    match name {
        "library" => return Ok(Page::List(library())),
        "manifest" => return Ok(Page::List(vec![group("nodes of a manifest", &manifest_top())])),
        "layers" => return Ok(Page::List(layers())),
        "module" => return Ok(Page::List(vec![group("nodes of a module's file", &module_nodes())])),
        "expressions" => {
            let row = |(name, doc): &(&str, &str)| ((*name).to_owned(), (*doc).to_owned());
            let rows = describe::functions().iter().map(row).collect();
            return Ok(Page::List(vec![Group { title: "functions".to_owned(), rows }]));
        }
        _ => {}
    }
    // The folder `precision` bears the name of a node, which says more and lists its modules too.
    if let Some(group) =
        library().into_iter().find(|group| group.title == name && ModuleKind::of(name).is_none())
    {
        return Ok(Page::List(vec![group]));
    }
    let (library, _) = resolve::catalogue();
    let modules: Vec<&LibraryModule> = library.iter().filter(|module| is_called(module.name, name)).collect();
    let nodes = body_nodes().into_iter().chain(manifest_nodes()).chain(module_nodes()).chain(primitives());
    let mut nodes: Vec<NodePage> = nodes.filter(|page| page.path == name).collect();
    if nodes.is_empty() || name.starts_with("std:") {
        return match modules.as_slice() {
            [module, ..] => Ok(Page::Module { module: ModuleDoc::from(*module), source: None }),
            [] => Err(unknown(name)),
        };
    }
    let mut page = nodes.remove(0);
    // A module that bears the name of its only primitive says more than the primitive.
    if page.sort == NodeSort::Primitive
        && let [module, ..] = modules.as_slice()
    {
        return Ok(Page::Module { module: ModuleDoc::from(*module), source: None });
    }
    page.see.extend(modules.iter().map(|module| module.name.to_owned()));
    if page.sort == NodeSort::Manifest
        && let Some(kind) = ModuleKind::of(name)
    {
        let modules =
            library.iter().filter(|module| module.kind == kind && folder(module.name) == kind.folder());
        page.see.extend(modules.map(|module| module.name.to_owned()));
    }
    Ok(Page::Node(Box::new(page)))
}

/// `std:models/mlp`, `models/mlp` and `mlp` are one.
fn is_called(module: &str, name: &str) -> bool {
    let short = module.strip_prefix("std:").unwrap_or(module);
    module == name || short == name || short.split_once('/').is_some_and(|(_, last)| last == name)
}

fn unknown(name: &str) -> Failure {
    let known = names();
    let shorts =
        known.iter().filter_map(|(name, _)| name.strip_prefix("std:")?.split_once('/')).map(|(_, last)| last);
    let near = nearest(name, known.iter().map(|(name, _)| name.as_str()).chain(shorts));
    let help = match near {
        Some(near) => format!("amp doc {near}"),
        None => "`amp doc` lists the library, `amp doc layers` the layers, `amp doc manifest` the nodes"
            .to_owned(),
    };
    Failure::new(Exit::Usage, format!("there is no module, layer or node `{name}`")).help(help)
}

/// A user's module, by its path.
fn file(path: &Utf8Path) -> Result<Page, Failure> {
    let mut sources = SourceMap::default();
    let text = match resolve::read(path, &Disk) {
        Ok(text) => text,
        Err(fault) => {
            return Err(Failure::Faults { exit: Exit::Usage, diagnostics: vec![*fault], sources });
        }
    };
    let id = sources.add(path.as_str(), text.as_str());
    let (tree, diagnostics) = syntax::parse(id, &text);
    if !diagnostics.is_empty() {
        return Err(Failure::Faults { exit: Exit::Usage, diagnostics, sources });
    }
    if TextSort::of(&tree) == TextSort::Manifest {
        let message = format!("`{path}` is no module");
        return Err(
            Failure::new(Exit::Usage, message).help("a module's file holds one node, `module \"name\" …`")
        );
    }
    match describe::describe_module_text(path.as_str(), &tree) {
        Some(module) => Ok(Page::Module { module, source: Some(text) }),
        None => Err(Failure::new(Exit::Usage, format!("the declaration of `{path}` has faults"))
            .help("`amp check` of a manifest that uses it says which")),
    }
}

/// What stands where no name was given.
fn overview() -> Vec<Group> {
    let mut groups = library();
    let rows = LISTS.iter().map(|(name, doc)| (format!("amp doc {name}"), (*doc).to_owned()));
    groups.push(Group { title: "more".to_owned(), rows: rows.collect() });
    groups
}

/// The library by folder.
fn library() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for module in resolve::catalogue().0 {
        let title = folder(module.name);
        let row = (module.name.to_owned(), module.doc);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { title: title.to_owned(), rows: vec![row] }),
        }
    }
    // Models are what most people look for.
    groups.sort_by_key(|group| group.title != ModuleKind::Model.folder());
    groups
}

/// `models` of `std:models/mlp`.
fn folder(module: &str) -> &str {
    module.strip_prefix("std:").and_then(|rest| rest.split('/').next()).unwrap_or(module)
}

fn layers() -> Vec<Group> {
    let (structures, layers): (Vec<_>, Vec<_>) =
        body_nodes().into_iter().partition(|page| page.sort == NodeSort::Structure);
    vec![group("layers", &layers), group("nodes that shape a body", &structures)]
}

fn group(title: &str, pages: &[NodePage]) -> Group {
    let rows = pages.iter().map(|page| (page.path.clone(), page.rule.doc.to_owned()));
    Group { title: title.to_owned(), rows: rows.collect() }
}

/// A list of nodes with each of them in full, for the reference of the language.
fn in_full(page: Page, name: Option<&str>) -> Page {
    match name {
        Some("library") => Page::Modules(resolve::catalogue().0.iter().map(ModuleDoc::from).collect()),
        Some("manifest") => Page::Nodes(manifest_nodes()),
        Some("layers") => Page::Nodes(body_nodes()),
        Some("module") => Page::Nodes(module_nodes()),
        _ => page,
    }
}

fn page(path: String, sort: NodeSort, rule: NodeRule) -> NodePage {
    let operands = match sort {
        NodeSort::Layer => describe::operands_of(rule.name),
        _ => Vec::new(),
    };
    NodePage { path, sort, rule, operands, see: Vec::new() }
}

fn body_nodes() -> Vec<NodePage> {
    let rules = describe::nodes_in(TextSort::Module(Some(ModuleKind::Model)), &["module", "body"]);
    rules
        .into_iter()
        .map(|rule| {
            let shapes = describe::is_structure(rule.name);
            let sort = if shapes { NodeSort::Structure } else { NodeSort::Layer };
            page(rule.name.to_owned(), sort, rule)
        })
        .collect()
}

fn manifest_top() -> Vec<NodePage> {
    let rules = describe::nodes_in(TextSort::Manifest, &[]);
    rules.into_iter().map(|rule| page(rule.name.to_owned(), NodeSort::Manifest, rule)).collect()
}

/// The nodes of a manifest, each followed by those of its block.
fn manifest_nodes() -> Vec<NodePage> {
    let mut pages = Vec::new();
    let mut waiting: Vec<NodePage> = manifest_top().into_iter().rev().collect();
    while let Some(next) = waiting.pop() {
        let inner = next.rule.children.iter().rev();
        waiting.extend(
            inner.map(|rule| page(format!("{}.{}", next.path, rule.name), NodeSort::Manifest, rule.clone())),
        );
        pages.push(next);
    }
    pages
}

fn module_nodes() -> Vec<NodePage> {
    let sort = TextSort::Module(None);
    let inner = describe::nodes_in(sort, &["module"]).into_iter();
    let inner = inner.map(|rule| page(format!("module.{}", rule.name), NodeSort::Module, rule));
    let top = describe::nodes_in(sort, &[]).into_iter();
    top.map(|rule| page(rule.name.to_owned(), NodeSort::Module, rule)).chain(inner).collect()
}

/// The primitives of the modules that are no models.
fn primitives() -> Vec<NodePage> {
    let kinds = ModuleKind::ALL.into_iter().filter(|kind| *kind != ModuleKind::Model);
    kinds
        .flat_map(|kind| describe::nodes_in(TextSort::Module(Some(kind)), &["module", "body"]))
        .filter(|rule| !describe::is_structure(rule.name))
        .map(|rule| page(rule.name.to_owned(), NodeSort::Primitive, rule))
        .collect()
}
