//! What the runner evaluates on: numbered items to ask and a program that judges the responses.
//!
//! A suite is a family of the embedded model's tasks ([`Generated`]) or a public benchmark under one of its
//! protocols ([`Questions`]); the runner cannot tell them apart. Invariant: an item and the judgement of a response are functions
//! of the item's number, the tokenizer and the chat template alone.

mod generated;
mod questions;

use demask_engine::Text;

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
    fn item(&self, index: usize, text: &Text) -> Result<Item>;
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
