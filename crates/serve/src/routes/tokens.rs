//! `POST /v1/tokenize` and `POST /v1/detokenize`: texts as token ids and back, each token with its own text.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{Body, parse};
use crate::error::Refusal;
use crate::fields::Fields;
use crate::{Served, Server, ServerSettings, prompt};

/// Ids of a text, in which `[MASK]` and `[MASK:5]` are masks.
pub(super) async fn tokenize(State(server): State<Arc<Server>>, body: Body) -> Result<Response, Refusal> {
    let text = parse(&server, body, encode).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Texts of ids.
pub(super) async fn detokenize(
    State(server): State<Arc<Server>>,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    parse(&server, body, decode).await
}

/// The text of each token by itself.
pub(super) fn texts(served: &Served, tokens: impl Iterator<Item = u32>) -> Result<Vec<String>, Refusal> {
    tokens.map(|token| Ok(served.model.tokenizer().decode_verbatim(&[token])?)).collect()
}

/// The answer's text, because the values it is made of take many times its memory.
fn encode(body: &[u8], served: &Served, settings: &ServerSettings) -> Result<String, Refusal> {
    let mut fields = Fields::parse(body)?;
    let Some(text) = fields.text("text")? else { return Err(Refusal::field("text", "is missing")) };
    fields.finish()?;
    let tokens = prompt::tokens_with_gaps(&text, served, settings.max_tokens)?;
    let texts = texts(served, tokens.iter().copied())?;
    let json = |list: serde_json::Result<String>| list.map_err(Refusal::internal);
    let (tokens, texts) = (json(serde_json::to_string(&tokens))?, json(serde_json::to_string(&texts))?);
    Ok(format!("{{\"tokens\":{tokens},\"texts\":{texts}}}"))
}

fn decode(body: &[u8], served: &Served, _: &ServerSettings) -> Result<Json<Value>, Refusal> {
    let mut fields = Fields::parse(body)?;
    let Some(tokens) = fields.take("tokens") else { return Err(Refusal::field("tokens", "is missing")) };
    fields.finish()?;
    let tokens = prompt::ids("tokens", &tokens, served)?;
    Ok(Json(
        json!({ "text": served.model.tokenizer().decode(&tokens)?, "texts": texts(served, tokens.into_iter())? }),
    ))
}
