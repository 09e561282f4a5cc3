//! `POST /v1/denoise`: the whole decoding as server-sent events, every step with the texts of its tokens.
//!
//! Events: `start` (a trace header with texts), `step` (a step record, with texts and what it changed), `done` (text and
//! cost) or `error`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use demask_decode::StepRecord;
use demask_decode::replay::Replay;
use demask_decode::trace::TraceHeader;
use serde_json::{Value, json};

use super::replay::changes;
use super::tokens::texts;
use super::{Body, parse};
use crate::answer::{Stream, cost};
use crate::engine::{Done, Event, Order, Running};
use crate::error::Refusal;
use crate::fields::Fields;
use crate::prompt::{self, Prompt};
use crate::request::Request;
use crate::settling::{Ending, Settling};
use crate::{Served, Server, ServerSettings};

/// A checked request.
pub(super) struct Denoising {
    request: Request,
    order: Order,
    prompt: Prompt,
}

/// Streams the steps.
pub(super) async fn denoise(State(server): State<Arc<Server>>, body: Body) -> Result<Response, Refusal> {
    let asked = parse(&server, body, read).await?;
    let mut telling = Telling::begin(&server, asked)?;
    let (stream, response) = Stream::open();
    tokio::spawn(async move {
        let told = async {
            while let Some((event, value)) = telling.next(&server.served).await? {
                stream.send(Some(event), &value).await;
            }
            Ok::<_, Refusal>(())
        };
        if let Some(Err(refusal)) = stream.while_open(told).await {
            stream.send(Some("error"), &refusal.body()).await;
        }
    });
    Ok(response)
}

/// A decoding on its way, told event by event.
pub(super) struct Telling {
    asked: Denoising,
    start: Option<Value>,
    running: Running,
    text: Settling,
    replay: Replay,
    ended: bool,
}

impl Telling {
    /// Queues what was asked.
    pub(super) fn begin(server: &Server, asked: Denoising) -> Result<Self, Refusal> {
        let (served, request, canvas) = (&server.served, &asked.request, &asked.order.canvas);
        let decoding = &request.decoding;
        let header = TraceHeader::new(canvas, &request.strategy, &decoding.cache, decoding.seed)
            .with_predictor(served.model.understanding());
        let mut start = json!(header);
        start["id"] = server.ids.next("denoise").into();
        start["model"] = served.model.name().into();
        start["texts"] = json!(texts(served, canvas.tokens().iter().copied())?);
        start["remarks"] = json!(asked.prompt.remarks());
        start["eos"] = json!(served.model.ids().eos);
        let (text, replay) = (request.settling(&asked.order), Replay::of(canvas));
        let running = server.engine.submit(served, vec![asked.order.clone()])?;
        Ok(Self { start: Some(start), running, text, replay, ended: false, asked })
    }

    /// The next event and its name; `None` after the last.
    pub(super) async fn next(&mut self, served: &Served) -> Result<Option<(&'static str, Value)>, Refusal> {
        if let Some(start) = self.start.take() {
            return Ok(Some(("start", start)));
        }
        if self.ended {
            return Ok(None);
        }
        match self.running.next().await {
            Some((_, Event::Step(record))) => {
                self.text.step(served.model.tokenizer(), &record)?;
                let told = step(served, &mut self.replay, &record)?;
                if self.text.ending() == Some(Ending::Stop) && !self.asked.request.stops.is_empty() {
                    self.running.enough(0);
                }
                Ok(Some(("step", told)))
            }
            Some((_, Event::Done(done))) => {
                self.ended = true;
                Ok(Some(("done", end(served, &self.asked, &mut self.text, &done)?)))
            }
            Some((_, Event::Failed(refusal))) => Err(refusal),
            None => Err(Refusal::stopping()),
        }
    }
}

/// A record with the text of each commit, and what it changed.
fn step(served: &Served, replay: &mut Replay, record: &StepRecord) -> Result<Value, Refusal> {
    let mut value = json!(record);
    value["changes"] = changes(served.model.tokenizer(), &replay.step(record).map_err(Refusal::internal)?)?;
    value["texts"] = json!(texts(served, record.commits.iter().map(|c| c.token))?);
    Ok(value)
}

fn end(served: &Served, asked: &Denoising, text: &mut Settling, done: &Done) -> Result<Value, Refusal> {
    text.finish(served.model.tokenizer(), &done.tokens)?;
    let (shown, reason) = match asked.prompt {
        Prompt::Open { .. } => (text.text().to_owned(), text.ending().map(Ending::reason)),
        Prompt::Gaps { start, .. } => (served.model.tokenizer().decode(&done.tokens[start..])?, Some("stop")),
    };
    Ok(json!({
        "text": shown,
        "finish_reason": reason,
        "tokens": done.tokens,
        "demask": cost(&asked.request, &done.totals),
    }))
}

/// Reads a request.
pub(super) fn read(body: &[u8], served: &Served, settings: &ServerSettings) -> Result<Denoising, Refusal> {
    let mut fields = Fields::parse(body)?;
    let dependency = fields.flag("include_dependency")?;
    let prompt = if fields.has("messages") {
        if let Some(other) = ["prompt", "text", "tokens"].into_iter().find(|name| fields.has(name)) {
            return Err(Refusal::field(other, "is another prompt beside messages; give one of them"));
        }
        prompt::chat(&mut fields, served)?
    } else if fields.has("text") || fields.has("tokens") {
        prompt::infill(&mut fields, served, settings.max_tokens)?
    } else {
        let mut prompts = prompt::completions(&mut fields, served)?;
        match prompts.pop() {
            Some((prompt, _)) if prompts.is_empty() => prompt,
            _ => return Err(Refusal::field("prompt", "must be one prompt")),
        }
    };
    let request = Request::take(&mut fields, served, settings)?;
    fields.finish()?;
    let order = Order { dependency, ..request.order(served, &prompt, 0)? };
    Ok(Denoising { request, order, prompt })
}
