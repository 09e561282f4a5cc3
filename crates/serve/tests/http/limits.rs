//! Clients that are slow, strange or sent by another site's page.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use demask_serve::{Doors, Patience, Server, ServerSettings, serve_until};
use serde_json::json;
use tokio::sync::oneshot;

use crate::support::*;

/// After this much time a client gives up: something hangs. No limit of a server here is near it.
const HANGS: Duration = Duration::from_secs(120);

/// Limits that no test lives to see, but for those it is about.
fn patience() -> Patience {
    let hours = Duration::from_secs(9 * 3600);
    Patience { head: hours, body: hours, read: hours, grace: hours }
}

fn with_patience(patience: Patience) -> ServerSettings {
    ServerSettings { patience, connections: 8, ..ServerSettings::default() }
}

/// A server on a socket; dropping the sender stops it.
async fn listening(
    settings: ServerSettings,
) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let (server, _) = Server::start(served(Arc::new(backbone())), settings).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let serving = tokio::spawn(async move { serve_until(listener, server, stopped).await.unwrap() });
    (address, stop, serving)
}

/// Sends some bytes and reads until the server closes, which it must; says how long that took.
fn until_closed(address: SocketAddr, bytes: &str) -> (String, Duration) {
    let start = Instant::now();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(HANGS)).unwrap();
    socket.write_all(bytes.as_bytes()).unwrap();
    let mut answer = Vec::new();
    if let Err(error) = socket.read_to_end(&mut answer) {
        let reset = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(reset.contains(&error.kind()), "after {bytes:?} the server does not close: {error}");
    }
    (String::from_utf8_lossy(&answer).into_owned(), start.elapsed())
}

#[test]
fn slow_heads_bodies_and_idle_connections_are_closed() {
    run(async {
        let head = Duration::from_millis(400);
        let (address, _stop, _) = listening(with_patience(Patience { head, ..patience() })).await;
        let asked = tokio::task::spawn_blocking(move || {
            for half in ["", "GET /health HT", "GET /health HTTP/1.1\r\nhost: x\r\nx-slow: "] {
                let (answer, took) = until_closed(address, half);
                assert!(!answer.contains("200 OK") && took >= head, "{half:?}: {answer} {took:?}");
            }
            let (answer, took) = until_closed(address, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n");
            assert!(answer.contains("200 OK") && took >= head, "{answer} {took:?}");
        });
        asked.await.unwrap();
        let body = Duration::from_millis(600);
        let (address, _stop, _) = listening(with_patience(Patience { body, ..patience() })).await;
        let asked = tokio::task::spawn_blocking(move || {
            let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
            let (answer, took) = until_closed(address, head);
            assert!(answer.contains("408") && took >= body, "{answer} after {took:?}");
        });
        asked.await.unwrap();
    });
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    run(async {
        let (address, _stop, _) = listening(with_patience(patience())).await;
        let asked = tokio::task::spawn_blocking(move || {
            let head = "POST /v1/tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000000\r\n\r\n";
            let (answer, _) = until_closed(address, head);
            assert!(answer.contains("413") && answer.contains("larger than"), "{answer}");
        });
        asked.await.unwrap();
        // The same without a length, which only shows while it is read.
        let app = toy();
        let (status, _, body) = post_raw(&app, "/v1/tokenize", vec![b' '; (1 << 20) + 1]).await;
        assert_eq!(status, 413, "{body}");
    });
}

#[test]
fn idlers_do_not_keep_others_out() {
    run(async {
        let head = Duration::from_millis(400);
        let (address, _stop, _) = listening(with_patience(Patience { head, ..patience() })).await;
        let asked = tokio::task::spawn_blocking(move || {
            // Six times as many as there are places.
            let idle: Vec<TcpStream> = (0..48).map(|_| TcpStream::connect(address).unwrap()).collect();
            let (answer, _) =
                until_closed(address, "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            assert!(answer.contains("200 OK"), "{answer}");
            drop(idle);
        });
        asked.await.unwrap();
    });
}

#[test]
fn slow_clients_do_not_hold_up_the_end() {
    run(async {
        let grace = Duration::from_secs(1);
        let (address, stop, serving) = listening(with_patience(Patience { grace, ..patience() })).await;
        let mut slow = Vec::new();
        for head in ["", "GET /hea", "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"]
        {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(head.as_bytes()).unwrap();
            slow.push(socket);
        }
        // Connections are taken in their order, so once this one is answered the slow ones have been taken.
        let closing = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let (answer, _) = tokio::task::spawn_blocking(move || until_closed(address, closing)).await.unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
        drop(stop);
        tokio::time::timeout(HANGS, serving).await.expect("slow clients hold up the end").unwrap();
        drop(slow);
    });
}

#[test]
fn other_sites_are_kept_out_unless_they_are_allowed() {
    run(async {
        let own = Doors { hosts: Some(Doors::loopback(&[])), origins: vec!["https://ok.example".into()] };
        let app = with(Arc::new(backbone()), ServerSettings { doors: own, ..ServerSettings::default() });
        let ask = async |method: &str, host: &str, origin: Option<&str>| {
            let mut request = Request::builder().method(method).uri("/v1/models").header("host", host);
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            send(&app, request.body(Body::empty()).unwrap()).await
        };
        assert_eq!(ask("GET", "127.0.0.1:8080", None).await.0, 200);
        assert_eq!(ask("GET", "localhost:8080", Some("http://localhost:8080")).await.0, 200);
        for (host, origin) in
            [("evil.example", None), ("localhost", Some("https://evil.example")), ("localhost", Some("null"))]
        {
            let (status, headers, body) = ask("GET", host, origin).await;
            assert_eq!(status, 403, "{host} {origin:?}");
            assert!(headers.get("access-control-allow-origin").is_none() && !body.contains("toy"), "{body}");
        }
        let (status, headers, _) = ask("GET", "localhost", Some("https://ok.example")).await;
        assert_eq!(
            (status.as_u16(), &headers["access-control-allow-origin"]),
            (200, &"https://ok.example".parse().unwrap())
        );
        let (status, headers, _) = ask("OPTIONS", "localhost", Some("https://ok.example")).await;
        assert_eq!(status, 204);
        assert!(headers["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
        assert_eq!(ask("OPTIONS", "localhost", Some("https://evil.example")).await.0, 403);
    });
}

#[test]
fn a_text_that_cannot_fit_is_refused_before_it_is_tokenised() {
    run(async {
        let app = toy();
        let text = "shells ".repeat(100_000);
        for (path, body) in
            [("/v1/completions", json!({ "prompt": text })), ("/v1/tokenize", json!({ "text": text }))]
        {
            let (status, answer) = post(&app, path, &body).await;
            assert_eq!(
                (status.as_u16(), &answer["error"]["code"]),
                (400, &json!("context_length_exceeded")),
                "{answer}"
            );
            // The sentence that counts bytes is said before there are tokens to count.
            assert!(answer["error"]["message"].as_str().unwrap().contains("bytes are more than"), "{answer}");
        }
    });
}
