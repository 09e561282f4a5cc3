//! What happens to every request: its id, the key, the log line and the counters.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::error::Refusal;
use crate::routes::{OPEN, ROUTES};
use crate::{Server, intake};

const REQUEST_ID: &str = "x-request-id";

/// Names for requests and answers, different on every start.
#[derive(Default)]
pub(crate) struct Ids {
    key: RandomState,
    count: AtomicU64,
}

impl Ids {
    /// A fresh id.
    pub(crate) fn next(&self, prefix: &str) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:016x}", self.key.hash_one(count))
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The layer around all routes.
pub(crate) async fn watch(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = request_id(request.headers(), &server.ids);
    let (method, path) = (request.method().clone(), request.uri().path());
    let route = ROUTES.iter().map(|route| route.path).find(|known| *known == path).unwrap_or("other");
    let open = OPEN.contains(&route) || path.starts_with("/page/");
    let origin = intake::allowed_origin(&server, request.headers());
    let answered = match intake::greet(&server, &request) {
        Some(response) => Err(response),
        None if open || authorized(request.headers(), server.settings.api_key.as_deref()) => {
            intake::receive(&server, request).await
        }
        None => Err(Refusal::unauthorized().into_response()),
    };
    let mut response = match answered {
        Ok(request) => next.run(request).await,
        Err(response) => response,
    };
    intake::tell_origin(&server, origin, &mut response);
    let (status, seconds) = (response.status().as_u16(), start.elapsed().as_secs_f64());
    server.metrics.answered(route, status, seconds);
    tracing::info!(request = %id, %method, route, status, seconds, "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The client's own id if it is harmless in a log, else a fresh one.
fn request_id(headers: &HeaderMap, ids: &Ids) -> String {
    let harmless = |id: &&str| (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    let given = headers.get(REQUEST_ID).and_then(|v| v.to_str().ok()).filter(harmless);
    given.map_or_else(|| ids.next("req"), str::to_owned)
}

/// Whether the key fits; how long it takes says nothing about where a wrong key differs.
fn authorized(headers: &HeaderMap, key: Option<&str>) -> bool {
    let Some(key) = key else { return true };
    let value = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    match value.split_at_checked("Bearer ".len()) {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
            given.ct_eq(key.as_bytes()).into()
        }
        _ => false,
    }
}
