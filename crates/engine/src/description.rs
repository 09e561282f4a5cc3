//! What a checkpoint is and what running it will take: one value, shown as text or as JSON.
//!
//! Invariant: no weight is read, only how many there are; a folder with config and tokenizer alone can be described.

use std::fmt;
use std::path::{Path, PathBuf};

use demask_decode::dependency::{Candidates, Choice, Parts, PassedOver, Understanding, file_names};
use demask_model::checkpoint::{INDEX, Store, WEIGHTS};
use demask_model::config::{Experts, NormKind, Origin, Positions, Visibility};
use demask_model::gguf::{self, Gguf};
use demask_model::text::{ChatTemplate, Tokenizer};
use demask_model::{Precision, Spec, memory};
use serde::Serialize;

use crate::error::Result;
use crate::text::Text;
use crate::words::counted;

/// Experts described.
#[derive(Debug, Clone, Serialize)]
struct ExpertsDescribed {
    count: usize,
    chosen: usize,
    width: usize,
    shared: usize,
    layers: usize,
}

impl ExpertsDescribed {
    fn of(experts: &Experts) -> Self {
        let layers = experts.layers.iter().filter(|has| **has).count();
        let Experts { count, chosen, width, shared, .. } = *experts;
        Self { count, chosen, width, shared, layers }
    }
}

impl fmt::Display for ExpertsDescribed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} chosen, width {}", self.chosen, self.count, self.width)?;
        if self.shared > 0 {
            write!(f, ", a shared one of {}", self.shared)?;
        }
        write!(f, ", in {}", counted(self.layers, "layer"))
    }
}

/// A predictor described.
#[derive(Debug, Clone, Serialize)]
struct PredictorDescribed {
    /// The file, or the folder whose weights hold it.
    path: PathBuf,
    /// What was made of it.
    understood: String,
}

impl PredictorDescribed {
    /// Of the predictor that a checkpoint folder brings along; one that cannot be used is described too.
    fn of(folder: &Path, spec: &Spec, store: Option<&Store>) -> Option<Self> {
        let inside = store.and_then(|store| {
            let unclaimed = store.unclaimed(spec).ok()?;
            match Parts::inside(store, &unclaimed) {
                Ok(found) => found.map(|(_, understanding, _)| Self::told(&understanding)),
                Err(cause) => Some(Self { path: folder.to_owned(), understood: cause.to_string() }),
            }
        });
        let (choice, passed_over) = Candidates::of(folder).choose(inside.is_some());
        let there = |understood: String| Self { path: folder.to_owned(), understood };
        let passed_over = PassedOver::list(&passed_over);
        let found = match (choice, inside) {
            (Choice::File(file), _) => Some(match Parts::load(&file) {
                Ok((_, understanding)) => Self::told(&understanding),
                Err(cause) => Self { path: file, understood: cause.to_string() },
            }),
            (Choice::Several(several), _) => {
                Some(there(format!("several ({}), of which one must be chosen", file_names(&several))))
            }
            (_, inside) => {
                inside.or_else(|| passed_over.is_some().then(|| there("none that can be used".into())))
            }
        };
        found.map(|found| match &passed_over {
            Some(others) => Self { understood: format!("{}; {others}", found.understood), ..found },
            None => found,
        })
    }

    fn told(understanding: &Understanding) -> Self {
        Self { path: understanding.path.clone(), understood: understanding.summary() }
    }
}

impl fmt::Display for PredictorDescribed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        write!(f, "{}: {}", Path::new(name).display(), self.understood)
    }
}

/// A checkpoint described.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    folder: PathBuf,
    architecture: &'static str,
    parameters: usize,
    active_parameters: usize,
    experts: Option<ExpertsDescribed>,
    attention: &'static str,
    block: Option<usize>,
    /// Where blocks are counted from.
    blocks_from: Option<&'static str>,
    vocab: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    ffn: usize,
    rope_theta: Option<f64>,
    /// Dimensions of a head that rotate.
    rotary: Option<usize>,
    /// Query and key heads are normalised.
    qk_norm: bool,
    norm: &'static str,
    eps: f32,
    max_positions: usize,
    tied: bool,
    qkv_bias: bool,
    shift: bool,
    mask: u32,
    eos: Vec<u32>,
    pad: Option<u32>,
    bos: Option<u32>,
    weights_bytes: Option<usize>,
    length: usize,
    memory_bytes: usize,
    tokenizer: Option<usize>,
    chat_template: Option<Vec<String>>,
    predictor: Option<PredictorDescribed>,
    /// What was assumed, and fields of the config that nothing here understands.
    notes: Vec<String>,
    #[serde(skip)]
    tensors: usize,
    #[serde(skip)]
    unused_ids: usize,
    #[serde(skip)]
    memory: memory::Memory,
}

