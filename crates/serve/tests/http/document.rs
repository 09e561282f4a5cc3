//! The OpenAPI document says what the server does: its fields are taken, all others are refused; the page and tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use demask_serve::{Doors, Posed, Served, Server, ServerSettings, Tasks, Verdict, app};
use serde_json::{Value, json};

use crate::support::*;

async fn document(app: &axum::Router) -> Value {
    serde_json::from_str(&get(app, "/openapi.json").await.1).unwrap()
}

/// Path, schema of the body, and the smallest body that is accepted.
fn bodies(document: &Value) -> Vec<(String, Value, Value)> {
    let smallest = |path: &str| match path {
        "/v1/completions" | "/v1/denoise" => {
            Some(json!({ "prompt": "eva has 7", "max_tokens": 3, "strategy": "entropy" }))
        }
        "/v1/chat/completions" => {
            Some(json!({ "messages": [{ "role": "user", "content": "eva has 7" }], "max_tokens": 3 }))
        }
        "/v1/infill" => Some(json!({ "text": "eva has [MASK] shells" })),
        "/v1/replay" => Some(json!({ "trace": "no trace" })),
        "/v1/tokenize" => Some(json!({ "text": "eva" })),
        "/v1/detokenize" => Some(json!({ "tokens": [5] })),
        _ => None,
    };
    let schema = |operation: &Value| {
        let reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str()?;
        Some(document["components"]["schemas"][reference.rsplit('/').next()?].clone())
    };
    let paths = document["paths"].as_object().unwrap().iter();
    paths.filter_map(|(path, item)| Some((path.clone(), schema(&item["post"])?, smallest(path)?))).collect()
}

#[test]
fn documented_fields_are_taken_and_others_refused() {
    run(async {
        let app = toy_chat();
        let document = document(&app).await;
        let bodies = bodies(&document);
        assert_eq!(bodies.len(), 7);
        let names: BTreeSet<String> = bodies
            .iter()
            .flat_map(|(_, schema, _)| schema["properties"].as_object().unwrap().keys().cloned())
            .collect();
        assert!(names.len() > 40, "{names:?}");
        for (path, schema, smallest) in &bodies {
            for name in &names {
                let mut body = smallest.clone();
                let property = &schema["properties"][name.as_str()];
                body[name] = if property.is_null() { json!(1) } else { property["examples"][0].clone() };
                let (status, _, text) = post_raw(&app, path, body.to_string()).await;
                let unknown = text.contains("there is no such field") || text.contains("has no meaning");
                assert_eq!(unknown, property.is_null(), "{path} {name}: {status} {text:.200}");
                assert!(!status.is_server_error(), "{path} {name}: {text:.200}");
            }
        }
    });
}

#[test]
fn every_documented_path_answers() {
    run(async {
        let app = toy_chat();
        for (path, item) in document(&app).await["paths"].as_object().unwrap() {
            let path = path.replace("/page/{name}", "/page/style.css").replace("{name}", "toy");
            for method in item.as_object().unwrap().keys() {
                let status = match method.as_str() {
                    "get" => get(&app, &path).await.0,
                    _ => post(&app, &path, &json!({ "task": "x" })).await.0,
                };
                let expected: &[u16] = match method.as_str() {
                    "get" => &[200],
                    _ if path.starts_with("/v1/tasks/") => &[404],
                    _ => &[400],
                };
                assert!(expected.contains(&status.as_u16()), "{method} {path}: {status}");
            }
        }
    });
}

#[test]
fn the_page_needs_no_key_and_nothing_from_outside() {
    run(async {
        let settings = ServerSettings { api_key: Some("secret".into()), ..ServerSettings::default() };
        let app = with(Arc::new(backbone()), settings);
        for path in ["/", "/page/main.js", "/page/style.css", "/openapi.json"] {
            let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
            let (status, headers, body) = send(&app, request).await;
            assert_eq!(status, 200, "{path}");
            assert!(!body.is_empty() && !body.contains("secret"), "{path}");
            if path != "/openapi.json" {
                let policy = headers["content-security-policy"].to_str().unwrap();
                assert!(policy.starts_with("default-src 'none'"), "{policy}");
            }
        }
        assert_eq!(get(&app, "/page/absent.js").await.0, 404);
        assert_eq!(get(&app, "/page/../lib.rs").await.0, 404);
        assert_eq!(get(&app, "/v1/models").await.0, 401);
        assert_eq!(get(&app, "/v1/tasks").await.0, 401);
    });
}

#[test]
fn texts_become_tokens_and_return() {
    run(async {
        let app = toy();
        let cut = ok(&app, "/v1/tokenize", &json!({ "text": "eva has [MASK:2] shells" })).await;
        assert_eq!(cut["texts"], json!(["eva", "has", "<mask>", "<mask>", "shells"]));
        let back = ok(&app, "/v1/detokenize", &json!({ "tokens": cut["tokens"] })).await;
        assert_eq!(back["texts"], cut["texts"]);
        let infilled = ok(&app, "/v1/infill", &json!({ "tokens": cut["tokens"] })).await;
        let same = ok(&app, "/v1/infill", &json!({ "text": "eva has [MASK:2] shells" })).await;
        assert_eq!(infilled["token_ids"], same["token_ids"]);
        for bad in [
            json!({ "tokens": [5, 100_000] }),
            json!({ "tokens": "x" }),
            json!({ "tokens": [5], "text": "[MASK]" }),
        ] {
            assert_eq!(post(&app, "/v1/infill", &bad).await.0, 400, "{bad}");
        }
    });
}

struct Sums;

