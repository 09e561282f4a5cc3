//! `GET /v1/tasks`, `POST /v1/tasks/problem` and `POST /v1/tasks/check`: problems to try, judged by a program.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{Body, body_bytes};
use crate::error::Refusal;
use crate::fields::{Fields, short};
use crate::{Server, Tasks, Verdict};

/// Largest number of a problem: what every JSON reader keeps.
const LAST: usize = 1 << 53;

/// The tasks there are; none where the model was not made for any.
pub(super) async fn list(State(server): State<Arc<Server>>) -> Json<Value> {
    let tasks = server.served.tasks.as_ref().map(|tasks| tasks.list()).unwrap_or_default();
    let data: Vec<Value> =
        tasks.iter().map(|(id, summary)| json!({ "id": id, "object": "task", "summary": summary })).collect();
    Json(json!({ "object": "list", "data": data }))
}

/// One problem.
pub(super) async fn problem(State(server): State<Arc<Server>>, body: Body) -> Result<Json<Value>, Refusal> {
    let mut fields = Fields::parse(&body_bytes(&server, body)?)?;
    let (tasks, task, index) = which(&server, &mut fields)?;
    fields.finish()?;
    let Some(posed) = tasks.problem(&task, index) else { return Err(unknown(tasks, &task)) };
    Ok(Json(json!({
        "object": "problem", "task": task, "index": index, "kind": posed.kind, "prompt": posed.prompt,
        "answer": posed.answer,
    })))
}

/// The judgement of one answer.
pub(super) async fn check(State(server): State<Arc<Server>>, body: Body) -> Result<Json<Value>, Refusal> {
    let mut fields = Fields::parse(&body_bytes(&server, body)?)?;
    let (tasks, task, index) = which(&server, &mut fields)?;
    let Some(response) = fields.text("response")? else {
        return Err(Refusal::field("response", "is missing"));
    };
    fields.finish()?;
    let Some(verdict) = tasks.check(&task, index, &response) else { return Err(unknown(tasks, &task)) };
    Ok(Json(told(&task, index, &verdict)))
}

/// A judgement as it is sent.
pub(super) fn told(task: &str, index: u64, verdict: &Verdict) -> Value {
    json!({
        "object": "verdict", "task": task, "index": index, "correct": verdict.correct, "strict": verdict.strict,
        "extracted": verdict.extracted, "checked": verdict.checked,
    })
}

fn which<'a>(server: &'a Server, fields: &mut Fields) -> Result<(&'a dyn Tasks, String, u64), Refusal> {
    let Some(tasks) = &server.served.tasks else {
        return Err(Refusal::http(StatusCode::NOT_FOUND, "this model comes with no tasks"));
    };
    let Some(task) = fields.text("task")? else { return Err(Refusal::field("task", "is missing")) };
    let index = fields.count("index", 0, LAST)?.unwrap_or(0) as u64;
    Ok((tasks.as_ref(), task, index))
}

fn unknown(tasks: &dyn Tasks, task: &str) -> Refusal {
    let known: Vec<String> = tasks.list().into_iter().map(|(name, _)| name).collect();
    Refusal::field(
        "task",
        format!("there is no task {}; the tasks are {}", short(&task.into()), known.join(", ")),
    )
}