impl Description {
    /// Of a checkpoint folder or GGUF file; the memory is that of a canvas of `length` tokens in this precision (as
    /// stored if `None`).
    pub fn of(folder: &Path, precision: Option<Precision>, length: usize) -> Result<Self> {
        let gguf = if gguf::is_gguf(folder) { Some(Gguf::open(folder)?) } else { None };
        let (spec, notes) = Spec::from_folder_with_notes(folder)?;
        let store = match &gguf {
            None if has_weights(folder) => Some(Store::of_model(folder, &spec, true)?),
            _ => None,
        };
        let weights = match (&gguf, &store) {
            (Some(gguf), _) => Some((gguf.size_in_bytes(), gguf.tensors())),
            (None, Some(store)) => Some((store.size_in_bytes(), store.names().len())),
            (None, None) => None,
        };
        let chat = ChatTemplate::open(folder)?;
        let chat_template = chat.as_ref().map(|chat| chat.names().to_vec());
        let predictor = PredictorDescribed::of(folder, &spec, store.as_ref());
        let (spec, tokenizer) = if gguf.is_some() || has_tokenizer(folder) {
            let tokenizer = Tokenizer::open(folder, spec.vocab)?;
            let text = Text::new(folder, spec, tokenizer, chat);
            (text.spec().clone(), Some(text.tokenizer().clone()))
        } else {
            (spec, None)
        };
        let stored = weights.map(|(bytes, _)| bytes as f64 / spec.parameters() as f64);
        let memory = memory::estimate(&spec, stored, precision, length, tokenizer_bytes(folder));
        Ok(Self {
            folder: folder.to_owned(),
            architecture: spec.architecture,
            parameters: spec.parameters(),
            active_parameters: spec.active_parameters(),
            experts: spec.experts.as_ref().map(ExpertsDescribed::of),
            attention: if spec.attention == Visibility::Full { "full" } else { "block-causal" },
            block: spec.block.filter(|_| spec.attention == Visibility::BlockCausal),
            blocks_from: (spec.attention == Visibility::BlockCausal).then_some(match spec.origin {
                Origin::Prompt => "prompt",
                Origin::Response => "response",
            }),
            vocab: spec.vocab,
            hidden: spec.hidden,
            layers: spec.layers,
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            ffn: spec.ffn,
            rope_theta: (spec.positions == Positions::Rotary).then_some(spec.rope_theta),
            rotary: (spec.positions == Positions::Rotary).then_some(spec.rotary),
            qk_norm: spec.qk_norm,
            norm: if spec.norm == NormKind::Rms { "RMSNorm" } else { "LayerNorm" },
            eps: spec.eps,
            max_positions: spec.max_positions,
            tied: spec.tied,
            qkv_bias: spec.qkv_bias,
            shift: spec.shift.is_some(),
            mask: spec.ids.mask,
            eos: spec.ids.eos,
            pad: spec.ids.pad,
            bos: spec.ids.bos,
            weights_bytes: weights.map(|(bytes, _)| bytes),
            length,
            memory_bytes: memory.total(),
            tokenizer: tokenizer.as_ref().map(Tokenizer::size),
            chat_template,
            predictor,
            notes,
            tensors: weights.map_or(0, |(_, tensors)| tensors),
            unused_ids: tokenizer.map_or(0, |tokenizer| tokenizer.holes().len()),
            memory,
        })
    }

    /// Bytes that a decoding takes at its peak.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Whether the weights lie there, and not only the description of them.
    pub fn has_weights(&self) -> bool {
        self.weights_bytes.is_some()
    }

    /// What was made of the predictor that the checkpoint brings along, if it does.
    pub fn predictor(&self) -> Option<String> {
        self.predictor.as_ref().map(ToString::to_string)
    }

