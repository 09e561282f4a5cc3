//! Everything a caller may choose about a decoding, and how the model's own defaults complete it: the only place where
//! [`Options`] of the decoder are made for a checkpoint.

use demask_decode::canvas::Cell;
use demask_decode::{
    CacheSpec, Canvas, Draw, Editing, EosPolicy, HoldEos, Job, Observer, Options, Sampling, StrategySpec,
    Suppression,
};

use crate::error::{Error, Result};
use crate::model::Model;

/// Length of the response where neither the caller nor the checkpoint says.
pub const USUAL_LENGTH: usize = 128;

/// What a caller chooses; `None` is the model's own default.
#[derive(Debug, Clone, Default)]
pub struct Decoding {
    /// The strategy.
    pub strategy: Option<StrategySpec>,
    /// Length of the response canvas.
    pub length: Option<usize>,
    /// No end of sequence among this many first tokens of the response.
    pub min_length: usize,
    /// 0 takes the most probable tokens.
    pub temperature: Option<f32>,
    /// Keep the smallest set of tokens with this much probability.
    pub top_p: Option<f32>,
    /// Keep this many tokens.
    pub top_k: Option<usize>,
    /// How a token is drawn above temperature 0.
    pub draw: Option<Draw>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Tells answers of one seed apart.
    pub stream: u64,
    /// What happens after an end of sequence.
    pub eos: EosPolicy,
    /// Subtracted from the logits of the end of sequence.
    pub eos_penalty: f32,
    /// Where the end of the response is held back.
    pub hold_eos: HoldEos,
    /// Decode left to right in blocks of this many tokens.
    pub block_length: Option<usize>,
    /// Keys and values kept between steps.
    pub cache: CacheSpec,
    /// Classifier-free guidance; each step then costs two passes.
    pub guidance: f32,
    /// Decided tokens may be replaced.
    pub editing: Option<Editing>,
    /// Canvases that may come next, run beside each pass (self-speculation).
    pub speculate: usize,
}

impl Decoding {
    /// Token drawing: what was chosen, then the checkpoint's defaults.
    pub fn sampling(&self, defaults: &Sampling) -> Result<Sampling> {
        let draw = self.draw.unwrap_or(defaults.draw);
        let defaults = defaults.drawn_by(draw);
        let sampling = Sampling {
            temperature: self.temperature.unwrap_or(defaults.temperature),
            top_p: self.top_p.or(defaults.top_p),
            top_k: self.top_k.or(defaults.top_k),
            draw,
        };
        sampling.check()?;
        Ok(sampling)
    }
}

impl Model {
    /// The strategy of a decoding: the one chosen, else the checkpoint's own, else the paper's where the predictor it
    /// needs is at hand, else the family's published loop, else the best rule that needs no training.
    pub fn strategy(&self, decoding: &Decoding) -> StrategySpec {
        let chosen = decoding.strategy.clone().map(|spelled| self.meant(spelled));
        chosen.or_else(|| self.defaults().strategy.clone()).unwrap_or_else(|| self.general_strategy())
    }

    /// What a spelling means for this model: a name alone is the checkpoint's own choice of parameters where it has one
    /// for that strategy; whatever names a parameter is taken as it is written.
    pub fn meant(&self, spelled: StrategySpec) -> StrategySpec {
        match &self.defaults().strategy {
            Some(own) if spelled.given().is_empty() && own.name() == spelled.name() => own.clone(),
            _ => spelled,
        }
    }

    /// Whether this model has what a strategy needs: a predictor, a trained part, an assistant.
    pub fn can_run(&self, strategy: &StrategySpec) -> bool {
        let context = self.context();
        strategy
            .build(context)
            .is_ok_and(|strategy| !strategy.needs().assistant || context.assistant.is_some())
    }

    /// The decoder's options for a canvas whose response begins at `start`.
    pub fn options(&self, decoding: &Decoding, start: usize) -> Result<Options> {
        let eos = &self.ids().eos;
        let ending = decoding.eos_penalty != 0.0 || decoding.min_length > 0;
        let mut suppression = Suppression {
            ids: self.text().unwritable().to_vec(),
            eos_penalty: decoding.eos_penalty,
            no_eos_before: start + decoding.min_length,
            eos: if ending { eos.clone() } else { Vec::new() },
            ..Suppression::default()
        };
        suppression.hold(decoding.hold_eos, eos);
        Ok(Options {
            sampling: decoding.sampling(&self.defaults().sampling)?,
            eos: decoding.eos,
            block_length: decoding.block_length,
            seed: decoding.seed,
            stream: decoding.stream,
            guidance: decoding.guidance,
            cache: decoding.cache.clone(),
            editing: decoding.editing,
            speculate: decoding.speculate,
            suppression,
        })
    }

    /// Length of a response where there is room enough: the one chosen, else the checkpoint's, else [`USUAL_LENGTH`].
    pub fn usual_length(&self, decoding: &Decoding) -> usize {
        decoding.length.or(self.defaults().length).unwrap_or(USUAL_LENGTH)
    }

    /// Length of a response beside `given` tokens: the one chosen, or the default as far as it fits.
    pub fn length(&self, decoding: &Decoding, given: usize) -> Result<usize> {
        let context = self.backbone().spec().max_positions;
        let room = context.saturating_sub(given);
        let length = decoding.length.unwrap_or_else(|| self.usual_length(decoding).min(room));
        if length > room || length == 0 {
            return Err(Error::TooLong { given, length: length.max(1), context });
        }
        Ok(length)
    }

    /// An empty response behind a prompt.
    pub fn canvas(&self, prompt: &[u32], decoding: &Decoding) -> Result<Canvas> {
        let length = self.length(decoding, prompt.len())?;
        let spec = self.backbone().spec();
        if prompt.is_empty() && spec.shift.is_some() {
            return Err(Error::NothingBefore);
        }
        Ok(Canvas::in_blocks(prompt, length, decoding.block_length, spec, self.ids())?)
    }

    /// A canvas whose masks stand anywhere; everything else stays as it is.
    pub fn infill_canvas(&self, tokens: &[u32]) -> Result<Canvas> {
        let spec = self.backbone().spec();
        if tokens.len() > spec.max_positions {
            return Err(Error::TextTooLong { tokens: tokens.len(), context: spec.max_positions });
        }
        if spec.shift.is_some() && tokens.first() == Some(&self.ids().mask) {
            return Err(Error::NothingBefore);
        }
        Ok(Canvas::infill(tokens, self.ids())?)
    }

    /// A canvas on its way, for a [`Decoder`](demask_decode::Decoder) on [`Self::backbone`].
    pub fn job(&self, canvas: Canvas, decoding: &Decoding, observer: Box<dyn Observer>) -> Result<Job> {
        let mut options = self.options(decoding, canvas.response().start)?;
        // A gap with words behind it is there to be filled: an end of sequence in it would end nothing.
        let masked = canvas.cells().iter().position(|cell| *cell == Cell::Masked);
        let given = canvas.cells().iter().rposition(|cell| *cell == Cell::Fixed);
        if let (EosPolicy::Auto, Some(masked), Some(given)) = (decoding.eos, masked, given)
            && given > masked
        {
            options.suppression.no_eos_before = options.suppression.no_eos_before.max(given);
            options.suppression.eos.clone_from(&self.ids().eos);
        }
        Ok(Job::new(canvas, &self.strategy(decoding), self.context(), options, observer)?)
    }
}
