//! Checked nodes to the plan, section by section, with the origin of every value.

use super::check::check_nodes;
use super::expand::{Expander, Frame};
use super::fields::{Fields, absent};
use super::module::{Given, Module, ModuleKind, Modules, bind};
use super::primitives as primitive;
use super::rule::Kind;
use super::{EDITION, cross, data, manifest};
use crate::diag::{Diagnostic, FileId, Sink, SourceMap, Span, codes};
use crate::plan::entries::number_text;
use crate::plan::initial::InitialWeights;
use crate::plan::{
    Block, Checkpoint, Environment, Evaluate, Every, Guarantee, Loss, Masters, Model, Optimizer, Origin,
    ParameterGroup, Plan, Policy, Rule, Run, Scaler, Schedule, ScheduleKind, Selector, Train,
};
use crate::syntax::{Node, Tree, Value};
use crate::world::World;
use camino::Utf8Path;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Lowers a whole manifest. The result is complete only when nothing was reported.
pub(super) fn manifest(
    tree: &Tree,
    root: &Utf8Path,
    world: &dyn World,
    sources: &mut SourceMap,
    sink: &mut Sink,
) -> Option<Plan> {
    // What is missing from a manifest is told at its first line.
    let first = tree.nodes.first().map_or(Span { file: tree.file, start: 0, end: 0 }, |node| node.span);
    let checked = check_nodes(&tree.nodes, manifest::table(), None, Some(first), sink);
    let mut modules = Modules::new(root, world, sources);
    let mut lowering = Lowering {
        file: tree.file,
        checked: &checked,
        modules: &mut modules,
        sink,
        origins: BTreeMap::new(),
    };
    let edition = lowering.edition();
    let run = lowering.run();
    let environment = lowering.environment();
    let data_node = lowering.node("data");
    let data = data_node.map(|fields| data::lower(fields, lowering.sink));
    lowering.data_origins();
    let model = lowering.model();
    let (precision, scaler, optimizer, schedule) =
        (lowering.precision(), lowering.scaler(), lowering.optimizer(), lowering.schedule());
    let phases = lowering.phases(&precision);
    let groups = lowering.groups(&optimizer);
    let classes =
        data.as_ref().map(|data| data.labels_are_classes().then(|| data.classes.unwrap_or_default()));
    let loss = lowering.loss(classes);
    let train = lowering.train();
    let evaluate = lowering.evaluate(classes);
    let checkpoint = lowering.node("checkpoint").map(|fields| lowering.checkpoint(fields, &evaluate));
    let allow = super::allow::allowed(&checked, lowering.sink);
    let origins = std::mem::take(&mut lowering.origins);
    let mut plan = Plan {
        edition,
        run,
        environment,
        data: data?,
        model,
        loss,
        precision,
        phases,
        scaler,
        optimizer,
        groups,
        schedule,
        train,
        evaluate,
        checkpoint,
        allow,
        modules: modules.uses(),
        origins,
    };
    cross::check(&mut plan, &checked, sink);
    Some(plan)
}

pub(super) struct Lowering<'a, 'world> {
    file: FileId,
    checked: &'a [Fields<'a>],
    pub(super) modules: &'a mut Modules<'world>,
    pub(super) sink: &'a mut Sink,
    origins: BTreeMap<String, Origin>,
}

/// A primitive with its values, ready to be read.
struct Primitive {
    module: String,
    node: Node,
}

