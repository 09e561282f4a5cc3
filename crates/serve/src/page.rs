//! The page at `/`: files of `crates/serve/page`, inside the program. Nothing is built and nothing comes from outside.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use demask_decode::trace::Trace;
use demask_engine::Text;
use serde_json::{Value, json};

use crate::Server;
use crate::error::{Error, Refusal};
use crate::routes::told;

/// Only what this server sends itself may run, and the page may talk to this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors";
/// A saved replay has everything in it and may fetch nothing.
const SAVED: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                     base-uri 'none'; form-action 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal $kind:ident,)*) => {
        /// Name, type and content of every file.
        const FILES: &[(&str, &str, &str)] = &[
            $(($name, $kind, include_str!(concat!("../page/", $name))),)*
        ];
    };
}

files! {
    "index.html" HTML,
    "style.css" CSS,
    "dark.css" CSS,
    "stage.css" CSS,
    "tokens.css" CSS,
    "heat.css" CSS,
    "icon.svg" SVG,
    "main.js" SCRIPT,
    "api.js" SCRIPT,
    "ask.js" SCRIPT,
    "canvas.js" SCRIPT,
    "decoder.js" SCRIPT,
    "dom.js" SCRIPT,
    "heat.js" SCRIPT,
    "lane.js" SCRIPT,
    "replay.js" SCRIPT,
    "run.js" SCRIPT,
    "stage.js" SCRIPT,
    "standalone.js" SCRIPT,
    "steps.js" SCRIPT,
}

/// The page itself, in no frame.
pub(crate) async fn index() -> Response {
    answer("index.html", "'none'")
}

/// The same for frames: of this server's pages, and of the sites that may use it.
pub(crate) async fn embed(State(server): State<Arc<Server>>) -> Response {
    // Nothing that would end the list or the policy.
    let plain = |site: &&str| !site.contains([';', ',', ' ']);
    let others = server.settings.doors.origins.iter().map(String::as_str).filter(plain);
    let allowed: Vec<&str> = std::iter::once("'self'").chain(others).collect();
    answer("index.html", &allowed.join(" "))
}

/// One of its files.
pub(crate) async fn file(Path(name): Path<String>) -> Response {
    answer(&name, "'none'")
}

fn answer(name: &str, frames: &str) -> Response {
    let Some((_, kind, content)) = FILES.iter().find(|(known, _, _)| *known == name) else {
        return Refusal::http(StatusCode::NOT_FOUND, "there is no such path").into_response();
    };
    // A site that was written with characters no header takes is allowed nowhere.
    let policy = HeaderValue::try_from(format!("{POLICY} {frames}"));
    let policy = policy.unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // A new program has a new page under the same names.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, *content).into_response()
}

/// Modules of a saved replay, each after those it imports.
const SAVED_MODULES: [&str; 9] = [
    "dom.js",
    "run.js",
    "canvas.js",
    "steps.js",
    "heat.js",
    "lane.js",
    "replay.js",
    "stage.js",
    "standalone.js",
];

/// The page's stage as one HTML file that needs nothing else, with recorded decodings in it. A run has `prompt`, the
/// text in front; `start`, a trace header with the `texts` of its tokens and `eos`; `steps`, records with `changes`, as
/// [`told`] tells them.
fn saved_replay(runs: &[Value]) -> String {
    let styles = FILES.iter().filter(|(_, kind, _)| *kind == CSS).map(|(name, _, content)| match *name {
        "dark.css" => format!("<style id=\"dark\" media=\"(prefers-color-scheme: dark)\">{content}</style>"),
        _ => format!("<style>{content}</style>"),
    });
    let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{SAVED}\">");
    // A "</script>" inside a string would end the data.
    let data = json!({ "runs": runs }).to_string().replace("</", "<\\/");
    let data = format!("<script type=\"application/json\" id=\"data\">{data}</script>");
    let modules = SAVED_MODULES.iter().map(|name| plain(content(name)));
    let script = format!("<script type=\"module\">\n{}</script>", modules.collect::<String>());
    let mut page = content("index.html").to_owned();
    for (from, to) in [("<link rel=", ">"), ("<script", "</script>"), ("<form id=\"ask\"", "</form>")] {
        remove(&mut page, from, to);
    }
    remove(&mut page, "<img src=", ">");
    let head = format!("{policy}{}</head>", styles.collect::<String>());
    page.replacen("</head>", &head, 1).replacen("</body>", &format!("{data}{script}</body>"), 1)
}

