//! What a person sees of a run: a line per logged point, validation by decoding held-out problems, a clean end on Ctrl-C.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use demask::decode::registry::Context;
use demask::decode::{Canvas, Decoder, Job, Options, StrategySpec};
use demask::eval::task::{self, Problem, Task};
use demask::model::text::{ChatTemplate, Tokenizer};
use demask::model::{Spec, Transformer};
use demask::train::pretrain::{Config, PretrainProgress, Score, Watcher};

use super::examples::encode;

/// Prints progress and judges weights.
pub(super) struct Terminal<'a> {
    spec: &'a Spec,
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
        spec: &'a Spec,
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
        Ok(Self { spec, tokenizer, strategy, held_out, stop_at, stop })
    }

    pub(super) fn finish(&self, step: u64, steps: u64, out: &Path) {
        if step < steps {
            eprintln!("stopped after {step} of {steps} updates; the same command continues");
        } else {
            eprintln!("done; the checkpoint is in {}", out.join("export").display());
        }
    }

    fn accuracy(&self, held_out: &HeldOut, model: &Transformer) -> Result<f64> {
        let mut jobs = Vec::with_capacity(held_out.problems.len());
        for (index, (_, prompt)) in held_out.problems.iter().enumerate() {
            let canvas = Canvas::generate(prompt, held_out.length, &self.spec.ids)?;
            let options = Options { stream: index as u64, ..Options::default() };
            jobs.push(Job::new(canvas, &self.strategy, &Context::default(), options, Box::new(()))?);
        }
        Decoder::new(model).run(&mut jobs)?;
        let mut right = 0;
        for (job, (problem, _)) in jobs.iter().zip(&held_out.problems) {
            let response = &job.canvas().tokens()[job.canvas().response()];
            let text = self.tokenizer.decode_response(response, &self.spec.ids.eos)?;
            let score = held_out.task.score(problem, &text);
            right += usize::from(score.correct && score.strict.unwrap_or(true));
        }
        Ok(right as f64 / jobs.len().max(1) as f64)
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
        eprintln!("{:.2} M parameters, {step} updates done", parameters as f64 / 1e6);
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
            let value = self.accuracy(held_out, model)?;
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
