//! `/health`, `/ready` and `/metrics`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::Server;
use crate::error::Refusal;

/// The process answers.
pub(super) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The model takes work.
pub(super) async fn ready(State(server): State<Arc<Server>>) -> Result<Json<Value>, Refusal> {
    if server.engine.is_alive() { Ok(Json(json!({ "status": "ready" }))) } else { Err(Refusal::stopping()) }
}

/// Prometheus' text form.
pub(super) async fn metrics(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, server.metrics.render(server.engine.waiting()))
}
