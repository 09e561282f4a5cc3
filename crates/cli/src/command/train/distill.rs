//! `demask train distill`: certainty forcing (dParallel). The model is trained on its own greedy answers to be sure of what
//! it gets right, so that more may be taken in one pass. All weights are trained, for small models.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use demask::decode::registry::Context;
use demask::decode::responses::responses;
use demask::decode::{Options, StrategySpec, Suppression};
use demask::model::{Backbone, Spec, Transformer};
use demask::train::optimizer::AdamW;
use demask::train::part::trajectory::Trajectory;
use demask::train::pretrain::{
    self, Config, Data, Example, ExampleSource, Objective, PretrainProgress, Report, Run, Score, Stage,
    Watcher,
};
use demask::train::schedule::Schedule;

use super::source::Source;
use super::terminal::stop_on_signals;

/// Answers that are held out, and the strategy that they are decoded with.
const HELD: usize = 64;
const DECODED_WITH: &str = "entropy-threshold:threshold=0.5";

/// Trains the model itself to be sure of what it gets right (certainty forcing); continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct DistillArgs {
    #[command(flatten)]
    source: Source,
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
    args.source.with(|model, source| {
        let spec = model.backbone().spec();
        let mut answers = args.source.trajectories(model, source, &args.out, 0.0, None)?;
        let held = answers.split_off(answers.len() - HELD.min(answers.len() / 4));
        let config = args.config(spec);
        let run = Run {
            config: &config,
            spec,
            folder: &args.out,
            tokenizer: Some(&start),
            start: Some(&start),
            device: candle_core::Device::Cpu,
        };
        let mut watch =
            Watch { spec, held: &held, stop: stop_on_signals()?, strategy: DECODED_WITH.parse()? };
        let before = watch.scores(model.backbone())?;
        println!("before: {}", spelled(&before));
        let outcome = run.train(&mut Answers { answers: &answers, eos: spec.ids.eos.clone() }, &mut watch)?;
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
    fn config(&self, spec: &Spec) -> Config {
        // As published: Dream's trainer masks the whole response, LLaDA's one block.
        let (entropy, block) = if spec.shift.is_some() { (1.0, 0) } else { (2.0, 32) };
        Config {
            seed: self.source.seed,
            model: pretrain::Model {
                hidden: spec.hidden,
                layers: spec.layers,
                heads: spec.heads,
                kv_heads: spec.kv_heads,
                ffn: spec.ffn,
                tied: spec.tied,
                rope_theta: spec.rope_theta,
                max_positions: spec.max_positions,
            },
            data: Data {
                mixture: [("own answers".to_owned(), 1.0)].into(),
                lengths: vec![self.source.length],
                tight: 1.0,
                batch_tokens: self.batch_tokens,
            },
            optimizer: AdamW { beta2: 0.999, ..AdamW::default() },
            muon: None,
            stage: vec![Stage {
                objective: Objective::Certainty,
                steps: self.steps,
                prompt: 0.0,
                entropy: self.entropy.unwrap_or(entropy),
                block: self.block_length.unwrap_or(block),
                rate: Schedule { peak: self.rate, warmup: self.steps / 20, floor: 0.0 },
            }],
            report: Report { validate_steps: (self.steps / 8).max(1), ..Report::default() },
        }
    }
}

/// The model's own answers, over and over.
struct Answers<'a> {
    answers: &'a [Trajectory],
    eos: Vec<u32>,
}

impl ExampleSource for Answers<'_> {
    fn example(&mut self, index: u64) -> pretrain::Result<Example> {
        let own = &self.answers[(index % self.answers.len() as u64) as usize];
        // Its end is added again; one that never ended loses its last token for it.
        let response = own.response[..own.written(&self.eos) - 1].to_vec();
        Ok(Example { prompt: own.prompt.clone(), response })
    }
}

/// Decodes what is held out: how often the answer is the teacher's, and in what share of its passes.
struct Watch<'a> {
    spec: &'a Spec,
    held: &'a [Trajectory],
    stop: Arc<AtomicBool>,
    strategy: StrategySpec,
}

impl Watch<'_> {
    fn scores(&self, model: &dyn Backbone) -> Result<Vec<Score>> {
        let prompts: Vec<_> =
            self.held.iter().map(|own| (own.prompt.as_slice(), own.response.len())).collect();
        let suppression = Suppression { ids: vec![self.spec.ids.mask], ..Suppression::default() };
        let options = Options { suppression, ..Options::default() };
        let decoded = responses(model, &prompts, &self.strategy, &Context::default(), &options)?;
        let (mut same, mut passes) = (0, 0);
        for (one, own) in decoded.iter().zip(self.held) {
            same += usize::from(one.tokens == own.response);
            passes += one.totals.steps;
        }
        let (count, cells) =
            (self.held.len().max(1), self.held.iter().map(|own| own.response.len()).sum::<usize>());
        let score = |name: &str, value: f64| Score { name: name.into(), value };
        Ok(vec![
            score("the teacher's answers", same as f64 / count as f64),
            score("passes saved", 1.0 - passes as f64 / cells.max(1) as f64),
        ])
    }
}

impl Watcher for Watch<'_> {
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
        self.scores(model).context("cannot decode what is held out").map_err(|error| format!("{error:#}"))
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
