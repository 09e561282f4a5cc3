//! The toy checkpoint behind the routes, without a socket, and a model that can be held up or poisoned.

#![allow(unreachable_pub, reason = "shared between the tests of this crate")]

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use demask_decode::dependency::Predictor;
use demask_engine::{Decoding, Defaults, Model, Scope, Text};
use demask_model::text::{ChatTemplate, Tokenizer, TokenizerSettings};
use demask_model::{Backbone, Error, LoadOptions, Pass, Query, Result, Rows, Spec, Transformer};
use demask_serve::{Served, Server, ServerSettings, app};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A prompt of the fixture whose answer is known.
pub const PROMPT: &str = "eva has 7 shells . eva finds 19 more . how many shells does eva have now ? <sep>";
/// The answer that the fixture's golden decodings give.
pub const ANSWER: &str = "7 + 19 = 28 . so eva has 28 shells .";

/// Runs a test's requests.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(test)
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy")
}

pub fn backbone() -> Transformer {
    Transformer::load(&folder(), &LoadOptions::default()).unwrap()
}

pub fn prompts() -> Vec<String> {
    let expected: Value =
        serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap();
    expected["prompt_texts"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect()
}

pub fn model(backbone: Arc<dyn Backbone>) -> Model {
    let predictor = Predictor::load(&folder().join("predictor_row_i_minus_1.safetensors")).unwrap().0;
    let tokenizer = Tokenizer::open(folder(), backbone.spec().vocab).unwrap();
    let text = Text::new(folder(), backbone.spec().clone(), tokenizer, None);
    let defaults = Defaults { length: Some(40), ..Defaults::default() };
    Model::new(backbone, text).named("toy").with_defaults(defaults).with_predictor(predictor).unwrap()
}

pub fn served(backbone: Arc<dyn Backbone>) -> Served {
    let strategy = Some("entropy".parse().unwrap());
    let decoding = Decoding { strategy, ..Decoding::default() };
    Served { model: model(backbone), decoding, tasks: None }
}

/// The routes over the toy checkpoint.
pub fn toy() -> Router {
    with(Arc::new(backbone()), ServerSettings::default())
}

/// The same with a template that puts the turns one after the other.
pub fn toy_chat() -> Router {
    toy_chat_for(None)
}

/// The same for the prompts of a scope.
pub fn toy_chat_for(scope: Option<Scope>) -> Router {
    toy_of("{% for m in messages %}{{ m['content'] }} {% endfor %}<sep>", scope)
}

/// The same with another template.
pub fn toy_with_template(template: &str) -> Router {
    toy_of(template, None)
}

fn toy_of(template: &str, scope: Option<Scope>) -> Router {
    let config = json!({ "chat_template": template });
    let settings =
        TokenizerSettings::from_bytes("tokenizer_config.json", config.to_string().as_bytes()).unwrap();
    let chat = ChatTemplate::from_settings(&settings).unwrap();
    let served = served(Arc::new(backbone()));
    let text = served.model.text().clone().with_chat(chat).with_scope(scope);
    let served = Served { model: served.model.with_text(text), ..served };
    app(Server::start(served, ServerSettings::default()).unwrap().0)
}

pub fn with(backbone: Arc<dyn Backbone>, settings: ServerSettings) -> Router {
    app(Server::start(served(backbone), settings).unwrap().0)
}

pub async fn send(app: &Router, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

pub async fn get(app: &Router, path: &str) -> (StatusCode, String) {
    let (status, _, body) = send(app, Request::get(path).body(Body::empty()).unwrap()).await;
    (status, body)
}

pub async fn post_raw(app: &Router, path: &str, body: impl Into<Body>) -> (StatusCode, HeaderMap, String) {
    send(app, Request::post(path).body(body.into()).unwrap()).await
}

pub async fn post(app: &Router, path: &str, body: &Value) -> (StatusCode, Value) {
    let (status, _, text) = post_raw(app, path, body.to_string()).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// An answer that must be there.
pub async fn ok(app: &Router, path: &str, body: &Value) -> Value {
    let (status, answer) = post(app, path, body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The `data:` lines of a stream, and whether it ended with `[DONE]`.
pub async fn stream(app: &Router, path: &str, body: &Value) -> (Vec<Value>, bool) {
    let (status, headers, text) = post_raw(app, path, body.to_string()).await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(headers["content-type"], "text/event-stream");
    let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let done = data.last() == Some(&"[DONE]");
    let data = &data[..data.len() - usize::from(done)];
    (data.iter().map(|line| serde_json::from_str(line).unwrap()).collect(), done)
}

/// A gauge or counter of `/metrics`.
pub async fn metric(app: &Router, series: &str) -> f64 {
    let (_, page) = get(app, "/metrics").await;
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or("0").parse().unwrap()
}

/// Waits for a series to have a value.
pub async fn wait_for(app: &Router, series: &str, value: f64) {
    for _ in 0..6000 {
        if metric(app, series).await == value {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{series} is {} and never was {value}", metric(app, series).await);
}

/// The toy model behind a gate that lets a number of forward passes through, and which refuses a token.
pub struct Odd {
    inner: Transformer,
    passes: Mutex<usize>,
    opened: Condvar,
    poison: Option<u32>,
}

impl Odd {
    pub fn closed() -> Arc<Self> {
        Self::poisoned(None)
    }

    pub fn poisoned(poison: Option<u32>) -> Arc<Self> {
        Arc::new(Self { inner: backbone(), passes: Mutex::new(0), opened: Condvar::new(), poison })
    }

    pub fn let_through(&self, passes: usize) {
        *self.passes.lock().unwrap() = passes;
        self.opened.notify_all();
    }
}

impl Backbone for Odd {
    fn spec(&self) -> &Spec {
        self.inner.spec()
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        let mut passes = self.opened.wait_while(self.passes.lock().unwrap(), |n| *n == 0).unwrap();
        *passes -= 1;
        drop(passes);
        if self.poison.is_some_and(|poison| batch.iter().any(|q| q.tokens.contains(&poison))) {
            return Err(Error::Config {
                path: "secret/path".into(),
                field: "x".into(),
                problem: "is poisoned".into(),
            });
        }
        self.inner.forward(batch)
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        self.inner.logits(rows, visit)
    }

    fn fingerprint(&self) -> String {
        self.inner.fingerprint()
    }
}