/// Recorded decodings as one HTML file that needs nothing else: the page's stage, one lane each.
pub fn saved_page(traces: &[Trace], text: &Text) -> Result<String, Error> {
    let (tokenizer, ends) = (text.tokenizer(), text.ends());
    let mut runs = Vec::with_capacity(traces.len());
    for trace in traces {
        let mut told = told(trace, tokenizer, &ends)?;
        let mut start = json!(trace.header);
        start["texts"] = told["texts"].take();
        start["eos"] = told["eos"].take();
        let mut steps = Vec::with_capacity(trace.steps.len());
        for (record, changes) in trace.steps.iter().zip(told["steps"].as_array_mut().into_iter().flatten()) {
            let mut step = json!(record);
            step["changes"] = changes.take();
            steps.push(step);
        }
        let prompt = text.asked(&trace.header.tokens[..trace.header.response.0])?;
        runs.push(json!({ "prompt": prompt, "start": start, "steps": steps }));
    }
    Ok(saved_replay(&runs))
}

/// The content of a file of the page.
fn content(name: &str) -> &'static str {
    FILES.iter().find(|(known, _, _)| *known == name).map_or("", |(_, _, content)| content)
}

/// A module without its imports and exports: what it imports stands before it in the same script.
fn plain(module: &str) -> String {
    let lines = module.lines().filter(|line| !line.starts_with("import "));
    lines.map(|line| format!("{}\n", line.strip_prefix("export ").unwrap_or(line))).collect()
}

/// Cuts out every stretch that begins with `from` and ends with the next `to`.
fn remove(page: &mut String, from: &str, to: &str) {
    while let Some(start) = page.find(from) {
        let Some(length) = page[start..].find(to) else { return };
        page.replace_range(start..start + length + to.len(), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file that another names is served, none reaches outside, and every file of the folder is served.
    #[test]
    fn the_page_is_whole_and_keeps_to_itself() {
        let (_, _, index) = FILES.iter().find(|(name, _, _)| *name == "index.html").unwrap();
        for (name, _, content) in FILES {
            for outside in ["http://", "https://", "//cdn"] {
                let uses = content.replace("http://www.w3.org/", "").contains(outside);
                assert!(!uses, "{name} reaches outside: {outside}");
            }
            let imported = content.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
            for other in imported {
                assert!(FILES.iter().any(|(known, _, _)| *known == other), "{name} imports {other}");
            }
            let reached = index.contains(&format!("page/{name}"))
                || FILES.iter().any(|(_, _, text)| text.contains(&format!("from \"./{name}\"")));
            let saved = SAVED_MODULES.contains(name);
            assert!(*name == "index.html" || reached || saved, "nothing uses {name}");
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(FILES.iter().any(|(known, _, _)| *known == name), "{name} is not served");
        }
    }

    /// The modules of a saved replay share one scope: no name twice, nothing imported that is not there or comes later.
    #[test]
    fn a_saved_replay_is_one_script() {
        let mut names = Vec::new();
        for (at, module) in SAVED_MODULES.iter().enumerate() {
            for line in content(module).lines() {
                if let Some(other) = line.split("from \"./").nth(1).and_then(|rest| rest.split('"').next()) {
                    assert!(SAVED_MODULES[..at].contains(&other), "{module} imports {other} too early");
                }
                let line = line.strip_prefix("export ").unwrap_or(line);
                for word in ["const ", "let ", "class ", "function ", "async function "] {
                    let name = line.strip_prefix(word).and_then(|rest| rest.split([' ', '(', ';']).next());
                    names.extend(name.map(str::to_owned));
                }
            }
        }
        let count = names.len();
        assert!(count > 20, "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name stands in two modules");
    }

    #[test]
    fn a_saved_replay_holds_its_data_and_reaches_nowhere() {
        let page = saved_replay(&[json!({ "prompt": "</script><b>", "steps": [] })]);
        assert!(page.contains("<\\/script><b>") && !page.contains("\"</script><b>"));
        for left in ["<link", "<form", "src=\"page/", "import {", "export "] {
            assert!(!page.contains(left), "{left}");
        }
        assert_eq!(page.matches("<style").count(), 5);
    }
}
