//! Refusals as OpenAI spells them, and why the server itself may not start.
//!
//! Invariant: no path and no secret is in a refusal; what only the operator may know goes to the log.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Why the server could not start or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is taken, not ours, or not allowed.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A thread, the runtime or a signal handler could not be set up.
    #[error("cannot start the server: {0}")]
    Start(std::io::Error),
    /// The listener failed.
    #[error("the server ended: {0}")]
    Serve(std::io::Error),
    /// A trace whose steps do not follow from one another.
    #[error("the trace cannot be replayed: {0}")]
    Replay(String),
    /// A token that the tokenizer does not know.
    #[error(transparent)]
    Text(#[from] demask_model::Error),
}

/// An answer that is not what was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None }
    }

    /// A field that is missing, of the wrong type or out of range.
    pub(crate) fn field(name: &str, problem: impl std::fmt::Display) -> Self {
        let refusal = Self::new(StatusCode::BAD_REQUEST, format!("{name}: {problem}"));
        Self { param: Some(name.to_owned()), ..refusal }
    }

    /// A request that makes no sense as a whole.
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Prompt and response do not fit the context.
    pub(crate) fn context(message: String) -> Self {
        Self { code: Some("context_length_exceeded"), ..Self::request(message) }
    }

    /// Another model was asked for.
    pub(crate) fn model(name: &str) -> Self {
        let refusal = Self::new(
            StatusCode::NOT_FOUND,
            format!("there is no model {name:?} here; GET /v1/models lists them"),
        );
        Self { param: Some("model".into()), code: Some("model_not_found"), ..refusal }
    }

    /// A status that the HTTP layer chose.
    pub(crate) fn http(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(status, message)
    }

    /// No key, or the wrong one.
    pub(crate) fn unauthorized() -> Self {
        let message = "this server needs its API key in the header `Authorization: Bearer KEY`";
        Self { code: Some("invalid_api_key"), ..Self::new(StatusCode::UNAUTHORIZED, message) }
    }

    /// The queue is full.
    pub(crate) fn busy() -> Self {
        let message = "the queue is full; try again in a moment";
        Self { code: Some("rate_limit_exceeded"), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    /// The engine is gone.
    pub(crate) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")
    }

    /// Our fault; the cause goes to the log only.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the model failed on this request; the server's log says why",
        )
    }

    /// OpenAI's form.
    pub(crate) fn body(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        json!({ "error": { "message": self.message, "type": kind, "param": self.param, "code": self.code } })
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

impl From<demask_engine::Error> for Refusal {
    fn from(error: demask_engine::Error) -> Self {
        use demask_engine::Error as E;
        match error {
            E::Model(error) => error.into(),
            E::Decode(error) => error.into(),
            E::TooLong { .. } | E::TextTooLong { .. } => Self::context(error.to_string()),
            E::NothingBefore => Self::request(error.to_string()),
            E::Gap(problem) => Self::field("text", problem),
            E::NoTemplate { .. } => Self::field(
                "messages",
                "this model has no chat template; use POST /v1/completions with the prompt as it is",
            ),
            _ => Self::internal(error),
        }
    }
}

impl From<demask_decode::Error> for Refusal {
    fn from(error: demask_decode::Error) -> Self {
        use demask_decode::Error as E;
        match error {
            E::Model(error) => error.into(),
            E::Unknown { kind, .. } => Self::field(kind, error),
            E::UnknownParameter { ref key, .. } => Self::field(&key.clone(), error),
            E::BadValue { .. }
            | E::Canvas(_)
            | E::Missing { .. }
            | E::NoPredictor { .. }
            | E::NoAssistant { .. }
            | E::Refused { .. } => Self::request(error.to_string()),
            _ => Self::internal(error),
        }
    }
}

impl From<demask_model::Error> for Refusal {
    fn from(error: demask_model::Error) -> Self {
        use demask_model::Error as E;
        match error {
            E::Template { problem, .. } => Self::field("messages", format!("the chat template {problem}")),
            E::Message { .. } => Self::field("messages", error),
            E::Query(_) | E::Tokenize { .. } => Self::request(error.to_string()),
            _ => Self::internal(error),
        }
    }
}
