//! `POST /v1/infill`: decides the gaps of a text; everything else stays as it is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::{Body, parse};
use crate::answer::{cost, remarked};
use crate::engine::{Event, Order};
use crate::error::Refusal;
use crate::fields::Fields;
use crate::prompt::{self, Prompt};
use crate::request::Request;
use crate::watch::now;
use crate::{Served, Server, ServerSettings};

struct Infilling {
    request: Request,
    order: Order,
    given: usize,
    start: usize,
    remarks: Vec<String>,
}

/// Fills the gaps.
pub(super) async fn infill(State(server): State<Arc<Server>>, body: Body) -> Result<Json<Value>, Refusal> {
    let Infilling { request, order, given, start, remarks } = parse(&server, body, read).await?;
    let before = order.canvas.tokens().to_vec();
    let (served, mask) = (&server.served, order.canvas.ids().mask);
    let mut running = server.engine.submit(served, vec![order])?;
    let done = loop {
        match running.next().await {
            Some((_, Event::Step(_))) => {}
            Some((_, Event::Done(done))) => break done,
            Some((_, Event::Failed(refusal))) => return Err(refusal),
            None => return Err(Refusal::stopping()),
        }
    };
    let gaps = before.iter().zip(&done.tokens).collect::<Vec<_>>();
    let gaps = gaps.chunk_by(|a, b| (*a.0 == mask) == (*b.0 == mask)).filter(|run| *run[0].0 == mask);
    let gaps =
        gaps.map(|run| served.model.tokenizer().decode(&run.iter().map(|(_, t)| **t).collect::<Vec<_>>()));
    let gaps: Vec<String> = gaps.collect::<Result<_, _>>()?;
    let written = before.len() - given;
    Ok(Json(json!({
        "id": server.ids.next("infill"),
        "object": "infill",
        "created": now(),
        "model": served.model.name(),
        "text": served.model.tokenizer().decode(&done.tokens[start..])?,
        "gaps": gaps,
        "token_ids": &done.tokens[start..],
        "usage": { "prompt_tokens": given, "completion_tokens": written, "total_tokens": before.len() },
        "demask": remarked(cost(&request, &done.totals), &remarks),
    })))
}

fn read(body: &[u8], served: &Served, settings: &ServerSettings) -> Result<Infilling, Refusal> {
    let mut fields = Fields::parse(body)?;
    for name in ["stop", "max_tokens", "max_completion_tokens"] {
        if fields.has(name) {
            return Err(Refusal::field(name, "has no meaning for a text with gaps"));
        }
    }
    let prompt = prompt::infill(&mut fields, served, settings.max_tokens)?;
    let request = Request::take(&mut fields, served, settings)?;
    fields.finish()?;
    let start = if let Prompt::Gaps { start, .. } = prompt { start } else { 0 };
    let order = request.order(served, &prompt, 0)?;
    let (given, remarks) = (prompt.given(served.model.ids().mask), prompt.remarks().to_vec());
    Ok(Infilling { order, request, given, start, remarks })
}
