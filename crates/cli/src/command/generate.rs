//! `demask generate`: text from a prompt.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use demask::decode::StepRecord;
use demask::decode::observer::Recorder;
use demask::{Answer, Generate, Model, One, Prompt, counted};
use serde_json::{Value, json};

use crate::args::{DecodeArgs, ModelArgs};
use crate::progress::ProgressLine;
use crate::view::{TerminalView, besides};

/// Generates text from a prompt
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The prompt; read from standard input if absent
    pub prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompt_file: Option<PathBuf>,
    /// The prompt as token ids; a checkpoint folder without a tokenizer will do
    #[arg(long, value_name = "ID,…", conflicts_with_all = ["prompt", "prompt_file", "raw"])]
    pub prompt_ids: Option<Ids>,
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

/// Token ids as people and programs write them down: commas or blanks between them, brackets around them or not.
#[derive(Debug, Clone)]
pub struct Ids(pub Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let list = text.trim();
        let list = match list.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or("the list has no closing bracket")?,
            None => list,
        };
        let mut ids = Vec::new();
        for part in list.split(',') {
            let before = ids.len();
            for word in part.split_whitespace() {
                ids.push(word.parse().map_err(|_| format!("{word:?} is not a token id"))?);
            }
            if ids.len() == before {
                return Err("an id is missing".into());
            }
        }
        Ok(Self(ids))
    }
}

/// Parameters of a model whose steps are too fast to wait for: its canvas is shown instead of a line of progress.
const SMALL: usize = 100_000_000;
/// Milliseconds between its frames.
const GLIMPSE: u64 = 40;

/// What is shown and kept of a decoding.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Write every step as JSON lines
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Also write the dependency matrix of every step into the trace
    #[arg(long, requires = "trace")]
    pub trace_dependency: bool,
    /// Show the canvas denoise in the terminal and leave its last frame there
    #[arg(long)]
    pub watch: bool,
    /// Show nothing but the text; without it a terminal shows the canvas of a small model, or a line of progress
    #[arg(long, short = 'q', conflicts_with = "watch")]
    pub quiet: bool,
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
    /// With the observers that the flags ask for; a view only where there is a terminal to draw on.
    pub fn watched<'m>(&self, generate: Generate<'m, One>, model: &Model) -> Generate<'m, One> {
        let generate = match &self.trace {
            Some(file) => generate.trace(file, self.trace_dependency),
            None => generate,
        };
        if self.quiet || self.json || !std::io::stdout().is_terminal() {
            return generate;
        }
        let view = |pause| TerminalView::new(model.tokenizer().clone(), Duration::from_millis(pause));
        match self.watch {
            true => generate.observer(view(self.pause)),
            false if model.backbone().spec().parameters() <= SMALL => {
                generate.observer(view(GLIMPSE).fleeting())
            }
            false if std::io::stderr().is_terminal() => generate.observer(ProgressLine::default()),
            false => generate,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (model, prompt) = match &args.prompt_ids {
        Some(ids) => (args.model.open_by_ids()?, Prompt::Tokens(ids.0.clone())),
        None => {
            let prompt = prompt(args)?;
            (args.model.open()?, if args.raw { Prompt::Raw(prompt) } else { Prompt::User(prompt) })
        }
    };
    remark(&model, &prompt)?;
    let decoding = args.decode.decoding_with(&model);
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let generate = model.generate(prompt).decoding(decoding.clone()).observer(recorder.clone());
    let answer = args.show.watched(generate, &model).run()?;
    if args.prompt_ids.is_none() || !args.show.json {
        return show(&answer, &args.show);
    }
    let recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
    show_ids(&answer, &recorder.records, &model, decoding.block_length, &args.show)
}

/// Prints an answer to token ids as JSON, with what every pass did.
pub fn show_ids(
    answer: &Answer,
    records: &[StepRecord],
    model: &Model,
    block_length: Option<usize>,
    args: &ShowArgs,
) -> Result<()> {
    if args.stats {
        tell(answer);
    }
    let start = answer.canvas.response().start;
    let first = model.backbone().spec().grid(start, block_length).map_or(0, |grid| grid.index(start));
    let mut object = object(answer);
    object["answer_ids"] = json!(answer.canvas.answer());
    object["passes"] = records.iter().map(|record| pass(record, first)).collect();
    writeln!(std::io::stdout().lock(), "{object}")?;
    Ok(())
}

/// One line on standard error where the prompt is none of the kinds the model is for.
pub fn remark(model: &Model, prompt: &Prompt) -> Result<()> {
    if let Some(remark) = model.remark(prompt)? {
        eprintln!("note: {remark}");
    }
    Ok(())
}

/// What one pass changed; blocks are counted from the first token of the canvas where attention goes by them.
fn pass(record: &StepRecord, first_block: usize) -> Value {
    let mut commits: Vec<_> = record.commits.iter().map(|c| (c.position, c.token)).collect();
    commits.sort_unstable();
    let column = |pairs: &[(usize, u32)]| -> (Vec<usize>, Vec<u32>) { pairs.iter().copied().unzip() };
    let edits: Vec<_> = record.edits.iter().map(|e| (e.position, e.token)).collect();
    let ((positions, tokens), (edited, edited_tokens)) = (column(&commits), column(&edits));
    json!({
        "block": first_block + record.block, "positions": positions, "tokens": tokens, "edited": edited,
        "edited_tokens": edited_tokens, "computed_rows": record.computed_rows, "forwards": record.forwards,
        "assistant_rows": record.assistant_rows, "inner_calls": record.inner_calls,
    })
}

/// An answer as JSON.
fn object(answer: &Answer) -> Value {
    json!({
        "text": answer.text,
        "token_ids": answer.tokens,
        "canvas": answer.response(),
        "steps": answer.metrics.steps,
        "forwards": answer.metrics.forwards,
        "strategy": answer.strategy,
        "cache": answer.cache.to_string(),
        "seconds": answer.seconds,
        "metrics": answer.metrics,
    })
}

/// Prints an answer as the flags ask.
pub fn show(answer: &Answer, args: &ShowArgs) -> Result<()> {
    if args.stats {
        tell(answer);
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", object(answer))?;
    } else {
        writeln!(out, "{}", answer.text)?;
    }
    Ok(())
}

/// One line about the cost, on standard error.
pub fn tell(answer: &Answer) {
    let (m, s) = (&answer.metrics, &answer.metrics.seconds);
    eprintln!(
        "{}: {}, {}, {:.2} tokens per pass, {:.3} s (backbone {:.3}, marginals {:.3}, selection {:.3})",
        answer.strategy,
        counted(m.steps, "step"),
        counted(m.forwards, "forward pass"),
        m.tokens_per_forward(),
        answer.seconds,
        s.forward,
        s.marginals,
        s.select
    );
    if m.rounds < m.steps {
        eprintln!(
            "speculation: {} of {} guessed, so {} were waited for",
            counted(m.steps - m.rounds, "step"),
            m.steps,
            counted(m.rounds, "round")
        );
    }
    let besides = besides(m.assistant_rows, m.inner_calls, s.extra);
    if !besides.is_empty() {
        eprintln!("besides passes:{}", besides.trim_start_matches(" +"));
    }
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
