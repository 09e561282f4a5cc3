//! Many requests at once: nothing mixed up, overload refused, leavers forgotten, failures kept apart.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use demask_serve::{Server, ServerSettings, serve_until};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::*;

/// Different prompts, decoders, seeds and lengths.
fn mixed(index: usize) -> Value {
    let prompts = prompts();
    let strategies =
        ["entropy", "top1:k=2", "demask:tau=0.2,gamma=0.5", "random:k=3", "klass", "origin:steps=12"];
    json!({
        "prompt": prompts[index % prompts.len()],
        "strategy": strategies[index % strategies.len()],
        "temperature": if index.is_multiple_of(2) { 0.0 } else { 0.9 },
        "seed": index,
        "max_tokens": 12 + index % 7,
        "n": 1 + index % 2,
    })
}

#[test]
fn thirty_two_at_once_are_answered_as_if_alone() {
    run(async {
        let model = Odd::closed();
        model.let_through(usize::MAX);
        let app = with(model.clone(), ServerSettings::default());
        let mut alone = Vec::new();
        for index in 0..32 {
            alone.push(ok(&app, "/v1/completions", &mixed(index)).await["choices"].clone());
        }
        let before = metric(&app, "demask_batches_total").await;
        // The model waits until all of them are there: then they are decoded together, however fast it is.
        model.let_through(0);
        let mut set = JoinSet::new();
        for index in 0..32 {
            let app = app.clone();
            set.spawn(async move { (index, ok(&app, "/v1/completions", &mixed(index)).await) });
        }
        while metric(&app, "demask_active_canvases").await + metric(&app, "demask_queue_length").await < 48.0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        model.let_through(usize::MAX);
        let mut answered = 0;
        while let Some(joined) = set.join_next().await {
            let (index, answer) = joined.unwrap();
            assert_eq!(answer["choices"], alone[index], "request {index}");
            answered += 1;
        }
        assert_eq!(answered, 32);
        let together = metric(&app, "demask_batches_total").await - before;
        assert!(together < before / 2.0, "{together} batched steps against {before} one by one");
    });
}

#[test]
fn a_full_queue_is_answered_at_once() {
    run(async {
        let model = Odd::closed();
        let app = with(model.clone(), ServerSettings { batch: 1, queue: 2, ..ServerSettings::default() });
        let body = json!({ "prompt": PROMPT, "max_tokens": 3 });
        let mut waiting = JoinSet::new();
        // The first is taken into the batch, two more fill the queue.
        for (series, value) in
            [("demask_active_canvases", 1.0), ("demask_queue_length", 1.0), ("demask_queue_length", 2.0)]
        {
            let (app_, body) = (app.clone(), body.clone());
            waiting.spawn(async move { post(&app_, "/v1/completions", &body).await.0 });
            wait_for(&app, series, value).await;
        }
        let (status, headers, answer) = post_raw(&app, "/v1/completions", body.to_string()).await;
        assert_eq!((status.as_u16(), headers["retry-after"].to_str().unwrap()), (429, "1"));
        assert!(answer.contains("rate_limit_exceeded"), "{answer}");
        assert_eq!(metric(&app, "demask_rejections_total{reason=\"queue_full\"}").await, 1.0);
        model.let_through(usize::MAX);
        while let Some(status) = waiting.join_next().await {
            assert_eq!(status.unwrap(), 200);
        }
        assert_eq!(post(&app, "/v1/completions", &body).await.0, 200);
    });
}

#[test]
fn a_crowd_beyond_the_queue_is_refused_with_a_sentence_and_nobody_hangs() {
    run(async {
        let model = Odd::closed();
        let app = with(model.clone(), ServerSettings { batch: 2, queue: 4, ..ServerSettings::default() });
        let mut crowd = JoinSet::new();
        for index in 0..40 {
            let (app, stream) = (app.clone(), index % 3 == 0);
            let body = json!({ "prompt": PROMPT, "stream": stream }).to_string();
            crowd.spawn(async move {
                let (status, headers, answer) = post_raw(&app, "/v1/completions", body).await;
                (status.as_u16(), headers, answer, stream)
            });
        }
        // Everybody has a place or an answer before the model does anything.
        let mut refused = 0.0;
        let mut held = 0.0;
        while refused + held < 40.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            refused = metric(&app, "demask_rejections_total{reason=\"queue_full\"}").await;
            held = metric(&app, "demask_active_canvases").await + metric(&app, "demask_queue_length").await;
        }
        // The queue's four, and the batch's two if they were taken out of it before everybody had come.
        assert!((4.0..=6.0).contains(&held), "{held} have a place");
        model.let_through(usize::MAX);
        let (mut answered, mut busy) = (0.0, 0.0);
        while let Some(joined) = crowd.join_next().await {
            match joined.unwrap() {
                (200, _, answer, true) => {
                    assert!(answer.contains("[DONE]"), "{answer}");
                    answered += 1.0;
                }
                (200, _, answer, false) => {
                    let answer: Value = serde_json::from_str(&answer).unwrap();
                    assert_eq!(answer["choices"][0]["text"], ANSWER);
                    answered += 1.0;
                }
                (status, headers, answer, _) => {
                    assert_eq!((status, headers["retry-after"].to_str().unwrap()), (429, "1"));
                    let answer: Value = serde_json::from_str(&answer).unwrap();
                    let sentence = answer["error"]["message"].as_str().unwrap();
                    assert!(sentence.contains("queue"), "{sentence}");
                    busy += 1.0;
                }
            }
        }
        assert_eq!((answered, busy), (held, refused));
        assert_eq!(
            ok(&app, "/v1/completions", &json!({ "prompt": PROMPT })).await["choices"][0]["text"],
            ANSWER
        );
    });
}

