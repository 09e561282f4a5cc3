//! Fields of a `config.json` that would change the numbers and that no layer here knows: refused by name, because
//! running without them gives wrong numbers without a word.

use serde_json::Value;

use crate::config::Fields;
use crate::error::Result;

/// The quantisation this engine writes itself.
pub(crate) const OWN_QUANTISATION: &str = "demask-int8";

/// Flags that must not be set.
const FLAGS: &[&str] = &[
    "alibi",
    "attn_temperature_tuning",
    "mlp_bias",
    "rope_interleave",
    "rope_interleaved",
    "use_alibi",
    "use_mrope",
    "use_parallel_residual",
    "use_sliding_window",
];

/// Values that must not be given: caps, clips, scales per layer, and tokens of another kind of decoding.
const VALUES: &[&str] = &[
    "attention_chunk_size",
    "attention_multiplier",
    "attn_logit_softcapping",
    "clip_qkv",
    "delete_token_id",
    "embedding_multiplier",
    "final_logit_softcapping",
    "logit_softcapping",
    "logits_soft_cap",
    "no_rope_layers",
    "query_pre_attn_scalar",
    "residual_multiplier",
    "rope_local_base_freq",
    "split_token_id",
];

/// Factors that must be 1.
const FACTORS: &[&str] =
    &["logit_scale", "logits_scaling", "partial_rotary_factor", "rotary_pct", "rotary_percent"];

/// Names that must be one of a few.
const CHOICES: &[(&str, &[&str])] = &[
    ("activation_function", &["silu", "swish"]),
    ("hidden_act", &["silu", "swish"]),
    ("hidden_activation", &["silu", "swish"]),
    ("position_embedding_type", &["rope", "rotary"]),
];

/// Refuses what no family here knows, but for the fields that a family judges itself.
pub(super) fn common(fields: &Fields<'_>, judged: &[&str]) -> Result<()> {
    unless_false(fields, FLAGS)?;
    unless_absent(fields, VALUES)?;
    for factor in FACTORS.iter().filter(|factor| !judged.contains(factor)) {
        unless_one(fields, &[factor])?;
    }
    for &(field, known) in CHOICES.iter().filter(|(field, _)| !judged.contains(field)) {
        unless_one_of(fields, field, known)?;
    }
    for field in ["rope_scaling", "rope_parameters"] {
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
    let Some(config) = fields.get(field) else { return Ok(()) };
    let kind = config.get("rope_type").or_else(|| config.get("type")).and_then(Value::as_str);
    let plain =
        kind == Some("default") || (kind.is_none() && config.as_object().is_some_and(|o| o.is_empty()));
    let moved = ["rope_theta", "partial_rotary_factor"]
        .into_iter()
        .find(|name| config.get(name).is_some_and(|v| fields.get(name) != Some(v)));
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
        if let Some(value) = fields.get(name) {
            return Err(fields.bad(name, format!("is {value}, which this engine does not run")));
        }
    }
    Ok(())
}

/// Refuses factors other than 1.
pub(super) fn unless_one(fields: &Fields<'_>, names: &[&str]) -> Result<()> {
    for name in names {
        let factor = fields.number(name, 1.0)?;
        if factor != 1.0 {
            return Err(fields.bad(name, format!("is {factor}; this engine runs 1")));
        }
    }
    Ok(())
}

/// Refuses numbers other than 0.
pub(super) fn unless_zero(fields: &Fields<'_>, names: &[&str]) -> Result<()> {
    for name in names {
        let number = fields.number(name, 0.0)?;
        if number != 0.0 {
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
