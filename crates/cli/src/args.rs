//! Flags that several commands share. Only this crate reads flags.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use demask::decode::Context;
use demask::decode::{CacheSpec, Draw, Editing, EosPolicy, HoldEos, StrategySpec};
use demask::engine::Beside;
use demask::model::checkpoint::{Dtype, source};
use demask::model::{LoadOptions, Precision, Transformer};
use demask::train::compute::Compute;
use demask::{Decoding, Loader, Model, Text, hub_options};

use crate::devices::Devices;
use crate::downloads::Downloads;
use crate::machine::too_large;

/// Which model, where and how precise.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// Checkpoint folder or Hub name (org/name[@revision]) [default: the small model inside this program]
    #[arg(long, short = 'm', value_name = "DIR|NAME")]
    pub model: Option<String>,
    /// Dependency predictor: a file, a folder or a Hub name [default: the checkpoint's own, beside or among its weights]
    #[arg(long, value_name = "FILE|DIR|NAME")]
    pub predictor: Option<PathBuf>,
    /// Causal model with the same tokenizer, for apd and copula [default: assistant in the checkpoint's folder]
    #[arg(long, value_name = "DIR")]
    pub assistant: Option<PathBuf>,
    /// Trained policy, for policy [default: policy.safetensors in the checkpoint's folder]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Trained sampling layer, for adjust [default: sampler.safetensors in the checkpoint's folder]
    #[arg(long, value_name = "FILE")]
    pub sampler_layer: Option<PathBuf>,
    /// Predictor of mutual information, for mi [default: information.safetensors in the checkpoint's folder]
    #[arg(long, value_name = "FILE")]
    pub information: Option<PathBuf>,
    /// Trained prior, for codd [default: prior.safetensors in the checkpoint's folder]
    #[arg(long, value_name = "FILE")]
    pub prior: Option<PathBuf>,
    /// Where to compute: cpu, candle (the reference device: what runs on a GPU, on the CPU), cuda, cuda:N, cuda:all, metal, metal:N; several, separated by commas, each hold a copy of the model and share its work
    #[arg(long, default_value = "cpu", value_name = "DEVICE,…")]
    pub device: Devices,
    /// Precision of the weights [default: as stored]
    #[arg(long, value_enum)]
    pub dtype: Option<DtypeArg>,
    /// Read the weights into memory instead of mapping their files; for files that others may overwrite
    #[arg(long)]
    pub no_mmap: bool,
    /// Threads of the computation [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Which model, for commands that need only its config, tokenizer and chat template.
#[derive(Debug, Clone, Args)]
pub struct TextArgs {
    /// Checkpoint folder or Hub name (org/name[@revision]) [default: the small model inside this program]
    #[arg(long, short = 'm', value_name = "DIR|NAME")]
    pub model: Option<String>,
}

impl TextArgs {
    /// How that model reads and writes, without its weights.
    pub fn open(&self) -> Result<Text> {
        let mut downloads = Downloads::default();
        let loader = self.model.as_deref().map_or_else(Loader::embedded, Loader::new);
        Ok(loader.progress(&mut downloads).text()?)
    }
}

/// The folder of a checkpoint, downloaded first where that is needed.
pub fn folder(model: &str) -> Result<PathBuf> {
    Ok(source::resolve(model, &hub_options(), &mut Downloads::default())?)
}

/// Weight precisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DtypeArg {
    /// 32-bit floating point
    F32,
    /// bfloat16
    Bf16,
    /// 16-bit floating point
    F16,
    /// Linear maps as bytes with a scale per 128 weights
    Int8,
    /// Linear maps as four bits with a factor per 32 inputs and a scale per 128 (4.375 bits a weight), the head as bytes
    Q4,
}

impl DtypeArg {
    /// As it is written on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What the loader is told.
    pub fn precision(self) -> Precision {
        match self {
            Self::F32 => Precision::Float(Dtype::F32),
            Self::Bf16 => Precision::Float(Dtype::Bf16),
            Self::F16 => Precision::Float(Dtype::F16),
            Self::Int8 => Precision::INT8,
            Self::Q4 => Precision::Q4,
        }
    }
}

