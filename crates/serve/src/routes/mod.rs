//! The routes, one file each, and how a body becomes fields.

mod chat;
mod completions;
mod denoise;
mod infill;
mod models;
mod opening;
mod replay;
mod status;
mod strategies;
mod tasks;
mod tokens;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};

use crate::error::Refusal;
use crate::watch::watch;
use crate::{Served, Server, ServerSettings, openapi, page};

pub(crate) use replay::told;

/// A path, its method, and what answers there.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    handler: fn() -> MethodRouter<Arc<Server>>,
}

macro_rules! routes {
    ($($method:ident $path:literal $handler:expr,)*) => {
        /// Everything this server answers; the OpenAPI document lists the same.
        pub(crate) const ROUTES: &[Route] = &[
            $(Route { method: stringify!($method), path: $path, handler: || $method($handler) },)*
        ];
    };
}

routes! {
    get "/" page::index,
    get "/embed" page::embed,
    get "/page/{name}" page::file,
    get "/openapi.json" openapi::document,
    get "/health" status::health,
    get "/ready" status::ready,
    get "/metrics" status::metrics,
    get "/v1/models" models::list,
    get "/v1/models/{*name}" models::retrieve,
    get "/v1/strategies" strategies::list,
    post "/v1/completions" completions::complete,
    post "/v1/chat/completions" chat::complete,
    post "/v1/infill" infill::infill,
    post "/v1/denoise" denoise::denoise,
    post "/v1/replay" replay::replay,
    post "/v1/tokenize" tokens::tokenize,
    post "/v1/detokenize" tokens::detokenize,
    get "/v1/opening" opening::opening,
    get "/v1/tasks" tasks::list,
    post "/v1/tasks/problem" tasks::problem,
    post "/v1/tasks/check" tasks::check,
}

/// Paths that ask for no key: nothing of the model or of others is told there.
pub(crate) const OPEN: [&str; 5] = ["/", "/embed", "/openapi.json", "/health", "/ready"];

/// A body, or why it could not be read.
type Body = Result<Bytes, BytesRejection>;

/// The HTTP service.
pub fn app(server: Arc<Server>) -> Router {
    let routes = ROUTES.iter().fold(Router::new(), |all, route| all.route(route.path, (route.handler)()));
    routes
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
    parse: fn(&[u8], &Served, &ServerSettings) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let body = body_bytes(server, body)?;
    if !server.engine.has_room(1) {
        return Err(Refusal::busy());
    }
    // The blocking threads are many; the memory is not.
    let weight = u32::try_from(body.len().div_ceil(1024)).unwrap_or(u32::MAX);
    let _share = server.parsing.acquire_many(weight).await.map_err(Refusal::internal)?;
    let server = server.clone();
    let parsed = tokio::task::spawn_blocking(move || parse(&body, &server.served, &server.settings)).await;
    parsed.map_err(Refusal::internal)?
}

fn body_bytes(server: &Server, body: Body) -> Result<Bytes, Refusal> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let message =
                format!("the body is larger than this server's limit of {} bytes", server.settings.max_body);
            Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        _ => Refusal::request("the body could not be read"),
    })
}
