//! `GET /v1/strategies`: every decoder, its parameters, and whether this model can use it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use demask_decode::registry::{Entry, Kind, Param};
use serde_json::{Value, json};

use crate::Server;

/// The table of decoders.
pub(super) async fn list(State(server): State<Arc<Server>>) -> Json<Value> {
    let entries = server.served.model.context().registry.entries();
    let data: Vec<Value> = entries.iter().map(|entry| describe(&server, entry)).collect();
    Json(json!({ "object": "list", "data": data }))
}

fn describe(server: &Server, entry: &Entry) -> Value {
    let model = &server.served.model;
    let available = model.parse_strategy(entry.name).is_ok_and(|spec| model.can_run(&spec));
    // What the checkpoint chose for itself, where it chose this strategy.
    let own = model.defaults().strategy.as_ref().filter(|own| own.name() == entry.name);
    let chosen = |param: &Param| -> Option<&str> {
        let given = own?.given().iter().find(|(key, _)| key == param.key)?;
        Some(&given.1)
    };
    json!({
        "id": entry.name,
        "object": "strategy",
        "summary": entry.summary,
        "source": entry.source,
        "available": available,
        "params": entry.params.iter().map(|p| param(p, chosen(p))).collect::<Vec<_>>(),
    })
}

fn param(param: &Param, own: Option<&str>) -> Value {
    let mut value = json!({ "key": param.key, "default": param.default, "own": own, "help": param.help });
    let least = usize::from(param.kind == Kind::Count);
    match param.kind {
        Kind::Count | Kind::Whole => {
            value["kind"] = "count".into();
            value["low"] = least.into();
        }
        Kind::Number(low, high) => {
            value["kind"] = "number".into();
            value["low"] = low.into();
            value["high"] = if high.is_finite() { high.into() } else { Value::Null };
        }
        Kind::Choice(words) | Kind::Open(words) => {
            value["kind"] = "choice".into();
            value["words"] = words.into();
        }
    }
    value
}
