//! What the runner evaluates on: numbered items to ask and a program that judges the responses.
//!
//! A suite is a family of the embedded model's tasks ([`Generated`]) or a public benchmark under one of its
//! protocols ([`Questions`]); the runner cannot tell them apart. Invariant: an item and the judgement of a response are functions
//! of the item's number, the tokenizer and the chat template alone.

mod generated;
mod questions;

use demask_model::text::{ChatTemplate, Conversation, Message, Tokenizer};

use crate::error::Result;
use crate::task::Score;

pub use generated::Generated;
pub use questions::{Questions, Reader};

/// Items to ask and how their responses are judged.
pub trait Suite: Send + Sync {
    /// Short name, as on the command line and in records.
    fn name(&self) -> &str;
    /// Raised whenever prompts or judgement change.
    fn version(&self) -> u32;
    /// Whose rules are followed, where there are several.
    fn protocol(&self) -> Option<String> {
        None
    }
    /// How many items there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One item, for a model that reads with this tokenizer and template.
    fn item(&self, index: usize, text: &Text<'_>) -> Result<Item>;
    /// Judges the response to an item: decoded, cut at the first end of sequence and at every `until`.
    fn score(&self, index: usize, response: &str) -> Result<Score>;
}

/// One thing to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Names the item within its suite; all its randomness comes from it.
    pub id: String,
    /// Kind within the suite (`lines/shuffle`, a subject), where there are any.
    pub kind: Option<String>,
    /// The prompt as the model sees it.
    pub prompt: String,
    /// Its token ids, after any truncation.
    pub tokens: Vec<u32>,
    /// Length of the response canvas.
    pub max_new_tokens: usize,
    /// The response ends before the first of any of these.
    pub until: Vec<String>,
}

/// How a model reads and writes.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Its chat template, if it has one.
    pub chat: Option<&'a ChatTemplate>,
}

impl Text<'_> {
    /// One message of a user through the chat template, or as it is where there is none: text and ids.
    pub fn user(&self, message: &str) -> Result<(String, Vec<u32>)> {
        let prompt = match self.chat {
            Some(chat) => chat.render(&Conversation::new(&[Message::new("user", message)]))?,
            None => message.to_owned(),
        };
        let tokens = self.tokenizer.encode(&prompt)?;
        Ok((prompt, tokens))
    }

    /// The text of a response canvas: up to its first end of sequence, then cut at every `until` in turn.
    pub fn response(&self, ids: &[u32], eos: &[u32], until: &[String]) -> Result<String> {
        let mut text = self.tokenizer.decode_response(ids, eos)?;
        for stop in until.iter().filter(|stop| !stop.is_empty()) {
            if let Some(end) = text.find(stop.as_str()) {
                text.truncate(end);
            }
        }
        Ok(text)
    }
}
