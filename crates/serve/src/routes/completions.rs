//! `POST /v1/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

use super::{Body, parse};
use crate::answer::{Completion, Form, respond};
use crate::error::Refusal;
use crate::fields::{Fields, short};
use crate::{Served, Server, ServerSettings, prompt};

/// Completes each prompt n times.
pub(super) async fn complete(State(server): State<Arc<Server>>, body: Body) -> Result<Response, Refusal> {
    let asked = parse(&server, body, read).await?;
    respond(server, asked).await
}

fn read(body: &[u8], served: &Served, settings: &ServerSettings) -> Result<Completion, Refusal> {
    let mut fields = Fields::parse(body)?;
    let prompts = prompt::completions(&mut fields, served)?;
    let (prompts, texts): (Vec<_>, Vec<_>) = prompts.into_iter().unzip();
    let echo = fields.flag("echo")?;
    let logprobs = match fields.take("logprobs") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(value) if value.as_u64().is_some_and(|n| n <= 20) => true,
        Some(value) => {
            return Err(Refusal::field(
                "logprobs",
                format!("must be a number from 0 to 20, not {}", short(&value)),
            ));
        }
    };
    let best_of = fields.count("best_of", 1, settings.max_canvases)?;
    let mut asked = Completion::take(fields, served, settings, Form::Text, prompts)?;
    if best_of.is_some_and(|best| best != asked.choices()) {
        return Err(Refusal::field("best_of", "is only supported where it equals n"));
    }
    asked.echo = if echo { texts } else { Vec::new() };
    asked.logprobs = logprobs;
    Ok(asked)
}