impl Tasks for Sums {
    fn list(&self) -> Vec<(String, String)> {
        vec![("sums".into(), "adds".into())]
    }

    fn problem(&self, task: &str, index: u64) -> Option<Posed> {
        (task == "sums").then(|| Posed {
            kind: "sums/1".into(),
            prompt: format!("{index} + 1 ="),
            answer: (index + 1).to_string(),
        })
    }

    fn examples(&self) -> Vec<(String, u64)> {
        (0..3).map(|index| ("sums".into(), index)).collect()
    }

    fn check(&self, task: &str, index: u64, response: &str) -> Option<Verdict> {
        let correct = self.problem(task, index)?.answer == response;
        let checked = "the sum".into();
        Some(Verdict { correct, strict: None, extracted: Some(response.into()), checked })
    }
}

#[test]
fn tasks_are_posed_and_judged() {
    run(async {
        let plain = toy();
        let none: Value = serde_json::from_str(&get(&plain, "/v1/tasks").await.1).unwrap();
        assert_eq!(none["data"], json!([]));
        let served = Served { tasks: Some(Arc::new(Sums)), ..served(Arc::new(backbone())) };
        let app = app(Server::start(served, ServerSettings::default()).unwrap().0);
        let list: Value = serde_json::from_str(&get(&app, "/v1/tasks").await.1).unwrap();
        assert_eq!(list["data"][0]["id"], "sums");
        let posed = ok(&app, "/v1/tasks/problem", &json!({ "task": "sums", "index": 4 })).await;
        assert_eq!((&posed["prompt"], &posed["answer"]), (&json!("4 + 1 ="), &json!("5")));
        for (response, correct) in [("5", true), ("6", false)] {
            let body = json!({ "task": "sums", "index": 4, "response": response });
            assert_eq!(ok(&app, "/v1/tasks/check", &body).await["correct"], correct);
        }
        for bad in [json!({ "task": "other" }), json!({ "task": 5 }), json!({ "task": "sums", "index": -1 })]
        {
            assert_eq!(post(&app, "/v1/tasks/problem", &bad).await.0, 400, "{bad}");
        }
    });
}

/// Questions whose answer, whatever it is, is right from some number on.
struct RightFrom(u64);

impl Tasks for RightFrom {
    fn list(&self) -> Vec<(String, String)> {
        vec![("some".into(), "anything".into())]
    }

    fn examples(&self) -> Vec<(String, u64)> {
        (0..4).map(|index| ("some".into(), index)).collect()
    }

    fn problem(&self, _: &str, index: u64) -> Option<Posed> {
        let (kind, prompt, answer) = ("some/one".into(), format!("eva has {index} shells"), String::new());
        Some(Posed { kind, prompt, answer })
    }

    fn check(&self, _: &str, index: u64, _: &str) -> Option<Verdict> {
        let checked = "the number".into();
        Some(Verdict { correct: index >= self.0, strict: None, extracted: None, checked })
    }
}

#[test]
fn the_page_opens_on_the_first_example_that_is_right() {
    run(async {
        let opened = async |tasks: Option<Arc<dyn Tasks>>| {
            let served = Served { tasks, ..served(Arc::new(backbone())) };
            let app = app(Server::start(served, ServerSettings::default()).unwrap().0);
            let race: Value = serde_json::from_str(&get(&app, "/v1/opening").await.1).unwrap();
            let before = metric(&app, "demask_steps_total").await;
            let again: Value = serde_json::from_str(&get(&app, "/v1/opening").await.1).unwrap();
            assert!(race == again && before == metric(&app, "demask_steps_total").await, "decoded twice");
            race
        };
        let nothing = json!({ "object": "opening", "runs": [] });
        assert_eq!(opened(None).await, nothing);
        assert_eq!(opened(Some(Arc::new(RightFrom(9)))).await, nothing);
        let race = opened(Some(Arc::new(RightFrom(2)))).await;
        assert!(race["index"].as_u64() >= Some(2), "{}", race["index"]);
        assert_eq!(race["prompt"], format!("eva has {} shells", race["index"]));
        let runs = race["runs"].as_array().unwrap();
        assert_eq!((runs.len(), &runs[1]["start"]["strategy"]), (2, &json!("entropy")));
        assert_eq!(runs[0]["verdict"]["checked"], "the number");
        let steps = |run: &Value| run["steps"].as_array().unwrap().len();
        assert!(steps(&runs[0]) > 0 && steps(&runs[0]) <= steps(&runs[1]));
        assert!(
            runs.iter().all(|run| run["done"]["text"].is_string() && run["steps"][0]["changes"].is_array())
        );
    });
}

/// The page stands in no frame; its stage only in this server's own and in those of sites that may use it.
#[test]
fn frames_are_for_the_sites_that_are_allowed() {
    run(async {
        let policy = async |origins: &[&str], path: &str| {
            let doors = Doors { hosts: None, origins: origins.iter().map(|&o| o.to_owned()).collect() };
            let app = with(Arc::new(backbone()), ServerSettings { doors, ..ServerSettings::default() });
            let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
            let (_, headers, _) = send(&app, request).await;
            let policy = headers["content-security-policy"].to_str().unwrap().to_owned();
            policy.split("frame-ancestors ").nth(1).unwrap().to_owned()
        };
        assert_eq!(policy(&[], "/").await, "'none'");
        assert_eq!(policy(&["https://a.example"], "/").await, "'none'");
        assert_eq!(policy(&[], "/embed").await, "'self'");
        assert_eq!(policy(&["https://a.example"], "/embed").await, "'self' https://a.example");
    });
}
