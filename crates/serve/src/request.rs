//! Settings of a decoding from a request's fields: OpenAI's names and ours.
//!
//! Everything is checked here, before a canvas is queued; parameters of the strategy are fields of their own name.

use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use demask_decode::registry::Kind;
use demask_decode::{Editing, StrategySpec, strategy};
use demask_engine::Decoding;
use serde_json::{Value, json};

use crate::engine::Order;
use crate::error::Refusal;
use crate::fields::{Fields, short};
use crate::openapi::{count, text};
use crate::prompt::Prompt;
use crate::settling::Settling;
use crate::{Served, ServerSettings};

type Result<T> = std::result::Result<T, Refusal>;

/// Below this a temperature only loses digits; clients write tiny values to mean "greedy".
const COLDEST: f64 = 1e-3;
/// Largest whole-number parameter of a strategy.
const LARGEST_COUNT: usize = 4096;
/// Stop strings of a request.
const STOPS: usize = 64;
/// Well-known fields that are accepted and have no effect.
const IGNORED: [&str; 8] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "parallel_tool_calls",
];

/// How every canvas of a request is decoded.
pub(crate) struct Request {
    /// What was chosen, completed with what this server chooses; its strategy is always named.
    pub(crate) decoding: Decoding,
    pub(crate) strategy: StrategySpec,
    pub(crate) stops: Vec<String>,
    revises: bool,
}

impl Request {
    /// Takes the settings out of the fields; what is left then belongs to nobody.
    pub(crate) fn take(fields: &mut Fields, served: &Served, settings: &ServerSettings) -> Result<Self> {
        check_model(fields, served)?;
        neutral_fields(fields)?;
        let usual = &served.decoding;
        let mut decoding = Decoding {
            length: length(fields, settings)?,
            seed: seed(fields)?,
            eos: named(fields, "eos")?.unwrap_or(usual.eos),
            eos_penalty: fields.number("eos_penalty", -1e4, 1e4)?.unwrap_or(0.0) as f32,
            min_length: fields.count("min_tokens", 0, settings.max_tokens)?.unwrap_or(0),
            hold_eos: named(fields, "hold_eos")?.unwrap_or_default(),
            block_length: fields.count("block_length", 1, settings.max_tokens)?.or(usual.block_length),
            cache: named(fields, "cache")?.unwrap_or_else(|| usual.cache.clone()),
            speculate: fields.count("speculate", 0, 64)?.unwrap_or(usual.speculate),
            guidance: fields.number("cfg", 0.0, 100.0)?.unwrap_or(0.0) as f32,
            editing: editing(fields)?.or(usual.editing),
            ..Decoding::default()
        };
        sampling(fields, &mut decoding)?;
        decoding.sampling(&served.model.defaults().sampling)?;
        let stops = stops(fields)?;
        let (strategy, revises) = take_strategy(fields, served)?;
        decoding.strategy = Some(strategy.clone());
        // An edited token is replaced after it was decided.
        let revises = revises || decoding.editing.is_some();
        Ok(Self { decoding, strategy, stops, revises })
    }

    /// The text of an order of this request, before the first step.
    pub(crate) fn settling(&self, order: &Order) -> Settling {
        Settling::new(&order.canvas, self.revises, &self.stops)
    }

    /// The canvas of a prompt, as the `stream`-th choice of it.
    pub(crate) fn order(&self, served: &Served, prompt: &Prompt, stream: u64) -> Result<Order> {
        let model = &served.model;
        let decoding = Decoding { stream, ..self.decoding.clone() };
        let canvas = match prompt {
            Prompt::Open { before, after, .. } if after.is_empty() => model.canvas(before, &decoding)?,
            Prompt::Open { before, after, .. } => {
                let length = model.length(&decoding, before.len() + after.len())?;
                let masks = std::iter::repeat_n(model.ids().mask, length);
                let tokens: Vec<u32> = before.iter().copied().chain(masks).chain(after.clone()).collect();
                model.infill_canvas(&tokens)?
            }
            Prompt::Gaps { tokens, .. } => model.infill_canvas(tokens)?,
        };
        Ok(Order { canvas, decoding, dependency: false })
    }
}

