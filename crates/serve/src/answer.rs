//! Answers of the two OpenAI routes, whole or as a stream. Both read the same pieces of settled text, so that a
//! stream's texts joined are the whole answer's.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use demask_decode::Totals;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::engine::{Event, Order, Running};
use crate::error::Refusal;
use crate::fields::{Fields, short};
use crate::prompt::Prompt;
use crate::request::Request;
use crate::run::race;
use crate::settling::{Ending, Settling};
use crate::watch::now;
use crate::{Served, Server, ServerSettings};

/// Which of the two shapes an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `/v1/completions`.
    Text,
    /// `/v1/chat/completions`.
    Chat,
}

/// A checked request of either route.
pub(crate) struct Completion {
    form: Form,
    request: Request,
    /// Canvases: the choices of the first prompt, then those of the next.
    orders: Vec<Order>,
    choices: usize,
    prompt_tokens: usize,
    /// What is to be said of the prompts.
    remarks: Vec<String>,
    stream: bool,
    include_usage: bool,
    /// Texts to put in front, one per prompt, or none.
    pub(crate) echo: Vec<String>,
    /// Whether to tell the probabilities of committed tokens.
    pub(crate) logprobs: bool,
}

impl Completion {
    /// Takes what both routes share; nothing may be left then.
    pub(crate) fn take(
        mut fields: Fields,
        served: &Served,
        settings: &ServerSettings,
        form: Form,
        prompts: Vec<Prompt>,
    ) -> Result<Self, Refusal> {
        let choices = fields.count("n", 1, settings.max_canvases)?.unwrap_or(1);
        if prompts.len() * choices > settings.max_canvases {
            let message = format!("prompts × n must be at most {}", settings.max_canvases);
            return Err(Refusal::field("n", message));
        }
        let stream = fields.flag("stream")?;
        let include_usage = include_usage(&mut fields, stream)?;
        let request = Request::take(&mut fields, served, settings)?;
        fields.finish()?;
        let mut orders = Vec::new();
        for prompt in &prompts {
            for choice in 0..choices {
                orders.push(request.order(served, prompt, choice as u64)?);
            }
        }
        let prompt_tokens = prompts.iter().map(|p| p.given(served.model.ids().mask)).sum();
        let remarks = prompts.iter().flat_map(Prompt::remarks).cloned().collect();
        let (echo, logprobs) = (Vec::new(), false);
        Ok(Self {
            form,
            request,
            orders,
            choices,
            prompt_tokens,
            remarks,
            stream,
            include_usage,
            echo,
            logprobs,
        })
    }

    /// Choices per prompt.
    pub(crate) fn choices(&self) -> usize {
        self.choices
    }
}

fn include_usage(fields: &mut Fields, stream: bool) -> Result<bool, Refusal> {
    let Some(value) = fields.take("stream_options") else { return Ok(false) };
    if !stream {
        return Err(Refusal::field("stream_options", "needs stream to be true"));
    }
    let known = ["include_usage", "include_obfuscation"];
    let options =
        value.as_object().filter(|o| o.iter().all(|(k, v)| known.contains(&k.as_str()) && v.is_boolean()));
    match options {
        Some(options) => Ok(options.get("include_usage") == Some(&Value::Bool(true))),
        None => Err(Refusal::field(
            "stream_options",
            format!("must be {{\"include_usage\": true}}, not {}", short(&value)),
        )),
    }
}

/// Queues the canvases and answers.
pub(crate) async fn respond(server: Arc<Server>, mut asked: Completion) -> Result<Response, Refusal> {
    let orders = std::mem::take(&mut asked.orders);
    let texts = orders.iter().map(|o| asked.request.settling(o)).collect();
    let open = orders.len();
    let running = server.engine.submit(&server.served, orders)?;
    let collected = Collected { running, texts, totals: Totals::default(), open };
    let id = server.ids.next(if asked.form == Form::Chat { "chatcmpl" } else { "cmpl" });
    let answer = Answer { id, created: now(), server, asked };
    if !answer.asked.stream {
        return Ok(answer.whole(collected).await?.into_response());
    }
    let (stream, response) = Stream::open();
    tokio::spawn(async move {
        let told = answer.tell(&stream, collected);
        if let Some(Err(refusal)) = stream.while_open(told).await {
            stream.send(None, &refusal.body()).await;
        }
    });
    Ok(response)
}