impl<'a> Lowering<'a, '_> {
    pub(super) fn node(&self, name: &str) -> Option<&'a Fields<'a>> {
        node_of(self.checked, name)
    }

    fn place(&self, fields: Option<&Fields<'_>>) -> Span {
        fields
            .and_then(|fields| fields.node)
            .map_or(Span { file: self.file, start: 0, end: 0 }, |node| node.span)
    }

    pub(super) fn origin(&mut self, path: impl Into<String>, span: Option<Span>) {
        let origin = match span {
            Some(span) if span.file == self.file => Origin::Manifest(span),
            Some(span) => Origin::Module(span),
            None => Origin::Language,
        };
        self.origins.insert(path.into(), origin);
    }

    /// Notes where every value of a node came from.
    fn origins_of(&mut self, section: &str, fields: &Fields<'_>) {
        for (name, field) in fields.all() {
            self.origin(format!("{section}.{name}"), field.span);
        }
    }

    fn edition(&mut self) -> u32 {
        let Some(fields) = self.node("amp") else { return EDITION };
        let edition: Option<i128> = fields.optional_whole("edition");
        self.origin("edition", fields.span("edition"));
        if let Some(edition) = edition.filter(|edition| *edition != i128::from(EDITION)) {
            let diagnostic = Diagnostic::error(codes::EDITION, format!("edition {edition} is not known"));
            let diagnostic =
                diagnostic.at(self.place(Some(fields)), format!("this amp reads edition {EDITION}"));
            self.sink.push(diagnostic.help(format!("write `amp {EDITION}`, or use a newer amp")));
        }
        EDITION
    }

    fn run(&mut self) -> Run {
        let default = Fields::default();
        let fields = self.node("run").unwrap_or(&default);
        self.origins_of("run", fields);
        if let (Some(name), Some(span)) = (fields.optional_text("name"), fields.span("name"))
            && name.trim().is_empty()
        {
            let diagnostic = Diagnostic::error(codes::BAD_NAME, "the run's name is empty").at(span, "empty");
            self.sink.push(diagnostic.help("write a name; lists of runs and reports show it"));
        }
        let guarantee =
            if fields.text("guarantee") == "device" { Guarantee::Device } else { Guarantee::Portable };
        Run { name: fields.text("name").to_owned(), seed: fields.whole("seed"), guarantee }
    }

    /// The module that a node names, or the library's `default`; with the frame that its body expands in.
    fn module(&mut self, kind: ModuleKind, default: Option<&str>) -> Option<Frame> {
        let section = kind.word();
        let fields = self.node(section);
        let span = self.place(fields);
        let reference = match fields {
            Some(fields) => fields.optional_text("module")?,
            None => default?,
        };
        let written = fields.and_then(|fields| fields.span("module"));
        let root = Utf8Path::new("");
        let module = self.modules.load(reference, kind, Some(root), written.unwrap_or(span), self.sink)?;
        self.origin(section, written);
        let scope = match fields.and_then(|fields| fields.node.map(|node| (node, fields))) {
            Some((node, fields)) => {
                let given = Given { properties: &fields.open, nodes: &fields.open_nodes };
                bind(&module, given, node, section, self.sink)
            }
            None => {
                let given = Given { properties: &[], nodes: &[] };
                bind(&module, given, &nameless(section, span), section, self.sink)
            }
        };
        Some(Frame::new(module, scope, fields.map(|_| span)))
    }

    fn primitive(&mut self, kind: ModuleKind, default: &str) -> Option<Primitive> {
        let frame = self.module(kind, Some(default))?;
        let module = frame.module.name.clone();
        let node = Expander::new(self.modules, self.sink).primitive(&frame)?;
        Some(Primitive { module, node })
    }

    fn environment(&mut self) -> Environment {
        let Some(primitive) = self.primitive(ModuleKind::Environment, "std:environments/cpu") else {
            return Environment {
                name: String::new(),
                target: String::new(),
                pins: BTreeMap::new(),
                device: None,
            };
        };
        let mut pins = BTreeMap::new();
        let mut target = String::new();
        let mut device = None;
        if let Some(fields) = primitive::fields(ModuleKind::Environment, &primitive.node, self.sink) {
            target = fields.text("target").to_owned();
            self.pins(&fields, &mut pins);
            device = fields.child("device").map(primitive::device);
        }
        self.origin("environment", self.node("environment").and_then(|fields| fields.span("module")));
        if let Some(fields) = self.node("environment") {
            self.pins(fields, &mut pins);
        }
        Environment { name: primitive.module, target, pins, device }
    }

    fn pins(&mut self, fields: &Fields<'_>, pins: &mut BTreeMap<String, String>) {
        let mut first: BTreeMap<&str, Span> = BTreeMap::new();
        for pin in fields.children_named("pin") {
            let (name, span) = (pin.text("name"), self.place(Some(pin)));
            if let Some(other) = first.insert(name, span) {
                let diagnostic =
                    Diagnostic::error(codes::DUPLICATE_NODE, format!("`{name}` is pinned twice"));
                self.sink.push(
                    diagnostic
                        .at(span, "pinned again")
                        .at(other, "first pinned here")
                        .help("keep one of them"),
                );
            }
            self.origin(format!("environment.pin.{name}"), Some(span));
            pins.insert(name.to_owned(), pin.text("version").to_owned());
        }
    }

    fn data_origins(&mut self) {
        let Some(fields) = self.node("data") else { return };
        self.origins_of("data", fields);
        let mut changes = 0;
        for child in &fields.children {
            let Some(node) = child.node else { continue };
            match node.name.text.as_str() {
                "normalise" => {
                    self.origin(format!("data.normalise.{changes}"), Some(node.span));
                    changes += 1;
                }
                "shape" | "sources" | "source" => {
                    self.origin(format!("data.{}", node.name.text), Some(node.span))
                }
                "batch" => {
                    self.origin("data.batch", child.span("size"));
                    self.origin("data.shuffle", child.get("shuffle").and_then(|field| field.span));
                    self.origin("data.last", child.get("last").and_then(|field| field.span));
                }
                "split" => {
                    self.origin("data.split", Some(node.span));
                    for property in &child.open {
                        self.origin(format!("data.split.{}", property.name.text), Some(property.value.span));
                    }
                    self.origin("data.split.seed", child.get("seed").and_then(|field| field.span));
                }
                name => {
                    self.origin(format!("data.{name}"), Some(node.span));
                    self.origin("data.tokens", (name == "format").then_some(node.span));
                    if child.is_written("classes") {
                        self.origin("data.classes", child.span("classes"));
                    }
                }
            }
        }
    }

    fn model(&mut self) -> Model {
        let Some(frame) = self.module(ModuleKind::Model, None) else {
            return Model {
                module: String::new(),
                arguments: BTreeMap::new(),
                body: Vec::new(),
                freeze: Vec::new(),
                initial: None,
            };
        };
        let mut arguments = BTreeMap::new();
        for (name, (kind, field)) in frame.scope.as_ref() {
            self.origin(format!("model.{name}"), field.span);
            arguments.insert(name.clone(), text_of(*kind, &field.value));
        }
        let before = self.sink.diagnostics.len();
        let body = Expander::new(self.modules, self.sink).model(&frame);
        if body.is_empty() && self.sink.diagnostics.len() == before {
            let module: &Rc<Module> = &frame.module;
            let diagnostic = Diagnostic::error(codes::MODULE_SHAPE, "the model has no layers");
            let diagnostic = diagnostic.at(self.place(self.node("model")), "comes to nothing");
            self.sink
                .push(diagnostic.at(module.span, "the module").help("write at least one layer in its body"));
        }
        self.layer_origins(&body);
        let freeze = self.freeze();
        let initial = self.initial();
        Model { module: frame.module.name.clone(), arguments, body, freeze, initial }
    }

    /// The globs of `freeze`, in order.
    fn freeze(&mut self) -> Vec<String> {
        let mut globs = Vec::new();
        for child in self.node("model").into_iter().flat_map(|fields| fields.children_named("freeze")) {
            self.expect_globs(child, "freeze");
            for (glob, span) in texts(child) {
                self.origin(format!("model.freeze.{}", globs.len()), Some(span));
                globs.push(glob);
            }
        }
        globs
    }

    /// The file of first values, if there is one.
    fn initial(&mut self) -> Option<InitialWeights> {
        let fields = self.node("model")?.child("initial")?;
        let mut places = Vec::new();
        let initial = super::initial::lower(fields, &mut |path, span| places.push((path, span)), self.sink);
        let names = fields.optional_text("names").map(str::to_owned).zip(fields.span("names"));
        places.into_iter().for_each(|(path, span)| self.origin(path, span));
        let mut initial = initial?;
        if let Some((reference, span)) = names {
            initial.rules.extend(super::initial::module(&reference, span, self.modules, self.sink)?);
        }
        Some(initial)
    }

    /// A fault when a node that names parameters names none.
    fn expect_globs(&mut self, fields: &Fields<'_>, name: &str) {
        if fields.node.is_some_and(|node| node.arguments.is_empty()) {
            let diagnostic = Diagnostic::error(codes::MISSING, format!("`{name}` names no parameters"));
            let diagnostic = diagnostic.at(self.place(Some(fields)), "at least one glob is expected");
            self.sink.push(diagnostic.help(format!("write `{name} \"**.bias\"`")));
        }
    }

    /// The groups of parameters with settings of their own.
    fn groups(&mut self, base: &Optimizer) -> Vec<ParameterGroup> {
        let mut groups = Vec::new();
        for child in self.node("optimizer").into_iter().flat_map(|fields| fields.children_named("parameters"))
        {
            self.expect_globs(child, "parameters");
            if child.node.is_some_and(|node| node.properties.is_empty()) {
                let diagnostic = Diagnostic::error(codes::MISSING, "`parameters` sets nothing");
                let diagnostic = diagnostic.at(self.place(Some(child)), "a setting is expected");
                self.sink.push(diagnostic.help("write what is different for them, such as `weight-decay=0`"));
            }
            let path = format!("optimizer.parameters.{}", groups.len());
            self.origin(path, Some(self.place(Some(child))));
            let globs = texts(child).map(|(glob, _)| glob).collect();
            let optimizer = primitive::group(base, child, self.sink);
            groups.push(ParameterGroup { globs, optimizer });
        }
        groups
    }

    fn layer_origins(&mut self, blocks: &[Block]) {
        for block in blocks {
            match block {
                Block::Layer(layer) | Block::Apply { layer, .. } => {
                    self.origin(
                        format!("model.layer.{}", layer.path),
                        Some(layer.library.unwrap_or(layer.span)),
                    );
                }
                Block::Parallel { path, span, .. } => {
                    self.origin(format!("model.layer.{path}"), Some(*span));
                }
                Block::Save { .. } | Block::Recall { .. } => {}
            }
            block.chains().into_iter().for_each(|chain| self.layer_origins(chain));
        }
    }

    fn precision(&mut self) -> Policy {
        let empty = |module: String| Policy {
            name: module,
            low: crate::arithmetic::half::Format::F32,
            classes: BTreeMap::new(),
            rules: Vec::new(),
            masters: Masters::F32,
            eight: None,
        };
        let mut policy = match self.primitive(ModuleKind::Precision, "std:precision/fp32") {
            Some(found) => match primitive::fields(ModuleKind::Precision, &found.node, self.sink) {
                Some(fields) => primitive::policy(&found.module, &fields, self.sink),
                None => empty(found.module),
            },
            None => empty(String::new()),
        };
        if let Some(fields) = self.node("precision") {
            self.rules(fields, &mut policy, "precision");
        }
        policy
    }

    /// Adds the rules for layers and ops of a node to its policy; the origins of their values begin with `path`.
    pub(super) fn rules(&mut self, fields: &Fields<'_>, policy: &mut Policy, path: &str) {
        let (mut layers, mut ops) = (0, 0);
        for child in &fields.children {
            let (selector, origin) = match child.node.map(|node| node.name.text.as_str()) {
                Some("layer") => {
                    layers += 1;
                    (Selector::Layer(child.text("glob").to_owned()), format!("{path}.layer.{}", layers - 1))
                }
                Some("op") => {
                    ops += 1;
                    (Selector::Op(child.text("kind").to_owned()), format!("{path}.op.{}", ops - 1))
                }
                _ => continue,
            };
            self.origin(origin.clone(), child.node.map(|node| node.span));
            policy.rules.push(Rule { selector, format: primitive::format(child.text("dtype")), origin });
        }
        if policy.eight.is_none() {
            for child in fields.children.iter().filter(|child| child.text("dtype") == "fp8") {
                let message = format!("the policy `{}` has no FP8 to give a layer", policy.name);
                let fault = Diagnostic::error(codes::CONFLICT, message);
                let fault = fault.at(self.place(Some(child)), "asks for FP8");
                self.sink.push(fault.help("take `precision \"fp8-hybrid\"`, or write `dtype=\"bf16\"`"));
            }
        }
    }

    fn scaler(&mut self) -> Scaler {
        let Some(found) = self.primitive(ModuleKind::Scaler, "std:scalers/none") else { return Scaler::None };
        let Some(fields) = primitive::fields(ModuleKind::Scaler, &found.node, self.sink) else {
            return Scaler::None;
        };
        self.origins_of("scaler", &fields);
        primitive::scaler(&found.node.name.text, &fields, self.sink)
    }

    fn optimizer(&mut self) -> Optimizer {
        let none = Optimizer::Sgd { lr: 0.0, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
        if self.node("optimizer").is_none() {
            return none;
        }
        let Some(found) = self.primitive(ModuleKind::Optimizer, "") else { return none };
        let Some(fields) = primitive::fields(ModuleKind::Optimizer, &found.node, self.sink) else {
            return none;
        };
        self.origins_of("optimizer", &fields);
        primitive::optimizer(&found.node.name.text, &fields, self.sink)
    }

    fn schedule(&mut self) -> Schedule {
        let none = Schedule { kind: ScheduleKind::Constant, warmup: 0 };
        let Some(found) = self.primitive(ModuleKind::Schedule, "std:schedules/constant") else { return none };
        let Some(fields) = primitive::fields(ModuleKind::Schedule, &found.node, self.sink) else {
            return none;
        };
        self.origins_of("schedule", &fields);
        primitive::schedule(&found.node.name.text, &fields)
    }

    /// The loss; without a node it follows from whether the data has classes (`None` when that is not known).
    fn loss(&mut self, classes: Option<Option<u32>>) -> Loss {
        let Some(fields) = self.node("loss") else {
            for path in ["loss", "loss.label-smoothing", "loss.ignore-index"] {
                self.origin(path, None);
            }
            return match classes {
                Some(None) => Loss::MeanSquaredError,
                _ => Loss::CrossEntropy { label_smoothing: 0.0, ignore_index: None },
            };
        };
        self.origin("loss", fields.span("loss"));
        let entropy = fields.text("loss") != "mean-squared-error";
        if entropy {
            for name in ["label-smoothing", "ignore-index"] {
                self.origin(format!("loss.{name}"), fields.get(name).and_then(|field| field.span));
            }
        }
        for name in ["label-smoothing", "ignore-index"] {
            if !entropy && fields.is_written(name) {
                let diagnostic = Diagnostic::error(
                    codes::CONFLICT,
                    format!("`{name}` belongs to the loss \"cross-entropy\" alone"),
                );
                let span = fields.span(name).unwrap_or_else(|| self.place(Some(fields)));
                self.sink.push(diagnostic.at(span, "says nothing here").help("delete it"));
            }
        }
        if let Some(classes) =
            classes.filter(|classes| classes.is_some() != entropy && fields.get("loss").is_some())
        {
            let (message, help) = match classes {
                None => (
                    "cross-entropy needs classes, and the data has numbers to predict",
                    "write `classes=…` in the data's `columns` or `format`, or `loss \"mean-squared-error\"`",
                ),
                Some(_) => (
                    "mean squared error needs numbers to predict, and the data has classes",
                    match self.node("data").is_some_and(|data| data.child("synthetic").is_some()) {
                        true => {
                            "write `loss \"cross-entropy\"`, or `labels \"targets\"` with the sizes of the model's output, \
                             such as `labels \"targets\" 10`"
                        }
                        false => "write `loss \"cross-entropy\"`, or delete `classes`",
                    },
                ),
            };
            let diagnostic =
                Diagnostic::error(codes::LOSS, message).at(self.place(Some(fields)), "does not fit the data");
            let diagnostic = match self.labels_place() {
                Some((span, label)) => diagnostic.at(span, label),
                None => diagnostic,
            };
            self.sink.push(diagnostic.help(help));
        }
        if !entropy {
            return Loss::MeanSquaredError;
        }
        let ignore_index = fields.optional_whole("ignore-index");
        Loss::CrossEntropy { label_smoothing: fields.f32("label-smoothing"), ignore_index }
    }

    /// What says in the data what labels are: `classes`, `labels`, or the whole node.
    fn labels_place(&self) -> Option<(Span, &'static str)> {
        let data = self.node("data")?;
        let classes = data.children.iter().filter(|child| child.is_written("classes"));
        let classes = classes.filter_map(|child| child.span("classes")).next();
        let labels = || data.child("labels").and_then(|labels| labels.node).map(|node| node.span);
        match classes.or_else(labels) {
            Some(span) => Some((span, "says what labels are")),
            None => Some((self.place(Some(data)), "the data")),
        }
    }

    fn train(&mut self) -> Train {
        let default = Fields::default();
        let fields = self.node("train").unwrap_or(&default);
        let (epochs, steps) = (fields.optional_whole("epochs"), fields.optional_whole("steps"));
        for name in ["epochs", "steps", "clip-norm"] {
            if fields.is_written(name) {
                self.origin(format!("train.{name}"), fields.span(name));
            }
        }
        for name in ["accumulate", "shards"] {
            self.origin(format!("train.{name}"), fields.get(name).and_then(|field| field.span));
        }
        let written = |name: &str| fields.node.is_some_and(|node| node.property(name).is_some());
        if written("epochs") && written("steps") {
            let diagnostic = Diagnostic::error(codes::CONFLICT, "`epochs` and `steps` exclude each other");
            let span = |name: &str| fields.span(name).unwrap_or_else(|| self.place(Some(fields)));
            let diagnostic = diagnostic.at(span("steps"), "one length").at(span("epochs"), "another length");
            self.sink.push(diagnostic.help("keep one of them"));
        }
        if fields.node.is_some() && !written("epochs") && !written("steps") {
            let diagnostic = Diagnostic::error(codes::MISSING, "`train` does not say how long");
            let diagnostic = diagnostic.at(self.place(Some(fields)), "neither `epochs` nor `steps`");
            self.sink.push(diagnostic.help("write `epochs=10` or `steps=1000`"));
        }
        let accumulate = fields.optional_whole("accumulate").unwrap_or(1);
        let shards = fields.optional_whole("shards").unwrap_or(1);
        Train { epochs, steps, clip_norm: fields.optional_f32("clip-norm"), accumulate, shards }
    }

    fn evaluate(&mut self, classes: Option<Option<u32>>) -> Evaluate {
        let default = absent(
            manifest::table().iter().find(|rule| rule.name == "evaluate").unwrap_or(&manifest::table()[0]),
        );
        let fields = self.node("evaluate").unwrap_or(&default);
        let every = self.rhythm("evaluate", fields);
        self.origin("evaluate.metrics", fields.get("metrics").and_then(|field| field.span));
        let mut metrics = primitive::names(fields, "metrics", &["accuracy", "loss"], self.sink);
        if fields.get("metrics").is_none() {
            metrics = vec![if classes == Some(None) { "loss" } else { "accuracy" }.to_owned()];
        } else if metrics.is_empty() && !self.sink.has_errors() {
            let diagnostic = Diagnostic::error(codes::MISSING, "`evaluate.metrics` names no metric");
            let span = fields.span("metrics").unwrap_or_else(|| self.place(Some(fields)));
            self.sink.push(
                diagnostic.at(span, "empty").help("write `metrics=\"accuracy\"` or `metrics=\"loss\"`"),
            );
        }
        if classes == Some(None) && metrics.iter().any(|metric| metric == "accuracy") {
            let diagnostic =
                Diagnostic::error(codes::LOSS, "accuracy needs classes, and the data has numbers to predict");
            let span = fields.span("metrics").unwrap_or_else(|| self.place(Some(fields)));
            self.sink.push(diagnostic.at(span, "does not fit the data").help("write `metrics=\"loss\"`"));
        }
        Evaluate { every, metrics }
    }

    /// How often: `every` or `steps`, but not both.
    fn rhythm(&mut self, section: &str, fields: &Fields<'_>) -> Every {
        if fields.is_written("every") && fields.is_written("steps") {
            let diagnostic = Diagnostic::error(codes::CONFLICT, "`every` and `steps` exclude each other");
            let span = |name: &str| fields.span(name).unwrap_or_else(|| self.place(Some(fields)));
            let diagnostic = diagnostic.at(span("steps"), "one rhythm").at(span("every"), "another rhythm");
            self.sink.push(diagnostic.help("keep one of them"));
        }
        let rhythm = fields.get("every").or(fields.get("steps")).and_then(|field| field.span);
        self.origin(format!("{section}.every"), rhythm);
        match (fields.optional_whole("steps"), fields.optional_text("every")) {
            (Some(steps), _) => Every::Steps(steps),
            (None, Some("end")) => Every::End,
            _ => Every::Epoch,
        }
    }

    fn checkpoint(&mut self, fields: &Fields<'_>, evaluate: &Evaluate) -> Checkpoint {
        let every = self.rhythm("checkpoint", fields);
        let best = fields.optional_text("best").map(str::to_owned);
        for name in ["keep", "best"] {
            self.origin(format!("checkpoint.{name}"), fields.get(name).and_then(|field| field.span));
        }
        if let Some(best) = best.as_ref().filter(|best| !evaluate.metrics.contains(best)) {
            let message = format!("the best {best} is to be kept, and `evaluate` does not measure it");
            let span = fields.span("best").unwrap_or_else(|| self.place(Some(fields)));
            let metrics = evaluate.metrics.join(",");
            let label = format!("evaluated: {metrics}");
            let help = format!("write `evaluate metrics=\"{metrics},{best}\"`, or another `best`");
            self.sink.push(Diagnostic::error(codes::CONFLICT, message).at(span, label).help(help));
        }
        Checkpoint { every, keep: fields.optional_whole("keep").unwrap_or(2), best }
    }
}

