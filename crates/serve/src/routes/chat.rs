//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::{Body, parse};
use crate::answer::{Completion, Form, respond};
use crate::error::Refusal;
use crate::fields::Fields;
use crate::{Served, Server, ServerSettings, prompt};

/// Answers a conversation n times.
pub(super) async fn complete(State(server): State<Arc<Server>>, body: Body) -> Result<Response, Refusal> {
    let asked = parse(&server, body, read).await?;
    respond(server, asked).await
}

fn read(body: &[u8], served: &Served, settings: &ServerSettings) -> Result<Completion, Refusal> {
    let mut fields = Fields::parse(body)?;
    let prompt = prompt::chat(&mut fields, served)?;
    let logprobs = fields.flag("logprobs")?;
    if fields.count("top_logprobs", 0, 20)?.is_some() && !logprobs {
        return Err(Refusal::field("top_logprobs", "needs logprobs to be true"));
    }
    let mut asked = Completion::take(fields, served, settings, Form::Chat, vec![prompt])?;
    asked.logprobs = logprobs;
    Ok(asked)
}
