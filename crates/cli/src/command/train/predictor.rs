//! `demask train predictor`: fits the dependency predictor to a TV cache (phase 2 of section 4.3), to total variation or to
//! divergences.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use demask::decode::dependency::Measure;
use demask::model::checkpoint::Dtype;
use demask::model::{Backbone, HiddenRow};
use demask::train::compute::Compute;
use demask::train::fit::{Config, Fit, FitProgress, Fitted, Report, Watcher, best};
use demask::train::tv_cache::Cache;
use demask::{Model, counted};
use serde_json::json;

use super::terminal::stop_on_signals;
use crate::args::ModelArgs;
use crate::command::tv_cache::clock;
use crate::host::{Host, Progress};

/// Fits the dependency predictor to a TV cache; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct PredictorArgs {
    /// Folder of the cache
    #[arg(long, value_name = "DIR")]
    cache: PathBuf,
    /// The predictor to write; state, curves and reports go to a folder of the same name with the ending .run
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    /// Settings as a TOML file; flags win over it [default: the paper's]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which hidden row stands for a position; both trains two predictors and keeps the better
    #[arg(long, value_enum, default_value_t = RowArg::Both)]
    hidden_row: RowArg,
    /// Passes over the training examples
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Examples per update
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Highest learning rate
    #[arg(long, value_name = "X")]
    rate: Option<f64>,
    /// Decoupled weight decay
    #[arg(long, value_name = "X")]
    weight_decay: Option<f64>,
    /// Heads of the predictor
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// Share of the responses held out
    #[arg(long, value_name = "SHARE")]
    validation: Option<f64>,
    /// Seed of starting weights and of the order of examples
    #[arg(long)]
    seed: Option<u64>,
    /// What to predict: total variation, or the divergence whose mean is the mutual information (for the strategy mi; the
    /// cache must have been made with --divergence)
    #[arg(long, value_enum)]
    target: Option<TargetArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TargetArg {
    /// Total variation
    Tv,
    /// KL divergence
    Kl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RowArg {
    /// The row of the masked token itself
    I,
    /// The row before it
    #[value(name = "i-1")]
    IMinusOne,
    /// Both, one after the other
    Both,
}

/// Trains the predictor.
pub(super) fn run(args: &PredictorArgs, host: &mut Host<'_>) -> Result<()> {
    let cache = Cache::open(&args.cache)?;
    let config = args.settings()?;
    let backbone = match &args.model.model {
        Some(_) => Some(args.model.network()?.0),
        None => None,
    };
    let backbone = backbone.as_ref().map(|backbone| backbone as &dyn Backbone);
    let backbone = backbone.or_else(|| host.model().map(Model::backbone));
    let rows = match args.hidden_row {
        RowArg::I => vec![(HiddenRow::I, "row-i")],
        RowArg::IMinusOne => vec![(HiddenRow::IMinusOne, "row-i-minus-1")],
        RowArg::Both => vec![(HiddenRow::I, "row-i"), (HiddenRow::IMinusOne, "row-i-minus-1")],
    };
    // A cache with hidden rows needs no model, and one without is read through the first device's.
    let compute = args.model.compute(false)?;
    fit_and_save(&cache, &config, &rows, backbone, &compute, &args.out, host)
}

/// Trains one predictor per hidden row and saves the best; state and reports go to a folder beside it.
pub(crate) fn fit_and_save(
    cache: &Cache,
    config: &Config,
    rows: &[(HiddenRow, &str)],
    backbone: Option<&dyn Backbone>,
    compute: &Compute,
    out: &Path,
    host: &mut Host<'_>,
) -> Result<()> {
    let run = out.with_extension("run");
    // A program has its own way to stop.
    let stop = if host.is_program() { Arc::default() } else { stop_on_signals()? };
    let mut fitted = Vec::new();
    for &(row, name) in rows {
        let folder = run.join(name);
        let trained_on = &cache.header().source;
        let compute = compute.clone();
        let fit = Fit { cache, config, row, backbone, folder: &folder, trained_on, compute };
        let one = fit.run(&mut Watched { host, validation: None, stop: stop.clone() });
        host.clear();
        let Some(one) = one? else { return host.say("stopped; the same command continues\n") };
        host.say(&one.report.to_string())?;
        fitted.push(one);
    }
    let kept = best(fitted).context("nothing was trained")?;
    save(&kept, out)?;
    let row = kept.report.hidden_row.to_string();
    host.result = json!({ "hidden_row": row, "validation_mse": kept.report.validation_mse });
    host.say(&format!("{}: hidden row {row}, reports in {}\n", out.display(), run.display()))?;
    warn_if_useless(&kept.report, host);
    Ok(())
}

/// Says beside the result that a predictor is worse than none.
pub(crate) fn warn_if_useless(report: &Report, host: &mut Host<'_>) {
    if report.is_worse_than_a_constant() {
        host.note(&format!(
            "warning: this predictor is worse than a constant (MSE {:.6} against {:.6}, R² {:.3}); decoding with it is \
             guessing: train longer, on more data or with another rate, and look at it with demask predictor eval",
            report.validation_mse, report.constant_mse, report.r_squared
        ));
    }
}

fn save(kept: &Fitted, out: &Path) -> Result<()> {
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    kept.parts.save(out, Dtype::F32)?;
    Ok(())
}

impl PredictorArgs {
    fn settings(&self) -> Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        config.epochs = self.epochs.unwrap_or(config.epochs);
        config.batch = self.batch.unwrap_or(config.batch);
        config.rate = self.rate.unwrap_or(config.rate);
        config.weight_decay = self.weight_decay.unwrap_or(config.weight_decay);
        config.architecture.heads = self.heads.unwrap_or(config.architecture.heads);
        config.validation = self.validation.unwrap_or(config.validation);
        config.seed = self.seed.unwrap_or(config.seed);
        config.target = match self.target {
            Some(TargetArg::Tv) => Measure::TotalVariation,
            Some(TargetArg::Kl) => Measure::Divergence,
            None => config.target,
        };
        config.check()?;
        Ok(config)
    }
}

/// Tells the host how far it is, and ends cleanly on Ctrl-C.
struct Watched<'h, 'a> {
    host: &'h mut Host<'a>,
    validation: Option<f64>,
    stop: Arc<AtomicBool>,
}

impl Watcher for Watched<'_, '_> {
    fn on_start(&mut self, row: HiddenRow, training: usize, validation: usize, parameters: usize) {
        self.host.note(&format!(
            "hidden row {row}: {}, {} to train on, {validation} held out",
            counted(parameters, "parameter"),
            counted(training, "example")
        ));
    }

    fn on_step(&mut self, progress: &FitProgress) -> ControlFlow<()> {
        let validation = self.validation.map(|mse| format!(", validation {mse:.5}")).unwrap_or_default();
        let (speed, left) = (progress.examples_per_second, clock(progress.left));
        let message = format!("MSE {:.5}{validation}, {speed:.0} examples/s, {left} left", progress.training);
        let (done, total) = (progress.step, progress.steps);
        let flow = self.host.show(&Progress { unit: "updates", done, total, message });
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { flow }
    }

    fn on_validation(&mut self, _: u64, mse: f64, _: bool) {
        self.validation = Some(mse);
    }
}
