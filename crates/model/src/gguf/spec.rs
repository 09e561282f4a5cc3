//! A [`Spec`] as the metadata of a GGUF file: read, and written under the same keys.
//!
//! Keys are llama.cpp's wherever it has one. A family's own facts (shift, attention, norms) come from its mapping file;
//! `diffusion.shift_logits` and our `diffusion.block_length` and `diffusion.block_origin` may say otherwise.

use candle_core::quantized::gguf_file::Value;

use super::Gguf;
use crate::arch::{self, Architecture};
use crate::config::{Experts, FeedForward, Origin, Scoring, Shift, Spec, SpecialIds, Visibility};
use crate::error::Result;
use crate::layer::role;

/// Tokens that stand for the mask where the metadata name none.
const MASKS: [&str; 4] = ["<|mask|>", "<|mdm_mask|>", "<|MASK|>", "|<MASK>|"];
/// llama.cpp's numbers of the scoring functions.
const SOFTMAX: f64 = 1.0;
const SIGMOID: f64 = 2.0;

impl Gguf {
    /// The shape its metadata describe, through the same checks as a `config.json`.
    pub fn spec(&self) -> Result<Spec> {
        let name = self.text("general.architecture").unwrap_or("none");
        let family = arch::by_name(name).filter(|family| family.facts.gguf).ok_or_else(|| {
            let known: Vec<_> = arch::names().filter(|name| arch::has_gguf(name)).collect();
            self.bad(format!("its architecture is {name}; this engine runs {}", known.join(", ")))
        })?;
        if let Some(kind) = self.text(&format!("{name}.rope.scaling.type")).filter(|k| *k != "none") {
            return Err(
                self.bad(format!("its rotary embedding is scaled ({kind}), which this engine does not run"))
            );
        }
        let spec = self.read(family)?;
        match spec.problem() {
            None => Ok(spec),
            Some((field, problem)) => Err(self.bad(format!("{field} {problem}"))),
        }
    }

