//! Arguments, as clap reads them.

use super::completions::{codes, commands, documents, isas, names, weights};
use super::values::{
    answer_file, badge_file, folder, page_file, path, script_file, size, tensor_file, threads, uri,
};
use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCandidates;

/// Compile, lock, run and verify training runs, bit for bit
#[derive(Debug, Parser)]
#[command(name = "amp", version, max_term_width = 100, after_help = super::exit::TABLE)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to speak.
    #[command(flatten)]
    pub voice: Voice,
}

/// How to speak; never what to compute.
#[derive(Args, Clone, Debug)]
pub struct Voice {
    /// Print one versioned JSON document on standard output instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub color: When,
    /// Say less on standard error
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Never draw progress bars
    #[arg(long, global = true)]
    pub no_progress: bool,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train exactly what the manifest says: lock if needed, check the machine, leave a record
    Run(RunArguments),
    /// Resolve the manifest into its lock
    Lock(LockArguments),
    /// Report all faults of a manifest, and do nothing else
    Check(CheckArguments),
    /// Print a stage of the compiler
    Graph(GraphArguments),
    /// Say what changed between two locks or two records, and whether it can change a bit
    Diff(DiffArguments),
    /// Run again in a fresh process and compare every digest
    Verify(VerifyArguments),
    /// Find the first step at which two runs differ, and in it the first op and element
    Bisect(BisectArguments),
    /// Write a record, or two side by side, as a page with charts, a badge, or events for TensorBoard
    Report(ReportArguments),
    /// State what a run made and of what, as in-toto and SLSA say it, ready to be signed
    Attest(AttestArguments),
    /// Say what this machine is
    Env(EnvArguments),
    /// Explain a code such as AMP0203
    Explain(ExplainArguments),
    /// Rewrite manifests in canonical form
    Fmt(FmtArguments),
    /// Write a manifest that runs, for the digits or for data of yours
    Init(InitArguments),
    /// Show a module, a layer or a node: what it is, what it takes
    Doc(DocArguments),
    /// Measure the training step of a manifest
    Bench(BenchArguments),
    /// Write what a model answers to the examples of a split
    Predict(PredictArguments),
    /// Write a checkpoint under the names and layouts of another library, such as Hugging Face's
    Export(ExportArguments),
    /// Say the loss scaler of DeepSpeed, Megatron-LM or PyTorch as a node of a manifest
    Import(ImportArguments),
    /// List, check and clean the store
    Store(StoreArguments),
    /// Speak the language server protocol on standard input and output, for editors
    Lsp,
    /// Print the script that completes commands, modules and codes in a shell
    Completions(CompletionsArguments),
    /// Print a page of the manual, or write all of them
    Man(ManArguments),
    /// Print the JSON Schema of a document that --json prints
    Schema(SchemaArguments),
}

/// Where the lock and the store are.
#[derive(Args, Clone, Debug)]
pub struct Places {
    /// Lock file [default: manifest.lock beside the manifest]
    #[arg(value_parser = path, long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub lockfile: Option<Utf8PathBuf>,
    /// Store folder [default: .amp beside the manifest]
    #[arg(value_parser = path, long, value_name = "PATH", env = "AMP_STORE", value_hint = ValueHint::DirPath)]
    pub store: Option<Utf8PathBuf>,
}

/// How to use the machine; changes speed and never a bit.
#[derive(Args, Clone, Debug, Default)]
pub struct Machine {
    /// Device to train on, `cpu` or `cuda`; else the one that the manifest's environment is for
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Worker threads, at least 1 [default: all cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
    /// Force an instruction set that this machine has: scalar, avx2, avx512, neon
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(isas))]
    pub isa: Option<String>,
    /// Memory that the run may take, such as 8GiB: what does not fit is computed again, with the same bits [default: what is there]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub device_memory: Option<u64>,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Manifest, or the folder that it is in
    #[arg(value_parser = path, default_value = "manifest.kdl", value_hint = ValueHint::FilePath)]
    pub manifest: Utf8PathBuf,
    /// Refuse a missing or stale lock instead of writing it
    #[arg(long)]
    pub locked: bool,
    /// Refuse whatever needs the network
    #[arg(long)]
    pub offline: bool,
    /// Both --locked and --offline
    #[arg(long)]
    pub frozen: bool,
    /// Store the result digests in the lock's platform node; another result of the same run is replaced with a warning
    #[arg(long)]
    pub record: bool,
    /// Go on with a run that was interrupted or killed, from its newest sound checkpoint: the latest run of the lock, or the one
    /// with this number or folder; from the start where there is none
    #[arg(long, value_name = "RUN", num_args = 0..=1, require_equals = true, default_missing_value = "", value_hint = ValueHint::DirPath)]
    pub resume: Option<String>,
    /// Stop when standard input ends; `verify` asks this of the runs that it repeats
    #[arg(long, hide = true)]
    pub stop_with_input: bool,
    /// Follow the algorithms of this lock or record instead of the lock's; `verify` asks this of the runs that it repeats
    #[arg(value_parser = path, long, hide = true)]
    pub algorithms: Option<Utf8PathBuf>,
    /// Processes on this machine that share the shards of each step; changes speed and never a bit
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    pub workers: u16,
    /// Which of the workers this process is, from 1; the first one asks this of those that it starts
    #[arg(long, hide = true)]
    pub worker: Option<u16>,
    /// Count the exponents of all values and gradients of these steps, such as `--probe=1,100` [default: 1]
    #[arg(long, value_name = "STEPS", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub probe: Vec<u64>,
    /// Prepare the data anew instead of taking it from the store
    #[arg(long)]
    pub rebuild: bool,
    /// Lock and store.
    #[command(flatten)]
    pub places: Places,
    /// Threads and instruction set.
    #[command(flatten)]
    pub machine: Machine,
}