/// The checked node of a name.
pub(super) fn node_of<'a>(checked: &'a [Fields<'a>], name: &str) -> Option<&'a Fields<'a>> {
    checked.iter().find(|fields| fields.node.is_some_and(|node| node.name.text == name))
}

/// The texts that follow a node's named arguments, with their places.
fn texts<'a>(fields: &'a Fields<'_>) -> impl Iterator<Item = (String, Span)> + 'a {
    fields.rest.iter().filter_map(|argument| match &argument.value {
        Value::Text(text) => Some((text.clone(), argument.span)),
        _ => None,
    })
}

/// A node that does not stand, for messages.
pub(super) fn nameless(name: &str, span: Span) -> Node {
    Node {
        name: crate::syntax::Word { text: name.to_owned(), span },
        annotation: None,
        arguments: Vec::new(),
        properties: Vec::new(),
        children: None,
        span,
    }
}

/// A value as canonical text.
fn text_of(kind: Kind, value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Flag(flag) => format!("#{flag}"),
        Value::Number(number) if kind == Kind::Integer => {
            number.integer().map_or_else(|_| number.lexeme.clone(), |value| value.to_string())
        }
        Value::Number(number) => number.f64().map_or_else(|_| number.lexeme.clone(), number_text),
        Value::List(items) => {
            let item = kind.item().unwrap_or(Kind::Text);
            let items: Vec<String> = items.iter().map(|value| text_of(item, value)).collect();
            items.join(if kind == Kind::Shape { "x" } else { "," })
        }
        Value::Null | Value::Faulty => "#null".to_owned(),
    }
}
