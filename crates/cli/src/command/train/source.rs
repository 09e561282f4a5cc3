//! Flags that the trainings of parts share: the model, what it is asked, how long it trains; and its trajectories.

use std::path::{Path, PathBuf};

use anyhow::Result;
use demask::Model;
use demask::train::optimizer::AdamW;
use demask::train::part::PartSettings;
use demask::train::part::trajectory::{Recording, Trajectory};
use demask::train::schedule::Schedule;
use demask::train::tv_cache::ResponseSource;

use super::terminal::bar;
use crate::args::ModelArgs;
use crate::command::tv_cache::data::Data;

/// Which model, and what it is asked.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// Prompts and answers: a .jsonl or .parquet file, a folder of them, a Hub dataset (org/name[@revision]), or
    /// task:NAME,… (task:all) for generated problems
    #[arg(long, value_name = "DATA", default_value = "task:all")]
    pub(super) data: String,
    /// At most this many rows of it
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(super) limit: usize,
    /// Take texts as they are, without the chat template
    #[arg(long)]
    pub(super) raw: bool,
    /// Cells of a response
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64)]
    pub(super) length: usize,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
}

impl SourceArgs {
    /// Hands over the model and its prompts.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Model, &dyn ResponseSource) -> Result<T>) -> Result<T> {
        let model = self.model.open()?;
        let data = Data::open(&self.data, Some(self.limit), self.seed)?;
        let encoder = data.encoder(&model, self.raw);
        work(&model, &*data.source(&encoder))
    }

    /// Decodings of the prompts one token at a time, kept in the run's folder.
    pub(super) fn trajectories(
        &self,
        model: &Model,
        source: &dyn ResponseSource,
        folder: &Path,
        temperature: f32,
        top_p: Option<f32>,
    ) -> Result<Vec<Trajectory>> {
        let recording = Recording {
            count: self.limit.min(source.len()),
            length: self.length,
            strategy: "entropy:k=1".into(),
            temperature,
            top_p,
            seed: self.seed,
        };
        let bar = bar(recording.count as u64, "decodings");
        let path = folder.join("trajectories.jsonl");
        let all = recording.open(&path, model.backbone(), source, &mut |done| bar.set_position(done as u64));
        bar.finish_and_clear();
        Ok(all?)
    }
}

/// How long and how fast a part is trained.
#[derive(Debug, clap::Args)]
pub(super) struct Pace {
    /// The part to write; state and report go to a folder of the same name with the ending .run
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// Updates
    #[arg(long, value_name = "N")]
    pub(super) steps: Option<u64>,
    /// Highest learning rate
    #[arg(long, value_name = "X")]
    pub(super) rate: Option<f64>,
    /// Updates of warm-up
    #[arg(long, value_name = "N")]
    pub(super) warmup: Option<u64>,
    /// Updates between two validations
    #[arg(long, value_name = "N")]
    pub(super) validate: Option<u64>,
}

impl Pace {
    /// The run's folder.
    pub(super) fn folder(&self) -> PathBuf {
        self.out.with_extension("run")
    }

    /// The settings: these, where no flag says otherwise.
    pub(super) fn settings(&self, steps: u64, rate: Schedule, optimizer: AdamW, seed: u64) -> PartSettings {
        let steps = self.steps.unwrap_or(steps);
        PartSettings {
            steps,
            rate: Schedule {
                peak: self.rate.unwrap_or(rate.peak),
                warmup: self.warmup.unwrap_or(rate.warmup.min(steps / 10)),
                floor: rate.floor,
            },
            optimizer,
            seed,
            validate: self.validate.unwrap_or((steps / 20).max(1)),
        }
    }
}

/// What a state must have in common with a run, besides the settings.
pub(super) fn identity(model: &Model, source: &dyn ResponseSource, rest: &impl std::fmt::Debug) -> String {
    format!("{} {} {rest:?}", model.backbone().fingerprint(), source.identity())
}
