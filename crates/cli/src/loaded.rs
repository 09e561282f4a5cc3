//! A checkpoint ready to decode: backbone, tokenizer, chat template, predictor and its defaults.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use demask_decode::dependency::Predictor;
use demask_decode::registry::Context;
use demask_decode::{Canvas, Options, Sampling, StrategySpec, Suppression};
use demask_model::checkpoint::source::{self, Progress};
use demask_model::text::{ChatTemplate, Conversation, Message, Tokenizer};
use demask_model::{Backbone, SpecialIds, Transformer};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::args::{CanvasArgs, DecodeArgs, ModelArgs, hub_options};
use crate::embedded;

/// File of the predictor inside a checkpoint folder.
pub const PREDICTOR: &str = "predictor.safetensors";
const DEFAULT_LENGTH: usize = 128;

/// Everything a command needs of a model.
pub struct Loaded {
    /// Where it came from.
    pub folder: PathBuf,
    /// The model.
    pub backbone: Transformer,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, if it has one.
    pub chat: Option<ChatTemplate>,
    /// Special ids, with the chat template's end of turn among those that end a response.
    pub ids: SpecialIds,
    /// What strategies may use.
    pub context: Context,
    /// Its generation_config.json.
    pub defaults: Defaults,
}

/// What a checkpoint's generation_config.json asks for.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    /// Token drawing.
    pub sampling: Sampling,
    /// Length of the response.
    pub max_new_tokens: Option<usize>,
    /// The decoder that was chosen for this model (our own field `strategy`).
    pub strategy: Option<StrategySpec>,
}

impl Loaded {
    /// Loads what the flags name.
    pub fn open(args: &ModelArgs) -> Result<Self> {
        if args.model.is_none() {
            return embedded::open(args);
        }
        let options = args.load_options()?;
        let folder = folder(args)?;
        let backbone = Transformer::load(&folder, &options)?;
        let tokenizer = Tokenizer::open(&folder, backbone.spec().vocab)?;
        let chat = ChatTemplate::open(&folder)?;
        let predictor = predictor(args, &folder, &backbone)?;
        let defaults = Defaults::read(&folder)?;
        Ok(Self::assemble(folder, backbone, tokenizer, chat, predictor, defaults))
    }

    /// Puts the parts together.
    pub(crate) fn assemble(
        folder: PathBuf,
        mut backbone: Transformer,
        tokenizer: Tokenizer,
        chat: Option<ChatTemplate>,
        predictor: Option<Arc<Predictor>>,
        defaults: Defaults,
    ) -> Self {
        if chat.is_some() {
            backbone.add_eos(&tokenizer.ends_of_turn());
        }
        let ids = backbone.spec().ids.clone();
        Self {
            folder,
            backbone,
            tokenizer,
            chat,
            ids,
            context: Context { predictor, ..Context::default() },
            defaults,
        }
    }

    /// The strategy the flags name, or the default.
    pub fn strategy(&self, args: &DecodeArgs) -> StrategySpec {
        args.strategy.clone().unwrap_or_else(|| self.default_strategy())
    }

    /// The strategy to use when none is named: the checkpoint's own choice, else the paper's where its predictor is
    /// at hand.
    pub fn default_strategy(&self) -> StrategySpec {
        let name = if self.context.predictor.is_some() { "demask" } else { "entropy" };
        let general = || name.parse().unwrap_or_else(|_| unreachable!("a known name"));
        self.defaults.strategy.clone().unwrap_or_else(general)
    }

