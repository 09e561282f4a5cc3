//! The routes, one file each, and how a body becomes fields.

mod chat;
mod completions;
mod denoise;
mod infill;
mod models;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::error::Refusal;
use crate::watch::watch;
use crate::{Served, Server, Settings};

/// All paths, as they are counted.
pub(crate) const ROUTES: [&str; 8] = [
    "/health",
    "/ready",
    "/metrics",
    "/v1/models",
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/infill",
    "/v1/denoise",
];

/// A body, or why it could not be read.
type Body = Result<Bytes, BytesRejection>;

/// The HTTP service.
pub fn app(server: Arc<Server>) -> Router {
    Router::new()
        .route("/health", get(status::health))
        .route("/ready", get(status::ready))
        .route("/metrics", get(status::metrics))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*name}", get(models::retrieve))
        .route("/v1/completions", post(completions::complete))
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/infill", post(infill::infill))
        .route("/v1/denoise", post(denoise::denoise))
        .fallback(async || Refusal::http(StatusCode::NOT_FOUND, "there is no such path"))
        .method_not_allowed_fallback(async || {
            Refusal::http(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
        })
        .layer(DefaultBodyLimit::max(server.settings.max_body))
        .layer(from_fn_with_state(server.clone(), watch))
        .with_state(server)
}

/// Parses a body off the threads that serve connections: tokenizing a long prompt takes a while. When the queue has no
/// room the body is not even looked at.
async fn parse<T: Send + 'static>(
    server: &Arc<Server>,
    body: Body,
    parse: fn(&[u8], &Served, &Settings) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let message =
                format!("the body is larger than this server's limit of {} bytes", server.settings.max_body);
            Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        _ => Refusal::request("the body could not be read"),
    })?;
    if !server.engine.has_room(1) {
        return Err(Refusal::busy());
    }
    let server = server.clone();
    let parsed = tokio::task::spawn_blocking(move || parse(&body, &server.served, &server.settings)).await;
    parsed.map_err(Refusal::internal)?
}
