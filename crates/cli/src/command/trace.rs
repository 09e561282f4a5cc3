//! `demask trace view`: a trace file in the terminal, or as one HTML file that needs nothing else.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use demask::decode::trace::Trace;
use demask::model::file::replace;
use demask::model::files;

use crate::args::TextArgs;
use crate::replay::{Panel, play};

/// Shows decodings that were recorded with --trace
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    View(View),
}

/// Replays a trace in the terminal, and writes it as a self-contained HTML animation
#[derive(Debug, clap::Args)]
struct View {
    /// Trace file (demask generate --trace, or a file of an evaluation's traces folder)
    file: PathBuf,
    /// Write the animation here
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Milliseconds between the frames in the terminal
    #[arg(long, default_value_t = 200, value_name = "MS")]
    pause: u64,
    #[command(flatten)]
    model: TextArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let What::View(args) = &args.what;
    let trace = read(&args.file)?;
    let text = args.model.open()?;
    let tokenizer = text.tokenizer();
    if let Some(unknown) = trace.header.tokens.iter().find(|t| !tokenizer.known(**t)) {
        bail!(
            "{} holds token {unknown}, which the tokenizer of {} does not know",
            args.file.display(),
            text.source().display()
        );
    }
    let mut eos = text.ids().eos.clone();
    eos.extend(tokenizer.special("eos_token"));
    if let Some(path) = &args.html {
        let page = text.page(&trace)?;
        replace(path, |out| out.write_all(page.as_bytes()))?;
    }
    let panel = Panel::new(trace.header.strategy.clone(), &trace, &eos).map_err(Error::msg)?;
    if std::io::stdout().is_terminal() {
        play(&[panel], tokenizer, Duration::from_millis(args.pause))?;
    } else {
        print!("{}", panel.story(tokenizer));
    }
    if let Some(path) = &args.html {
        eprintln!("the animation is in {}", path.display());
    }
    Ok(())
}

/// The trace of a file.
fn read(path: &Path) -> Result<Trace> {
    let text = files::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Trace::parse(&text).map_err(|why| anyhow!("{} is not a trace: {why}", path.display()))
}
