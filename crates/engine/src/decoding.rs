//! Everything a caller may choose about a decoding, and how the model's own defaults complete it: the only place where
//! [`Options`] of the decoder are made for a checkpoint.

use std::str::FromStr;

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

/// An option by its name: how its spelling is read into a decoding.
type Setter = fn(&mut Decoding, &'static str, &str) -> Result<()>;

/// The options by the names that the command line gives them too, for callers that choose by name (Python, lm_eval).
const OPTIONS: [(&str, Setter); 17] = [
    ("max_new_tokens", |it, name, text| {
        let length: usize = read(name, text, "must be a whole number, at least 1")?;
        (length > 0).then_some(()).ok_or_else(|| bad(name, text, "must be at least 1"))?;
        put(&mut it.length, length)
    }),
    ("min_new_tokens", |it, name, text| set(&mut it.min_length, read(name, text, WHOLE)?)),
    ("temperature", |it, name, text| put(&mut it.temperature, read(name, text, NUMBER)?)),
    ("top_p", |it, name, text| put(&mut it.top_p, read(name, text, NUMBER)?)),
    ("top_k", |it, name, text| put(&mut it.top_k, read(name, text, WHOLE)?)),
    ("sampler", |it, _, text| put(&mut it.draw, text.parse()?)),
    ("seed", |it, name, text| set(&mut it.seed, read(name, text, WHOLE)?)),
    ("stream", |it, name, text| set(&mut it.stream, read(name, text, WHOLE)?)),
    ("eos", |it, _, text| set(&mut it.eos, text.parse()?)),
    ("eos_penalty", |it, name, text| set(&mut it.eos_penalty, read(name, text, NUMBER)?)),
    ("hold_eos", |it, _, text| set(&mut it.hold_eos, text.parse()?)),
    ("block_length", |it, name, text| put(&mut it.block_length, read(name, text, WHOLE)?)),
    ("cache", |it, _, text| set(&mut it.cache, text.parse()?)),
    ("cfg", |it, name, text| set(&mut it.guidance, read(name, text, NUMBER)?)),
    ("speculate", |it, name, text| set(&mut it.speculate, read(name, text, WHOLE)?)),
    ("edit_threshold", |it, name, text| {
        let threshold = read(name, text, NUMBER)?;
        let post_steps = it.editing.map_or(Editing::POST_STEPS, |editing| editing.post_steps);
        put(&mut it.editing, Editing { threshold, post_steps })
    }),
    ("post_steps", |it, name, text| {
        let post_steps = read(name, text, WHOLE)?;
        let editing = it.editing.as_mut();
        set(&mut editing.ok_or_else(|| bad(name, text, "needs edit_threshold"))?.post_steps, post_steps)
    }),
];

const NUMBER: &str = "must be a number";
const WHOLE: &str = "must be a whole number, not negative";

fn read<T: FromStr>(name: &str, text: &str, why: &str) -> Result<T> {
    text.parse().map_err(|_| bad(name, text, why))
}

fn bad(name: &str, value: &str, why: &str) -> Error {
    Error::Decode(demask_decode::Error::BadValue { what: name.into(), value: value.into(), why: why.into() })
}

fn set<T>(field: &mut T, value: T) -> Result<()> {
    *field = value;
    Ok(())
}

fn put<T>(field: &mut Option<T>, value: T) -> Result<()> {
    set(field, Some(value))
}

impl Decoding {
    /// The names of [`Self::choose`].
    pub fn option_names() -> impl Iterator<Item = &'static str> {
        OPTIONS.iter().map(|(name, _)| *name)
    }

    /// Chooses options by name and spelling, in whatever order they are given; the others stay as they are.
    ///
    /// ```
    /// # use demask_engine::Decoding;
    /// let mut decoding = Decoding::default();
    /// decoding.choose([("temperature", "0.7"), ("cache", "prefix")])?;
    /// assert_eq!(decoding.temperature, Some(0.7));
    /// assert!(decoding.choose([("temprature", "0.7")]).is_err());
    /// # Ok::<(), demask_engine::Error>(())
    /// ```
    pub fn choose<'a>(&mut self, options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
        let given: Vec<(&str, &str)> = options.into_iter().collect();
        if let Some((name, _)) =
            given.iter().find(|(name, _)| !Self::option_names().any(|known| known == *name))
        {
            let why =
                format!("is no option; they are {}", Self::option_names().collect::<Vec<_>>().join(", "));
            return Err(bad("option", name, &why));
        }
        for (name, set) in &OPTIONS {
            for (_, text) in given.iter().filter(|(known, _)| known == name) {
                set(self, name, text)?;
            }
        }
        Ok(())
    }

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
