//! `demask trace view`: a trace file in the terminal, or as one HTML file that needs nothing else.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use demask::decode::StepRecord;
use demask::decode::trace::Header;
use demask::model::file::replace;
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
    let (header, records) = read(&args.file)?;
    let text = args.model.open()?;
    let tokenizer = text.tokenizer();
    if let Some(unknown) = header.tokens.iter().find(|t| !tokenizer.known(**t)) {
        bail!(
            "{} holds token {unknown}, which the tokenizer of {} does not know",
            args.file.display(),
            text.source().display()
        );
    }
    let mut eos = text.ids().eos.clone();
    eos.extend(tokenizer.special("eos_token"));
    if let Some(path) = &args.html {
        let page = page(&header, &records, tokenizer, &eos)?;
        replace(path, |out| out.write_all(page.as_bytes()))?;
    }
    let panel = Panel::new(header.strategy.clone(), &header, &records, &eos);
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

/// Header and steps of a trace file.
fn read(path: &Path) -> Result<(Header, Vec<StepRecord>)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines();
    let first = lines.next().with_context(|| format!("{} is empty", path.display()))?;
    let header: Header = serde_json::from_str(first)
        .with_context(|| format!("{} is not a trace: its first line is no header", path.display()))?;
    let (start, end) = header.response;
    if header.demask_trace != 1 || start > end || end > header.tokens.len() {
        bail!("{} is not a trace this version understands", path.display());
    }
    let mut records = Vec::new();
    for (number, line) in lines.enumerate() {
        let record: StepRecord = serde_json::from_str(line)
            .with_context(|| format!("line {} of {} is no step", number + 2, path.display()))?;
        let fits = record.dependency.as_ref().is_none_or(|d| d.values.len() == d.positions.len().pow(2));
        if !fits || record.commits.iter().any(|c| c.position >= header.tokens.len()) {
            bail!("line {} of {} does not fit its canvas", number + 2, path.display());
        }
        records.push(record);
    }
    if records.is_empty() {
        bail!("{} holds no step", path.display());
    }
    Ok((header, records))
}

fn page(header: &Header, records: &[StepRecord], tokenizer: &Tokenizer, eos: &[u32]) -> Result<String> {
    let piece = |token: u32| tokenizer.decode_verbatim(&[token]).unwrap_or_default();
    let (start, end) = header.response;
    let prompt = tokenizer.decode_verbatim(&header.tokens[..start])?;
    let given: Vec<Value> = header.tokens[start..end]
        .iter()
        .map(|&t| if t == header.mask { Value::Null } else { json!(piece(t)) })
        .collect();
    let steps: Vec<Value> = records
        .iter()
        .map(|r| {
            let commits: Vec<Value> = r
                .commits
                .iter()
                .map(|c| {
                    json!({"at": c.position, "text": piece(c.token), "end": eos.contains(&c.token),
                                "confidence": c.confidence, "probability": c.probability})
                })
                .collect();
            json!({"commits": commits, "filled": r.filled, "remasked": r.remasked, "masked": r.masked,
                   "stop": r.stop, "budget": r.budget, "dependency": r.dependency, "forwards": r.forwards,
                   "seconds": r.seconds.total()})
        })
        .collect();
    let data = json!({"strategy": header.strategy, "seed": header.seed, "prompt": prompt, "start": start,
                      "given": given, "steps": steps});
    // A "</script>" inside a string would end the data.
    Ok(PAGE.replacen("DATA", &data.to_string().replace("</", "<\\/"), 1))
}
