//! Flags of the commands that measure dependency on a few responses to judge a predictor by.

use anyhow::Result;
use demask::train::tv_cache::{Claim, Example, Generator, TvCacheSettings};
use demask::{Model, Shard};

use crate::command::tv_cache::data::Data;

/// What is measured on, and how.
#[derive(Debug, clap::Args)]
pub struct MeasuredArgs {
    /// Responses to measure on: a .jsonl or .parquet file, a folder of them, a Hub dataset (org/name[@revision]), or
    /// task:NAME,… (task:all) for generated problems
    #[arg(long, default_value = "task:all", value_name = "DATA")]
    data: String,
    /// Take texts as they are, without the chat template
    #[arg(long)]
    raw: bool,
    /// Fill responses up with EOS to one of these lengths, as the canvas is when decoding
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pad_to: Vec<usize>,
    /// Tokens that go through the model at once; bounds the memory
    #[arg(long, default_value_t = 8192, value_name = "N")]
    token_budget: usize,
    /// Seed of masks and draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl MeasuredArgs {
    /// Measures this many responses, in memory; this share of their masks is drawn twice.
    pub fn examples(&self, model: &Model, limit: u32, repeat_share: f64) -> Result<Vec<Example>> {
        self.until(model, limit as usize, limit as usize, repeat_share, |_| Ok(true))
    }

    /// Measures responses until there are enough, first so many, then as many again, at most `limit` in all.
    pub fn until(
        &self,
        model: &Model,
        first: usize,
        limit: usize,
        repeat_share: f64,
        enough: impl Fn(&[Example]) -> Result<bool>,
    ) -> Result<Vec<Example>> {
        let data = Data::open(&self.data, Some(limit), self.seed)?;
        let encoder = data.encoder(model, self.raw);
        let few = TvCacheSettings::few(limit, self.seed);
        let settings = TvCacheSettings { repeat_share, pad_to: self.pad_to.clone(), ..few };
        let generator = Generator {
            backbone: model.backbone(),
            source: &*data.source(&encoder),
            settings: &settings,
            folder: std::path::Path::new(""),
            token_budget: self.token_budget,
            shard: Shard::WHOLE,
            context: None,
            claim: Claim::Lock,
        };
        let (most, mut end, mut all) = (generator.source.len().min(limit), 0, Vec::new());
        while end < most {
            let next = (2 * end).max(first).min(most);
            all.extend(generator.examples_of(end..next)?);
            end = next;
            if enough(&all)? {
                break;
            }
        }
        Ok(all)
    }
}