/// Arguments of `lock`.
#[derive(Args, Debug)]
pub struct LockArguments {
    /// Manifest, or the folder that it is in
    #[arg(value_parser = path, default_value = "manifest.kdl", value_hint = ValueHint::FilePath)]
    pub manifest: Utf8PathBuf,
    /// Answer whether the lock is up to date; write nothing
    #[arg(long, conflicts_with_all = ["dry_run", "update"])]
    pub check: bool,
    /// Say what would change; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Update one node alone, such as `optimizer` or `data.source`
    #[arg(long, value_name = "NODE")]
    pub update: Option<String>,
    /// Time the run's matrix products on this machine's device, and write the algorithms that are faster into its platform node:
    /// later runs follow them, and results that were recorded with others go
    #[arg(long, conflicts_with_all = ["check", "update"])]
    pub platform: bool,
    /// Device whose platform node it is; else the one that the manifest's environment is for
    #[arg(long, value_name = "NAME", requires = "platform")]
    pub device: Option<String>,
    /// Form of the answer: `json` is that of --json, the others are for pipelines
    #[arg(long, value_enum, default_value_t = MessageFormat::Human, value_name = "FORM", requires = "check")]
    pub message_format: MessageFormat,
    /// Lock and store.
    #[command(flatten)]
    pub places: Places,
}

/// Arguments of `check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// Manifest, or the folder that it is in
    #[arg(value_parser = path, default_value = "manifest.kdl", value_hint = ValueHint::FilePath)]
    pub manifest: Utf8PathBuf,
    /// Form of the answer: `json` is that of --json, the others are for pipelines
    #[arg(long, value_enum, default_value_t = MessageFormat::Human, value_name = "FORM")]
    pub message_format: MessageFormat,
    /// Say whether the run fits into a device with this much memory, such as 24GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub device_memory: Option<u64>,
}

/// Form of diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MessageFormat {
    /// For a person.
    Human,
    /// One JSON document.
    Json,
    /// Annotations of a GitHub workflow.
    Github,
    /// JUnit XML, a test case for each check.
    Junit,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

impl MessageFormat {
    /// The form as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
            Self::Github => "github",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
        }
    }
}

impl Command {
    /// The command as it is typed, and the form of its answer.
    pub fn form(&self) -> (&'static str, MessageFormat) {
        match self {
            Self::Check(arguments) => ("amp check", arguments.message_format),
            Self::Lock(arguments) => ("amp lock --check", arguments.message_format),
            Self::Diff(arguments) => ("amp diff", arguments.message_format),
            Self::Verify(arguments) => ("amp verify", arguments.message_format),
            _ => ("amp", MessageFormat::Human),
        }
    }

    /// Files that the answer is written into too.
    pub fn files(&self) -> &[Utf8PathBuf] {
        match self {
            Self::Verify(arguments) => &arguments.write,
            _ => &[],
        }
    }
}

