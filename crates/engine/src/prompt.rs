//! What stands on a canvas before the first step.

use demask_decode::Canvas;
use demask_model::text::Message;

use crate::decoding::Decoding;
use crate::error::Result;
use crate::model::Model;

/// What a model is given.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// One message of a user, through the chat template; as it is where the model has none.
    User(String),
    /// A text as it is, without the chat template.
    Raw(String),
    /// A conversation, through the chat template.
    Chat(Vec<Message>),
    /// Token ids as they are.
    Tokens(Vec<u32>),
    /// Token ids whose masks are to be filled; everything else stays as it is.
    Gaps(Vec<u32>),
    /// A text whose gaps (`[MASK]`, `[MASK:5]`) are to be filled; everything else stays as it is.
    Infill {
        /// What stands in front; it is not part of the answer.
        before: Option<Box<Self>>,
        /// The text with its gaps.
        text: String,
    },
}

impl Prompt {
    /// A text as it is, without the chat template.
    pub fn raw(text: impl Into<String>) -> Self {
        Self::Raw(text.into())
    }

    /// A text with gaps: `[MASK]` is one token, `[MASK:5]` is five.
    pub fn infill(text: impl Into<String>) -> Self {
        Self::Infill { before: None, text: text.into() }
    }

    /// The same text with gaps behind a prompt; of other prompts, nothing changes.
    pub fn behind(self, prompt: impl Into<Self>) -> Self {
        match self {
            Self::Infill { text, .. } => Self::Infill { before: Some(Box::new(prompt.into())), text },
            other => other,
        }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::User(text.to_owned())
    }
}

impl From<&String> for Prompt {
    fn from(text: &String) -> Self {
        Self::User(text.clone())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::User(text)
    }
}

impl From<Vec<Message>> for Prompt {
    fn from(messages: Vec<Message>) -> Self {
        Self::Chat(messages)
    }
}

impl From<&[Message]> for Prompt {
    fn from(messages: &[Message]) -> Self {
        Self::Chat(messages.to_vec())
    }
}

/// Which tokens of a finished canvas are the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The response up to its first end of sequence.
    Response,
    /// Everything from here on: a text whose gaps were filled.
    From(usize),
}

impl Model {
    /// Ids of a prompt that a response follows.
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        match prompt {
            Prompt::User(message) => Ok(self.text().user(message)?.1),
            Prompt::Raw(text) => Ok(self.tokenizer().encode(text)?),
            Prompt::Chat(messages) => Ok(self.text().conversation(messages)?.1),
            Prompt::Tokens(ids) | Prompt::Gaps(ids) => Ok(ids.clone()),
            Prompt::Infill { before, text } => {
                let mut ids = before.as_ref().map_or(Ok(Vec::new()), |prompt| self.encode(prompt))?;
                ids.extend(self.text().with_gaps(text)?);
                Ok(ids)
            }
        }
    }

    /// The canvas of a prompt, and which part of it will be the answer.
    pub(crate) fn draft(&self, prompt: &Prompt, decoding: &Decoding) -> Result<(Canvas, Shown)> {
        let ids = self.encode(prompt)?;
        let start = match prompt {
            Prompt::Gaps(_) => 0,
            Prompt::Infill { before, .. } => {
                before.as_ref().map_or(Ok(0), |prompt| self.encode(prompt).map(|ids| ids.len()))?
            }
            _ => return Ok((self.canvas(&ids, decoding)?, Shown::Response)),
        };
        Ok((self.infill_canvas(&ids)?, Shown::From(start)))
    }
}
