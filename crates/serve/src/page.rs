//! The page at `/`: files of `crates/serve/page`, inside the program. Nothing is built and nothing comes from outside.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::Refusal;

/// Only what this server sends itself may run, and the page may talk to this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
    "tokens.css" CSS,
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
    "steps.js" SCRIPT,
}

/// The page itself.
pub(crate) async fn index() -> Response {
    answer("index.html")
}

/// One of its files.
pub(crate) async fn file(Path(name): Path<String>) -> Response {
    answer(&name)
}

fn answer(name: &str) -> Response {
    let Some((_, kind, content)) = FILES.iter().find(|(known, _, _)| *known == name) else {
        return Refusal::http(StatusCode::NOT_FOUND, "there is no such path").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A new program has a new page under the same names.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers.map(|(name, value)| (name, HeaderValue::from_static(value))), *content).into_response()
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
            assert!(*name == "index.html" || reached, "nothing uses {name}");
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(FILES.iter().any(|(known, _, _)| *known == name), "{name} is not served");
        }
    }
}
