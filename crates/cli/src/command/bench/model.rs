//! The synthetic model measurements run on, its canvases, and how many operations a pass over them takes.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use demask::model::config::FeedForward;
use demask::model::shapes::{self, Shape};
use demask::model::{Backbone, Precision, Query, Spec, Transformer, synthetic};
use serde_json::Value;

use crate::args::DtypeArg;
use crate::command::synthesize::shape;

/// The shape of a model.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Outline {
    /// Whose shape to use, as `demask synthesize` names them
    #[arg(long, default_value = "dream-7b", value_parser = shape, value_name = "NAME")]
    pub(super) shape: &'static Shape,
    /// A config.json whose shape to use instead
    #[arg(long, value_name = "FILE", conflicts_with = "shape")]
    pub(super) config: Option<PathBuf>,
    /// Number of layers instead of the config's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(super) layers: Option<u16>,
}

impl Outline {
    /// The config, with this many layers unless the flags say otherwise.
    pub(super) fn json(&self, layers: Option<u16>) -> Result<Value> {
        let config = match &self.config {
            None => self.shape.config(),
            Some(path) => {
                let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                serde_json::from_slice(&text)
                    .with_context(|| format!("{} is not readable JSON", path.display()))?
            }
        };
        Ok(match self.layers.or(layers) {
            Some(layers) => shapes::with_layers(config, layers.into()),
            None => config,
        })
    }

    /// The shape, with this many layers unless the flags say otherwise.
    pub(super) fn spec(&self, layers: Option<u16>) -> Result<Spec> {
        let config = self.json(layers)?.to_string();
        Ok(Spec::from_json(&config, self.config.as_deref().unwrap_or("config.json".as_ref()))?)
    }
}

/// A model of some shape with random weights.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ModelShape {
    #[command(flatten)]
    pub(super) outline: Outline,
    /// Precision of the weights
    #[arg(long, value_enum, default_value_t = DtypeArg::Int8)]
    pub(super) dtype: DtypeArg,
}

impl ModelShape {
    /// The shape, with this many layers unless the flags say otherwise.
    pub(super) fn spec(&self, layers: Option<u16>) -> Result<Spec> {
        self.outline.spec(layers)
    }

    /// The precision.
    pub(super) fn precision(&self) -> Precision {
        self.dtype.precision()
    }

    /// The model.
    pub(super) fn build(&self, spec: Spec) -> Result<Transformer> {
        Ok(synthetic::transformer(spec, self.precision(), 0)?)
    }
}

/// A canvas whose last positions are masked.
#[derive(Debug, Clone)]
pub(crate) struct Canvas {
    pub(crate) tokens: Vec<u32>,
    pub(crate) masked: Vec<usize>,
}

impl Canvas {
    /// `length` tokens, of which the last `masked` are masked.
    pub(crate) fn new(spec: &Spec, length: usize, masked: usize) -> Self {
        let token = |place: usize| (place as u64 * 2_654_435_761 % spec.vocab as u64) as u32;
        let masked: Vec<usize> = (length - masked.min(length)..length).collect();
        let mut tokens: Vec<u32> = (0..length).map(token).collect();
        masked.iter().for_each(|&p| tokens[p] = spec.ids.mask);
        Self { tokens, masked }
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// One pass over all canvases, as a decoding step makes it: hidden rows, then logits of the masked rows.
pub(crate) fn pass(backbone: &dyn Backbone, canvases: &[Canvas]) -> Result<()> {
    let mut batch: Vec<Query<'_>> = canvases
        .iter()
        .map(|c| Query { tokens: &c.tokens, predict: &c.masked, ..Query::default() })
        .collect();
    for pass in backbone.forward(&mut batch)? {
        backbone.logits(&pass.predicting, &mut |_, logits| {
            std::hint::black_box(logits);
        })?;
    }
    Ok(())
}

/// Multiplications and additions of a pass that really happen: the last layer's queries and MLP only for masked rows.
pub(crate) fn operations(spec: &Spec, canvases: &[Canvas]) -> f64 {
    let (d, q, kv) = (spec.hidden as f64, spec.q_width() as f64, spec.kv_width() as f64);
    let keys = 2.0 * d * 2.0 * kv;
    let ffn = |layer| match spec.feed_forward(layer) {
        FeedForward::Dense(width) => 3.0 * d * width as f64,
        FeedForward::Plain(width) => 2.0 * d * width as f64,
        FeedForward::Experts(e) => d * (e.count + 3 * (e.chosen * e.width + e.shared)) as f64,
    };
    let rest = |layer| 2.0 * (d * q + q * d + ffn(layer));
    let last = spec.layers - 1;
    canvases
        .iter()
        .map(|canvas| {
            let (rows, wanted) = (canvas.len() as f64, canvas.masked.len() as f64);
            let scores = 4.0 * rows * q;
            let layer = |index, wanted: f64| rows * keys + wanted * (rest(index) + scores);
            let before: f64 = (0..last).map(|index| layer(index, rows)).sum();
            before + layer(last, wanted) + 2.0 * wanted * d * spec.vocab as f64
        })
        .sum()
}
