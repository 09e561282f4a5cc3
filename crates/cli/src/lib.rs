//! The `demask` command: reads flags and the environment, calls the libraries, prints.
//!
//! Exit codes: 0 done, 1 failure, 2 a mistake in the call. [`main`] is the program; [`program`] is the same inside
//! another one (Python's package has no second copy of the code), and [`call`] runs the long commands on a model that is
//! already loaded, with the flags the command line has, so that there is one way from flags to results.

#![allow(clippy::print_stdout, reason = "printing is what this crate is for")]
#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "doc comments of flags are help texts"
)]
#![allow(unreachable_pub, reason = "a binary has no public interface; pub marks what other rooms may use")]

/// Ends a function with a mistake in the call (exit code 2).
macro_rules! usage {
    ($($sentence:tt)*) => { return Err($crate::Usage(format!($($sentence)*)).into()) };
}

mod animation;
mod args;
mod benchmarks;
mod command;
mod devices;
mod downloads;
mod evaluation;
pub mod host;
mod machine;
mod masked;
mod measured;
mod misplaced;
mod progress;
mod replay;
mod shard;
#[cfg(feature = "object-store")]
mod store;
mod view;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use demask::eval::Remedy;
use host::Host;

/// Opens what `--device` would: devices, and beside each whether layers are composed of candle's operations there.
pub fn devices(text: &str) -> anyhow::Result<Vec<(candle_core::Device, bool)>> {
    text.parse::<devices::Devices>().map_err(Usage)?.open()
}

/// What to try first; none of it needs a model or a network.
const FIRST: &str = "To begin with, on the small model inside this program:
  demask generate \"Tom has 12 pens. Tom buys 7 more. How many pens does Tom have now?\"
  demask demo       DEMASK beside one token at a time, and prompts to try
  demask serve      a page on which they race, and an OpenAI-compatible server
  demask doctor     what this machine can run";

/// The engine for discrete diffusion language models: decode, train, evaluate, serve.
#[derive(Debug, Parser)]
#[command(name = "demask", version, propagate_version = true, max_term_width = 100, after_help = FIRST)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(command::generate::Args),
    Chat(command::chat::Args),
    Infill(command::infill::Args),
    Inspect(command::inspect::Args),
    Pull(command::pull::Args),
    Doctor(command::doctor::Args),
    Strategies(command::strategies::Args),
    Prompts(command::prompts::Args),
    Score(command::score::Args),
    Serve(command::serve::Args),
    #[command(name = "tv-cache", visible_alias = "cache")]
    TvCache(command::tv_cache::Args),
    Train(command::train::Args),
    Predictor(command::predictor::Args),
    CalibratePredictor(command::calibrate_predictor::Args),
    Validate(command::validate::Args),
    Problems(command::problems::Args),
    Demo(command::demo::Args),
    Trace(command::trace::Args),
    Eval(command::eval::Args),
    Lab(command::lab::Args),
    Sweep(command::sweep::Args),
    Table(command::table::Args),
    Pretrain(command::pretrain::Args),
    Quantize(command::quantize::Args),
    Synthesize(command::synthesize::Args),
    Bench(command::bench::Args),
    Completions(command::completions::Args),
    #[command(hide = true)]
    TemplateExec,
    #[command(hide = true)]
    SandboxExec(command::sandbox_exec::Args),
}

/// The program.
pub fn main() -> ExitCode {
    let cli = match read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    match &cli.command {
        Command::SandboxExec(args) => return command::sandbox_exec::run(args),
        Command::TemplateExec => return demask::model::text::template_worker(),
        _ => {}
    }
    let program = std::env::current_exe().ok();
    ExitCode::from(run_whole(cli, program.map(|program| (program, vec!["template-exec".into()]))))
}

/// The program inside another one: its exit code. `worker` is what renders templates of strangers, called with these
/// arguments; it has to call [`demask::model::text::template_worker`].
pub fn program(args: impl IntoIterator<Item = OsString>, worker: (PathBuf, Vec<String>)) -> u8 {
    match read(args) {
        Ok(cli) => run_whole(cli, Some(worker)),
        Err(code) => code,
    }
}