impl ModelArgs {
    /// Sets the size of the thread pool.
    fn set_threads(&self) -> Result<()> {
        if let Some(threads) = self.threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
            pool.build_global().context("cannot set the number of threads")?;
        }
        Ok(())
    }

    /// Load options of the first device, after setting the size of the thread pool.
    pub fn load_options(&self) -> Result<LoadOptions> {
        self.set_threads()?;
        Ok(self.each_options()?.swap_remove(0))
    }

    /// Load options of every copy of the model.
    fn each_options(&self) -> Result<Vec<LoadOptions>> {
        let (mapped, dtype) = (!self.no_mmap, self.dtype.map(DtypeArg::precision));
        let devices = self.device.open()?.into_iter();
        Ok(devices.map(|(device, composed)| LoadOptions { mapped, device, composed, dtype }).collect())
    }

    /// Where updates of a training are computed: on the first device. Where there are more, it is said what they are for:
    /// `shared` if passes of the model are.
    pub fn compute(&self, shared: bool) -> Result<Compute> {
        let (compute, more) = self.device.first()?;
        if more {
            let others = if shared { "help with passes of the model" } else { "have nothing to do" };
            eprintln!("note: updates are computed on the first device; the others {others}");
        }
        Ok(compute)
    }

    /// The loader of what the flags name.
    fn loader<'a>(&self, downloads: &'a mut Downloads) -> Result<Loader<'a>> {
        let loader = self.model.as_deref().map_or_else(Loader::embedded, Loader::new);
        let mut options = self.each_options()?;
        let loader = loader.options(options.remove(0));
        let loader = options.into_iter().fold(loader, Loader::replica);
        let loader = match &self.predictor {
            Some(file) => loader.predictor(file),
            None => loader,
        };
        let beside = Beside {
            assistant: self.assistant.clone(),
            policy: self.policy.clone(),
            sampler: self.sampler_layer.clone(),
            prior: self.prior.clone(),
            information: self.information.clone(),
        };
        Ok(loader.beside(beside).progress(downloads))
    }

    /// The same, where a checkpoint without a tokenizer will do.
    pub fn open_by_ids(&self) -> Result<Model> {
        // First of all: whatever is read in parallel would settle the number of threads.
        self.set_threads()?;
        self.warn()?;
        Ok(self.tell(self.loader(&mut Downloads::default())?.by_ids().load()?))
    }

    /// The model that the flags name, or the one inside this program.
    pub fn open(&self) -> Result<Model> {
        self.set_threads()?;
        self.warn()?;
        Ok(self.tell(self.loader(&mut Downloads::default())?.load()?))
    }

    /// Says on standard error where the model will not fit into memory, before anything of it is downloaded or read.
    fn warn(&self) -> Result<()> {
        let Some(model) = self.model.as_deref().filter(|_| self.device.is_cpu()) else {
            return Ok(());
        };
        if let Some(sentence) = too_large(model, self.dtype.map(DtypeArg::precision))? {
            eprintln!("warning: {sentence}");
        }
        Ok(())
    }

    /// Says on standard error which devices share the work, what was made of a predictor that did not come with this
    /// program, and which are there and not used.
    fn tell(&self, model: Model) -> Model {
        let copies = model.backbone().replicas();
        if copies > 1 {
            eprintln!("{copies} copies of the model share the work: {}", self.device);
        }
        if self.model.is_none() && self.predictor.is_none() {
            return model;
        }
        let others = model.passed_over();
        match model.understanding() {
            Some(understanding) => {
                let others = others.map(|others| format!("; {others}")).unwrap_or_default();
                eprintln!("predictor {understanding}{others}");
            }
            None => others.iter().for_each(|others| eprintln!("no predictor is used; {others}")),
        }
        model
    }

    /// That model's network and what strategies may use of it, without its tokenizer.
    pub fn network(&self) -> Result<(Transformer, Context)> {
        self.set_threads()?;
        Ok(self.loader(&mut Downloads::default())?.network()?)
    }

    /// The folder of the checkpoint that the flags name, which they must.
    pub fn folder(&self) -> Result<PathBuf> {
        let Some(model) = &self.model else {
            usage!("this command needs a checkpoint folder; give --model DIR or --model org/name");
        };
        folder(model)
    }
}

/// By which strategy and how a canvas is decoded.
#[derive(Debug, Clone, Args)]
pub struct DecodeArgs {
    /// Decoder, NAME[:key=value,…]; `demask strategies` lists them [default: demask, or threshold without a predictor]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    pub strategy: Option<StrategySpec>,
    #[command(flatten)]
    canvas: CanvasArgs,
}