    fn positions(&self) -> String {
        let (Some(theta), Some(rotary)) = (self.rope_theta, self.rotary) else { return "learned".into() };
        match rotary == self.head_dim {
            true => format!("rope theta {theta}"),
            false => format!("rope theta {theta} of {rotary} dimensions"),
        }
    }

    fn active(&self) -> String {
        if self.active_parameters == self.parameters {
            return String::new();
        }
        format!(", {:.1} M of them active", self.active_parameters as f64 / 1e6)
    }

    /// The lines of the text: a name and what is said of it.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let optional = |id: Option<u32>| id.map_or("none".into(), |id: u32| id.to_string());
        let eos: Vec<String> = self.eos.iter().map(u32::to_string).collect();
        let memory = &self.memory;
        let mut lines = vec![
            ("folder", self.folder.display().to_string()),
            (
                "architecture",
                format!(
                    "{}, {:.1} M parameters{}",
                    self.architecture,
                    self.parameters as f64 / 1e6,
                    self.active()
                ),
            ),
            (
                "attention",
                match (self.block, self.blocks_from) {
                    (Some(block), Some(from)) => {
                        format!("block-causal, blocks of {block} from the {from}'s start")
                    }
                    _ => "full".into(),
                },
            ),
            ("experts", self.experts.as_ref().map_or("none".into(), ToString::to_string)),
            ("vocabulary", self.vocab.to_string()),
            ("hidden", format!("{} in {}, MLP {}", self.hidden, counted(self.layers, "layer"), self.ffn)),
            ("heads", format!("{} of {} with {} key/value heads", self.heads, self.head_dim, self.kv_heads)),
            ("context", format!("{} positions, {}", self.max_positions, self.positions())),
            (
                "numerics",
                format!(
                    "{} eps {:e}, qkv bias {}, q/k norms {}, tied head {}",
                    self.norm, self.eps, self.qkv_bias, self.qk_norm, self.tied
                ),
            ),
            ("logit shift", format!("row i{} predicts position i", if self.shift { "-1" } else { "" })),
            (
                "ids",
                format!(
                    "mask {}, eos {}, pad {}, bos {}",
                    self.mask,
                    eos.join("+"),
                    optional(self.pad),
                    optional(self.bos)
                ),
            ),
            (
                "weights",
                self.weights_bytes.map_or("none in this folder".into(), |bytes| {
                    format!("{} in {}", size(bytes), counted(self.tensors, "tensor"))
                }),
            ),
            (
                "tokenizer",
                self.tokenizer.map_or("none".into(), |tokens| {
                    format!(
                        "{}, {} of the vocabulary unused",
                        counted(tokens, "token"),
                        counted(self.unused_ids, "id")
                    )
                }),
            ),
            ("chat template", self.chat_template.as_ref().map_or("none".into(), |names| names.join(", "))),
            ("predictor", self.predictor.as_ref().map_or("none".into(), ToString::to_string)),
            (
                "memory",
                format!(
                    "about {} at {}: weights {}, then activations {} or logits {}, the rest {}",
                    size(memory.total()),
                    counted(self.length, "token"),
                    size(memory.weights),
                    size(memory.activations),
                    size(memory.logits),
                    size(memory.rest)
                ),
            ),
        ];
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        lines
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().into_iter().try_for_each(|(name, value)| writeln!(f, "{name:<18} {value}"))
    }
}

fn size(bytes: usize) -> String {
    let (unit, name) = if bytes >= 1 << 30 { (1_u64 << 30, "GiB") } else { (1 << 20, "MiB") };
    format!("{:.2} {name}", bytes as f64 / unit as f64)
}

fn tokenizer_bytes(folder: &Path) -> usize {
    std::fs::metadata(folder.join("tokenizer.json")).map_or(0, |file| file.len() as usize)
}

fn has_tokenizer(folder: &Path) -> bool {
    folder.join("tokenizer.json").exists() || folder.join("vocab.json").exists()
}

fn has_weights(folder: &Path) -> bool {
    let shards_here = || {
        std::fs::read_dir(folder).is_ok_and(|mut d| {
            d.any(|f| f.is_ok_and(|f| f.path().extension().is_some_and(|e| e == "safetensors")))
        })
    };
    folder.join(WEIGHTS).exists() || (folder.join(INDEX).exists() && shards_here())
}
