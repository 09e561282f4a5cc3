//! OpenAI-compatible server of one model, and the page where people watch it.
//!
//! One thread owns the model and advances all canvases together ([`Server`]); the HTTP layer ([`app`]) parses
//! everything into checked orders before they are queued. This crate reads no flags, no environment and no files.

mod answer;
mod engine;
mod error;
mod fields;
mod metrics;
mod openapi;
mod page;
mod prompt;
mod request;
mod routes;
mod run;
mod settling;
mod tasks;
mod watch;

use std::sync::Arc;
use std::thread::JoinHandle;

use demask_decode::registry::Context;
use demask_decode::{CacheSpec, EosPolicy, Sampling, StrategySpec};
use demask_model::text::{ChatTemplate, Tokenizer};
use demask_model::{Backbone, SpecialIds};

pub use error::Error;
pub use routes::app;
pub use run::{run, serve_until};
pub use tasks::{Posed, Tasks, Verdict};

/// The model that is served.
pub struct Served {
    /// The model.
    pub backbone: Arc<dyn Backbone>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, if it has one.
    pub chat: Option<ChatTemplate>,
    /// Its special ids; a chat's end of turn is an end of sequence too.
    pub ids: SpecialIds,
    /// What strategies may use.
    pub context: Context,
    /// What a request gets that does not ask.
    pub defaults: Defaults,
    /// Its name in the API; no path.
    pub name: String,
    /// Problems that it was made for, if any.
    pub tasks: Option<Arc<dyn Tasks>>,
}

/// Settings of requests that do not give their own.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The decoder.
    pub strategy: StrategySpec,
    /// Token drawing.
    pub sampling: Sampling,
    /// Length of the response.
    pub max_new_tokens: Option<usize>,
    /// What an end-of-sequence does.
    pub eos: EosPolicy,
    /// Blocks, left to right.
    pub block_length: Option<usize>,
    /// Keys and values kept between steps.
    pub cache: CacheSpec,
}

/// Limits of the server and its key.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Requests to `/v1` and `/metrics` must bring it.
    pub api_key: Option<String>,
    /// Canvases decoded together.
    pub batch: usize,
    /// Canvases that may wait; more are answered with 429.
    pub queue: usize,
    /// Longest response.
    pub max_tokens: usize,
    /// Canvases of one request (prompts × n).
    pub max_canvases: usize,
    /// Largest body in bytes.
    pub max_body: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { api_key: None, batch: 32, queue: 256, max_tokens: 4096, max_canvases: 64, max_body: 1 << 20 }
    }
}

/// A running engine and what the routes share.
pub struct Server {
    served: Arc<Served>,
    settings: Settings,
    engine: engine::Engine,
    metrics: Arc<metrics::Metrics>,
    ids: watch::Ids,
    started: u64,
}

impl Server {
    /// Starts the model's thread. It ends, with everything accepted answered, once the server is dropped.
    pub fn start(served: Served, settings: Settings) -> Result<(Arc<Self>, JoinHandle<()>), Error> {
        let (served, metrics) = (Arc::new(served), Arc::new(metrics::Metrics::default()));
        let context = served.backbone.spec().max_positions;
        let settings = Settings {
            max_tokens: settings.max_tokens.clamp(1, context),
            max_canvases: settings.max_canvases.clamp(1, settings.queue.max(1)),
            ..settings
        };
        let (engine, thread) =
            engine::Engine::start(served.clone(), metrics.clone(), settings.batch, settings.queue)
                .map_err(Error::Start)?;
        let (ids, started) = (watch::Ids::default(), watch::now());
        Ok((Arc::new(Self { served, settings, engine, metrics, ids, started }), thread))
    }
}