/// Text that became final.
struct Piece {
    index: usize,
    text: String,
    ending: Option<Ending>,
}

/// The canvases of a request and their texts.
struct Collected {
    running: Running,
    texts: Vec<Settling>,
    totals: Totals,
    open: usize,
}

impl Collected {
    /// The next piece; `None` when every canvas has left.
    async fn next(&mut self, served: &Served) -> Result<Option<Piece>, Refusal> {
        while self.open > 0 {
            let Some((index, event)) = self.running.next().await else { return Err(Refusal::stopping()) };
            let text = &mut self.texts[index];
            let ended = text.ending().is_some();
            let new = match event {
                Event::Step(record) => text.step(served.model.tokenizer(), &record)?,
                Event::Done(done) => {
                    self.open -= 1;
                    self.totals.steps += done.totals.steps;
                    self.totals.forwards += done.totals.forwards;
                    self.totals.assistant_rows += done.totals.assistant_rows;
                    self.totals.inner_calls += done.totals.inner_calls;
                    self.totals.committed += done.totals.committed;
                    self.totals.seconds += done.totals.seconds;
                    text.finish(served.model.tokenizer(), &done.tokens)?
                }
                Event::Failed(refusal) => return Err(refusal),
            };
            let ending = text.ending().filter(|_| !ended);
            if ending.is_some() {
                self.running.enough(index);
            }
            if ending.is_some() || !new.is_empty() {
                return Ok(Some(Piece { index, text: new, ending }));
            }
        }
        Ok(None)
    }

    fn usage(&self, served: &Served, prompt_tokens: usize) -> Result<Value, Refusal> {
        let mut completion = 0;
        for text in &self.texts {
            completion += text.used(served.model.tokenizer())?.len();
        }
        Ok(json!({
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": prompt_tokens + completion,
        }))
    }
}

/// An answer being written.
struct Answer {
    id: String,
    created: u64,
    server: Arc<Server>,
    asked: Completion,
}

impl Answer {
    /// One JSON object when all is done.
    async fn whole(self, mut collected: Collected) -> Result<Json<Value>, Refusal> {
        let served = &self.server.served;
        while collected.next(served).await?.is_some() {}
        let mut choices = Vec::new();
        for (index, text) in collected.texts.iter().enumerate() {
            let reason = text.ending().map(Ending::reason);
            let logprobs = self.logprobs(index, text)?;
            choices.push(match self.asked.form {
                Form::Text => json!({
                    "index": index,
                    "text": format!("{}{}", self.echo(index), text.text()),
                    "logprobs": logprobs,
                    "finish_reason": reason,
                }),
                Form::Chat => json!({
                    "index": index,
                    "message": { "role": "assistant", "content": text.text(), "refusal": null },
                    "logprobs": logprobs,
                    "finish_reason": reason,
                }),
            });
        }
        let object = if self.asked.form == Form::Chat { "chat.completion" } else { "text_completion" };
        let mut body = self.envelope(object, choices);
        body["usage"] = collected.usage(served, self.asked.prompt_tokens)?;
        body["demask"] = remarked(cost(&self.asked.request, &collected.totals), &self.asked.remarks);
        Ok(Json(body))
    }

    /// Chunks as text settles.
    async fn tell(&self, stream: &Stream, mut collected: Collected) -> Result<(), Refusal> {
        let served = &self.server.served;
        for index in 0..collected.texts.len() {
            match self.asked.form {
                Form::Chat => {
                    self.send(stream, index, json!({ "role": "assistant", "content": "" }), None, None).await
                }
                Form::Text if !self.asked.echo.is_empty() => {
                    self.send(stream, index, self.echo(index).into(), None, None).await;
                }
                Form::Text => {}
            }
        }
        while let Some(Piece { index, text, ending }) = collected.next(served).await? {
            if !text.is_empty() {
                let delta =
                    if self.asked.form == Form::Chat { json!({ "content": text }) } else { text.into() };
                self.send(stream, index, delta, None, None).await;
            }
            if let Some(ending) = ending {
                let delta = if self.asked.form == Form::Chat { json!({}) } else { "".into() };
                let logprobs = self.logprobs(index, &collected.texts[index])?;
                self.send(stream, index, delta, logprobs, Some(ending)).await;
            }
        }
        if self.asked.include_usage {
            let mut body = self.chunk(Vec::new());
            body["usage"] = collected.usage(served, self.asked.prompt_tokens)?;
            body["demask"] = remarked(cost(&self.asked.request, &collected.totals), &self.asked.remarks);
            stream.send(None, &body).await;
        }
        stream.end().await;
        Ok(())
    }

