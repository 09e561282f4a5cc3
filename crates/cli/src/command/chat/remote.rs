//! A model behind a running server: requests as any OpenAI client makes them, read as a stream.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use demask::counted;
use demask::decode::{CacheSpec, Draw, EosPolicy, HoldEos, StrategySpec};
use demask::model::text::Message;
use serde_json::{Map, Value, json};

use super::{Args, Partner, joined, once};
use crate::command::serve::api_key;
use crate::view::besides;

pub(super) struct Remote<'a> {
    agent: ureq::Agent,
    /// Up to and with `/v1`.
    base: String,
    key: Option<String>,
    /// What `/v1/models` says of the model.
    model: Value,
    args: &'a Args,
    /// What the server remarked, which is said once.
    told: RefCell<Vec<String>>,
}

impl<'a> Remote<'a> {
    /// Asks the server for its model.
    pub(super) fn connect(url: &str, args: &'a Args) -> Result<Self> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            usage!("--url must begin with http:// or https://, not {url:?}");
        }
        let url = url.trim_end_matches('/');
        let base = if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") };
        let config = ureq::Agent::config_builder();
        let config = config.http_status_as_error(false).timeout_connect(Some(Duration::from_secs(10)));
        let agent = config.build().into();
        let mut remote = Self {
            agent,
            base,
            key: api_key(args.api_key.as_deref())?,
            model: Value::Null,
            args,
            told: RefCell::default(),
        };
        let answer = remote.authorized(remote.agent.get(format!("{}/models", remote.base))).call();
        let models: Value =
            serde_json::from_reader(remote.opened(answer)?).with_context(|| remote.unlike())?;
        remote.model = models["data"].get(0).cloned().ok_or_else(|| anyhow!(remote.unlike()))?;
        Ok(remote)
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header("authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// The body of an answer, or the server's own sentence why there is none.
    fn opened(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<BufReader<ureq::BodyReader<'static>>> {
        let answer = answer.with_context(|| format!("cannot reach {}", self.base))?;
        let status = answer.status();
        let mut body = BufReader::new(answer.into_body().into_reader());
        if status.is_success() {
            return Ok(body);
        }
        let said: Value = serde_json::from_reader(&mut body).unwrap_or_default();
        match said["error"]["message"].as_str() {
            Some(message) => bail!("the server answered {status}: {message}"),
            None => bail!("the server answered {status}"),
        }
    }

    fn unlike(&self) -> String {
        format!("{} does not answer like an OpenAI-compatible server", self.base)
    }

    /// The request: what the flags give, and nothing the server should choose.
    fn body(
        &self,
        messages: &[Message],
        strategy: Option<&StrategySpec>,
        seed: u64,
    ) -> (Map<String, Value>, bool) {
        let decode = &self.args.decode;
        let chat = self.model["chat"] != Value::Bool(false);
        let mut body = Map::new();
        let mut set =
            |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
        set("model", self.model.get("id").cloned());
        if chat {
            set("messages", Some(json!(messages)));
        } else {
            set("prompt", Some(joined(messages).into()));
        }
        set("stream", Some(true.into()));
        set("stream_options", Some(json!({ "include_usage": true })));
        set("seed", Some(seed.into()));
        set("strategy", strategy.map(|s| s.to_string().into()));
        set("max_tokens", decode.max_new_tokens.map(Into::into));
        set("temperature", decode.temperature.map(Into::into));
        set("top_p", decode.top_p.map(Into::into));
        set("top_k", decode.top_k.map(Into::into));
        set("block_length", decode.block_length.map(Into::into));
        set("eos", (decode.eos != EosPolicy::default()).then(|| json!(decode.eos)));
        set("sampler", (decode.sampler != Draw::default()).then(|| json!(decode.sampler)));
        set("cache", (decode.cache != CacheSpec::default()).then(|| decode.cache.to_string().into()));
        set("hold_eos", (decode.hold_eos != HoldEos::default()).then(|| decode.hold_eos.to_string().into()));
        set("edit_threshold", decode.edit_threshold.map(Into::into));
        set("post_steps", decode.edit_threshold.map(|_| decode.post_steps.into()));
        set("cfg", (decode.cfg != 0.0).then(|| decode.cfg.into()));
        set("eos_penalty", (decode.eos_penalty != 0.0).then(|| decode.eos_penalty.into()));
        set("min_tokens", (decode.min_new_tokens != 0).then(|| decode.min_new_tokens.into()));
        (body, chat)
    }
}

impl Partner for Remote<'_> {
    fn name(&self) -> String {
        format!("{} at {}", self.model["id"].as_str().unwrap_or("a model"), self.base)
    }

    fn default_strategy(&self) -> String {
        self.model["strategy"].as_str().unwrap_or("the server's decoder").to_owned()
    }

    fn check(&self, _: &StrategySpec) -> Result<()> {
        // The server knows what its model can use and says so when asked.
        Ok(())
    }

    fn answer(&self, messages: &[Message], strategy: Option<&StrategySpec>, seed: u64) -> Result<String> {
        let (body, chat) = self.body(messages, strategy, seed);
        let path = if chat { "chat/completions" } else { "completions" };
        let request =
            self.agent.post(format!("{}/{path}", self.base)).header("content-type", "application/json");
        let answer = self.authorized(request).send(Value::Object(body).to_string());
        let (mut text, mut cost, mut ended, mut out) = (String::new(), Value::Null, false, std::io::stdout());
        for line in self.opened(answer)?.lines() {
            let line = line.context("the server went away in the middle of its answer")?;
            let Some(data) = line.strip_prefix("data: ") else { continue };
            if data == "[DONE]" {
                ended = true;
                break;
            }
            let chunk: Value = serde_json::from_str(data).with_context(|| self.unlike())?;
            if let Some(message) = chunk["error"]["message"].as_str() {
                bail!("the server gave up: {message}");
            }
            let choice = &chunk["choices"][0];
            let piece = if chat { &choice["delta"]["content"] } else { &choice["text"] };
            let piece = piece.as_str().unwrap_or_default();
            write!(out, "{piece}")?;
            out.flush()?;
            text.push_str(piece);
            if chunk["demask"].is_object() {
                cost = chunk["demask"].clone();
            }
        }
        writeln!(out)?;
        if !ended {
            bail!("the server went away in the middle of its answer");
        }
        if self.args.show.stats && cost.is_object() {
            let count = |key: &str| cost[key].as_u64().unwrap_or(0) as usize;
            let seconds = cost["seconds"]["extra"].as_f64().unwrap_or(0.0);
            let besides = besides(count("assistant_rows"), count("inner_calls"), seconds);
            let (steps, passes) =
                (counted(count("steps"), "step"), counted(count("forwards"), "forward pass"));
            eprintln!("{}: {steps}, {passes}{besides}", cost["strategy"].as_str().unwrap_or_default());
        }
        once(&self.told, cost["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str));
        Ok(text)
    }
}