    /// Prompt ids of a conversation, through the chat template.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let Some(chat) = &self.chat else {
            bail!("{} has no chat template; use --raw", self.folder.display());
        };
        Ok(self.tokenizer.encode(&chat.render(&Conversation::new(messages))?)?)
    }

    /// Prompt ids of one user message, or of the text as it is.
    pub fn encode_prompt(&self, prompt: &str, raw: bool) -> Result<Vec<u32>> {
        if raw || self.chat.is_none() {
            return Ok(self.tokenizer.encode(prompt)?);
        }
        self.encode_chat(&[Message::new("user", prompt)])
    }

    /// An empty response behind a prompt.
    pub fn canvas(&self, prompt: &[u32], args: &CanvasArgs) -> Result<Canvas> {
        let length = args.max_new_tokens.map(|n| n as usize).or(self.defaults.max_new_tokens);
        let length = length.unwrap_or(DEFAULT_LENGTH);
        let spec = self.backbone.spec();
        if prompt.len() + length > spec.max_positions {
            usage!(
                "the prompt has {} tokens and the response {length}, together more than the model's context of {}; \
                 shorten the prompt or lower --max-new-tokens",
                prompt.len(),
                spec.max_positions
            );
        }
        if prompt.is_empty() && spec.shift {
            usage!(
                "the prompt is empty; this model predicts each token from the one before it and needs at least one"
            );
        }
        Ok(Canvas::generate(prompt, length, &self.ids)?)
    }

    /// Decoding options from the flags.
    pub fn options(&self, args: &CanvasArgs, prompt_length: usize) -> Result<Options> {
        let ids = &self.ids;
        let mut suppressed = self.tokenizer.holes();
        suppressed.push(ids.mask);
        let mut suppression = Suppression {
            ids: suppressed,
            eos_penalty: args.eos_penalty,
            no_eos_before: prompt_length + args.min_new_tokens as usize,
            eos: if args.eos_penalty != 0.0 || args.min_new_tokens > 0 {
                ids.eos.clone()
            } else {
                Vec::new()
            },
            ..Suppression::default()
        };
        suppression.hold(args.hold_eos, &ids.eos);
        Ok(Options {
            sampling: args.sampling(&self.defaults.sampling)?,
            eos: args.eos,
            block_length: args.block_length.map(|n| n as usize),
            seed: args.seed,
            stream: 0,
            guidance: args.cfg,
            cache: args.cache.clone(),
            suppression,
        })
    }

    /// Text of a finished (or stopped) canvas's response.
    pub fn text(&self, canvas: &Canvas) -> Result<String> {
        let mask = canvas.ids().mask;
        let tokens: Vec<u32> = canvas.text_tokens().iter().copied().filter(|&t| t != mask).collect();
        Ok(self.tokenizer.decode(&tokens)?)
    }
}

/// The checkpoint folder the flags name, fetched from the Hub if need be.
pub fn folder(args: &ModelArgs) -> Result<PathBuf> {
    let Some(model) = &args.model else {
        usage!("this command needs a checkpoint folder; give --model DIR or --model org/name");
    };
    Ok(source::resolve(model, &hub_options(), &mut Downloads::default())?)
}

/// The predictor the flags name, or the one in the checkpoint's folder; it must fit the backbone.
pub fn predictor(args: &ModelArgs, folder: &Path, backbone: &Transformer) -> Result<Option<Arc<Predictor>>> {
    let beside = folder.join(PREDICTOR);
    let path = match &args.predictor {
        Some(path) => path,
        None if beside.exists() => &beside,
        None => return Ok(None),
    };
    let (predictor, _) = Predictor::load(path)?;
    predictor
        .check_fit(backbone.spec(), &backbone.fingerprint())
        .with_context(|| path.display().to_string())?;
    Ok(Some(Arc::new(predictor)))
}

impl Defaults {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("generation_config.json");
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::from_json(&text).with_context(|| path.display().to_string())
    }

    /// Parses the text of a generation_config.json.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text).context("is not readable JSON")?;
        let number = |name: &str| value.get(name).and_then(Value::as_f64).map(|v| v as f32);
        let count = |name: &str| value.get(name).and_then(Value::as_u64).map(|v| v as usize);
        let sampling = Sampling {
            temperature: number("temperature").unwrap_or(0.0),
            top_p: number("top_p"),
            top_k: count("top_k").filter(|&k| k > 0),
            ..Sampling::default()
        };
        sampling.check()?;
        let strategy = value.get("strategy").and_then(Value::as_str).map(str::parse).transpose()?;
        Ok(Self { sampling, max_new_tokens: count("max_new_tokens").filter(|&n| n > 0), strategy })
    }
}

/// Download progress on standard error.
#[derive(Default)]
pub(crate) struct Downloads {
    bar: Option<ProgressBar>,
}

impl Progress for Downloads {
    fn begin(&mut self, file: &str, bytes: u64) {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
        let bar = ProgressBar::new(bytes).with_message(file.to_owned());
        if let Ok(style) = style {
            bar.set_style(style);
        }
        self.bar = Some(bar);
    }

    fn advance(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish();
        }
    }

    fn warn(&mut self, sentence: &str) {
        eprintln!("warning: {sentence}");
    }
}
