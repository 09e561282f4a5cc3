//! One evaluation from the command line: the flags that `eval`, `lab` and `sweep` share, suites by name, records in a
//! folder, a bar with the running accuracy.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use demask_decode::StrategySpec;
use demask_eval::runner::{self, Header, Plan, Progress, Records, Shard, Subject};
use demask_eval::suite::{Generated, Suite, Text};
use demask_eval::task::{self, Split};
use demask_model::Backbone;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{CanvasArgs, ModelArgs};
use crate::loaded::Loaded;

/// Problems of a generated task where no limit is given.
const PROBLEMS: usize = 200;

/// What is evaluated and how, whatever the strategies.
#[derive(Debug, Clone, Args)]
pub struct EvalArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub canvas: CanvasArgs,
    /// Tasks, separated by commas: arith, choice, program, lines, grid, or all
    #[arg(long, short = 't', value_delimiter = ',', default_value = "all", value_name = "TASK")]
    pub tasks: Vec<String>,
    /// Problems of each task [default: 200 of a generated task]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Tokens of all canvases decoded at once; 1 decodes one problem at a time, as the paper's timings do
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub token_budget: u32,
    /// Also write a trace of every problem, with dependency matrices, into OUT/traces
    #[arg(long)]
    pub traces: bool,
}

/// Held-out problems to measure on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitArg {
    /// Reported numbers come from these
    Test,
    /// Thresholds are chosen on these
    Validation,
}

impl SplitArg {
    fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Validation => "validation",
        }
    }

    fn split(self) -> Split {
        match self {
            Self::Test => Split::Test,
            Self::Validation => Split::Validation,
        }
    }
}

/// A model with the flags of an evaluation, ready to run strategies.
pub struct Evaluation<'a> {
    args: &'a EvalArgs,
    loaded: &'a Loaded,
    split: SplitArg,
    /// What the runner is told.
    pub plan: Plan,
}

impl<'a> Evaluation<'a> {
    /// Of a loaded model.
    pub fn new(args: &'a EvalArgs, loaded: &'a Loaded, split: SplitArg, shard: Shard) -> Result<Self> {
        let plan = Plan {
            options: loaded.options(&args.canvas, 0)?,
            token_budget: args.token_budget as usize,
            shard,
            traces: args.traces,
        };
        Ok(Self { args, loaded, split, plan })
    }

    /// The model as the runner sees it.
    pub fn subject(&self) -> Subject<'a> {
        Subject {
            backbone: &self.loaded.backbone,
            text: self.text(),
            ids: &self.loaded.ids,
            context: &self.loaded.context,
        }
    }

    fn text(&self) -> Text<'a> {
        Text { tokenizer: &self.loaded.tokenizer, chat: self.loaded.chat.as_ref() }
    }

    /// Problems of each task.
    pub fn limit(&self) -> usize {
        self.args.limit.map_or(PROBLEMS, |n| n as usize)
    }

    /// The suites the flags name, with so many problems each.
    pub fn suites(&self, limit: usize) -> Result<Vec<Box<dyn Suite>>> {
        let mut suites: Vec<Box<dyn Suite>> = Vec::new();
        let length = self.args.canvas.max_new_tokens.map(|n| n as usize);
        for name in task_names(&self.args.tasks)? {
            let Some(task) = task::by_name(&name) else { continue };
            suites.push(Box::new(Generated::new(task, self.split.split(), limit, &self.text(), length)?));
        }
        Ok(suites)
    }

    /// The records of a folder, begun or continued.
    pub fn records(&self, out: &Path) -> Result<Records> {
        let model =
            self.loaded.folder.file_name().map_or("model".into(), |n| n.to_string_lossy().into_owned());
        let model = self.args.model.model.clone().unwrap_or(model);
        let predictor = self.loaded.context.predictor.as_deref();
        let backbone: &dyn Backbone = &self.loaded.backbone;
        let header = Header::new(&model, backbone, predictor, self.split.name(), &self.plan.options);
        Ok(Records::open(out, &header)?)
    }

    /// Runs strategies on the suites, with a bar on standard error.
    pub fn run(&self, strategies: &[StrategySpec], records: &mut Records) -> Result<()> {
        let suites = self.suites(self.limit())?;
        let bar = Bar::new();
        let _ = runner::run(&self.subject(), &suites, strategies, &self.plan, records, &mut |p| bar.show(p))?;
        bar.finish();
        Ok(())
    }
}

/// Names with `all` spelled out; an unknown one is refused before anything is loaded.
pub fn task_names(names: &[String]) -> Result<Vec<String>> {
    let known: Vec<String> = task::all().iter().map(|t| t.name().to_owned()).collect();
    let mut found: Vec<String> = Vec::new();
    for name in names.iter().map(|n| n.trim()).filter(|n| !n.is_empty()) {
        if name == "all" {
            found.extend(known.iter().cloned());
        } else if known.iter().any(|k| k == name) {
            found.push(name.to_owned());
        } else {
            usage!("there is no task {name:?}; the tasks are {}, or all of them with all", known.join(", "));
        }
    }
    let mut unique: Vec<String> = Vec::new();
    found.into_iter().for_each(|name| {
        if !unique.contains(&name) {
            unique.push(name);
        }
    });
    if unique.is_empty() {
        usage!("no task was named; the tasks are {}", known.join(", "));
    }
    Ok(unique)
}

/// A bar with the running accuracy; each finished cell leaves a line.
pub struct Bar(ProgressBar);

impl Bar {
    /// An empty bar.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta} {msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows how far a run is.
    pub fn show(&self, progress: Progress<'_>) -> ControlFlow<()> {
        let Progress { strategy, suite, done, items, right, total_done, total, finished } = progress;
        self.0.set_length(total as u64);
        self.0.set_position(total_done as u64);
        let percent = 100.0 * right as f64 / done.max(1) as f64;
        self.0.set_message(format!("{suite} {strategy}: {percent:.1} % of {done}/{items}"));
        if finished {
            self.0
                .suspend(|| eprintln!("{suite:<8} {:<36} {percent:5.1} % of {items}", strategy.to_string()));
        }
        ControlFlow::Continue(())
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Where records are read from: folders with `records.jsonl`.
#[derive(Debug, Clone, Args)]
pub struct FromArgs {
    /// Folders that `demask eval`, `lab` or `sweep` wrote
    #[arg(required = true, value_name = "DIR")]
    pub from: Vec<PathBuf>,
}

impl FromArgs {
    /// The header of the first and the records of all.
    pub fn read(&self) -> Result<(Header, Vec<runner::Sample>)> {
        let mut headers = Vec::new();
        let mut samples = Vec::new();
        for folder in &self.from {
            let (header, more) = Records::read(folder)?;
            headers.push(header);
            samples.extend(more);
        }
        if let Some(other) =
            headers.iter().find(|h| h.backbone != headers[0].backbone || h.eos != headers[0].eos)
        {
            usage!(
                "the folders are of different models or end-of-sequence policies ({} and {})",
                headers[0].model,
                other.model
            );
        }
        Ok((headers.swap_remove(0), samples))
    }
}
