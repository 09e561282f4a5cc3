//! `GET /openapi.json`: the routes and their fields as an OpenAPI 3.1 document.
//!
//! Settings of a decoding are described where they are read (`request`), parameters of strategies by the table that also
//! parses them. A test compares the paths with the router, and
//! sends every documented field to every route that does, and does not, list it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::routes::{ROUTES, Route};
use crate::{Server, request};

/// The document.
pub(crate) async fn document(State(server): State<Arc<Server>>) -> Json<Value> {
    Json(describe(server.settings.api_key.is_some()))
}

fn describe(keyed: bool) -> Value {
    let (mut paths, operations) = (Map::new(), operations());
    let told = |route: &Route| operations.iter().find(|o| (o.method, o.path) == (route.method, route.path));
    for Operation { method, path, summary, body, answer } in ROUTES.iter().filter_map(told) {
        let mut operation = json!({
            "summary": summary,
            "operationId": operation_id(method, path),
            "responses": {
                "200": { "description": "what was asked for", "content": { *answer: {} } },
                "default": {
                    "description": "a refusal in OpenAI's form",
                    "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Refusal" } } },
                },
            },
        });
        if let Some(name) = path.split(['{', '}']).nth(1) {
            let schema = json!({ "type": "string" });
            let name = name.trim_start_matches('*');
            operation["parameters"] =
                json!([{ "name": name, "in": "path", "required": true, "schema": schema }]);
        }
        if let Some(body) = body {
            let schema = json!({ "$ref": format!("#/components/schemas/{body}") });
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        }
        paths.entry(path.replace('*', "")).or_insert_with(|| json!({}))[*method] = operation;
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "demask",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A diffusion language model behind OpenAI's routes, and its decoding step by step.",
        },
        "paths": paths,
        "components": { "schemas": schemas() },
    });
    if keyed {
        document["components"]["securitySchemes"] = json!({ "key": { "type": "http", "scheme": "bearer" } });
        document["security"] = json!([{ "key": [] }]);
    }
    document
}

struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    body: Option<&'static str>,
    answer: &'static str,
}

fn operations() -> Vec<Operation> {
    const JSON: &str = "application/json";
    let get = |path, summary, answer| Operation { method: "get", path, summary, body: None, answer };
    let post =
        |path, body, summary, answer| Operation { method: "post", path, summary, body: Some(body), answer };
    vec![
        get("/", "the page where one watches text denoise", "text/html"),
        get(
            "/embed",
            "the same without controls, for frames in pages of the sites that are allowed",
            "text/html",
        ),
        get("/page/{name}", "a file of the page", "*/*"),
        get("/openapi.json", "this document", JSON),
        get("/health", "whether the process answers", JSON),
        get("/ready", "whether the model takes work", JSON),
        get("/metrics", "counters in Prometheus' form", "text/plain"),
        get("/v1/models", "the one model", JSON),
        get("/v1/models/{*name}", "the one model by its name", JSON),
        get("/v1/strategies", "every decoder and its parameters", JSON),
        post("/v1/completions", "Completion", "completes prompts", JSON),
        post("/v1/chat/completions", "Chat", "answers a conversation", JSON),
        post("/v1/infill", "Infill", "fills the gaps of a text", JSON),
        post("/v1/denoise", "Denoise", "streams every step of one decoding", "text/event-stream"),
        post("/v1/replay", "Replay", "what every step of a trace file changed", JSON),
        post("/v1/tokenize", "Tokenize", "a text as token ids", JSON),
        post("/v1/detokenize", "Detokenize", "token ids as texts", JSON),
        get("/v1/opening", "the race that the page opens on", JSON),
        get("/v1/tasks", "tasks to try", JSON),
        post("/v1/tasks/problem", "Problem", "one problem of a task", JSON),
        post("/v1/tasks/check", "Check", "judges an answer to a problem", JSON),
    ]
}

fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty() && *w != "v1");
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