/// The flags besides the strategy read as if they stood here.
impl std::ops::Deref for DecodeArgs {
    type Target = CanvasArgs;

    fn deref(&self) -> &CanvasArgs {
        &self.canvas
    }
}

/// How a canvas is decoded, whatever the strategy.
#[derive(Debug, Clone, Args)]
pub struct CanvasArgs {
    /// Length of the response canvas [default: the checkpoint's, else 128]
    #[arg(long, short = 'n', aliases = ["length", "max-tokens"], value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: Option<u32>,
    /// 0 takes the most probable tokens [default: the checkpoint's, else 0]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Keep the smallest set of tokens with this much probability
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Keep this many tokens
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// How tokens are drawn above temperature 0: categorical (Dream) or gumbel (LLaDA: noise in f64, no filters)
    #[arg(long, default_value = "categorical", value_name = "HOW")]
    pub sampler: Draw,
    /// Seed of all randomness
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    pub seed: u64,
    /// What happens after an end-of-sequence: auto (block-fill where the model attends block by block, else fill-after), fill-after, none, block-fill, stop
    #[arg(long, default_value = "auto", value_name = "POLICY")]
    pub eos: EosPolicy,
    /// Decode left to right in blocks of this many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub block_length: Option<u32>,
    /// Keys and values kept between steps, NAME[:key=value,…]: auto (exact), none (exact), prefix, dual, vicinity, delayed
    #[arg(long, default_value = "auto", value_name = "CACHE")]
    pub cache: CacheSpec,
    /// Replace decided tokens of the block by others whose probability is above this, beside any strategy (LLaDA2.1)
    #[arg(long, value_name = "P")]
    pub edit_threshold: Option<f32>,
    /// Most passes over a block that has no mask left, while decided tokens may be replaced
    #[arg(long, default_value_t = Editing::POST_STEPS, value_name = "N", requires = "edit_threshold")]
    pub post_steps: usize,
    /// Run N canvases that may come next beside each pass, and skip the passes that were guessed (self-speculation): the same text in fewer rounds
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub speculate: u32,
    /// Classifier-free guidance; each step then costs two passes
    #[arg(long, default_value_t = 0.0, value_name = "SCALE", allow_negative_numbers = true)]
    pub cfg: f32,
    /// Subtract this from the logits of end-of-sequence tokens
    #[arg(long, default_value_t = 0.0, value_name = "X", allow_negative_numbers = true)]
    pub eos_penalty: f32,
    /// Where the end of the response is held back: never, logits (only the end of turn may be written), confidence (positions that would end it are unmasked last)
    #[arg(long, default_value = "never", value_name = "WHERE")]
    pub hold_eos: HoldEos,
    /// No end-of-sequence among the first N tokens of the response
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub min_new_tokens: u32,
}

impl CanvasArgs {
    /// What the flags choose; the rest is the checkpoint's own.
    pub fn decoding(&self) -> Decoding {
        Decoding {
            strategy: None,
            length: self.max_new_tokens.map(|n| n as usize),
            min_length: self.min_new_tokens as usize,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            draw: Some(self.sampler),
            seed: self.seed,
            stream: 0,
            eos: self.eos,
            eos_penalty: self.eos_penalty,
            hold_eos: self.hold_eos,
            block_length: self.block_length.map(|n| n as usize),
            cache: self.cache.clone(),
            guidance: self.cfg,
            speculate: self.speculate as usize,
            editing: self.edit_threshold.map(|threshold| Editing { threshold, post_steps: self.post_steps }),
        }
    }
}

impl DecodeArgs {
    /// What the flags choose, with the strategy.
    pub fn decoding(&self) -> Decoding {
        Decoding { strategy: self.strategy.clone(), ..self.canvas.decoding() }
    }

    /// The same for this model; says on standard error where another decoder than DEMASK stands in for it.
    pub fn decoding_with(&self, model: &Model) -> Decoding {
        let decoding = self.decoding();
        announce(model, &decoding);
        decoding
    }
}

/// Says on standard error where another decoder than DEMASK stands in for it, for want of a predictor.
pub fn announce(model: &Model, decoding: &Decoding) {
    if let Some(sentence) = model.without_predictor(decoding) {
        eprintln!(
            "{sentence}; for DEMASK name a predictor with --predictor FILE|DIR|org/name, put its file into the \
             checkpoint's folder, or train one with demask predictor train"
        );
    }
}
