//! The loaded model: what every user of a checkpoint shares.

use std::path::PathBuf;
use std::sync::Arc;

use demask_decode::dependency::{Parts, PassedOver, Predictor, Understanding};
use demask_decode::{Context, Registry, StrategySpec};
use demask_model::text::Tokenizer;
use demask_model::{Backbone, Gate, SpecialIds, Stoppable};

use crate::defaults::Defaults;
use crate::error::Result;
use crate::generate::{Generate, Many, One};
use crate::load::Loader;
use crate::prompt::Prompt;
use crate::text::Text;

/// Tokens of a text that say by themselves what they are about; fewer say it together with what stands in front.
const SENTENCE: usize = 5;

/// A checkpoint ready to use: weights, tokenizer, chat template, special ids, predictor and defaults.
///
/// ```
/// use demask_engine::{Model, Prompt};
///
/// let model = Model::embedded()?;
/// let answer = model.generate(Prompt::infill("Tom has 3 pens. Tom buys 2 more. 3 + 2 = [MASK]")).run()?;
/// assert!(answer.text.starts_with("Tom has 3 pens."));
/// # Ok::<(), demask_engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Model {
    name: String,
    backbone: Arc<dyn Backbone>,
    text: Arc<Text>,
    pub(crate) context: Context,
    pub(crate) understanding: Option<Arc<Understanding>>,
    /// Predictors of the checkpoint's folder among which none was chosen.
    pub(crate) several: Vec<PathBuf>,
    /// Predictors that lie there and are not used.
    pub(crate) passed_over: Vec<PassedOver>,
    defaults: Defaults,
}

impl Model {
    /// Puts a model together from a backbone and how it reads and writes.
    pub fn new(backbone: Arc<dyn Backbone>, text: Text) -> Self {
        let name = text.source().file_name().map_or("model".into(), |n| n.to_string_lossy().into_owned());
        Self {
            name,
            backbone,
            text: Arc::new(text),
            context: Context::default(),
            understanding: None,
            several: Vec::new(),
            passed_over: Vec::new(),
            defaults: Defaults::default(),
        }
    }

    /// Loads a checkpoint folder, a GGUF file or a Hub name (`org/name`, `org/name@revision`) on the CPU, in the
    /// precision in which it is stored. [`Self::loader`] offers more.
    pub fn load(model: &str) -> Result<Self> {
        Self::loader(model).load()
    }

    /// A loader with choices: device, precision, predictor, Hub, progress.
    pub fn loader(model: &str) -> Loader<'static> {
        Loader::new(model)
    }

    /// The small model inside this library.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Result<Self> {
        Loader::embedded().load()
    }

    /// The same under another name.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The same with a dependency predictor, which must fit the backbone; a stability head that was there read another
    /// one's dependencies and is left out.
    pub fn with_predictor(mut self, predictor: Predictor) -> Result<Self> {
        predictor.check_fit(self.backbone.as_ref())?;
        self.context.predictor = Some(Arc::new(predictor));
        self.context.stability = None;
        self.understanding = None;
        Ok(self)
    }

    /// The same with everything a predictor's file may hold: dependency, stability or both.
    pub fn with_parts(mut self, parts: Parts) -> Result<Self> {
        parts.check_fit(self.backbone.as_ref())?;
        self.context.stability = parts.stability.clone().map(Arc::new);
        self.context.predictor =
            if parts.heads.is_empty() { None } else { Some(Arc::new(Predictor::new(parts)?)) };
        self.understanding = None;
        Ok(self)
    }

    /// The same with everything that strategies may use; whoever makes it sees to it that it fits.
    pub(crate) fn with_context(self, context: Context) -> Self {
        Self { context, ..self }
    }

    /// The same with these strategies: [`Registry::standard`] and one's own, by name wherever a spelling is taken.
    pub fn with_registry(mut self, registry: Registry) -> Self {
        self.context.registry = registry;
        self
    }

    /// The same, whose passes go through a gate: it is told of them, and ends the work where it wants to.
    pub fn behind(self, gate: Arc<Gate>) -> Self {
        let backbone = Arc::new(Stoppable::new(self.backbone, gate));
        Self { backbone, ..self }
    }

    /// The same with other defaults.
    pub fn with_defaults(self, defaults: Defaults) -> Self {
        Self { defaults, ..self }
    }

    /// The same with another way to read and write.
    pub fn with_text(self, text: Text) -> Self {
        Self { text: Arc::new(text), ..self }
    }

    /// A short name without a path: the Hub's, or the last part of the folder's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The network.
    pub fn backbone(&self) -> &dyn Backbone {
        self.backbone.as_ref()
    }

    /// How it reads and writes.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.text.tokenizer()
    }

    /// Its special ids; a chat's end of turn is an end of sequence too.
    pub fn ids(&self) -> &SpecialIds {
        self.text.ids()
    }

    /// What strategies may use.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Reads a strategy's spelling, `NAME[:key=value,…]`.
    pub fn parse_strategy(&self, spelling: &str) -> Result<StrategySpec> {
        Ok(self.context.registry.parse(spelling)?)
    }

    /// Its dependency predictor, if it has one.
    pub fn predictor(&self) -> Option<&Predictor> {
        self.context.predictor.as_deref()
    }

    /// What its generation_config.json asks for.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// What is to be said of a prompt that is none of the kinds this model is for: of a user's last message, and of a text with
    /// gaps by what stands in front of it and by its own words; never of raw text or ids.
    pub fn remark(&self, prompt: &Prompt) -> Result<Option<&str>> {
        match prompt {
            Prompt::User(message) => self.text.remark(message),
            Prompt::Chat(messages) => {
                let last = messages.iter().rev().find(|message| message.role() == "user");
                last.and_then(|message| message.text()).map_or(Ok(None), |text| self.text.remark(text))
            }
            Prompt::Infill { before: None, text } => self.text.remark_on_gaps(text, 0),
            Prompt::Infill { before: Some(before), text } => match self.remark(before)? {
                None => self.text.remark_on_gaps(text, SENTENCE),
                told => Ok(told),
            },
            Prompt::Raw(_) | Prompt::Tokens(_) | Prompt::Gaps(_) => Ok(None),
        }
    }

    /// An answer to a prompt, a chat, or a text with gaps: choose, then [`Generate::run`] or [`Generate::steps`].
    pub fn generate(&self, prompt: impl Into<Prompt>) -> Generate<'_, One> {
        Generate::one(self, prompt.into())
    }

    /// Answers to several prompts, which are decoded together.
    pub fn generate_all<P: Into<Prompt>>(&self, prompts: impl IntoIterator<Item = P>) -> Generate<'_, Many> {
        Generate::many(self, prompts.into_iter().map(Into::into).collect())
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("name", &self.name).field("text", &self.text).finish_non_exhaustive()
    }
}