/// Arguments of `graph`.
#[derive(Args, Debug)]
pub struct GraphArguments {
    /// Manifest, or the folder that it is in
    #[arg(value_parser = path, default_value = "manifest.kdl", value_hint = ValueHint::FilePath)]
    pub manifest: Utf8PathBuf,
    /// Stage to print
    #[arg(long, value_enum, default_value_t = Stage::Precision, value_name = "STAGE")]
    pub stage: Stage,
    /// Form of the answer: a picture shows the layers with shapes, types and casts
    #[arg(long, value_enum, default_value_t = GraphFormat::Text, value_name = "FORMAT", conflicts_with = "json")]
    pub format: GraphFormat,
    /// Say which rule decided the precision of the layers that match this path
    #[arg(long, value_name = "LAYER", conflicts_with_all = ["stage", "format"])]
    pub why: Option<String>,
    /// Lock and store.
    #[command(flatten)]
    pub places: Places,
}

/// A stage of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// Every value with its origin.
    Plan,
    /// The typed op graph.
    Graph,
    /// The graph with casts.
    Precision,
    /// The whole training step.
    Step,
}

/// Forms of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// A table.
    Text,
    /// A picture for Graphviz.
    Dot,
    /// A picture for browsers and papers.
    Svg,
}

/// Arguments of `diff`.
#[derive(Args, Debug)]
pub struct DiffArguments {
    /// Lock, record or folder of a run
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath)]
    pub old: Utf8PathBuf,
    /// Lock, record or folder of a run
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath)]
    pub new: Utf8PathBuf,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Exit with 1 when they differ
    #[arg(long)]
    pub exit_code: bool,
    /// Form of the answer: `json` is that of --json, the others are for pipelines
    #[arg(long, value_enum, default_value_t = MessageFormat::Human, value_name = "FORM", conflicts_with = "markdown")]
    pub message_format: MessageFormat,
}

/// Arguments of `verify`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// Lock with recorded results, or a record or folder of a run
    #[arg(value_parser = path, default_value = "manifest.lock", value_hint = ValueHint::AnyPath)]
    pub target: Utf8PathBuf,
    /// Run twice and compare the two runs with each other, whatever was recorded
    #[arg(long)]
    pub twice: bool,
    /// Repeat K segments of a record alone, each from one kept state to the next, and say what share of the run that proves
    #[arg(long, value_name = "K", conflicts_with_all = ["twice", "hostile"], value_parser = clap::value_parser!(u32).range(1..))]
    pub segments: Option<u32>,
    /// Seed that chooses the segments; whoever audits takes one that the author did not know
    #[arg(long, value_name = "S", requires = "segments", default_value_t = 0)]
    pub seed: u64,
    /// Repeat under another locale, time zone, umask, home, working folder, environment, thread counts, instruction sets, memory
    /// poison, order of files and set of processors, and compare each
    #[arg(long, conflicts_with = "twice")]
    pub hostile: bool,
    /// Store folder for the repeated run [default: a temporary one]
    #[arg(value_parser = path, long, value_name = "PATH")]
    pub store: Option<Utf8PathBuf>,
    /// Form of the answer: `json` is that of --json, the others are for pipelines
    #[arg(long, value_enum, default_value_t = MessageFormat::Human, value_name = "FORM")]
    pub message_format: MessageFormat,
    /// Write the answer into this file too, in the form that its name says: .json, .xml (JUnit) or .sarif; may be given more often
    #[arg(long, value_name = "FILE", value_parser = answer_file, value_hint = ValueHint::FilePath)]
    pub write: Vec<Utf8PathBuf>,
    /// Threads and instruction set.
    #[command(flatten)]
    pub machine: Machine,
}

/// Arguments of `bisect`.
#[derive(Args, Debug)]
pub struct BisectArguments {
    /// Record or folder of a run
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath)]
    pub old: Utf8PathBuf,
    /// Record or folder of another run of the same lock
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath, required_unless_present = "against")]
    pub new: Option<Utf8PathBuf>,
    /// Compare with these kernels: reference, which reads like the definitions, or an instruction set [default: those of NEW, or
    /// the fastest others]
    #[arg(long, value_name = "KERNELS")]
    pub against: Option<String>,
    /// Look into this step instead of the first one that differs
    #[arg(long, value_name = "N")]
    pub step: Option<u64>,
    /// Store folder for prepared data [default: the one that OLD lies in]
    #[arg(value_parser = path, long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub store: Option<Utf8PathBuf>,
    /// Threads and instruction set.
    #[command(flatten)]
    pub machine: Machine,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// Record or folder of a run
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath)]
    pub record: Utf8PathBuf,
    /// Record or folder of another run, to be shown beside it
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath)]
    pub other: Option<Utf8PathBuf>,
    /// Page to write [default: report.html or comparison.html beside the record]
    #[arg(value_parser = page_file, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<Utf8PathBuf>,
    /// Write a badge: a picture for a name that ends with .svg, with .json what badge services ask for
    #[arg(value_parser = badge_file, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub badge: Option<Utf8PathBuf>,
    /// Answer of `amp verify --json` on this run: without it a badge says recorded, never reproduced
    #[arg(value_parser = path, long, value_name = "FILE", requires = "badge", value_hint = ValueHint::FilePath)]
    pub verdict: Option<Utf8PathBuf>,
    /// Write a file of events for TensorBoard into this folder
    #[arg(value_parser = folder, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub tensorboard: Option<Utf8PathBuf>,
}