/// The fields that [`Request::take`] reads, as an OpenAPI document describes them: the settings that all routes share.
pub(crate) fn documented() -> Vec<(String, Value)> {
    let number = |help: &str, low: f64, high: f64, example: f64| json!({ "description": help, "type": "number", "minimum": low, "maximum": high, "examples": [example] });
    let mut all = vec![
        ("model".to_owned(), text("the model's name as /v1/models lists it", "")),
        ("strategy".to_owned(), text("a decoder, NAME[:key=value,…]; /v1/strategies lists them", "entropy")),
        ("temperature".to_owned(), number("0 takes the most probable tokens", 0.0, 100.0, 0.5)),
        ("top_p".to_owned(), number("nucleus of the token draw", 0.0, 1.0, 0.9)),
        ("top_k".to_owned(), count("tokens that may be drawn; 0 or -1 keeps all", 20)),
        (
            "sampler".to_owned(),
            text("how tokens are drawn: categorical (Dream), or gumbel (LLaDA: noise, no filters)", "gumbel"),
        ),
        (
            "seed".to_owned(),
            count("the same seed gives the same answer; without one the server draws one", 7),
        ),
        (
            "eos".to_owned(),
            text("what an end of sequence does: auto, fill-after, none, block-fill or stop", "stop"),
        ),
        ("eos_penalty".to_owned(), number("taken off the logits of ends of sequence", -1e4, 1e4, 0.5)),
        (
            "hold_eos".to_owned(),
            text("where the end of the response is held back: never, logits or confidence", "confidence"),
        ),
        ("min_tokens".to_owned(), count("no end of sequence before this many tokens", 1)),
        ("block_length".to_owned(), count("decode left to right in blocks of this many tokens", 8)),
        ("cache".to_owned(), text("rows kept between steps, NAME[:key=value,…]; none is exact", "prefix")),
        (
            "edit_threshold".to_owned(),
            number("decided tokens of the block give way to others above this probability", 0.0, 1.0, 0.9),
        ),
        ("post_steps".to_owned(), count("at most this many passes for edits alone, with edit_threshold", 16)),
        (
            "speculate".to_owned(),
            count("canvases that may come next, run beside each pass: the same text in fewer rounds", 3),
        ),
        ("cfg".to_owned(), number("classifier-free guidance; a step then costs two passes", 0.0, 100.0, 0.5)),
    ];
    for param in strategy::ALL.iter().flat_map(|entry| entry.params) {
        if all.iter().any(|(name, _)| name == param.key) {
            continue;
        }
        let users = strategy::ALL.iter().filter(|e| e.params.iter().any(|p| p.key == param.key));
        let names: Vec<&str> = users.map(|entry| entry.name).collect();
        let help = format!("{} ({})", param.help, names.join(", "));
        let schema = match param.kind {
            Kind::Count | Kind::Whole => count(&help, 3),
            Kind::Number(low, high) if high.is_finite() => number(&help, low, high, low.midpoint(high)),
            Kind::Number(low, _) => {
                json!({ "description": help, "type": "number", "minimum": low, "examples": [low] })
            }
            Kind::Open(words) => {
                json!({ "description": help, "type": "string", "examples": [words[0]] })
            }
            Kind::Choice(words) => {
                json!({ "description": help, "type": "string", "enum": words, "examples": [words[0]] })
            }
        };
        all.push((param.key.to_owned(), schema));
    }
    all
}

fn check_model(fields: &mut Fields, served: &Served) -> Result<()> {
    match fields.text("model")? {
        Some(name) if name != served.model.name() => {
            Err(Refusal::model(&short(&Value::from(name)).replace('"', "")))
        }
        _ => Ok(()),
    }
}

/// Fields of OpenAI's that are accepted where they change nothing.
fn neutral_fields(fields: &mut Fields) -> Result<()> {
    for name in IGNORED {
        fields.take(name);
    }
    for name in ["presence_penalty", "frequency_penalty"] {
        fields.neutral(name, |v| v.as_f64() == Some(0.0))?;
    }
    fields.neutral("logit_bias", |v| v.as_object().is_some_and(serde_json::Map::is_empty))?;
    fields.neutral("tools", |v| v.as_array().is_some_and(Vec::is_empty))?;
    fields.neutral("tool_choice", |v| v == "none" || v == "auto")?;
    fields.neutral("modalities", |v| *v == serde_json::json!(["text"]))?;
    fields.neutral("response_format", |v| v.get("type").is_some_and(|kind| kind == "text"))
}

fn length(fields: &mut Fields, settings: &ServerSettings) -> Result<Option<usize>> {
    if fields.has("max_tokens") && fields.has("max_completion_tokens") {
        return Err(Refusal::field(
            "max_tokens",
            "is the older name of max_completion_tokens; give one of them",
        ));
    }
    let length = fields.count("max_tokens", 1, settings.max_tokens)?;
    Ok(length.or(fields.count("max_completion_tokens", 1, settings.max_tokens)?))
}

