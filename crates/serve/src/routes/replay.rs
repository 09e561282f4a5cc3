//! `POST /v1/replay`: a trace file told again, what every step changed and the texts of it. The page draws what it reads
//! here and in the steps of [`super::denoise`]; it applies no record itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use demask_decode::replay::{Change, Place, Replay};
use demask_decode::trace::Trace;
use demask_model::text::Tokenizer;
use serde_json::{Value, json};

use super::{Body, parse};
use crate::error::{Error, Refusal};
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
    told(&trace, served.model.tokenizer(), &served.model.ids().eos).map(Json).map_err(Refusal::internal)
}

/// A trace told again: the texts of its first tokens, the ends of sequence, and what every step changed.
pub(crate) fn told(trace: &Trace, tokenizer: &Tokenizer, eos: &[u32]) -> Result<Value, Error> {
    let mut replay = Replay::new(&trace.header);
    let text = |token: &u32| tokenizer.decode_verbatim(&[*token]);
    let texts = trace.header.tokens.iter().map(text).collect::<demask_model::Result<Vec<_>>>()?;
    let mut steps = Vec::with_capacity(trace.steps.len());
    for record in &trace.steps {
        let step = replay.step(record).map_err(Error::Replay)?;
        steps.push(changes(tokenizer, &step)?);
    }
    Ok(json!({ "texts": texts, "eos": eos, "steps": steps }))
}

/// What a step changed, every token with its text.
pub(super) fn changes(tokenizer: &Tokenizer, changes: &[Change]) -> demask_model::Result<Value> {
    let told = changes.iter().map(|change| {
        let mut value = json!(change);
        if let Place::Given { token } | Place::Committed { token, .. } = change.place {
            value["text"] = tokenizer.decode_verbatim(&[token])?.into();
        }
        Ok(value)
    });
    told.collect()
}
