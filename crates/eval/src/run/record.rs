//! What is kept of one item: asked, answered, judged, and what it cost.

use std::collections::BTreeSet;
use std::path::Path;

use demask_decode::dependency::{Predictor, Understanding};
use demask_decode::{CacheSpec, Editing, EosPolicy, Sampling, StrategySpec};
use demask_engine::{Decoding, Model};
use demask_model::checkpoint::write::replace;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::journal::Keyed;
use crate::error::Result;

/// First line of the records: what all of them have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Format version.
    pub demask_eval: u32,
    /// The model as it was named; not compared.
    pub model: String,
    /// Fingerprint of its weights.
    pub backbone: String,
    /// The precision they were brought to.
    #[serde(default)]
    pub precision: String,
    /// Fingerprint of the dependency predictor.
    pub predictor: Option<String>,
    /// Fingerprint of the stability head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stability: Option<String>,
    /// Other sources of dependency that strategies may name, with their fingerprints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// What was made of the predictor's file; compared where both runs say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub understood: Option<String>,
    /// Which part of the data, such as `test`.
    pub split: String,
    /// Token drawing.
    pub sampling: Sampling,
    /// What an end of sequence does.
    pub eos: EosPolicy,
    /// Length of blocks.
    pub block_length: Option<usize>,
    /// Keys and values kept between steps.
    pub cache: CacheSpec,
    /// Classifier-free guidance.
    pub guidance: f32,
    /// Decided tokens may be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editing: Option<Editing>,
    /// Canvases run beside each pass.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub speculate: usize,
    /// Subtracted from the logits of the end of sequence.
    pub eos_penalty: f32,
    /// No end of sequence among this many first tokens.
    pub min_new_tokens: usize,
    /// Where the end of the response is held back.
    #[serde(default)]
    pub hold_eos: String,
    /// Seed of all randomness.
    pub seed: u64,
}

impl RunHeader {
    /// The header of a run.
    pub fn new(model: &Model, split: &str, decoding: &Decoding) -> Result<Self> {
        Ok(Self {
            demask_eval: 1,
            model: model.name().into(),
            backbone: model.backbone().fingerprint(),
            precision: model.backbone().precision(),
            predictor: model.predictor().map(predictor_fingerprint),
            stability: model.context().stability.as_ref().map(|head| head.fingerprint()),
            dependencies: model.context().registry.dependencies(),
            understood: model.understanding().map(Understanding::summary),
            split: split.into(),
            sampling: decoding.sampling(&model.defaults().sampling)?,
            eos: decoding.eos,
            block_length: decoding.block_length,
            cache: decoding.cache.clone(),
            guidance: decoding.guidance,
            editing: decoding.editing,
            speculate: decoding.speculate,
            eos_penalty: decoding.eos_penalty,
            min_new_tokens: decoding.min_length,
            hold_eos: decoding.hold_eos.to_string(),
            seed: decoding.seed,
        })
    }

    /// Says how another header differs in anything but the model's name.
    pub fn agrees(&self, other: &Self) -> std::result::Result<(), String> {
        let mut other = Self { model: self.model.clone(), ..other.clone() };
        if self.understood.is_none() || other.understood.is_none() {
            other.understood.clone_from(&self.understood);
        }
        if *self == other {
            return Ok(());
        }
        let text = |header: &Self| serde_json::to_value(header).unwrap_or_default();
        let (ours, theirs) = (text(self), text(&other));
        // A field that is not told is at its usual value, on either side.
        let names =
            [&ours, &theirs].into_iter().filter_map(|header| header.as_object()).flat_map(|o| o.keys());
        let names: BTreeSet<&String> = names.collect();
        let told = |value: &Value| if value.is_null() { "not told".to_owned() } else { value.to_string() };
        let differing = names.into_iter().filter(|name| ours[*name] != theirs[*name]);
        let parts: Vec<String> = differing
            .map(|name| format!("{name} is {} there, {} here", told(&theirs[name]), told(&ours[name])))
            .collect();
        Err(parts.join("; "))
    }
}

/// Tells predictors apart by what they predict, to three digits, for a fixed input.
pub fn predictor_fingerprint(predictor: &Predictor) -> String {
    predictor.fingerprint()
}

/// One item, answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The strategy.
    pub strategy: StrategySpec,
    /// The suite.
    pub task: String,
    /// The suite's version.
    pub version: u32,
    /// Whose rules, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Number of the item in its suite.
    pub index: usize,
    /// Name of the item.
    pub id: String,
    /// Kind within the suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The prompt as the model saw it.
    pub prompt: String,
    /// The response as it was judged.
    pub response: String,
    /// The answer found in it.
    pub extracted: Option<String>,
    /// Whether the answer is right.
    pub correct: bool,
    /// Whether the whole text is right, where that is more.
    pub strict: Option<bool>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Length of the response canvas.
    pub canvas: usize,
    /// Tokens of the response before its end of sequence.
    pub tokens: usize,
    /// Steps of Algorithm 1.
    pub steps: usize,
    /// Forward passes, extra ones included (NFE).
    pub forwards: usize,
    /// Passes that were waited for, where speculation ran several side by side.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub rounds: usize,
    /// Rows that a second model computed.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub assistant_rows: usize,
    /// Calls of a small trained part (layer, policy, prior), besides whole passes.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub inner_calls: usize,
    /// What it took.
    pub seconds: Spent,
}

impl Keyed for Sample {
    fn key(&self) -> String {
        format!("item {} of {} with {}", self.index, self.task, self.strategy)
    }
}

/// Seconds an item took; in a batch, its share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// On the clock.
    pub wall: f64,
    /// Backbone.
    pub forward: f64,
    /// Head, statistics and proposals.
    pub marginals: f64,
    /// Dependency and selection.
    pub select: f64,
    /// A second model, or a small trained part.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub extra: f64,
}

fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes header and records as a whole file, each record as the line it was read from.
pub(super) fn write_all(path: &Path, header: &RunHeader, samples: &[(Sample, String)]) -> Result<()> {
    replace(path, |out| {
        writeln!(out, "{}", serde_json::to_string(header)?)?;
        for (_, line) in samples {
            writeln!(out, "{line}")?;
        }
        Ok(())
    })?;
    Ok(())
}
