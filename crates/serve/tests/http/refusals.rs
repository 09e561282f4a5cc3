//! What wrong requests get: 4xx with a sentence that names the mistake, never 5xx.

use axum::body::Body;
use axum::http::Request;
use demask_serve::ServerSettings;
use serde_json::{Value, json};

use crate::support::*;

const PATHS: [&str; 4] = ["/v1/completions", "/v1/chat/completions", "/v1/infill", "/v1/denoise"];

#[test]
fn bodies_that_are_no_objects() {
    run(async {
        let app = toy_chat();
        let deep = "[".repeat(100_000);
        for path in PATHS {
            for body in [
                "",
                "{",
                "null",
                "[]",
                "7",
                "\"text\"",
                "{\"prompt\": 1e999}",
                "{\"prompt\": \"\\ud800\"}",
                &deep,
            ] {
                let (status, _, answer) = post_raw(&app, path, body.to_owned()).await;
                assert_eq!(status, 400, "{path} {body:.40}: {answer}");
                assert!(serde_json::from_str::<Value>(&answer).unwrap()["error"]["message"].is_string());
            }
            let (status, _, _) = post_raw(&app, path, vec![0xff, 0xfe, b'{', b'}']).await;
            assert_eq!(status, 400);
        }
    });
}

#[test]
fn wrong_values_are_named() {
    run(async {
        let app = toy();
        let absurd = [
            json!(-1),
            json!(1e300),
            json!(u64::MAX),
            json!("x"),
            json!([1]),
            json!({ "a": 1 }),
            json!(true),
            json!(0.5),
        ];
        for field in ["max_tokens", "n", "block_length", "min_tokens", "best_of", "k"] {
            for value in &absurd {
                refused(&app, field, value).await;
            }
        }
        for field in ["temperature", "top_p", "eos_penalty"] {
            for value in [json!(1e300), json!(-1e300), json!("x"), json!([1]), json!(true)] {
                refused(&app, field, &value).await;
            }
        }
        for (field, value) in [
            ("temperature", json!(-0.1)),
            ("top_p", json!(0)),
            ("top_p", json!(1.1)),
            ("top_k", json!(-2)),
            ("top_k", json!("many")),
            ("seed", json!(0.5)),
            ("seed", json!(1e30)),
            ("stop", json!(5)),
            ("stop", json!([""])),
            ("stop", json!(vec!["x"; 65])),
            ("stream", json!("yes")),
            ("stream_options", json!({ "include_usage": true })),
            ("strategy", json!("entropi")),
            ("strategy", json!("entropy:k=0")),
            ("tau", json!(0.5)),
            ("steps", json!(1_000_000)),
            ("eos", json!("sometimes")),
            ("hold_eos", json!("always")),
            ("hold_eos", json!(true)),
            ("sampler", json!("greedy")),
            ("sampler", json!(1)),
            ("presence_penalty", json!(0.5)),
            ("logit_bias", json!({ "5": 1 })),
            ("tools", json!([{ "type": "function" }])),
            ("response_format", json!({ "type": "json_object" })),
            ("logprobs", json!(99)),
            ("prompt", json!("")),
            ("prompt", json!([])),
            ("prompt", json!([[]])),
            ("prompt", json!([1, "two"])),
            ("prompt", json!([258])),
            ("prompt", json!([-1])),
            ("prompt", json!(vec!["eva"; 65])),
            ("prompt", json!({ "text": "eva" })),
            ("suffix", json!("<mask>")),
            ("temprature", json!(0.5)),
            ("model\n", json!("toy")),
        ] {
            refused(&app, field, &value).await;
        }
    });
}

/// Sends a completion with one wrong field; the message names it.
async fn refused(app: &axum::Router, field: &str, value: &Value) {
    let mut body = json!({ "prompt": "eva has 7 shells", "max_tokens": 4 });
    body[field] = value.clone();
    let (status, answer) = post(app, "/v1/completions", &body).await;
    assert_eq!(status, 400, "{field} = {value}: {answer}");
    let error = &answer["error"];
    assert_eq!(error["type"], "invalid_request_error");
    let message = error["message"].as_str().unwrap();
    let named = message.replace('-', "_").contains(field);
    assert!(named || error["param"] == field || field == "prompt", "{field} = {value}: {message}");
}

#[test]
fn null_is_absent_and_neutral_values_pass() {
    run(async {
        let body = json!({
            "prompt": PROMPT, "stop": null, "seed": null, "top_k": -1, "user": "somebody", "presence_penalty": 0,
            "logit_bias": {}, "tools": [], "response_format": { "type": "text" }, "temperature": 1e-9, "best_of": 1,
        });
        assert_eq!(ok(&toy(), "/v1/completions", &body).await["choices"][0]["text"], ANSWER);
    });
}