#[test]
fn a_client_that_leaves_frees_its_slot_within_a_step() {
    run(async {
        let model = Odd::closed();
        let app = with(model.clone(), ServerSettings { batch: 1, ..ServerSettings::default() });
        for stream in [false, true] {
            let body =
                json!({ "prompt": PROMPT, "max_tokens": 200, "eos": "none", "n": 2, "stream": stream });
            let app_ = app.clone();
            let client = tokio::spawn(async move { post(&app_, "/v1/completions", &body).await });
            wait_for(&app, "demask_active_canvases", 1.0).await;
            client.abort();
            assert!(client.await.unwrap_err().is_cancelled());
            // One pass is under way; the other choice is dropped before it starts. That a stream is closed is told to
            // its task first, so it may take a few.
            model.let_through(1);
            while stream && metric(&app, "demask_active_canvases").await > 0.0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                model.let_through(1);
            }
            wait_for(&app, "demask_active_canvases", 0.0).await;
        }
        wait_for(&app, "demask_abandoned_total", 4.0).await;
        // Each of the four canvases would have taken two hundred.
        assert!(metric(&app, "demask_batches_total").await < 200.0);
        model.let_through(usize::MAX);
        assert_eq!(
            ok(&app, "/v1/completions", &json!({ "prompt": PROMPT })).await["choices"][0]["text"],
            ANSWER
        );
    });
}

#[test]
fn a_failure_is_answered_to_its_own_request() {
    run(async {
        let poison = served(Arc::new(backbone())).model.tokenizer().id("zoe");
        let model = Odd::poisoned(poison);
        let app = with(model.clone(), ServerSettings::default());
        let mut set = JoinSet::new();
        for index in 0..4 {
            let prompt = if index == 2 { "zoe has 7 shells" } else { PROMPT };
            let (app_, body) = (app.clone(), json!({ "prompt": prompt }));
            set.spawn(async move { (index, post(&app_, "/v1/completions", &body).await) });
            // The others come while the first waits for its pass, and join it in the next.
            wait_for(&app, "demask_active_canvases", 1.0).await;
        }
        wait_for(&app, "demask_queue_length", 3.0).await;
        model.let_through(usize::MAX);
        while let Some(joined) = set.join_next().await {
            let (index, (status, answer)) = joined.unwrap();
            if index == 2 {
                assert_eq!((status.as_u16(), &answer["error"]["type"]), (500, &json!("server_error")));
                assert!(!answer.to_string().contains("secret"), "{answer}");
            } else {
                assert_eq!((status.as_u16(), &answer["choices"][0]["text"]), (200, &json!(ANSWER)));
            }
        }
    });
}

#[test]
fn a_shutdown_finishes_what_runs() {
    run(async {
        let model = Odd::closed();
        let (server, thread) = Server::start(served(model.clone()), ServerSettings::default()).unwrap();
        let watched = demask_serve::app(server.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async {
            stopped.await.unwrap();
        };
        let serving = tokio::spawn(serve_until(listener, server, stopped));
        let client = tokio::task::spawn_blocking(move || {
            let body = json!({ "prompt": PROMPT, "stream": true, "strategy": "token-order" }).to_string();
            let mut socket = std::net::TcpStream::connect(address).unwrap();
            let head = format!(
                "POST /v1/completions HTTP/1.1\r\nhost: toy\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            answer
        });
        wait_for(&watched, "demask_active_canvases", 1.0).await;
        drop(watched);
        stop.send(()).unwrap();
        for _ in 0..12_000 {
            if std::net::TcpStream::connect(address).is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(std::net::TcpStream::connect(address).is_err(), "still listening");
        model.let_through(usize::MAX);
        assert!(client.await.unwrap().contains("[DONE]"));
        serving.await.unwrap().unwrap();
        tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
    });
}
