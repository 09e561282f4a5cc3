//! What comes out of a decoding.

use demask_decode::observer::Metrics;
use demask_decode::trace::Trace;
use demask_decode::{CacheSpec, Canvas, Job};

use crate::error::{Error, Result};
use crate::model::Model;
use crate::prompt::Shown;

/// A finished decoding.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The response up to its end, or the whole text of an infilling.
    pub text: String,
    /// The ids of that text.
    pub tokens: Vec<u32>,
    /// The canvas after the last step.
    pub canvas: Canvas,
    /// The strategy's spelling.
    pub strategy: String,
    /// The cache's spelling.
    pub cache: CacheSpec,
    /// What happened on the way: steps, forward passes, seconds by phase.
    pub metrics: Metrics,
    /// Wall-clock seconds. In a batch, the canvas's share.
    pub seconds: f64,
    /// Every step, where [`Generate::record`](crate::Generate::record) asked for it.
    pub trace: Option<Trace>,
}

impl Answer {
    pub(crate) fn new(
        model: &Model,
        job: &Job,
        shown: Shown,
        metrics: Metrics,
        seconds: f64,
    ) -> Result<Self> {
        let canvas = job.canvas().clone();
        if job.was_stopped() {
            return Err(Error::Stopped { masks: canvas.masked(canvas.response()).len() });
        }
        let (text, tokens) = shown_text(model, &canvas, shown)?;
        let (strategy, cache) = (job.spelling().to_owned(), job.options().cache.clone());
        Ok(Self { text, tokens, canvas, strategy, cache, metrics, seconds, trace: None })
    }

    /// The ids of the response canvas, whatever stands behind its end.
    pub fn response(&self) -> &[u32] {
        &self.canvas.tokens()[self.canvas.response()]
    }
}

/// The text of a canvas, whether or not it is finished, and the ids it is of.
pub(crate) fn shown_text(model: &Model, canvas: &Canvas, shown: Shown) -> Result<(String, Vec<u32>)> {
    let tokens = match shown {
        Shown::Response => canvas.text_tokens(),
        Shown::From(start) => &canvas.tokens()[start..],
    };
    let decided: Vec<u32> = tokens.iter().copied().filter(|&t| t != canvas.ids().mask).collect();
    Ok((model.tokenizer().decode(&decided)?, tokens.to_vec()))
}