    async fn send(
        &self,
        stream: &Stream,
        index: usize,
        delta: Value,
        logprobs: Option<Value>,
        ending: Option<Ending>,
    ) {
        let name = if self.asked.form == Form::Chat { "delta" } else { "text" };
        let reason = ending.map(Ending::reason);
        let choice = json!({ "index": index, name: delta, "logprobs": logprobs, "finish_reason": reason });
        stream.send(None, &self.chunk(vec![choice])).await;
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let object = if self.asked.form == Form::Chat { "chat.completion.chunk" } else { "text_completion" };
        let mut body = self.envelope(object, choices);
        if self.asked.include_usage {
            body["usage"] = Value::Null;
        }
        body
    }

    fn envelope(&self, object: &str, choices: Vec<Value>) -> Value {
        let model = self.server.served.model.name();
        json!({ "id": self.id, "object": object, "created": self.created, "model": model, "choices": choices })
    }

    fn echo(&self, index: usize) -> &str {
        self.asked.echo.get(index / self.asked.choices).map_or("", String::as_str)
    }

    /// Probabilities of the committed tokens at the moment they were committed, where asked for.
    fn logprobs(&self, index: usize, text: &Settling) -> Result<Option<Value>, Refusal> {
        if !self.asked.logprobs {
            return Ok(None);
        }
        let tokens = text.logprobs(self.server.served.model.tokenizer())?;
        if self.asked.form == Form::Chat {
            let entry = |(token, logprob): &(String, f32)| json!({ "token": token, "logprob": logprob, "bytes": token.as_bytes(), "top_logprobs": [] });
            return Ok(Some(
                json!({ "content": tokens.iter().map(entry).collect::<Vec<_>>(), "refusal": null }),
            ));
        }
        let mut offset = self.echo(index).chars().count();
        let offsets = tokens.iter().map(|(token, _)| {
            let start = offset;
            offset += token.chars().count();
            start
        });
        let offsets: Vec<usize> = offsets.collect();
        Ok(Some(json!({
            "tokens": tokens.iter().map(|(token, _)| token).collect::<Vec<_>>(),
            "token_logprobs": tokens.iter().map(|(_, logprob)| logprob).collect::<Vec<_>>(),
            "top_logprobs": tokens.iter().map(|(token, logprob)| json!({ token: logprob })).collect::<Vec<_>>(),
            "text_offset": offsets,
        })))
    }
}

/// Our own part of an answer: how it was decoded and what that took.
pub(crate) fn cost(request: &Request, totals: &Totals) -> Value {
    json!({
        "strategy": request.strategy.to_string(),
        "cache": request.decoding.cache.to_string(),
        "seed": request.decoding.seed,
        "steps": totals.steps,
        "forwards": totals.forwards,
        "rounds": totals.rounds,
        "assistant_rows": totals.assistant_rows,
        "inner_calls": totals.inner_calls,
        "seconds": totals.seconds,
    })
}

/// The same with what is to be said of the prompts, where there is anything.
pub(crate) fn remarked(mut cost: Value, remarks: &[String]) -> Value {
    if !remarks.is_empty() {
        cost["remarks"] = json!(remarks);
    }
    cost
}

/// Server-sent events on their way to a client.
pub(crate) struct Stream(mpsc::Sender<Result<Sent, Infallible>>);

impl Stream {
    /// A stream and the response that carries it.
    pub(crate) fn open() -> (Self, Response) {
        let (sender, receiver) = mpsc::channel(16);
        let response = Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default());
        (Self(sender), response.into_response())
    }

    /// Sends one event; a client that is gone is noticed by [`Self::while_open`].
    pub(crate) async fn send(&self, name: Option<&str>, data: &Value) {
        let event = Sent::default().data(data.to_string());
        let event = match name {
            Some(name) => event.event(name),
            None => event,
        };
        let _ = self.0.send(Ok(event)).await;
    }

    /// OpenAI's last line.
    async fn end(&self) {
        let _ = self.0.send(Ok(Sent::default().data("[DONE]"))).await;
    }

    /// Runs `work` as long as somebody listens.
    pub(crate) async fn while_open<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        race(work, self.0.closed()).await
    }
}
