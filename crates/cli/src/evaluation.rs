//! One evaluation from the command line: the flags that `eval`, `lab` and `sweep` share, suites by name, records in a
//! folder, a bar with the running accuracy.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use demask::decode::StrategySpec;
use demask::decode::dependency::Predictor;
use demask::eval::run::suite::{Generated, Questions, Reader, Suite};
use demask::eval::run::{self, Plan, Records, RunHeader, RunProgress, names};
use demask::eval::sandbox::Sandbox;
use demask::eval::task::Split;
use demask::{Model, Shard, counted};
use serde_json::json;

use crate::args::{CanvasArgs, ModelArgs};
use crate::benchmarks::{BenchmarkArgs, CodeArgs};
use crate::host::{Host, Progress};

/// Problems of a generated task where no limit is given.
const PROBLEMS: usize = 200;

/// Strategies and problems of each task that an estimate tries.
const STRATEGIES_TRIED: usize = 8;
const PROBLEMS_TRIED: usize = 2;

/// What is evaluated and how, whatever the strategies.
#[derive(Debug, Clone, Args)]
pub struct EvalArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub canvas: CanvasArgs,
    /// Tasks, separated by commas: arith, choice, program, lines, grid, open, or all of these, with :fresh (arith:fresh,
    /// all:fresh) in words that training never shows; and benchmarks: gsm8k, mmlu_pro (or mmlu_pro_law, …), humaneval,
    /// mbpp, countdown, sudoku, or lm_eval's name of one
    #[arg(long, short = 't', value_delimiter = ',', default_value = "all", value_name = "TASK")]
    pub tasks: Vec<String>,
    /// Another predictor for rows of demask:dependency=NAME, such as the paper's beside the model's own; may be given several
    /// times
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    pub dependency: Vec<(String, PathBuf)>,
    /// Problems of each task, the first ones [default: 200 of a generated task (lab: 100), all of a benchmark (lab: 100)]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Tokens of all canvases decoded at once; 1 decodes one problem at a time, as the paper's timings do
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub token_budget: u32,
    /// Ask every problem of a generated task this many times, each with randomness of its own, and tell how varied the right
    /// answers are; needs a temperature above 0
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub draws: u32,
    /// Decode a few problems with a few of the strategies, say how long all would take, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Also write a trace of every problem, with dependency matrices, into OUT/traces
    #[arg(long)]
    pub traces: bool,
    #[command(flatten)]
    pub benchmark: BenchmarkArgs,
    #[command(flatten)]
    pub code: CodeArgs,
}

/// `NAME=FILE`.
fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err(format!("{text:?} is not NAME=FILE")),
    }
}

impl EvalArgs {
    /// The model that the flags name, with the predictors that rows may name.
    pub fn open(&self, host: &Host<'_>) -> Result<Model> {
        let model = host.open(&self.model)?;
        let mut registry = model.context().registry.clone();
        for (name, file) in &self.dependency {
            let (predictor, _) = Predictor::load(file)?;
            predictor.check_fit(model.backbone())?;
            registry = registry.with_dependency(name, Arc::new(predictor))?;
        }
        Ok(model.with_registry(registry))
    }

    /// Refuses tasks that are unknown, that have no data, or whose programs may not be run, before anything is loaded.
    pub fn check(&self) -> Result<()> {
        let names = self.names()?;
        let benchmarks: Vec<&String> = names.iter().filter(|name| Generated::find(name).is_none()).collect();
        for name in &benchmarks {
            self.code.check(self.benchmark.check(name, benchmarks.len() == 1)?)?;
        }
        if let (2.., Some(name)) = (self.draws, benchmarks.first()) {
            usage!("{name} is a benchmark, which is asked once; leave it out or leave out --draws");
        }
        Ok(())
    }