/// Arguments of `attest`.
#[derive(Args, Debug)]
pub struct AttestArguments {
    /// Record or folder of a run that reached its end
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath)]
    pub record: Utf8PathBuf,
    /// Repeat the run and state whether it gave the same, too
    #[arg(long)]
    pub verify: bool,
    /// Who ran it, as a URI, such as that of a workflow [default: this version of amp]
    #[arg(long, value_name = "URI", value_parser = uri)]
    pub builder: Option<String>,
    /// Write the statements, what is to be signed, and envelopes into this folder instead of printing the statements
    #[arg(value_parser = folder, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<Utf8PathBuf>,
    /// Store folder for the repeated run [default: a temporary one]
    #[arg(value_parser = path, long, value_name = "PATH", requires = "verify")]
    pub store: Option<Utf8PathBuf>,
    /// Threads and instruction set.
    #[command(flatten)]
    pub machine: Machine,
}

/// Arguments of `env`.
#[derive(Args, Debug)]
pub struct EnvArguments {
    /// Check this machine against a lock's manifest
    #[arg(value_parser = path, long, value_name = "LOCK", value_hint = ValueHint::FilePath)]
    pub check: Option<Utf8PathBuf>,
}

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// Code, such as AMP0203
    #[arg(required_unless_present = "all", add = ArgValueCandidates::new(codes))]
    pub code: Option<String>,
    /// List every code
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `fmt`.
#[derive(Args, Debug)]
pub struct FmtArguments {
    /// Files to format
    #[arg(value_parser = path, default_value = "manifest.kdl", value_hint = ValueHint::FilePath)]
    pub files: Vec<Utf8PathBuf>,
    /// Answer whether they are formatted; write nothing
    #[arg(long)]
    pub check: bool,
}

/// Arguments of `init`.
#[derive(Args, Debug)]
pub struct InitArguments {
    /// Folder to write into
    #[arg(value_parser = path, default_value = ".", value_hint = ValueHint::DirPath)]
    pub folder: Utf8PathBuf,
    /// Write what keeps the run of a manifest reproducible in CI instead: a workflow of GitHub, or a job of GitLab
    #[arg(long, value_name = "SERVICE", value_parser = super::init::ci::NAMES, conflicts_with_all = ["kind", "data"])]
    pub ci: Option<String>,
    /// Manifest that `--ci` is for [default: manifest.kdl in the folder]
    #[arg(value_parser = path, long, value_name = "PATH", requires = "ci", value_hint = ValueHint::FilePath)]
    pub manifest: Option<Utf8PathBuf>,
    /// Kind of model [default: asked on a terminal, mlp otherwise]
    #[arg(long, value_parser = super::init::NAMES)]
    pub kind: Option<String>,
    /// Data of yours: CSV, IDX, NPY, safetensors, a folder of pictures, a text for gpt and bert; handwritten digits or computed tokens otherwise
    #[arg(value_parser = path, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub data: Option<Utf8PathBuf>,
    /// The file of the labels, for IDX and NPY
    #[arg(value_parser = path, long, value_name = "FILE", requires = "data", value_hint = ValueHint::FilePath)]
    pub labels: Option<Utf8PathBuf>,
    /// The shape of one picture, such as `--shape 1,28,28`, where the data does not tell it
    #[arg(long, value_name = "SIZES", requires = "data", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub shape: Vec<u32>,
}

