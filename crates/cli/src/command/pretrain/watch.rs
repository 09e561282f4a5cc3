//! What a person sees of a run: a line per logged point, validation by decoding held-out problems, a clean end on Ctrl-C.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use demask::counted;
use demask::decode::StrategySpec;
use demask::eval::task::{self, Problem, Task};
use demask::model::Transformer;
use demask::model::text::{ChatTemplate, Tokenizer};
use demask::train::pretrain::{Config, PretrainProgress, Score, Watcher};

use super::examples::encode;

/// Prints progress and judges weights.
pub(super) struct Terminal<'a> {
    tokenizer: &'a Tokenizer,
    strategy: StrategySpec,
    held_out: Vec<HeldOut>,
    stop_at: Option<u64>,
    stop: Arc<AtomicBool>,
}

/// Validation problems of one task, with a response length that all of them fit in.
struct HeldOut {
    task: Box<dyn Task>,
    problems: Vec<(Problem, Vec<u32>)>,
    length: usize,
}

impl<'a> Terminal<'a> {
    pub(super) fn new(
        config: &Config,
        tokenizer: &'a Tokenizer,
        template: &ChatTemplate,
        stop_at: Option<u64>,
    ) -> Result<Self> {
        let weights = super::weights(&config.data.mixture);
        let trained =
            |task: &dyn Task| weights.iter().any(|(name, weight)| *name == task.name() && *weight > 0.0);
        let mut held_out = Vec::new();
        for task in task::all().into_iter().filter(|task| trained(task.as_ref())) {
            held_out.push(HeldOut::new(task, config, tokenizer, template)?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // A second signal ends the process at once.
            signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        let strategy = config.report.validate_with.parse().context("report.validate_with")?;
        Ok(Self { tokenizer, strategy, held_out, stop_at, stop })
    }

    pub(super) fn finish(&self, step: u64, steps: u64, out: &Path) {
        if step < steps {
            eprintln!("stopped after {step} of {steps} updates; the same command continues");
        } else {
            eprintln!("done; the checkpoint is in {}", out.join("export").display());
        }
    }
}

impl HeldOut {
    fn new(
        task: Box<dyn Task>,
        config: &Config,
        tokenizer: &Tokenizer,
        template: &ChatTemplate,
    ) -> Result<Self> {
        let (mut problems, mut longest) = (Vec::new(), 0);
        for problem in task::validation_set(task.as_ref(), config.report.validate_problems) {
            let example = encode(tokenizer, template, &problem)?;
            longest = longest.max(example.response.len() + 1);
            problems.push((problem, example.prompt));
        }
        let length = config.data.lengths.iter().copied().find(|&length| length >= longest).unwrap_or(longest);
        Ok(Self { task, problems, length })
    }
}

impl Watcher for Terminal<'_> {
    fn on_start(&mut self, step: u64, parameters: usize) {
        eprintln!("{:.2} M parameters, {} done", parameters as f64 / 1e6, counted(step as usize, "update"));
    }

    fn on_step(&mut self, progress: &PretrainProgress) -> ControlFlow<()> {
        if let Some(point) = &progress.logged {
            let stage = progress.objective.name();
            eprintln!(
                "{stage} {}/{}  loss {:.4}  right {:.1} %  rate {:.2e}  norm {:.2}  {:.0} tokens/s  {} left",
                progress.step,
                progress.steps,
                point.loss,
                100.0 * point.right,
                point.rate,
                point.norm,
                progress.tokens_per_second,
                clock(progress.left)
            );
        }
        let stop =
            self.stop.load(Ordering::Relaxed) || self.stop_at.is_some_and(|stop| progress.step >= stop);
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn validate(&mut self, _: u64, model: &Transformer) -> std::result::Result<Vec<Score>, String> {
        let scores = self.held_out.iter().map(|held_out| {
            let HeldOut { task, problems, length } = held_out;
            let value =
                task::accuracy(task.as_ref(), problems, *length, model, self.tokenizer, &self.strategy)?;
            Ok(Score { name: held_out.task.name().to_owned(), value })
        });
        scores.collect::<Result<_>>().map_err(|error| format!("{error:#}"))
    }

    fn on_validation(&mut self, step: u64, scores: &[Score], exported: bool) {
        let scores: Vec<String> =
            scores.iter().map(|s| format!("{} {:.1} %", s.name, 100.0 * s.value)).collect();
        let exported = if exported { "  (exported)" } else { "" };
        eprintln!("validation at {step}: {}{exported}", scores.join("  "));
    }
}

fn clock(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    format!("{}:{:02}:{:02}", minutes / 60, minutes % 60, time.as_secs() % 60)
}
