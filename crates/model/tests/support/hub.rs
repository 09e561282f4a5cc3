//! A server on loopback that speaks the Hub's paths: the listing of a revision, `resolve` with ranges, redirects to a
//! content store, commits, etags, tokens, and the ways all of this can fail.

#![allow(unreachable_pub, reason = "shared between tests")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub const NAME: &str = "Dream-org/Toy";

/// What the server holds and how it misbehaves.
#[derive(Default)]
pub struct Hub {
    /// Revision to commit.
    pub revisions: BTreeMap<String, String>,
    /// Commit to files.
    pub commits: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// If set, files are given only to bearers of it.
    pub token: Option<String>,
    /// Whether `/api/models` is there.
    pub unlisted: bool,
    /// File bodies that break off halfway, this many times.
    pub broken: usize,
    /// Whether ranges that resume a file are answered with the whole file.
    pub ignores_ranges: bool,
    /// Every request is answered with this.
    pub status: Option<u16>,
    /// Requests for a path that contains this are never answered.
    pub silent: Option<&'static str>,
    /// Files are sent in so many pieces, with a pause between them.
    pub pieces: Option<(usize, Duration)>,
    /// The etag of a file that is said to have two gigabytes.
    pub heavy: Option<String>,
    /// `method path range` of every request.
    pub log: Vec<String>,
}

#[derive(Clone)]
pub struct Server {
    pub address: String,
    hub: Arc<Mutex<Hub>>,
}

impl Server {
    pub fn start(files: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { address, hub: Arc::default() };
        server.push("main", "c0ffee01", files);
        let accepting = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let server = accepting.clone();
                thread::spawn(move || server.answer(stream.unwrap()));
            }
        });
        server
    }

    pub fn push(&self, revision: &str, commit: &str, files: BTreeMap<String, Vec<u8>>) {
        self.with(|hub| {
            hub.revisions.insert(revision.to_owned(), commit.to_owned());
            hub.revisions.insert(commit.to_owned(), commit.to_owned());
            hub.commits.insert(commit.to_owned(), files);
        });
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut Hub) -> T) -> T {
        change(&mut self.hub.lock().unwrap())
    }

    pub fn take_log(&self) -> Vec<String> {
        self.with(|hub| std::mem::take(&mut hub.log))
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let mut words = lines[0].split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let header = |name: &str| {
            let line =
                lines.iter().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")))?;
            Some(line[name.len() + 2..].to_owned())
        };
        let (range, authorization) = (header("range"), header("authorization"));
        let mut hub = self.hub.lock().unwrap();
        hub.log.push(format!("{method} {path} {}", range.as_deref().unwrap_or("-")));
        let response = hub.respond(&self.address, method, path, range, authorization);
        let (silent, pieces) = (hub.silent.is_some_and(|part| path.contains(part)), hub.pieces);
        drop(hub);
        if silent {
            loop {
                thread::park();
            }
        }
        let (count, pause) = pieces.unwrap_or((1, Duration::ZERO));
        for piece in response.chunks(response.len().div_ceil(count)) {
            let _ = reader.get_mut().write_all(piece);
            thread::sleep(pause);
        }
    }
}