    fn read(&self, family: &'static Architecture) -> Result<Spec> {
        let (name, facts) = (family.name, family.facts);
        let number = |key: &str| self.number(&format!("{name}.{key}"));
        let size = |key: &str| number(key).map(|n| n as usize);
        let needed =
            |key: &str| size(key).ok_or_else(|| self.bad(format!("its metadata have no {name}.{key}")));
        let has = |tensor: &str| self.content.tensor_infos.contains_key(tensor);
        let table = self.content.tensor_infos.get("token_embd.weight");
        let rows = table.and_then(|t| t.shape.dims().first()).copied();
        let (hidden, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
        let head_dim = size("attention.key_length").unwrap_or(hidden / heads.max(1));
        let layers = needed("block_count")?;
        let block = self.number("diffusion.block_length").map(|n| n as usize);
        let attention = if block.is_some() { Visibility::BlockCausal } else { facts.attention };
        let ours = |key: &str| self.text(&format!("diffusion.{key}"));
        let qkv = if facts.fused_qkv { role::QKV } else { role::Q };
        Ok(Spec {
            vocab: rows.map_or_else(|| needed("vocab_size"), Ok)?,
            hidden,
            layers,
            heads,
            kv_heads: size("attention.head_count_kv").unwrap_or(heads),
            head_dim,
            ffn: size("feed_forward_length").filter(|&n| n > 0).unwrap_or(1),
            experts: self.experts(name, layers)?,
            eps: number("attention.layer_norm_rms_epsilon").unwrap_or(1e-6) as f32,
            rope_theta: number("rope.freq_base").unwrap_or(1e4),
            rotary: size("rope.dimension_count").filter(|&n| n > 0).unwrap_or(head_dim),
            qk_norm: has(&format!("blk.0.{}.weight", role::Q_NORM.0)),
            max_positions: needed("context_length")?,
            tied: !has("output.weight"),
            qkv_bias: has(&format!("blk.0.{}.bias", qkv.0)),
            fused_qkv: facts.fused_qkv,
            attention,
            block: block.or(facts.block),
            origin: match ours("block_origin") {
                Some("prompt") => Origin::Prompt,
                Some(_) => Origin::Response,
                None => facts.origin,
            },
            // Converters of LLaDA write false and those of Dream nothing.
            shift: match self.content.metadata.get("diffusion.shift_logits") {
                Some(Value::Bool(false)) => Shift::None,
                Some(Value::Bool(true)) if facts.shift == Shift::None => Shift::Global,
                _ => facts.shift,
            },
            ..Spec::plain(name, self.ids(facts.mask)?)
        })
    }

    fn ids(&self, family: Option<u32>) -> Result<SpecialIds> {
        let id = |name: &str| self.number(&format!("tokenizer.ggml.{name}_token_id")).map(|n| n as u32);
        let mask = id("mask").or_else(|| self.token_id(&MASKS).map(|id| id as u32)).or(family);
        let mask = mask.ok_or_else(|| self.bad("its metadata name no mask token".into()))?;
        let mut eos: Vec<u32> = id("eos").into_iter().collect();
        eos.extend(id("eot").filter(|id| !eos.contains(id)));
        Ok(SpecialIds { mask, eos, pad: id("padding"), bos: id("bos") })
    }

    fn experts(&self, name: &str, layers: usize) -> Result<Option<Experts>> {
        let number = |key: &str| self.number(&format!("{name}.{key}"));
        let size = |key: &str| number(key).map(|n| n as usize);
        let Some(count) = size("expert_count").filter(|&count| count > 0) else { return Ok(None) };
        let needed =
            |key: &str| size(key).ok_or_else(|| self.bad(format!("its metadata have no {name}.{key}")));
        let width = needed("expert_feed_forward_length")?;
        let in_layer = |layer: usize| format!("blk.{layer}.{}.weight", role::ROUTER.0);
        let shared = size("expert_shared_feed_forward_length")
            .unwrap_or_else(|| width * size("expert_shared_count").unwrap_or(0));
        Ok(Some(Experts {
            layers: (0..layers).map(|l| self.content.tensor_infos.contains_key(&in_layer(l))).collect(),
            count,
            chosen: needed("expert_used_count")?,
            width,
            shared,
            scoring: match number("expert_gating_func").unwrap_or(SOFTMAX) {
                SOFTMAX => Scoring::Softmax,
                SIGMOID => Scoring::Sigmoid,
                other => {
                    return Err(
                        self.bad(format!("its experts are scored by function {other}, which is unknown"))
                    );
                }
            },
            groups: size("expert_group_count").unwrap_or(1),
            groups_chosen: size("expert_group_used_count").unwrap_or(1),
            bias: self
                .content
                .tensor_infos
                .keys()
                .any(|t| t.ends_with(&format!("{}.bias", role::CHOICE_BIAS.0))),
            // Without a word, LLaDA-MoE does not normalise and every other family does.
            normalise: match self.content.metadata.get(&format!("{name}.expert_weights_norm")) {
                Some(Value::Bool(flag)) => *flag,
                _ => name != "llada-moe",
            },
            scale: number("expert_weights_scale").unwrap_or(1.0) as f32,
        }))
    }
}

/// The metadata of a shape.
pub(super) fn metadata(spec: &Spec) -> Vec<(String, Value)> {
    let arch = spec.architecture;
    let own = |key: &str, value: Value| (format!("{arch}.{key}"), value);
    let count = |key: &str, n: usize| own(key, Value::U32(n as u32));
    let mut all = vec![
        count("block_count", spec.layers),
        count("context_length", spec.max_positions),
        count("embedding_length", spec.hidden),
        count("feed_forward_length", spec.ffn),
        count("attention.head_count", spec.heads),
        count("attention.head_count_kv", spec.kv_heads),
        count("attention.key_length", spec.head_dim),
        count("attention.value_length", spec.head_dim),
        own("attention.layer_norm_rms_epsilon", Value::F32(spec.eps)),
        own("attention.causal", Value::Bool(false)),
        count("rope.dimension_count", spec.rotary),
        own("rope.freq_base", Value::F32(spec.rope_theta as f32)),
        count("vocab_size", spec.vocab),
        ("diffusion.shift_logits".to_owned(), Value::Bool(spec.shift.is_some())),
        ("tokenizer.ggml.mask_token_id".to_owned(), Value::U32(spec.ids.mask)),
    ];
    if let (Visibility::BlockCausal, Some(block)) = (spec.attention, spec.block) {
        let origin = if spec.origin == Origin::Prompt { "prompt" } else { "response" };
        all.push(("diffusion.block_length".to_owned(), Value::U32(block as u32)));
        all.push(("diffusion.block_origin".to_owned(), Value::String(origin.to_owned())));
    }
    if let Some(e) = &spec.experts {
        let dense = (0..spec.layers).take_while(|&l| matches!(spec.feed_forward(l), FeedForward::Dense(_)));
        let gating = if e.scoring == Scoring::Sigmoid { SIGMOID } else { SOFTMAX };
        all.extend([
            count("expert_count", e.count),
            count("expert_used_count", e.chosen),
            count("expert_feed_forward_length", e.width),
            count("leading_dense_block_count", dense.count()),
            count("expert_gating_func", gating as usize),
            own("expert_weights_norm", Value::Bool(e.normalise)),
            own("expert_weights_scale", Value::F32(e.scale)),
        ]);
        if e.groups > 1 {
            all.push(count("expert_group_count", e.groups));
            all.push(count("expert_group_used_count", e.groups_chosen));
        }
        if e.shared > 0 {
            all.push(count("expert_shared_feed_forward_length", e.shared));
            all.push(count("expert_shared_count", e.shared / e.width));
        }
    }
    let ids = [
        ("eos", spec.ids.eos.first().copied()),
        ("eot", spec.ids.eos.get(1).copied()),
        ("padding", spec.ids.pad),
        ("bos", spec.ids.bos),
    ];
    for (name, id) in ids {
        all.extend(id.map(|id| (format!("tokenizer.ggml.{name}_token_id"), Value::U32(id))));
    }
    all
}