/// Arguments of `doc`.
#[derive(Args, Debug)]
pub struct DocArguments {
    /// Module, layer, node or list: std:models/mlp, mlp, ./net.kdl, linear, optimizer, data.batch, layers, manifest
    #[arg(add = ArgValueCandidates::new(names), value_hint = ValueHint::FilePath)]
    pub name: Option<String>,
    /// Show the text of a module too
    #[arg(long)]
    pub source: bool,
    /// Show every node of a list in full
    #[arg(long, conflicts_with = "source")]
    pub full: bool,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// Manifest, or the folder that it is in
    #[arg(value_parser = path, default_value = "manifest.kdl", value_hint = ValueHint::FilePath)]
    pub manifest: Utf8PathBuf,
    /// Timed blocks, or with `--against` rounds of a block of each; medians are reported
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub blocks: u16,
    /// Time the same step in another library too, in turn, from the same parameters and batches: torch
    #[arg(long, value_name = "LIBRARY", value_parser = ["torch"])]
    pub against: Option<String>,
    /// Modes of PyTorch, such as eager,compile [default: eager on a CPU, reduce-overhead on a GPU]
    #[arg(long, value_name = "MODES", requires = "against", value_delimiter = ',', value_parser = super::bench::against::MODES)]
    pub torch_mode: Vec<String>,
    /// The Python that has torch [default: python3]
    #[arg(long, value_name = "PATH", requires = "against", value_hint = ValueHint::CommandName)]
    pub python: Option<String>,
    /// Write the PyTorch program that is timed; it runs by itself too
    #[arg(value_parser = script_file, long, value_name = "FILE", requires = "against", value_hint = ValueHint::FilePath)]
    pub keep_script: Option<Utf8PathBuf>,
    /// Lock and store.
    #[command(flatten)]
    pub places: Places,
    /// Threads and instruction set.
    #[command(flatten)]
    pub machine: Machine,
}

/// Arguments of `predict`.
#[derive(Args, Debug)]
pub struct PredictArguments {
    /// Manifest, or the folder that it is in
    #[arg(value_parser = path, default_value = "manifest.kdl", value_hint = ValueHint::FilePath)]
    pub manifest: Utf8PathBuf,
    /// Safetensors file to write; its one tensor is `predictions`
    #[arg(value_parser = tensor_file, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Utf8PathBuf,
    /// Checkpoint, or the folder of a run, whose last one counts [default: what training begins with]
    #[arg(value_parser = path, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub checkpoint: Option<Utf8PathBuf>,
    /// Split of the data [default: test, or train where there is no test]
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// Lock and store.
    #[command(flatten)]
    pub places: Places,
    /// Threads and instruction set.
    #[command(flatten)]
    pub machine: Machine,
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArguments {
    /// DeepSpeed configuration (JSON), script with Megatron's flags, or program with a call of `GradScaler`
    #[arg(value_parser = path, value_hint = ValueHint::FilePath)]
    pub file: Utf8PathBuf,
    /// The library that the file is of [default: guessed from it]
    #[arg(long, value_name = "LIBRARY", value_parser = crate::resolve::import::LIBRARIES)]
    pub from: Option<String>,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// Checkpoint, or the folder of a run, whose last one counts
    #[arg(value_parser = path, value_hint = ValueHint::AnyPath)]
    pub checkpoint: Utf8PathBuf,
    /// Module of kind weights: gpt2-huggingface, bert-huggingface, vit-torchvision, resnet-torchvision, or a path
    #[arg(long, value_name = "MODULE", add = ArgValueCandidates::new(weights))]
    pub names: String,
    /// Safetensors file to write
    #[arg(value_parser = tensor_file, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Utf8PathBuf,
}

/// Arguments of `store`.
#[derive(Args, Debug)]
pub struct StoreArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// What to do with the store.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// List what is there
    Ls(StorePlace),
    /// Recompute every digest: blobs, prepared data, and the records, checkpoints and locks of runs
    Verify(StorePlace),
    /// Remove prepared data, notes and leftovers, which are made again when needed; runs stay
    Gc {
        /// Where.
        #[command(flatten)]
        place: StorePlace,
        /// Say what would go; remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Where the store is.
#[derive(Args, Clone, Debug)]
pub struct StorePlace {
    /// Store folder
    #[arg(value_parser = path, long, value_name = "PATH", env = "AMP_STORE", value_hint = ValueHint::DirPath, default_value = ".amp")]
    pub store: Utf8PathBuf,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub struct CompletionsArguments {
    /// Shell
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
pub struct ManArguments {
    /// Command, such as `run` or `store gc` [default: the page of amp itself]
    #[arg(add = ArgValueCandidates::new(commands))]
    pub command: Vec<String>,
    /// Write every page into this folder
    #[arg(value_parser = folder, long, value_name = "DIR", conflicts_with = "command", value_hint = ValueHint::DirPath)]
    pub out: Option<Utf8PathBuf>,
}

/// Arguments of `schema`.
#[derive(Args, Debug)]
pub struct SchemaArguments {
    /// Document, as its `schema` names it: run, lock, amp.diff/1 [default: list them]
    #[arg(add = ArgValueCandidates::new(documents))]
    pub name: Option<String>,
}