/// Reads the flags; the exit code where there is nothing to run, after printing why.
fn read(args: impl IntoIterator<Item = OsString>) -> Result<Cli, u8> {
    let args: Vec<OsString> = args.into_iter().collect();
    Cli::try_parse_from(&args).map_err(|error| {
        match misplaced::parameter(&error, &args, Cli::command()) {
            Some(sentence) => eprintln!("error: {sentence}"),
            None => drop(error.print()),
        }
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

/// Runs one of the long commands (eval, lab, sweep, tv-cache, train, predictor, validate) for a program. `args` are those of the
/// command line, without its name.
pub fn call(args: &[String], host: &mut Host<'_>) -> anyhow::Result<()> {
    let name = std::iter::once("demask");
    let args_os: Vec<OsString> = name.chain(args.iter().map(String::as_str)).map(OsString::from).collect();
    let cli = Cli::try_parse_from(&args_os).map_err(|error| {
        if let Some(sentence) = misplaced::parameter(&error, &args_os, Cli::command()) {
            return Usage(sentence);
        }
        let text = error.render().to_string();
        let sentence = text.split("\n\n").next().unwrap_or_default().trim();
        Usage(sentence.strip_prefix("error: ").unwrap_or(sentence).to_owned())
    })?;
    match run_long(&cli.command, host) {
        Some(outcome) => outcome,
        None => {
            usage!("{} is not a command that a program can call", args.first().map_or("", String::as_str))
        }
    }
}

/// Whether the caller can repair the call itself: the difference between exit codes 2 and 1.
pub fn is_mistake(error: &anyhow::Error) -> bool {
    is_usage(error)
}

fn run_whole(cli: Cli, worker: Option<(PathBuf, Vec<String>)>) -> u8 {
    if let Some((program, arguments)) = worker {
        demask::model::text::isolate_templates(program, arguments);
    }
    if !matches!(&cli.command, Command::Bench(args) if args.leaves_allocator()) {
        demask::kernels::reuse_freed_memory();
    }
    demask::model::checkpoint::guard_mappings();
    match run(cli.command) {
        Ok(()) => 0,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            eprintln!("error: {error:#}{}", advice(&error));
            if is_usage(&error) { 2 } else { 1 }
        }
    }
}

/// The commands that also work for a program; `None` of the others.
fn run_long(command: &Command, host: &mut Host<'_>) -> Option<anyhow::Result<()>> {
    Some(match command {
        Command::TvCache(args) => command::tv_cache::run(args, host),
        Command::Train(args) => command::train::run(args, host),
        Command::Predictor(args) => command::predictor::run(args, host),
        Command::Validate(args) => command::validate::run(args, host),
        Command::Eval(args) => command::eval::run(args, host),
        Command::Lab(args) => command::lab::run(args, host),
        Command::Sweep(args) => command::sweep::run(args, host),
        _ => return None,
    })
}

fn run(command: Command) -> anyhow::Result<()> {
    if let Some(outcome) = run_long(&command, &mut Host::terminal()) {
        return outcome;
    }
    match command {
        Command::Generate(args) => command::generate::run(&args),
        Command::Chat(args) => command::chat::run(&args),
        Command::Infill(args) => command::infill::run(&args),
        Command::Inspect(args) => command::inspect::run(&args),
        Command::Pull(args) => command::pull::run(&args),
        Command::Doctor(args) => command::doctor::run(&args),
        Command::Strategies(args) => command::strategies::run(&args),
        Command::Prompts(args) => command::prompts::run(&args),
        Command::Score(args) => command::score::run(&args),
        Command::Serve(args) => command::serve::run(&args),
        Command::CalibratePredictor(args) => command::calibrate_predictor::run(&args),
        Command::Problems(args) => command::problems::run(&args),
        Command::Demo(args) => command::demo::run(&args),
        Command::Trace(args) => command::trace::run(&args),
        Command::Table(args) => command::table::run(&args),
        Command::Pretrain(args) => command::pretrain::run(args),
        Command::Quantize(args) => command::quantize::run(&args),
        Command::Synthesize(args) => command::synthesize::run(&args),
        Command::Bench(args) => command::bench::run(&args),
        Command::Completions(args) => command::completions::run(&args),
        // Taken before this: they work for others, or have exit codes of their own.
        Command::TvCache(_) | Command::Train(_) | Command::Predictor(_) | Command::Validate(_) => Ok(()),
        Command::Eval(_)
        | Command::Lab(_)
        | Command::Sweep(_)
        | Command::SandboxExec(_)
        | Command::TemplateExec => Ok(()),
    }
}

/// Whether the user can repair the call itself.
fn is_usage(error: &anyhow::Error) -> bool {
    let engine = error.downcast_ref::<demask::Error>().is_some_and(demask::Error::is_mistake);
    let decode = error.downcast_ref().is_some_and(demask::engine::is_mistake);
    let task = matches!(error.downcast_ref(), Some(demask::eval::Error::UnknownTask(_)));
    engine || decode || task || error.downcast_ref::<Usage>().is_some()
}

/// What the command line adds to a library's sentence: the flag that helps.
fn advice(error: &anyhow::Error) -> &'static str {
    use demask::decode::Error::{NoAssistant, NoPredictor};
    const ASSISTANT: &str = " (--assistant DIR)";
    const PREDICTOR: &str = " (--predictor FILE|DIR|NAME, demask predictor train)";
    match error.downcast_ref::<demask::Error>() {
        Some(demask::Error::TooLong { .. }) => return "; shorten the prompt or lower --max-new-tokens",
        Some(demask::Error::NoTemplate { .. }) => return " (--raw)",
        Some(demask::Error::Decode(NoPredictor { .. })) => return PREDICTOR,
        Some(demask::Error::Decode(NoAssistant { .. })) => return ASSISTANT,
        _ if matches!(error.downcast_ref(), Some(NoPredictor { .. })) => return PREDICTOR,
        _ if matches!(error.downcast_ref(), Some(NoAssistant { .. })) => return ASSISTANT,
        _ => {}
    }
    match error.downcast_ref().and_then(demask::eval::Error::remedy) {
        Some(Remedy::ShorterResponse) => "; lower --max-new-tokens",
        Some(Remedy::WithoutTemplate) => "; --chat-template false asks without one",
        Some(Remedy::NameShots) => "; name one with --shots-from, or ask for --shots 0",
        Some(Remedy::TestSplit) => " (--split test)",
        Some(Remedy::NoEosFilling) => " (--eos none)",
        Some(Remedy::AllowCode) => "; allow it with --allow-code-execution",
        _ => "",
    }
}

/// A mistake in the call that clap cannot see.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A reader that closed the pipe (`demask strategies | head`) has what it wanted.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
