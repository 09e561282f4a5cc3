//! Fields of a `config.json` that would change the numbers and that no layer here knows: refused by name, because
//! running without them gives wrong numbers without a word.

use serde_json::Value;

use crate::config::Fields;
use crate::error::Result;

/// Where later versions of transformers write the rotary embedding.
const ROPE_PARAMETERS: &str = "rope_parameters";

/// The quantisation this engine writes itself.
pub(crate) const OWN_QUANTISATION: &str = "demask-int8";

/// Flags that must not be set.
const FLAGS: &[&str] = &[
    "alibi",
    "attn_output_gate",
    "attn_temperature_tuning",
    "mlp_bias",
    "moe_router_enable_expert_bias",
    "mup_enabled",
    "norm_head",
    "parallel_attn",
    "parallel_residual",
    "rope_interleave",
    "rope_interleaved",
    "scale_attn_by_inverse_layer_idx",
    "scale_embedding",
    "use_alibi",
    "use_bias",
    "use_linear_attention",
    "use_mrope",
    "use_parallel_residual",
    "use_sliding_window",
];

/// Values that must not be given: caps, clips, scales per layer, and tokens of another kind of decoding.
const VALUES: &[&str] = &[
    "attention_chunk_size",
    "attention_multiplier",
    "attention_scale",
    "attn_logit_softcap",
    "attn_logit_softcapping",
    "attn_scale",
    "clip_qkv",
    "delete_token_id",
    "dim_model_base",
    "final_logit_softcap",
    "final_logit_softcapping",
    "kv_lora_rank",
    "logit_softcapping",
    "logits_soft_cap",
    "no_rope_layer_interval",
    "no_rope_layers",
    "q_lora_rank",
    "query_pre_attn_scalar",
    "rope_local_base_freq",
    "router_logit_softcapping",
    "scale_depth",
    "sliding_window_pattern",
    "split_token_id",
];

/// Factors and counts that must be 1.
const FACTORS: &[&str] = &[
    "embedding_multiplier",
    "lm_head_multiplier",
    "logit_scale",
    "logits_scaling",
    "moe_layer_freq",
    "n_group",
    "partial_rotary_factor",
    "residual_multiplier",
    "rotary_pct",
    "rotary_percent",
    "routed_scaling_factor",
    "router_num_group",
    "router_topk_group",
    "scale_emb",
    "topk_group",
];

/// Counts and widths that must be 0: layers and experts of another kind.
const ZEROS: &[&str] = &[
    "first_k_dense_replace",
    "moe_shared_expert_intermediate_size",
    "n_shared_experts",
    "num_shared_experts",
    "shared_expert_intermediate_size",
];

/// Names that must be one of a few.
const CHOICES: &[(&str, &[&str])] = &[
    ("activation", &["silu", "swish"]),
    ("activation_function", &["silu", "swish"]),
    ("hidden_act", &["silu", "swish"]),
    ("hidden_activation", &["silu", "swish"]),
    ("mlp_act", &["silu", "swish"]),
    ("mlp_activation", &["silu", "swish"]),
    ("moe_router_score_function", &["softmax"]),
    ("norm_type", &["rmsnorm", "rms_norm", "rms", "RMSNorm"]),
    ("position_embedding_type", &["rope", "rotary"]),
    ("score_function", &["softmax"]),
    ("scoring_func", &["softmax"]),
    ("topk_method", &["greedy"]),
];

/// Parts and ends of names that tell what a field is for even where nothing here knows it: where a row looks, how positions
/// turn, and what numbers are multiplied by or cut at.
const TELLING_PARTS: &[&str] = &["alibi", "rope", "rotary", "soft_cap", "softcap", "window"];
const TELLING_ENDS: &[&str] = &["_multiplier", "_scale", "_scaling"];

/// Refuses what no family here knows, but for the fields that a family judges itself.
pub(super) fn common(fields: &Fields<'_>, judged: &[&str]) -> Result<()> {
    let open =
        |list: &'static [&'static str]| list.iter().copied().filter(move |field| !judged.contains(field));
    open(FLAGS).try_for_each(|flag| unless_false(fields, &[flag]))?;
    open(VALUES).try_for_each(|value| unless_absent(fields, &[value]))?;
    open(FACTORS).try_for_each(|factor| unless_one(fields, &[factor]))?;
    open(ZEROS).try_for_each(|count| unless_zero(fields, &[count]))?;
    for &(field, known) in CHOICES.iter().filter(|(field, _)| !judged.contains(field)) {
        unless_one_of(fields, field, known)?;
    }
    for field in ["rope_scaling", ROPE_PARAMETERS] {
        rope(fields, field)?;
    }
    // Where the flag says no, the width beside it is not used.
    if fields.get("use_sliding_window").is_none() {
        unless_absent(fields, &["sliding_window"])?;
    }
    let layers = fields.get("layer_types").and_then(Value::as_array);
    if let Some(other) = layers.and_then(|list| list.iter().find(|kind| **kind != "full_attention")) {
        return Err(fields.bad("layer_types", format!("names {other}; this engine runs full attention")));
    }
    for field in ["quantization_config", "compression_config"] {
        let Some(config) = fields.get(field) else { continue };
        if config["quant_method"] != OWN_QUANTISATION {
            let problem = format!(
                "asks for {}; this engine reads plain weights, GGUF, and what `demask quantize` writes",
                config["quant_method"]
            );
            return Err(fields.bad(field, problem));
        }
    }
    Ok(())
}