/// The seed, or a fresh one of as many bits as every JSON reader keeps.
fn seed(fields: &mut Fields) -> Result<u64> {
    match fields.take("seed") {
        None => Ok(RandomState::new().hash_one(()) >> 11),
        Some(value) => match (value.as_u64(), value.as_i64()) {
            (Some(seed), _) => Ok(seed),
            (None, Some(seed)) => Ok(seed.cast_unsigned()),
            _ => Err(Refusal::field("seed", format!("must be a 64-bit whole number, not {}", short(&value)))),
        },
    }
}

/// Editing of decided tokens (LLaDA 2.1).
fn editing(fields: &mut Fields) -> Result<Option<Editing>> {
    let threshold = fields.number("edit_threshold", 0.0, 1.0)?;
    let post_steps = fields.count("post_steps", 0, LARGEST_COUNT)?;
    match (threshold, post_steps) {
        (None, Some(_)) => Err(Refusal::field("post_steps", "needs edit_threshold beside it")),
        (None, None) => Ok(None),
        (Some(threshold), steps) => {
            let post_steps = steps.unwrap_or(Editing::POST_STEPS);
            Ok(Some(Editing { threshold: threshold as f32, post_steps }))
        }
    }
}

fn sampling(fields: &mut Fields, decoding: &mut Decoding) -> Result<()> {
    let temperature = fields.number("temperature", 0.0, 100.0)?;
    decoding.temperature = temperature.map(|t| if t < COLDEST { 0.0 } else { t as f32 });
    decoding.top_p = fields.number("top_p", 0.0, 1.0)?.map(|p| p as f32);
    // Both 0 and -1 are written for "all tokens" by clients of other servers.
    let all = fields.take("top_k").filter(|v| v.as_i64() != Some(-1) && v.as_i64() != Some(0));
    decoding.top_k = match all {
        None => None,
        Some(value) => match value.as_u64().and_then(|k| usize::try_from(k).ok()) {
            Some(k) => Some(k),
            None => {
                return Err(Refusal::field(
                    "top_k",
                    format!("must be a whole number, not {}", short(&value)),
                ));
            }
        },
    };
    decoding.draw = named(fields, "sampler")?;
    Ok(())
}

fn stops(fields: &mut Fields) -> Result<Vec<String>> {
    let stops = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(stop)) => vec![stop],
        Some(Value::Array(list)) if list.len() <= STOPS => list
            .into_iter()
            .map(|stop| match stop {
                Value::String(stop) => Ok(stop),
                other => Err(Refusal::field("stop", format!("must hold strings, not {}", short(&other)))),
            })
            .collect::<Result<_>>()?,
        Some(other) => {
            let problem =
                format!("must be a string or a list of at most {STOPS} strings, not {}", short(&other));
            return Err(Refusal::field("stop", problem));
        }
    };
    if stops.iter().any(String::is_empty) {
        return Err(Refusal::field("stop", "must not be empty"));
    }
    Ok(stops)
}

/// A value by its name, spelled as everywhere.
fn named<T: FromStr<Err = demask_decode::Error>>(fields: &mut Fields, field: &str) -> Result<Option<T>> {
    let parse = |text: String| text.parse().map_err(|error| Refusal::field(field, error));
    fields.text(field)?.map(parse).transpose()
}

/// The strategy, with the parameters that are given as fields, and whether it masks tokens again.
fn take_strategy(fields: &mut Fields, served: &Served) -> Result<(StrategySpec, bool)> {
    let mut spec = match fields.text("strategy")? {
        Some(text) => {
            served.model.parse_strategy(&text).map_err(|error| Refusal::field("strategy", error))?
        }
        None => served.model.strategy(&served.decoding),
    };
    let entries = served.model.context().registry.entries();
    let is_parameter = |name: &str| entries.iter().any(|e| e.params.iter().any(|p| p.key == name));
    for name in fields.names().into_iter().filter(|name| is_parameter(name)) {
        let value = match fields.take(&name) {
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => number.to_string(),
            other => {
                let found = short(&other.unwrap_or_default());
                return Err(Refusal::field(&name, format!("must be a number or a string, not {found}")));
            }
        };
        spec = spec.with(&name, value).map_err(|error| Refusal::field(&name, error))?;
    }
    let spec = served.model.meant(spec);
    for (key, value) in spec.given() {
        if value.parse::<usize>().is_ok_and(|v| v > LARGEST_COUNT) {
            return Err(Refusal::field(
                key,
                format!("is {value}, more than this server's limit of {LARGEST_COUNT}"),
            ));
        }
    }
    let revises = spec.build(served.model.context())?.revises();
    Ok((spec, revises))
}
