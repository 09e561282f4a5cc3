//! `GET /v1/opening`: the race that the page opens on, decoded once by the model that is served.
//!
//! Examples come from whoever handed the tasks in, best first; the one shown is the first that the model's own decoder
//! answers right, as one token at a time does, in at most half of its passes. Where none is that good, the first right
//! answer will do; where none is right, there is no race. So nothing that is shown can be out of date with the weights.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::denoise::{Telling, read};
use crate::error::Refusal;
use crate::{Posed, Server, Tasks};

/// The decoder to compare with.
const ONE_AT_A_TIME: &str = "entropy";
/// Longest canvas; the page shows as much.
const LONGEST: usize = 96;
/// How many times fewer passes a good example takes.
const GAIN: usize = 2;

/// The race, or one without runs where there is nothing to show.
pub(super) async fn opening(State(server): State<Arc<Server>>) -> Result<Response, Refusal> {
    let race = async || choose(&server).await.map(|race| Bytes::from(race.to_string()));
    let race = server.opening.get_or_try_init(race).await?.clone();
    Ok(([(header::CONTENT_TYPE, "application/json")], race).into_response())
}

/// One recorded decoding with the judgement of its answer.
struct Recorded {
    passes: usize,
    right: bool,
    told: Value,
}

async fn choose(server: &Arc<Server>) -> Result<Value, Refusal> {
    let nothing = json!({ "object": "opening", "runs": [] });
    let Some(tasks) = &server.served.tasks else { return Ok(nothing) };
    let mut fallback = None;
    for (task, index) in tasks.examples() {
        let Some(posed) = tasks.problem(&task, index) else { continue };
        let example = Example { task, index, posed };
        let own = server.served.model.strategy(&server.served.decoding).to_string();
        let fast = record(server, tasks.as_ref(), &example, &own).await?;
        if !fast.right {
            continue;
        }
        let slow = record(server, tasks.as_ref(), &example, ONE_AT_A_TIME).await?;
        let good = slow.right && slow.passes >= GAIN * fast.passes;
        let race = json!({
            "object": "opening", "task": example.task, "index": example.index, "kind": example.posed.kind,
            "prompt": example.posed.prompt, "answer": example.posed.answer, "runs": [fast.told, slow.told],
        });
        if good {
            return Ok(race);
        }
        fallback.get_or_insert(race);
    }
    Ok(fallback.unwrap_or(nothing))
}

struct Example {
    task: String,
    index: u64,
    posed: Posed,
}

/// Decodes an example exactly as the page would ask for it, so that the page's address of the race repeats it.
async fn record(
    server: &Arc<Server>,
    tasks: &dyn Tasks,
    example: &Example,
    strategy: &str,
) -> Result<Recorded, Refusal> {
    let served = &server.served;
    let length = served.model.usual_length(&served.decoding).min(LONGEST).min(server.settings.max_tokens);
    let prompt = &example.posed.prompt;
    let mut asked = json!({
        "strategy": strategy, "seed": 0, "temperature": 0, "max_tokens": length, "include_dependency": true,
    });
    match served.model.text().chat() {
        Some(_) => asked["messages"] = json!([{ "role": "user", "content": prompt }]),
        None => asked["prompt"] = prompt.as_str().into(),
    }
    let asked = read(asked.to_string().as_bytes(), served, &server.settings)?;
    let mut telling = Telling::begin(server, asked)?;
    let (mut start, mut steps, mut done) = (Value::Null, Vec::new(), Value::Null);
    while let Some((event, value)) = telling.next(served).await? {
        match event {
            "start" => start = value,
            "step" => steps.push(value),
            _ => done = value,
        }
    }
    let response = done["text"].as_str().unwrap_or_default();
    let verdict = tasks.check(&example.task, example.index, response);
    let passes = steps.iter().filter_map(|step| step["forwards"].as_u64()).sum::<u64>() as usize;
    // Right to the last word: a wrong step before a right number is no good example.
    let right = verdict.as_ref().is_some_and(|verdict| verdict.correct && verdict.strict != Some(false));
    let verdict = verdict.map(|verdict| super::tasks::told(&example.task, example.index, &verdict));
    let told = json!({ "start": start, "steps": steps, "done": done, "verdict": verdict });
    Ok(Recorded { passes, right, told })
}