fn schemas() -> Value {
    let decoding = request::documented();
    let with = |own: &[(&str, Value)]| -> Vec<(String, Value)> {
        let own = own.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone()));
        own.chain(decoding.iter().cloned()).collect()
    };
    let gaps = text("a text with gaps [MASK] and [MASK:5]", "7 + 19 = [MASK] .");
    let canvas = ids(
        "instead of a text: the whole canvas, with the mask's id where tokens are to be found",
        json!([5, 1]),
    );
    let prompt = json!({
        "description": "a text, a list of texts, a list of token ids, or a list of such lists",
        "type": ["string", "array"], "examples": ["eva has 7"],
    });
    let messages = json!({
        "description": "the turns so far; needs a checkpoint with a chat template", "type": "array",
        "items": { "type": "object", "required": ["role", "content"] },
        "examples": [[{ "role": "user", "content": "eva has 7" }]],
    });
    let suffix = text("a text behind the response, which is then filled in between", "shells .");
    let (length, stop) = (lengths(), ("stop", stops()));
    let choices = [
        ("n", count("choices per prompt", 2)),
        ("stream", flag("server-sent events")),
        (
            "stream_options",
            json!({
                "description": "include_usage: the last chunk has the usage; needs stream", "type": "object",
                "examples": [{ "include_usage": true }],
            }),
        ),
    ];
    let completion = [
        ("prompt", prompt.clone()),
        ("suffix", suffix.clone()),
        ("echo", flag("the prompt in front of the text")),
        ("logprobs", count("log-probabilities of the committed tokens", 1)),
        ("best_of", count("only where it equals n", 1)),
        stop.clone(),
    ];
    let chat = [
        ("messages", messages.clone()),
        ("logprobs", flag("log-probabilities of the committed tokens")),
        ("top_logprobs", count("accepted beside logprobs; only the committed token is listed", 1)),
        stop.clone(),
    ];
    let denoise = [
        ("prompt", prompt),
        ("messages", messages),
        ("text", gaps.clone()),
        ("tokens", canvas.clone()),
        ("suffix", suffix),
        ("include_dependency", flag("dependency matrices in the steps")),
        stop,
    ];
    let front = text("a prompt in front, which is not shown", "eva has 7 shells");
    let infill = [("text", gaps.clone()), ("tokens", canvas), ("prompt", front)];
    let task = ("task", text("name of the task", "arith"));
    let index = ("index", count("number of the problem, from 0", 3));
    let answer = ("response", text("the answer to judge", "The answer is 7."));
    let plain =
        |own: &[(&'static str, Value)]| own.iter().map(|(n, s)| ((*n).to_owned(), s.clone())).collect();
    json!({
        "Completion": object(&["prompt"], with(&[&completion[..], &choices, &length].concat())),
        "Chat": object(&["messages"], with(&[&chat[..], &choices, &length].concat())),
        "Infill": object(&[], with(&infill)),
        "Denoise": object(&[], with(&[&denoise[..], &length].concat())),
        "Replay": object(&["trace"], plain(&[("trace", text("the text of a trace file", ""))])),
        "Tokenize": object(&["text"], plain(&[("text", gaps)])),
        "Detokenize": object(&["tokens"], plain(&[("tokens", ids("token ids", json!([5, 6])))])),
        "Problem": object(&["task"], plain(&[task.clone(), index.clone()])),
        "Check": object(&["task", "response"], plain(&[task, index, answer])),
        "Refusal": refusal(),
    })
}

fn lengths() -> [(&'static str, Value); 2] {
    [
        ("max_tokens", count("length of the response canvas", 12)),
        ("max_completion_tokens", count("the newer name of max_tokens", 12)),
    ]
}

fn stops() -> Value {
    json!({ "description": "strings that end the text", "type": ["string", "array"], "examples": ["."] })
}

fn object(required: &[&str], properties: Vec<(String, Value)>) -> Value {
    let properties: Map<String, Value> = properties.into_iter().collect();
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

fn refusal() -> Value {
    let nullable = json!({ "type": ["string", "null"] });
    let properties = json!({ "message": { "type": "string" }, "type": { "type": "string" }, "param": nullable, "code": nullable });
    json!({ "type": "object", "properties": { "error": { "type": "object", "properties": properties } } })
}

pub(crate) fn text(help: &str, example: &str) -> Value {
    json!({ "description": help, "type": "string", "examples": [example] })
}

pub(crate) fn count(help: &str, example: usize) -> Value {
    json!({ "description": help, "type": "integer", "examples": [example] })
}

fn flag(help: &str) -> Value {
    json!({ "description": help, "type": "boolean", "examples": [true] })
}

fn ids(help: &str, example: Value) -> Value {
    json!({ "description": help, "type": "array", "items": { "type": "integer" }, "examples": [example] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_routes() {
        let documented: Vec<_> = operations().into_iter().map(|o| (o.method, o.path)).collect();
        let served: Vec<_> = ROUTES.iter().map(|r| (r.method, r.path)).collect();
        assert_eq!(documented, served);
    }
}
