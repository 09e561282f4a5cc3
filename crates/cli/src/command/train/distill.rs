//! `demask train distill`: certainty forcing (dParallel). The model is trained on its own greedy answers to be sure of what
//! it gets right, so that more may be taken in one pass. All weights are trained, for small models.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use demask::model::Transformer;
use demask::train::distill::{Distillation, HeldOut, split};
use demask::train::pretrain::{PretrainProgress, Run, Score, Watcher};

use super::source::SourceArgs;
use super::terminal::stop_on_signals;

/// Trains the model itself to be sure of what it gets right (certainty forcing); continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct DistillArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Folder of the run; the distilled checkpoint goes to its folder export
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Updates
    #[arg(long, value_name = "N", default_value_t = 400)]
    steps: u64,
    /// Learning rate after the warm-up
    #[arg(long, value_name = "X", default_value_t = 1e-4)]
    rate: f64,
    /// Weight of the entropy [default: 1 for shifted models (Dream), 2 for others (LLaDA), as published]
    #[arg(long, value_name = "X")]
    entropy: Option<f32>,
    /// Train within blocks of this length [default: none for shifted models (Dream), 32 for others (LLaDA), as published]
    #[arg(long, value_name = "N")]
    block_length: Option<usize>,
    /// Tokens of one update
    #[arg(long, value_name = "N", default_value_t = 4096)]
    batch_tokens: usize,
}

/// Distils the model.
pub(super) fn run(args: &DistillArgs) -> Result<()> {
    let start = args.source.model.folder()?;
    let compute = args.source.model.compute(true)?;
    args.source.with(|model, source| {
        let spec = model.backbone().spec();
        let answers = args.source.trajectories(model, source, &args.out, 0.0, None)?;
        let (mut own, held) = split(answers, spec)?;
        let config = args.distillation().config(spec);
        let run = Run {
            config: &config,
            spec,
            folder: &args.out,
            tokenizer: Some(&start),
            start: Some(&start),
            compute,
        };
        println!("before: {}", spelled(&held.scores(model.backbone())?));
        let outcome = run.train(&mut own, &mut Watch { held, stop: stop_on_signals()? })?;
        if outcome.step < config.steps() {
            println!(
                "stopped after {} of {} updates; the same command continues",
                outcome.step,
                config.steps()
            );
        } else {
            println!("{}: the distilled checkpoint", args.out.join("export").display());
        }
        Ok(())
    })
}

impl DistillArgs {
    fn distillation(&self) -> Distillation {
        Distillation {
            seed: self.source.seed,
            length: self.source.length,
            steps: self.steps,
            rate: self.rate,
            entropy: self.entropy,
            block: self.block_length,
            batch_tokens: self.batch_tokens,
        }
    }
}

/// Tells how far a run is, and decodes what is held out.
struct Watch {
    held: HeldOut,
    stop: Arc<AtomicBool>,
}

impl Watcher for Watch {
    fn on_step(&mut self, progress: &PretrainProgress) -> ControlFlow<()> {
        if let Some(point) = &progress.logged {
            let (step, steps, rate) = (progress.step, progress.steps, point.rate);
            eprintln!(
                "certainty {step}/{steps}  loss {:.4}  right {:.1} %  rate {rate:.2e}",
                point.loss,
                100.0 * point.right
            );
        }
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn validate(&mut self, _: u64, model: &Transformer) -> std::result::Result<Vec<Score>, String> {
        self.held.scores(model).map_err(|error| format!("cannot decode what is held out: {error}"))
    }

    fn on_validation(&mut self, step: u64, scores: &[Score], exported: bool) {
        let exported = if exported { "  (exported)" } else { "" };
        eprintln!("after {step}: {}{exported}", spelled(scores));
    }
}

fn spelled(scores: &[Score]) -> String {
    let each = scores.iter().map(|score| format!("{} {:.1} %", score.name, 100.0 * score.value));
    each.collect::<Vec<_>>().join(", ")
}
