//! Settings of a decoding from a request's fields: OpenAI's names and ours.
//!
//! Everything is checked here, before a canvas is queued; parameters of the strategy are fields of their own name.

use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use demask_decode::{
    CacheSpec, Canvas, Draw, EosPolicy, HoldEos, Options, Sampling, StrategySpec, Suppression,
};
use serde_json::Value;

use crate::engine::Order;
use crate::error::Refusal;
use crate::fields::{Fields, short};
use crate::prompt::Prompt;
use crate::settling::Settling;
use crate::{Served, Settings};

type Result<T> = std::result::Result<T, Refusal>;

/// Below this a temperature only loses digits; clients write tiny values to mean "greedy".
const COLDEST: f64 = 1e-3;
/// Largest whole-number parameter of a strategy.
const LARGEST_COUNT: usize = 4096;
/// Stop strings of a request.
const STOPS: usize = 64;
/// Length of the response when neither request nor checkpoint says.
pub(crate) const DEFAULT_LENGTH: usize = 128;
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
pub(crate) struct Decoding {
    pub(crate) strategy: StrategySpec,
    pub(crate) seed: u64,
    pub(crate) stops: Vec<String>,
    revises: bool,
    options: Options,
    length: Option<usize>,
    min_tokens: usize,
}

impl Decoding {
    /// Takes the settings out of the fields; what is left then belongs to nobody.
    pub(crate) fn take(fields: &mut Fields, served: &Served, settings: &Settings) -> Result<Self> {
        check_model(fields, served)?;
        neutral_fields(fields)?;
        let length = length(fields, settings)?;
        let seed = seed(fields)?;
        let eos = named::<EosPolicy>(fields, "eos")?.unwrap_or(served.defaults.eos);
        let ids = &served.ids;
        let mut suppressed = served.tokenizer.holes();
        suppressed.push(ids.mask);
        let penalty = fields.number("eos_penalty", -1e4, 1e4)?.unwrap_or(0.0) as f32;
        let min_tokens = fields.count("min_tokens", 0, settings.max_tokens)?.unwrap_or(0);
        let mut suppression = Suppression {
            ids: suppressed,
            eos_penalty: penalty,
            no_eos_before: 0,
            eos: if penalty != 0.0 || min_tokens > 0 { ids.eos.clone() } else { Vec::new() },
            ..Suppression::default()
        };
        suppression.hold(named::<HoldEos>(fields, "hold_eos")?.unwrap_or_default(), &ids.eos);
        let options = Options {
            sampling: sampling(fields, &served.defaults.sampling)?,
            eos,
            block_length: fields
                .count("block_length", 1, settings.max_tokens)?
                .or(served.defaults.block_length),
            seed,
            cache: named(fields, "cache")?.unwrap_or_else(|| served.defaults.cache.clone()),
            guidance: fields.number("cfg", 0.0, 100.0)?.unwrap_or(0.0) as f32,
            suppression,
            ..Options::default()
        };
        let stops = stops(fields)?;
        let (strategy, revises) = take_strategy(fields, served)?;
        Ok(Self { strategy, seed, stops, revises, options, length, min_tokens })
    }

    /// The text of an order of this decoding, before the first step.
    pub(crate) fn settling(&self, order: &Order) -> Settling {
        Settling::new(&order.canvas, self.revises, &self.stops)
    }

    /// The cache of every canvas.
    pub(crate) fn cache(&self) -> &CacheSpec {
        &self.options.cache
    }

    /// The canvas of a prompt, as the `stream`-th choice of it.
    pub(crate) fn order(&self, served: &Served, prompt: &Prompt, stream: u64) -> Result<Order> {
        let spec = served.backbone.spec();
        let canvas = match prompt {
            Prompt::Open { before, after } => {
                let given = before.len() + after.len();
                let length = self.length_for(served, given)?;
                let mut tokens = before.clone();
                tokens.resize(before.len() + length, served.ids.mask);
                tokens.extend(after);
                if after.is_empty() {
                    Canvas::generate(before, length, &served.ids)?
                } else {
                    Canvas::infill(&tokens, &served.ids)?
                }
            }
            Prompt::Gaps { tokens, .. } => Canvas::infill(tokens, &served.ids)?,
        };
        let total = canvas.tokens().len();
        if total > spec.max_positions {
            let context = spec.max_positions;
            return Err(Refusal::context(format!(
                "the text has {total} tokens, the model's context is {context}"
            )));
        }
        if spec.shift && canvas.response().start == 0 {
            return Err(Refusal::request(
                "the prompt is empty; this model predicts each token from the one before it and needs at least one",
            ));
        }
        let mut options = Options { stream, ..self.options.clone() };
        options.suppression.no_eos_before = canvas.response().start + self.min_tokens;
        Ok(Order { canvas, strategy: self.strategy.clone(), options, dependency: false })
    }

    /// Length of the response: what was asked for, or the default as far as it fits.
    fn length_for(&self, served: &Served, given: usize) -> Result<usize> {
        let context = served.backbone.spec().max_positions;
        let room = context.saturating_sub(given);
        let asked =
            self.length.unwrap_or_else(|| served.defaults.max_new_tokens.unwrap_or(DEFAULT_LENGTH).min(room));
        if asked > room || asked == 0 {
            return Err(Refusal::context(format!(
                "the prompt has {given} tokens and the response {}, together more than the model's context of {context}",
                asked.max(1)
            )));
        }
        Ok(asked)
    }
}

fn check_model(fields: &mut Fields, served: &Served) -> Result<()> {
    match fields.text("model")? {
        Some(name) if name != served.name => Err(Refusal::model(&short(&Value::from(name)).replace('"', ""))),
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

fn length(fields: &mut Fields, settings: &Settings) -> Result<Option<usize>> {
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

fn sampling(fields: &mut Fields, defaults: &Sampling) -> Result<Sampling> {
    let temperature = fields.number("temperature", 0.0, 100.0)?;
    let temperature = temperature.map(|t| if t < COLDEST { 0.0 } else { t as f32 });
    let top_p = fields.number("top_p", 0.0, 1.0)?.map(|p| p as f32);
    // Both 0 and -1 are written for "all tokens" by clients of other servers.
    let all = fields.take("top_k").filter(|v| v.as_i64() != Some(-1) && v.as_i64() != Some(0));
    let top_k = match all {
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
    let draw = named::<Draw>(fields, "sampler")?.unwrap_or(defaults.draw);
    let defaults = defaults.drawn_by(draw);
    let sampling = Sampling {
        temperature: temperature.unwrap_or(defaults.temperature),
        top_p: top_p.or(defaults.top_p),
        top_k: top_k.or(defaults.top_k),
        draw,
    };
    sampling.check()?;
    Ok(sampling)
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
            served.context.registry.parse(&text).map_err(|error| Refusal::field("strategy", error))?
        }
        None => served.defaults.strategy.clone(),
    };
    let entries = served.context.registry.entries();
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
    for (key, value) in spec.given() {
        if value.parse::<usize>().is_ok_and(|v| v > LARGEST_COUNT) {
            return Err(Refusal::field(
                key,
                format!("is {value}, more than this server's limit of {LARGEST_COUNT}"),
            ));
        }
    }
    let revises = spec.build(&served.context)?.revises();
    Ok((spec, revises))
}
