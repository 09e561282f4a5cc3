//! What Python chooses about a decoding, and what it is of.

use demask::decode::{Editing, HoldEos};
use demask::{Decoding, Message, Model, Prompt};
use pyo3::prelude::*;

use crate::error::{exception, library};

/// The choices; every key is there, `None` where the model decides.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Choices {
    strategy: Option<String>,
    max_new_tokens: Option<usize>,
    min_new_tokens: usize,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<usize>,
    sampler: Option<String>,
    seed: u64,
    stream: u64,
    eos: String,
    eos_penalty: f32,
    hold_eos: String,
    block_length: Option<usize>,
    cache: String,
    cfg: f32,
    speculate: usize,
    edit_threshold: Option<f32>,
    post_steps: Option<usize>,
}

impl Choices {
    /// As the library takes them; mistakes are told in its words.
    pub(crate) fn decoding(&self, model: &Model) -> PyResult<Decoding> {
        let wrong = |error: demask::decode::Error| library(&error.into());
        let strategy = self.strategy.as_deref().map(|spelling| model.parse_strategy(spelling)).transpose();
        let editing = self.edit_threshold.map(|threshold| Editing {
            threshold,
            post_steps: self.post_steps.unwrap_or(Editing::POST_STEPS),
        });
        Ok(Decoding {
            strategy: strategy.map_err(|error| library(&error))?,
            length: self.max_new_tokens,
            min_length: self.min_new_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            draw: self.sampler.as_deref().map(str::parse).transpose().map_err(wrong)?,
            seed: self.seed,
            stream: self.stream,
            eos: self.eos.parse().map_err(wrong)?,
            eos_penalty: self.eos_penalty,
            hold_eos: self.hold_eos.parse::<HoldEos>().map_err(wrong)?,
            block_length: self.block_length,
            cache: self.cache.parse().map_err(wrong)?,
            guidance: self.cfg,
            speculate: self.speculate,
            editing,
        })
    }
}

/// What is decoded: its kind, and its text, its messages as JSON, or its ids.
#[derive(FromPyObject)]
pub(crate) enum Given {
    /// Token ids as they are.
    Ids(Vec<u32>),
    /// A kind (`user`, `raw`, `chat`, `infill`) and a text; of a gap text, also what stands in front.
    Text(String, String, Option<PyObject>),
}

impl Given {
    /// As the library takes it.
    pub(crate) fn prompt(&self) -> PyResult<Prompt> {
        let (kind, text, before) = match self {
            Self::Ids(ids) => return Ok(Prompt::Tokens(ids.clone())),
            Self::Text(kind, text, before) => (kind, text, before),
        };
        Ok(match kind.as_str() {
            "raw" => Prompt::Raw(text.clone()),
            "infill" => {
                let inner = |before: &PyObject| Python::with_gil(|py| before.extract::<Self>(py)?.prompt());
                let before = before.as_ref().map(inner).transpose()?;
                Prompt::Infill { before: before.map(Box::new), text: text.clone() }
            }
            "chat" => {
                let messages: Result<Vec<Message>, _> = serde_json::from_str(text);
                let wrong = |cause: serde_json::Error| {
                    exception(format!("the messages cannot be used: {cause}"), true)
                };
                Prompt::Chat(messages.map_err(wrong)?)
            }
            _ => Prompt::User(text.clone()),
        })
    }
}
