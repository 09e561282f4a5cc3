//! `demask trace view`: a trace file in the terminal, or as one HTML file that needs nothing else.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use demask::decode::replay::{Place, Replay};
use demask::decode::trace::Trace;
use demask::model::file::replace;
use demask::model::files;
use demask::model::text::Tokenizer;
use serde_json::{Value, json};

use crate::args::TextArgs;
use crate::replay::{Panel, play};

/// The page; `DATA` stands for the trace.
const PAGE: &str = include_str!("trace/view.html");

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
        let page = page(&trace, tokenizer, &eos)?;
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

/// The animation. The page applies the changes of each step as the replayer tells them.
fn page(trace: &Trace, tokenizer: &Tokenizer, eos: &[u32]) -> Result<String> {
    let header = &trace.header;
    let piece = |token: u32| tokenizer.decode_verbatim(&[token]).unwrap_or_default();
    let (start, end) = header.response;
    let prompt = tokenizer.decode_verbatim(&header.tokens[..start])?;
    let mut replay = Replay::new(header);
    let cell = |place: &Place| match *place {
        Place::Given { token } => json!({"kind": "given", "text": piece(token)}),
        Place::Masked { .. } => json!({"kind": "mask"}),
        Place::Filled { .. } => json!({"kind": "end", "text": "·"}),
        Place::Committed { token, confidence, .. } if eos.contains(&token) => {
            json!({"kind": "end", "text": "·", "confidence": confidence})
        }
        Place::Committed { token, confidence, .. } => {
            json!({"kind": "token", "text": piece(token), "confidence": confidence})
        }
    };
    let given: Vec<Value> = replay.places()[start..end].iter().map(cell).collect();
    let mut steps = Vec::new();
    for r in &trace.steps {
        let changes = replay.step(r).map_err(Error::msg)?;
        let changes: Vec<Value> =
            changes.iter().map(|c| json!({"at": c.position, "cell": cell(&c.place)})).collect();
        let commits = r
            .commits
            .iter()
            .map(|c| json!({"at": c.position, "text": piece(c.token), "confidence": c.confidence}));
        steps.push(json!({"changes": changes, "commits": commits.collect::<Vec<_>>(), "filled": r.filled.len(),
                          "remasked": r.remasked.len(), "masked": r.masked, "stop": r.stop, "budget": r.budget,
                          "dependency": r.dependency, "forwards": r.forwards}));
    }
    let data = json!({"strategy": header.strategy, "seed": header.seed, "prompt": prompt, "start": start,
                      "given": given, "steps": steps});
    // A "</script>" inside a string would end the data.
    Ok(PAGE.replacen("DATA", &data.to_string().replace("</", "<\\/"), 1))
}