    /// The tasks, `all` spelled out.
    fn names(&self) -> Result<Vec<String>> {
        Ok(names::resolve(&self.tasks, true)?)
    }
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
    /// How records name it.
    pub fn name(self) -> &'static str {
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
    /// The model.
    pub model: &'a Model,
    split: SplitArg,
    sources: Vec<SuiteSource>,
    /// What the runner is told.
    pub plan: Plan,
}

/// Where a suite comes from.
enum SuiteSource {
    Task(String),
    Benchmark(Questions),
}

impl<'a> Evaluation<'a> {
    /// Of a loaded model.
    pub fn new(args: &'a EvalArgs, model: &'a Model, split: SplitArg, shard: Shard) -> Result<Self> {
        let plan = Plan {
            decoding: args.canvas.decoding(),
            token_budget: args.token_budget as usize,
            shard,
            traces: args.traces,
        };
        if args.draws > 1 && plan.decoding.sampling(&model.defaults().sampling)?.temperature <= 0.0 {
            usage!("without randomness every draw is the same; add --temperature 1 or leave out --draws");
        }
        let mut evaluation = Self { args, model, split, sources: Vec::new(), plan };
        evaluation.sources = evaluation.open()?;
        Ok(evaluation)
    }

    /// Opens what the flags name; every question of a benchmark is put into words here.
    fn open(&self) -> Result<Vec<SuiteSource>> {
        let names = self.args.names()?;
        let benchmarks = names.iter().filter(|name| Generated::find(name).is_none()).count();
        let reader = Reader {
            text: self.model.text(),
            trailing: self.args.benchmark.trailing(),
            length: self.length(),
        };
        let mut sandbox: Option<Arc<Sandbox>> = None;
        let mut sources: Vec<SuiteSource> = Vec::new();
        for name in names {
            if let Some((_, fresh)) = Generated::find(&name) {
                if fresh && self.split == SplitArg::Validation {
                    usage!(
                        "{name} is of test problems, which nothing may be tuned on; leave it out or say --split test"
                    );
                }
                sources.push(SuiteSource::Task(name));
                continue;
            }
            let tuning = self.split == SplitArg::Validation;
            let (definition, items) = self.args.benchmark.open(&name, benchmarks == 1, tuning)?;
            let limit = self.args.limit.map_or(usize::MAX, |n| n as usize);
            if definition.code && sandbox.is_none() {
                sandbox = self.args.code.sandbox(true)?.map(Arc::new);
            }
            let questions = Questions::new((definition, items), limit, &reader, sandbox.clone())?;
            if sources.iter().any(|s| matches!(s, SuiteSource::Benchmark(q) if q.name() == questions.name()))
            {
                usage!("{name} is asked for twice under different names; leave one out");
            }
            if questions.cut() > 0 {
                eprintln!(
                    "{}: {} of {} prompts do not fit the model's context of {} tokens and lose their beginning",
                    questions.name(),
                    questions.cut(),
                    questions.len(),
                    self.model.text().spec().max_positions
                );
            }
            sources.push(SuiteSource::Benchmark(questions));
        }
        Ok(sources)
    }

    fn length(&self) -> Option<usize> {
        self.args.canvas.max_new_tokens.map(|n| n as usize)
    }

    /// Problems of each task: the most that one has.
    pub fn limit(&self) -> usize {
        self.sources.iter().map(|source| self.count(source)).max().unwrap_or(0)
    }

    fn count(&self, source: &SuiteSource) -> usize {
        match source {
            SuiteSource::Task(_) => self.args.limit.map_or(PROBLEMS, |n| n as usize),
            SuiteSource::Benchmark(questions) => questions.len(),
        }
    }

