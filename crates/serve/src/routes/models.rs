//! `GET /v1/models` and `GET /v1/models/NAME`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::Server;
use crate::error::Refusal;

/// The one model.
pub(super) async fn list(State(server): State<Arc<Server>>) -> Json<Value> {
    Json(json!({ "object": "list", "data": [describe(&server)] }))
}

/// The one model by its name.
pub(super) async fn retrieve(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Refusal> {
    if name == server.served.model.name() { Ok(Json(describe(&server))) } else { Err(Refusal::model(&name)) }
}

fn describe(server: &Server) -> Value {
    let served = &server.served;
    let default_tokens = served.model.usual_length(&served.decoding).min(server.settings.max_tokens);
    json!({
        "id": served.model.name(),
        "object": "model",
        "created": server.started,
        "owned_by": "demask",
        "context_length": served.model.backbone().spec().max_positions,
        "max_tokens": server.settings.max_tokens,
        "chat": served.model.text().chat().is_some(),
        "tasks": served.tasks.is_some(),
        "predictor": served.model.context().predictor.is_some(),
        "mask_token_id": served.model.ids().mask,
        "eos_token_ids": served.model.ids().eos,
        "default_tokens": default_tokens,
        "strategy": served.model.strategy(&served.decoding).to_string(),
    })
}
