//! OpenAI-compatible server of one model, and the page where people watch it.
//!
//! One thread owns the model and advances all canvases together ([`Server`]); the HTTP layer ([`app`]) parses
//! everything into checked orders before they are queued. This crate reads no flags, no environment and no files.
//!
//! ```no_run
//! use demask_engine::{Decoding, Model};
//! use demask_serve::{Served, ServerSettings};
//!
//! let model = Model::load("Dream-org/Dream-v0-Instruct-7B")?;
//! let served = Served { model, decoding: Decoding::default(), tasks: None };
//! let address = "127.0.0.1:8080".parse()?;
//! demask_serve::run(served, ServerSettings::default(), address, |address| println!("http://{address}/"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod engine;
mod error;
mod fields;
mod housekeeping;
mod intake;
mod listen;
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

use demask_engine::{Decoding, Model};
use tokio::sync::Semaphore;

pub use error::Error;
pub use intake::Doors;
pub use listen::{Patience, serve_until};
pub use page::saved_page;
pub use routes::app;
pub use run::run;
pub use tasks::{Posed, Tasks, Verdict};

/// Bytes of bodies that are parsed and tokenised at once, or one body if it is larger.
const PARSED_AT_ONCE: usize = 1 << 20;

/// What is served.
pub struct Served {
    /// The model; its name is the one in the API.
    pub model: Model,
    /// What a request gets that does not choose: strategy, end of sequence, blocks and cache.
    pub decoding: Decoding,
    /// Problems that it was made for, if any.
    pub tasks: Option<Arc<dyn Tasks>>,
}

/// Limits of the server and its key.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Requests to `/v1` and `/metrics` must bring it.
    pub api_key: Option<String>,
    /// Canvases decoded together.
    pub batch: usize,
    /// Canvases that may wait; more are answered with 429.
    pub queue: usize,
    /// Bytes of finished blocks kept for requests that begin with the same tokens; 0 keeps none.
    pub prefix_memory: usize,
    /// Longest response.
    pub max_tokens: usize,
    /// Canvases of one request (prompts × n).
    pub max_canvases: usize,
    /// Largest body in bytes.
    pub max_body: usize,
    /// Connections at once; more wait.
    pub connections: usize,
    /// How long clients may take.
    pub patience: Patience,
    /// Which names and sites are answered.
    pub doors: Doors,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            api_key: None,
            batch: 32,
            queue: 256,
            prefix_memory: 256 << 20,
            max_tokens: 4096,
            max_canvases: 64,
            max_body: 1 << 20,
            connections: 512,
            patience: Patience::default(),
            doors: Doors::default(),
        }
    }
}

/// A running engine and what the routes share.
pub struct Server {
    served: Arc<Served>,
    settings: ServerSettings,
    engine: engine::Engine,
    metrics: Arc<metrics::Metrics>,
    ids: watch::Ids,
    started: u64,
    /// KiB of bodies that may be parsed and tokenised at once: it takes hundreds of times their size.
    parsing: Semaphore,
    /// The race that the page opens on, once somebody has asked for it.
    opening: tokio::sync::OnceCell<axum::body::Bytes>,
}

impl Server {
    /// Starts the model's thread. It ends, with everything accepted answered, once the server is dropped.
    pub fn start(served: Served, settings: ServerSettings) -> Result<(Arc<Self>, JoinHandle<()>), Error> {
        let (served, metrics) = (Arc::new(served), Arc::new(metrics::Metrics::default()));
        let context = served.model.backbone().spec().max_positions;
        let settings = ServerSettings {
            max_tokens: settings.max_tokens.clamp(1, context),
            max_canvases: settings.max_canvases.clamp(1, settings.queue.max(1)),
            ..settings
        };
        let (engine, thread) =
            engine::Engine::start(served.clone(), metrics.clone(), &settings).map_err(Error::Start)?;
        let (ids, started) = (watch::Ids::default(), watch::now());
        let parsing = Semaphore::new(settings.max_body.max(PARSED_AT_ONCE).div_ceil(1024));
        let opening = tokio::sync::OnceCell::new();
        Ok((Arc::new(Self { served, settings, engine, metrics, ids, started, parsing, opening }), thread))
    }
}