impl Hub {
    fn respond(
        &mut self,
        address: &str,
        method: &str,
        path: &str,
        range: Option<String>,
        authorization: Option<String>,
    ) -> Vec<u8> {
        if let Some(status) = self.status {
            return reply(status, &[], b"");
        }
        let path = path.replace("%2F", "/");
        for kind in ["models", "datasets"] {
            if let Some(revision) = path.strip_prefix(&format!("/api/{kind}/{NAME}/revision/")) {
                return self.list(revision);
            }
        }
        if let Some(hash) = path.strip_prefix("/content/") {
            if self.heavy.as_deref() == Some(hash) {
                return reply(206, &[("content-range", format!("bytes 0-0/{}", 1_u64 << 31))], b"x");
            }
            let found = self.commits.values().flat_map(BTreeMap::values).find(|file| etag(file) == hash);
            let file = found.unwrap().clone();
            return self.send(method, &file, range, &[]);
        }
        let relative = path.strip_prefix("/moved");
        let Some((revision, file)) = relative
            .unwrap_or(&path)
            .trim_start_matches("/datasets")
            .strip_prefix(&format!("/{NAME}/resolve/"))
            .and_then(|rest| self.split(rest))
        else {
            // The Hub does not tell strangers whether a repository exists.
            return reply(401, &[], b"");
        };
        if self.token.as_ref().is_some_and(|token| authorization != Some(format!("Bearer {token}"))) {
            return reply(401, &[], b"");
        }
        let Some(commit) = self.revisions.get(revision).cloned() else {
            return reply(404, &[("x-error-code", "RevisionNotFound".to_owned())], b"");
        };
        let Some(contents) = self.commits[&commit].get(file).cloned() else {
            return reply(404, &[("x-error-code", "EntryNotFound".to_owned())], b"");
        };
        let mut headers = vec![("x-repo-commit", commit), ("etag", format!("\"{}\"", etag(&contents)))];
        if file.ends_with(".safetensors") {
            headers[1].1 = "\"of the pointer\"".to_owned();
            headers.push(("x-linked-etag", format!("\"{}\"", etag(&contents))));
            headers.push(("x-linked-size", contents.len().to_string()));
            headers.push(("location", format!("{address}/content/{}", etag(&contents))));
            return reply(302, &headers, b"");
        }
        if file == "tokenizer.json" && relative.is_none() {
            headers.push(("location", format!("/moved{path}")));
            return reply(307, &headers, b"");
        }
        self.send(method, &contents, range, &headers)
    }

    /// Revision and file; both may have slashes.
    fn split<'p>(&self, rest: &'p str) -> Option<(&'p str, &'p str)> {
        let known = self.revisions.keys().find_map(|revision| {
            Some((&rest[..revision.len()], rest.strip_prefix(revision.as_str())?.strip_prefix('/')?))
        });
        known.or_else(|| rest.rsplit_once('/'))
    }

    fn list(&self, revision: &str) -> Vec<u8> {
        let Some(commit) = self.revisions.get(revision).filter(|_| !self.unlisted) else {
            return reply(404, &[], b"");
        };
        let siblings: Vec<_> =
            self.commits[commit].keys().map(|file| serde_json::json!({ "rfilename": file })).collect();
        let body = serde_json::json!({ "sha": commit, "siblings": siblings, "private": false }).to_string();
        reply(200, &[("content-type", "application/json".to_owned())], body.as_bytes())
    }

    fn send(
        &mut self,
        method: &str,
        file: &[u8],
        range: Option<String>,
        headers: &[(&str, String)],
    ) -> Vec<u8> {
        let range = range.unwrap_or_else(|| "bytes=0-".to_owned());
        let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let from: usize = from.parse().unwrap();
        let whole = to.is_empty();
        if from >= file.len() {
            return reply(416, &[], b"");
        }
        if self.ignores_ranges && from > 0 {
            return reply(200, headers, file);
        }
        let to = if whole { file.len() - 1 } else { to.parse::<usize>().unwrap().min(file.len() - 1) };
        let mut headers = headers.to_vec();
        headers.push(("content-range", format!("bytes {from}-{to}/{}", file.len())));
        headers.push(("accept-ranges", "bytes".to_owned()));
        let mut response = reply(206, &headers, &file[from..=to]);
        if method == "HEAD" {
            response.truncate(response.len() - (to - from + 1));
        } else if whole && self.broken > 0 {
            self.broken -= 1;
            response.truncate(response.len() - (to - from) / 2 - 1);
        }
        response
    }
}

fn reply(status: u16, headers: &[(&str, String)], body: &[u8]) -> Vec<u8> {
    let mut response =
        format!("HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        response.push_str(&format!("{name}: {value}\r\n"));
    }
    response.push_str("\r\n");
    let mut response = response.into_bytes();
    response.extend(body);
    response
}

/// Any name that depends on the contents.
pub fn etag(file: &[u8]) -> String {
    let hash = file
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}