    /// The suites the flags name, with at most this many problems each.
    pub fn suites(&self, limit: usize) -> Result<Vec<Box<dyn Suite>>> {
        let mut suites: Vec<Box<dyn Suite>> = Vec::new();
        for source in &self.sources {
            let n = self.count(source).min(limit);
            match source {
                SuiteSource::Benchmark(questions) => suites.push(Box::new(questions.first(n))),
                SuiteSource::Task(name) => {
                    let Some((task, fresh)) = Generated::find(name) else { continue };
                    let split = if fresh { Split::Fresh } else { self.split.split() };
                    let suite = Generated::new(task, split, n, self.model.text(), self.length())?;
                    suites.push(Box::new(suite.drawn(self.args.draws as usize)));
                }
            }
        }
        Ok(suites)
    }

    /// The records of a folder, begun or continued.
    pub fn records(&self, out: &Path) -> Result<Records> {
        let header = RunHeader::new(self.model, self.split.name(), &self.plan.decoding)?;
        Ok(Records::open(out, &header)?)
    }

    /// Says how long these strategies would take: a few of them decode a few problems, and the rest is multiplication.
    pub fn estimate(&self, strategies: &[StrategySpec], host: &mut Host<'_>) -> Result<()> {
        let few: Vec<StrategySpec> =
            strategies.iter().step_by(strategies.len().div_ceil(STRATEGIES_TRIED).max(1)).cloned().collect();
        let suites = self.suites(PROBLEMS_TRIED)?;
        let folder = tempfile::tempdir()?;
        let (begin, mut records) = (Instant::now(), self.records(folder.path())?);
        let flow = run::run(self.model, &suites, &few, &self.plan, &mut records, &mut |progress| {
            let (done, total) = (progress.total_done as u64, progress.total as u64);
            host.show(&Progress { unit: "problems", done, total, message: "to see how long it takes".into() })
        });
        host.clear();
        if flow?.is_break() {
            return Ok(());
        }
        let each = begin.elapsed().as_secs_f64() / records.samples().len().max(1) as f64;
        let problems: usize = self.sources.iter().map(|source| self.count(source)).sum();
        let decodings = strategies.len() * problems * self.args.draws as usize;
        let seconds = each * decodings as f64;
        host.result = json!({ "decodings": decodings, "seconds": seconds });
        host.say(&format!(
            "{} on {}: {}, about {seconds:.0} s by {} that were tried\n",
            counted(strategies.len(), "strategy"),
            counted(problems, "problem"),
            counted(decodings, "decoding"),
            records.samples().len()
        ))
    }

    /// Runs strategies on the suites, with a bar on standard error.
    pub fn run(
        &self,
        strategies: &[StrategySpec],
        records: &mut Records,
        host: &mut Host<'_>,
    ) -> Result<ControlFlow<()>> {
        let suites = self.suites(self.limit())?;
        let flow = run::run(self.model, &suites, strategies, &self.plan, records, &mut |p| show(host, p));
        host.clear();
        Ok(flow?)
    }
}

/// Shows how far a run is, with the running accuracy; each finished cell leaves a line.
pub fn show(host: &mut Host<'_>, progress: RunProgress<'_>) -> ControlFlow<()> {
    let RunProgress { strategy, suite, done, items, right, total_done, total, finished } = progress;
    let percent = 100.0 * right as f64 / done.max(1) as f64;
    let message = format!("{suite} {strategy}: {percent:.1} % of {done}/{items}");
    let flow =
        host.show(&Progress { unit: "problems", done: total_done as u64, total: total as u64, message });
    if finished {
        host.note(&format!("{suite:<18} {:<36} {percent:5.1} % of {items}", strategy.to_string()));
    }
    flow
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
    pub fn read(&self) -> Result<(RunHeader, Vec<run::Sample>)> {
        let mut headers = Vec::new();
        let mut samples = Vec::new();
        for folder in &self.from {
            let (header, more) = Records::read(folder)?;
            headers.push(header);
            samples.extend(more);
        }
        for (folder, other) in self.from.iter().zip(&headers) {
            if let Err(problem) = headers[0].agrees(other) {
                usage!("{} does not belong with {}: {problem}", folder.display(), self.from[0].display());
            }
        }
        Ok((headers.swap_remove(0), samples))
    }
}