/// A rotary embedding other than the plain one; the base may be written inside.
fn rope(fields: &Fields<'_>, field: &str) -> Result<()> {
    let Some(config) = fields.given(field) else { return Ok(()) };
    let kind = config.get("rope_type").or_else(|| config.get("type")).and_then(Value::as_str);
    let plain =
        kind == Some("default") || (kind.is_none() && config.as_object().is_some_and(|o| o.is_empty()));
    // A base that stands in there alone is read from there.
    let moved = ["rope_theta", "partial_rotary_factor"].into_iter().find(|&name| {
        let outside = fields.get(name);
        let alone = outside.is_none() && (field, name) == (ROPE_PARAMETERS, "rope_theta");
        !alone && config.get(name).is_some_and(|v| outside != Some(v))
    });
    match (plain, moved) {
        (true, None) => Ok(()),
        (true, Some(name)) => {
            Err(fields.bad(field, format!("gives a `{name}` of its own; write it as a field of config.json")))
        }
        (false, _) => {
            Err(fields.bad(field, format!("is {config}; this engine runs plain rotary embeddings")))
        }
    }
}

/// The base of the rotary embedding, which must be given: the published classes do not agree on a default.
pub(super) fn rope_theta(fields: &Fields<'_>) -> Result<f64> {
    let inside = fields.given(ROPE_PARAMETERS).and_then(|config| config.get("rope_theta")?.as_f64());
    match (fields.get("rope_theta"), inside) {
        (None, Some(theta)) => Ok(theta),
        _ => fields.needed("rope_theta"),
    }
}

/// Refuses a field that nothing here knows and whose name says that it changes the numbers, unless its value says that
/// there is no such thing.
pub(super) fn if_telling(fields: &Fields<'_>, name: &str) -> Result<()> {
    let telling = TELLING_PARTS.iter().any(|part| name.contains(part))
        || (TELLING_ENDS.iter().any(|end| name.ends_with(end)) && !name.contains("loss"));
    let nothing = |value: &Value| match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number <= 0.0 || number == 1.0),
        Value::String(text) => matches!(text.as_str(), "default" | "none"),
        Value::Array(list) => list.is_empty(),
        Value::Object(inside) => inside.is_empty(),
        Value::Bool(_) | Value::Null => false,
    };
    match fields.given(name) {
        Some(value) if telling && !nothing(value) => {
            Err(fields.bad(name, format!("is {value}, and nothing here knows what it does to the numbers")))
        }
        _ => Ok(()),
    }
}

/// Refuses flags that are set.
pub(super) fn unless_false(fields: &Fields<'_>, names: &[&str]) -> Result<()> {
    for name in names {
        if fields.flag(name, false)? {
            return Err(fields.bad(name, "is true, which this engine does not run".into()));
        }
    }
    Ok(())
}

/// Refuses fields that are there.
pub(super) fn unless_absent(fields: &Fields<'_>, names: &[&str]) -> Result<()> {
    for name in names {
        if let Some(value) = fields.given(name) {
            return Err(fields.bad(name, format!("is {value}, which this engine does not run")));
        }
    }
    Ok(())
}

/// Refuses factors and counts other than 1.
pub(super) fn unless_one(fields: &Fields<'_>, names: &[&str]) -> Result<()> {
    for name in names {
        if let Some(factor) = fields.given(name).filter(|factor| factor.as_f64() != Some(1.0)) {
            return Err(fields.bad(name, format!("is {factor}; this engine runs 1")));
        }
    }
    Ok(())
}

/// Refuses numbers other than 0.
pub(super) fn unless_zero(fields: &Fields<'_>, names: &[&str]) -> Result<()> {
    for name in names {
        if let Some(number) = fields.given(name).filter(|number| number.as_f64() != Some(0.0)) {
            return Err(
                fields.bad(name, format!("is {number}, which this engine does not run in this family"))
            );
        }
    }
    Ok(())
}

/// Refuses a text that is not one of these.
pub(super) fn unless_one_of(fields: &Fields<'_>, name: &str, known: &[&str]) -> Result<()> {
    match fields.get(name) {
        Some(value) if !value.as_str().is_some_and(|text| known.contains(&text)) => {
            Err(fields.bad(name, format!("is {value}; this engine runs {:?}", known[0])))
        }
        _ => Ok(()),
    }
}
