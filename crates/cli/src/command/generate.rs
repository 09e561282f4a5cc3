//! `demask generate`: text from a prompt.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::args::{DecodeArgs, ModelArgs};
use crate::decoding::{Finished, Watching, decode};
use crate::loaded::Loaded;

/// Generates text from a prompt
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The prompt; read from standard input if absent
    pub prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompt_file: Option<PathBuf>,
    /// Take the prompt as it is, without the chat template
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// What is shown and kept of a decoding.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Write every step as JSON lines
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Also write the dependency matrix of every step into the trace
    #[arg(long, requires = "trace")]
    pub trace_dependency: bool,
    /// Show the canvas denoise in the terminal
    #[arg(long)]
    pub watch: bool,
    /// Milliseconds between the frames of --watch
    #[arg(long, default_value_t = 120, value_name = "MS")]
    pub pause: u64,
    /// Tell on standard error what it cost: steps, tokens per forward pass, seconds by phase
    #[arg(long)]
    pub stats: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

impl ShowArgs {
    /// Observers the flags ask for; a view only where there is a terminal to draw on.
    pub fn watching(&self) -> Watching {
        let view = self.watch && !self.json && std::io::stdout().is_terminal();
        Watching {
            trace: self.trace.clone(),
            trace_dependency: self.trace_dependency,
            view: view.then(|| Duration::from_millis(self.pause)),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let prompt = prompt(args)?;
    let loaded = Loaded::open(&args.model)?;
    let ids = loaded.encode_prompt(&prompt, args.raw)?;
    let canvas = loaded.canvas(&ids, &args.decode)?;
    let options = loaded.options(&args.decode, ids.len())?;
    let strategy = loaded.strategy(&args.decode);
    let finished = decode(&loaded, canvas, &strategy, options, &args.show.watching())?;
    if args.show.stats {
        finished.tell();
    }
    print(&loaded, &finished, args.show.json)
}

/// Prints the result as text or JSON.
pub fn print(loaded: &Loaded, finished: &Finished, as_json: bool) -> Result<()> {
    let canvas = finished.job.canvas();
    let text = loaded.text(canvas)?;
    let mut out = std::io::stdout().lock();
    if as_json {
        let totals = finished.job.totals();
        let object = json!({
            "text": text,
            "token_ids": canvas.text_tokens(),
            "canvas": &canvas.tokens()[canvas.response()],
            "steps": totals.steps,
            "forwards": totals.forwards,
            "strategy": finished.job.spelling(),
            "cache": finished.job.options().cache.to_string(),
            "seconds": finished.seconds,
            "metrics": finished.metrics,
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(out, "{text}")?;
    }
    Ok(())
}

fn prompt(args: &Args) -> Result<String> {
    let text = match (&args.prompt, &args.prompt_file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(path)) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the prompt from {}", path.display()))?,
        (None, None) => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the prompt from standard input")?;
            text
        }
    };
    if text.trim().is_empty() {
        usage!("the prompt is empty; give it as an argument, with --prompt-file or on standard input");
    }
    Ok(text)
}
