//! The `demask` command: reads flags and the environment, calls the libraries, prints.
//!
//! Exit codes: 0 done, 1 failure, 2 a mistake in the call.

#![allow(clippy::print_stdout, reason = "printing is what this crate is for")]
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments of flags are help texts")]
#![allow(unreachable_pub, reason = "a binary has no public interface; pub marks what other rooms may use")]

/// Ends a function with a mistake in the call (exit code 2).
macro_rules! usage {
    ($($sentence:tt)*) => { return Err($crate::Usage(format!($($sentence)*)).into()) };
}

mod args;
mod benchmarks;
mod command;
mod devices;
mod downloads;
mod evaluation;
mod masked;
mod measured;
mod progress;
mod replay;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use demask::eval::Remedy;

/// The engine for discrete diffusion language models: decode, train, evaluate, serve.
#[derive(Debug, Parser)]
#[command(name = "demask", version, propagate_version = true, max_term_width = 100)]
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

fn main() -> ExitCode {
    let cli = Cli::parse();
    match &cli.command {
        Command::SandboxExec(args) => return command::sandbox_exec::run(args),
        Command::TemplateExec => return demask::model::text::template_worker(),
        _ => {}
    }
    if let Ok(program) = std::env::current_exe() {
        demask::model::text::isolate_templates(program, "template-exec");
    }
    if !matches!(&cli.command, Command::Bench(args) if args.leaves_allocator()) {
        demask::kernels::reuse_freed_memory();
    }
    demask::model::checkpoint::guard_mappings();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}{}", advice(&error));
            if is_usage(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Generate(args) => command::generate::run(&args),
        Command::Chat(args) => command::chat::run(&args),
        Command::Infill(args) => command::infill::run(&args),
        Command::Inspect(args) => command::inspect::run(&args),
        Command::Strategies(args) => command::strategies::run(&args),
        Command::Prompts(args) => command::prompts::run(&args),
        Command::Score(args) => command::score::run(&args),
        Command::Serve(args) => command::serve::run(&args),
        Command::TvCache(args) => command::tv_cache::run(&args),
        Command::Train(args) => command::train::run(&args),
        Command::Predictor(args) => command::predictor::run(&args),
        Command::CalibratePredictor(args) => command::calibrate_predictor::run(&args),
        Command::Validate(args) => command::validate::run(&args),
        Command::Problems(args) => command::problems::run(&args),
        Command::Demo(args) => command::demo::run(&args),
        Command::Trace(args) => command::trace::run(&args),
        Command::Eval(args) => command::eval::run(&args),
        Command::Lab(args) => command::lab::run(&args),
        Command::Sweep(args) => command::sweep::run(&args),
        Command::Table(args) => command::table::run(&args),
        Command::Pretrain(args) => command::pretrain::run(args),
        Command::Quantize(args) => command::quantize::run(&args),
        Command::Synthesize(args) => command::synthesize::run(&args),
        Command::Bench(args) => command::bench::run(&args),
        Command::Completions(args) => command::completions::run(&args),
        // Taken before this: they have exit codes of their own.
        Command::SandboxExec(_) | Command::TemplateExec => Ok(()),
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
