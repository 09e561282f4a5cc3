//! What comes in: whether its sender may, how large it is, and how long it takes.
//!
//! A browser sends requests in its user's name from any page, and a name of any site can be made to point at this
//! machine. So a request must name this server (`Host`), and one that says which page it comes from (`Origin`) must
//! come from this server's own page or from a site the operator allows. Invariant: the body that a route sees is
//! complete, no longer than the limit, and was sent in time.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::Server;
use crate::error::Refusal;

/// Headers that scripts of an allowed site may send and read.
const SENT: &str = "authorization, content-type, x-request-id";
const READ: &str = "x-request-id, retry-after";

/// Which names and sites a server answers to.
#[derive(Debug, Clone, Default)]
pub struct Doors {
    /// Names in `Host`, without port; `None` answers to all.
    pub hosts: Option<Vec<String>>,
    /// Other sites whose pages may ask, such as `https://example.org`; `*` is every site.
    pub origins: Vec<String>,
}

impl Doors {
    /// Names of this machine itself, and others.
    pub fn loopback(others: &[String]) -> Vec<String> {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        own.into_iter().chain(others.iter().map(|name| name.to_lowercase())).collect()
    }

    /// Refuses a request that was meant for another server, or that another site sent.
    fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = text(headers, header::HOST);
        if let (Some(hosts), Some(host)) = (&self.hosts, host)
            && !hosts.contains(&without_port(host).to_lowercase())
        {
            let message =
                "this server does not answer to the name in the header `Host`; its operator can add one";
            return Err(Refusal::http(StatusCode::FORBIDDEN, message));
        }
        if headers.contains_key(header::ORIGIN) && self.origin(headers).is_none() && !is_own(headers, host) {
            let message = "pages of other sites may not use this server; its operator can allow one";
            return Err(Refusal::http(StatusCode::FORBIDDEN, message));
        }
        Ok(())
    }

    /// The site a request comes from, if it is another one and allowed.
    fn origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let value = headers.get(header::ORIGIN)?;
        let origin = value.to_str().ok()?;
        self.origins
            .iter()
            .any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin))
            .then_some(value)
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether the page that asks is this server's own.
fn is_own(headers: &HeaderMap, host: Option<&str>) -> bool {
    let origin = text(headers, header::ORIGIN).and_then(|origin| origin.split_once("://"));
    matches!((origin, host), (Some((_, site)), Some(host)) if site.eq_ignore_ascii_case(host))
}

/// The answer a request gets at the door, if it goes no further: a refusal, or a browser's question whether a site may
/// ask.
pub(crate) fn greet(server: &Server, request: &Request) -> Option<Response> {
    let doors = &server.settings.doors;
    if let Err(refusal) = doors.check(request.headers()) {
        return Some(refusal.into_response());
    }
    let asks = request.method() == Method::OPTIONS && doors.origin(request.headers()).is_some();
    asks.then(|| preflight(request.headers()))
}

/// A request with its whole body; or the answer it gets instead.
pub(crate) async fn receive(server: &Server, request: Request) -> Result<Request, Response> {
    read(server, request).await.map_err(|refusal| {
        // What is left of the body is not read, so the connection cannot go on.
        let close = (header::CONNECTION, HeaderValue::from_static("close"));
        ([close], refusal).into_response()
    })
}

/// The answer of an allowed site's script says so.
pub(crate) fn tell_origin(server: &Server, origin: Option<HeaderValue>, response: &mut Response) {
    if server.settings.doors.origins.is_empty() {
        return;
    }
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
    }
}

/// The site to be named in the answer, if it is an allowed one.
pub(crate) fn allowed_origin(server: &Server, headers: &HeaderMap) -> Option<HeaderValue> {
    server.settings.doors.origin(headers).cloned()
}

fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let allowed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, SENT),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    for (name, value) in allowed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if headers.contains_key("access-control-request-private-network") {
        response
            .headers_mut()
            .insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
    response
}

async fn read(server: &Server, request: Request) -> Result<Request, Refusal> {
    let most = server.settings.max_body;
    let too_large = || {
        let message = format!("the body is larger than this server's limit of {most} bytes");
        Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let length =
        text(request.headers(), header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let (head, body) = request.into_parts();
    let patience = server.settings.patience.body;
    match timeout(patience, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(head, Body::from(bytes))),
        Ok(Err(error)) if is_length(&error) => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::request("the body could not be read")),
        Err(_) => {
            let message = format!("the body did not arrive within {} seconds", patience.as_secs());
            Err(Refusal::http(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

/// Whether reading stopped because there was more than the limit.
fn is_length(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.to_string().contains("length limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_this_machines_names_and_pages_are_answered() {
        let doors = Doors { hosts: Some(Doors::loopback(&["box.lan".into()])), origins: Vec::new() };
        for (host, origin) in [
            ("localhost:8080", None),
            ("LOCALHOST", None),
            ("127.0.0.1:1", Some("http://127.0.0.1:1")),
            ("[::1]:8080", Some("http://[::1]:8080")),
            ("box.lan", None),
        ] {
            assert!(doors.check(&headers(host, origin)).is_ok(), "{host} {origin:?}");
        }
        for (host, origin) in [
            ("evil.example", None),
            ("evil.example:8080", Some("http://evil.example:8080")),
            ("localhost.evil.example", None),
            ("localhost:8080", Some("http://evil.example")),
            ("localhost:8080", Some("http://localhost:8081")),
            ("localhost:8080", Some("null")),
            ("127.0.0.1.evil.example", None),
        ] {
            assert!(doors.check(&headers(host, origin)).is_err(), "{host} {origin:?}");
        }
        let open = Doors { hosts: None, origins: vec!["https://a.example".into()] };
        assert!(open.check(&headers("any.example", Some("https://a.example"))).is_ok());
        assert!(open.check(&headers("any.example", Some("https://b.example"))).is_err());
    }
}
