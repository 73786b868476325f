//! The command line: arguments in, calls to the stages, text out. No stage hides here.

mod again;
mod args;
mod attest;
mod bench;
mod bisect;
mod check;
mod choices;
mod completions;
mod device;
mod diff;
mod doc;
mod env;
mod exit;
mod explain;
mod export;
mod failure;
mod fmt;
mod graph;
mod hostile;
mod import;
mod init;
mod lock;
mod lockfile;
mod lsp;
mod man;
mod memory;
mod pipeline;
mod predict;
mod probed;
mod progress;
mod repeat;
mod report;
mod results;
mod resume;
mod run;
mod runs;
mod schema;
mod segments;
mod store;
mod tune;
mod ui;
mod values;
mod verify;
mod watcher;
mod workers;

pub use exit::Exit;

use crate::diag::{Code, codes};
use args::{Arguments, Command, Voice, When};
use clap::Parser as _;
use failure::Failure;
use std::io::{ErrorKind, Write as _};
use ui::Ui;

/// Runs the command that the process was started with; returns its exit code.
pub fn main() -> u8 {
    std::panic::set_hook(Box::new(report_bug));
    if let Some(exit) = completions::answer() {
        return exit.code();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let usage = error.use_stderr();
            let unreadable = error.kind() == clap::error::ErrorKind::InvalidUtf8;
            if usage && (asks_for_json() || unreadable) {
                let failure = if unreadable { not_utf8() } else { usage_failure(&error) };
                return failure.show(&Ui::new(&Voice { json: asks_for_json(), ..PLAIN })).code();
            }
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            return match printed.err().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
                Some(lost) if !usage => {
                    let _ = writeln!(std::io::stderr(), "error[{}]: {}", lost_code(&lost), lost_text(&lost));
                    Exit::Machine.code()
                }
                _ if usage => Exit::Usage.code(),
                _ => Exit::Done.code(),
            };
        }
    };
    let mut ui = Ui::new(&arguments.voice);
    let (command, form) = arguments.command.form();
    if !ui.speak(command, form) {
        let message = format!("found `--message-format {}` and `--json`, expected one of them", form.name());
        let help = "leave `--json` out for this form, or `--message-format` for JSON";
        return Failure::new(Exit::Usage, message).help(help).show(&ui).code();
    }
    ui.files = arguments.command.files().to_vec();
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dispatch(arguments.command, &ui)));
    let exit = match answer {
        Ok(Ok(exit)) => exit,
        Ok(Err(failure)) => failure.show(&ui),
        Err(_) => Exit::Bug,
    };
    match ui.lost_data() {
        None => exit.code(),
        Some(lost) => {
            let help = "make room, or send standard output to another place; files that amp writes are not concerned";
            ui.error(Some(lost_code(lost)), &lost_text(lost), Some(help));
            // What went wrong before says more than an answer that was not printed.
            if exit == Exit::Done { Exit::Machine } else { exit }.code()
        }
    }
}

/// How arguments that could not be read are answered.
const PLAIN: Voice = Voice { json: false, color: When::Auto, quiet: false, no_progress: true };

/// Whether the arguments, which could not be read, ask for JSON.
fn asks_for_json() -> bool {
    std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// Arguments that could not be read, as a failure: the first line says what, the rest what to do.
fn usage_failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let (message, help) = text.trim().split_once('\n').unwrap_or((text.trim(), "try `--help`"));
    Failure::new(Exit::Usage, message.strip_prefix("error: ").unwrap_or(message)).help(help.trim())
}

/// The failure of an argument that is no text.
fn not_utf8() -> Failure {
    let found = std::env::args_os().find(|argument| argument.to_str().is_none());
    let found = found.map_or_else(String::new, |argument| argument.to_string_lossy().into_owned());
    Failure::new(Exit::Usage, format!("found the argument `{found}`, expected UTF-8"))
        .help("rename the file or folder: locks and records hold names as UTF-8")
}

/// An answer that is cut looks like an answer; a script would go on with it. The refusing part is the machine's, as for a
/// file of the store.
fn lost_code(error: &std::io::Error) -> Code {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => codes::STORE_DISK_FULL,
        _ => codes::STORE_IO,
    }
}

fn lost_text(error: &std::io::Error) -> String {
    format!("the answer could not be written to standard output: {error}")
}

fn dispatch(command: Command, ui: &Ui) -> Result<Exit, Failure> {
    match with_manifest_path(command) {
        Command::Run(arguments) => run::run(&arguments, ui),
        Command::Lock(arguments) => lock::run(&arguments, ui),
        Command::Check(arguments) => check::run(&arguments, ui),
        Command::Graph(arguments) => graph::run(&arguments, ui),
        Command::Diff(arguments) => diff::run(&arguments, ui),
        Command::Verify(arguments) => verify::run(&arguments, ui),
        Command::Bisect(arguments) => bisect::run(&arguments, ui),
        Command::Report(arguments) => report::run(&arguments, ui),
        Command::Attest(arguments) => attest::run(&arguments, ui),
        Command::Env(arguments) => env::run(&arguments, ui),
        Command::Explain(arguments) => explain::run(&arguments, ui),
        Command::Fmt(arguments) => fmt::run(&arguments, ui),
        Command::Init(arguments) => init::run(&arguments, ui),
        Command::Doc(arguments) => doc::run(&arguments, ui),
        Command::Bench(arguments) => bench::run(&arguments, ui),
        Command::Predict(arguments) => predict::run(&arguments, ui),
        Command::Export(arguments) => export::run(&arguments, ui),
        Command::Import(arguments) => import::run(&arguments, ui),
        Command::Store(arguments) => store::run(&arguments, ui),
        Command::Lsp => Ok(lsp::run()),
        Command::Completions(arguments) => Ok(completions::run(&arguments, ui)),
        Command::Man(arguments) => man::run(&arguments, ui),
        Command::Schema(arguments) => schema::run(&arguments, ui),
    }
}

/// Where a manifest is named, its folder will do.
fn with_manifest_path(mut command: Command) -> Command {
    let manifest = match &mut command {
        Command::Run(arguments) => &mut arguments.manifest,
        Command::Lock(arguments) => &mut arguments.manifest,
        Command::Check(arguments) => &mut arguments.manifest,
        Command::Graph(arguments) => &mut arguments.manifest,
        Command::Bench(arguments) => &mut arguments.manifest,
        Command::Predict(arguments) => &mut arguments.manifest,
        _ => return command,
    };
    *manifest = pipeline::manifest_path(manifest);
    command
}

/// Says that a panic is amp's fault, with the place, and what to do.
fn report_bug(panic: &std::panic::PanicHookInfo<'_>) {
    let text = panic
        .payload()
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.payload().downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let place =
        panic.location().map_or_else(String::new, |place| format!(" at {}:{}", place.file(), place.line()));
    let _ = writeln!(
        std::io::stderr(),
        "bug in amp {}: {text}{place}\n\nNothing was lost: files are written whole or not at all. Please report this text and the manifest.",
        env!("CARGO_PKG_VERSION")
    );
}
