//! `demask trace view`: a trace file in the terminal, as one HTML file that needs nothing else, or as a moving picture.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use demask::decode::trace::Trace;
use demask::model::file::replace;
use demask::model::files;
use demask::serve::saved_page;

use crate::animation::animation;
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
    /// Trace file (demask generate --trace, or a file of an evaluation's traces folder); a second one races it
    #[arg(required = true, num_args = 1..=2)]
    file: Vec<PathBuf>,
    /// Write the animation here
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a moving picture here that needs no script, for a README
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Milliseconds between the frames in the terminal
    #[arg(long, default_value_t = 200, value_name = "MS")]
    pause: u64,
    #[command(flatten)]
    model: TextArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let What::View(args) = &args.what;
    let traces = args.file.iter().map(|file| read(file)).collect::<Result<Vec<_>>>()?;
    let text = args.model.open()?;
    let tokenizer = text.tokenizer();
    for (trace, file) in traces.iter().zip(&args.file) {
        if let Some(unknown) = trace.header.tokens.iter().find(|t| !tokenizer.known(**t)) {
            bail!(
                "{} holds token {unknown}, which the tokenizer of {} does not know",
                file.display(),
                text.source().display()
            );
        }
    }
    let eos = text.ends();
    if let Some(path) = &args.html {
        let page = saved_page(&traces, &text)?;
        replace(path, |out| out.write_all(page.as_bytes()))?;
    }
    let panels = traces.iter().map(|trace| Panel::new(trace.header.strategy.clone(), trace, &eos));
    let panels = panels.collect::<Result<Vec<_>, _>>().map_err(Error::msg)?;
    if let Some(path) = &args.svg {
        let header = &traces[0].header;
        let prompt = text.asked(&header.tokens[..header.response.0])?;
        let picture = animation(&prompt, &panels, tokenizer);
        replace(path, |out| out.write_all(picture.as_bytes()))?;
    }
    if std::io::stdout().is_terminal() {
        play(&panels, tokenizer, Duration::from_millis(args.pause))?;
    } else if args.html.is_none() && args.svg.is_none() {
        // Who asked for a file and looks elsewhere does not want a line of text per step.
        panels.iter().for_each(|panel| print!("{}", panel.story(tokenizer)));
    }
    for path in args.html.iter().chain(&args.svg) {
        eprintln!("the animation is in {}", path.display());
    }
    Ok(())
}

/// The trace of a file.
fn read(path: &Path) -> Result<Trace> {
    let text = files::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Trace::parse(&text).map_err(|why| anyhow!("{} is not a trace: {why}", path.display()))
}