#[test]
fn chat_without_a_template_says_so() {
    run(async {
        let body = json!({ "messages": [{ "role": "user", "content": "hello" }] });
        let (status, answer) = post(&toy(), "/v1/chat/completions", &body).await;
        assert_eq!(status, 400);
        assert!(answer["error"]["message"].as_str().unwrap().contains("no chat template"));
    });
}

#[test]
fn messages_that_are_none() {
    run(async {
        let app = toy_chat();
        for messages in [
            json!(null),
            json!([]),
            json!("hello"),
            json!([1]),
            json!([{ "content": "x" }]),
            json!([{ "role": "robot", "content": "x" }]),
            json!([{ "role": "user", "content": 5 }]),
            json!([{ "role": "user", "content": [{ "type": "image_url" }] }]),
        ] {
            let (status, answer) = post(&app, "/v1/chat/completions", &json!({ "messages": messages })).await;
            assert_eq!(status, 400, "{messages}: {answer}");
            assert_eq!(answer["error"]["param"], "messages");
        }
    });
}

#[test]
fn texts_without_a_use() {
    run(async {
        let app = toy();
        for body in [
            json!({ "text": "no gap" }),
            json!({ "text": "[MASK] first" }),
            json!({ "text": "eva [MASK:600]" }),
            json!({ "text": "eva [MASK" }),
            json!({ "text": "eva <mask> [MASK]" }),
            json!({ "text": "eva [MASK]", "stop": "x" }),
            json!({ "text": 5 }),
            json!({}),
        ] {
            let (status, answer) = post(&app, "/v1/infill", &body).await;
            assert_eq!(status, 400, "{body}: {answer}");
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_with_its_code() {
    run(async {
        let app = toy();
        let body = json!({ "prompt": "eva ".repeat(510), "max_tokens": 10 });
        let (status, answer) = post(&app, "/v1/completions", &body).await;
        assert_eq!((status.as_u16(), &answer["error"]["code"]), (400, &json!("context_length_exceeded")));
        let (status, answer) =
            post(&app, "/v1/completions", &json!({ "prompt": "eva", "model": "gpt" })).await;
        assert_eq!((status.as_u16(), &answer["error"]["code"]), (404, &json!("model_not_found")));
        let large = json!({ "prompt": "eva ".repeat(400_000) }).to_string();
        let (status, _, answer) = post_raw(&app, "/v1/completions", large).await;
        assert_eq!(status, 413);
        assert!(serde_json::from_str::<Value>(&answer).unwrap()["error"]["message"].is_string());
        assert_eq!(get(&app, "/v1/nothing").await.0, 404);
        assert_eq!(get(&app, "/v1/models/other").await.0, 404);
        assert_eq!(get(&app, "/v1/completions").await.0, 405);
    });
}

#[test]
fn the_key_is_asked_for_and_ids_come_back() {
    run(async {
        let settings = ServerSettings { api_key: Some("s3cret".into()), ..ServerSettings::default() };
        let app = with(std::sync::Arc::new(backbone()), settings);
        let ask = async |key: Option<&str>, path: &str| {
            let request = Request::get(path).header("x-request-id", "mine-1");
            let request = key.into_iter().fold(request, |r, key| r.header("authorization", key));
            let (status, headers, body) = send(&app, request.body(Body::empty()).unwrap()).await;
            assert_eq!(headers["x-request-id"], "mine-1");
            assert!(!body.contains("s3cret"));
            status.as_u16()
        };
        for wrong in [
            None,
            Some("Bearer s3cre"),
            Some("Bearer s3cret2"),
            Some("s3cret"),
            Some("Bearer "),
            Some("Basic s3cret"),
        ] {
            assert_eq!(ask(wrong, "/v1/models").await, 401, "{wrong:?}");
            assert_eq!(ask(wrong, "/metrics").await, 401, "{wrong:?}");
        }
        assert_eq!(ask(Some("Bearer s3cret"), "/v1/models").await, 200);
        assert_eq!(ask(Some("bearer s3cret"), "/metrics").await, 200);
        assert_eq!(ask(None, "/health").await, 200);
        let bad = Request::get("/health").header("x-request-id", "has space").body(Body::empty()).unwrap();
        let (_, headers, _) = send(&app, bad).await;
        assert!(headers["x-request-id"].to_str().unwrap().starts_with("req-"));
    });
}
