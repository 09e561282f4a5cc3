//! `POST /v1/replay`: a trace file told again, what every step changed and the texts of it. The page draws what it reads
//! here and in the steps of [`super::denoise`]; it applies no record itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use demask_decode::replay::{Change, Place, Replay};
use demask_decode::trace::Trace;
use serde_json::{Value, json};

use super::tokens::texts;
use super::{Body, parse};
use crate::error::Refusal;
use crate::fields::Fields;
use crate::{Served, Server, ServerSettings};

/// Changes of every step of a trace.
pub(super) async fn replay(State(server): State<Arc<Server>>, body: Body) -> Result<Json<Value>, Refusal> {
    parse(&server, body, read).await
}

fn read(body: &[u8], served: &Served, _: &ServerSettings) -> Result<Json<Value>, Refusal> {
    let mut fields = Fields::parse(body)?;
    let Some(text) = fields.text("trace")? else { return Err(Refusal::field("trace", "is missing")) };
    fields.finish()?;
    let trace =
        Trace::parse(&text).map_err(|why| Refusal::field("trace", format!("is not a trace: {why}")))?;
    let mut replay = Replay::new(&trace.header);
    let texts = texts(served, trace.header.tokens.iter().copied())?;
    let mut steps = Vec::with_capacity(trace.steps.len());
    for record in &trace.steps {
        steps.push(changes(served, &replay.step(record).map_err(Refusal::internal)?)?);
    }
    Ok(Json(json!({ "texts": texts, "eos": served.model.ids().eos, "steps": steps })))
}

/// What a step changed, every token with its text.
pub(super) fn changes(served: &Served, changes: &[Change]) -> Result<Value, Refusal> {
    let told = changes.iter().map(|change| {
        let mut value = json!(change);
        if let Place::Given { token } | Place::Committed { token, .. } = change.place {
            value["text"] = served.model.tokenizer().decode_verbatim(&[token])?.into();
        }
        Ok(value)
    });
    told.collect()
}
