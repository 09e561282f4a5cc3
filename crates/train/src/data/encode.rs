//! Rows as token ids: the chat template up to the assistant's answer, then the answer and its end.

use std::ops::Range;

use demask_model::text::{ChatTemplate, Conversation, Ending, Message, Tokenizer};

use super::{Content, Records, Refused};
use crate::error::Result;
use crate::tv_cache::{Response, ResponseSource};

/// Turns text into tokens as the model reads them.
#[derive(Clone)]
pub struct Encoder {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    end_of_turn: bool,
}

impl Encoder {
    /// Without a template, prompts and responses are taken as they are.
    pub fn new(tokenizer: Tokenizer, template: Option<ChatTemplate>) -> Self {
        Self { tokenizer, template, end_of_turn: true }
    }

    /// Whether a response ends with what the template writes after it (an end-of-turn token), as instruction-tuned
    /// models are trained; otherwise it ends where its text ends.
    #[must_use]
    pub fn with_end_of_turn(self, end_of_turn: bool) -> Self {
        Self { end_of_turn, ..self }
    }

    /// Prompt and response as token ids; the error says why not, as the end of a sentence.
    pub fn encode(&self, content: &Content) -> Result<(Vec<u32>, Vec<u32>), String> {
        let (prompt, response) = self.text(content)?;
        if response.trim().is_empty() {
            return Err("has an empty response".into());
        }
        let ids = |text: &str| {
            self.tokenizer.encode(text).map_err(|cause| format!("cannot be tokenized ({cause})"))
        };
        Ok((ids(&prompt)?, ids(&response)?))
    }

    /// Prompt and response as text.
    pub(super) fn text(&self, content: &Content) -> Result<(String, String), String> {
        let messages = match (content, &self.template) {
            (Content::Pair { prompt, response }, None) => return Ok((prompt.clone(), response.clone())),
            (Content::Pair { prompt, response }, Some(_)) => {
                &vec![Message::new("user", prompt.as_str()), Message::new("assistant", response.as_str())]
            }
            (Content::Messages(messages), _) => messages,
        };
        let answer = messages.iter().rposition(|message| message.role() == "assistant");
        let answer =
            answer.filter(|&answer| answer > 0).ok_or("has no assistant's answer after a question")?;
        let (before, response) = (&messages[..answer], messages[answer].text().unwrap_or_default());
        let Some(template) = &self.template else {
            let prompt: Vec<&str> = before.iter().filter_map(Message::text).collect();
            return Ok((prompt.join("\n"), response.to_owned()));
        };
        let render = |messages: &[Message], ending| {
            let text = template.render(&Conversation { messages, ending, ..Conversation::default() });
            text.map_err(|cause| format!("does not fit the chat template ({cause})"))
        };
        let prompt = render(before, Ending::Answer)?;
        if !self.end_of_turn {
            return Ok((prompt, response.to_owned()));
        }
        // What the template writes after the prompt is the response with its end-of-turn token.
        let whole = render(&messages[..=answer], Ending::Closed)?;
        let response = whole.strip_prefix(&prompt).unwrap_or(response).trim_end().to_owned();
        Ok((prompt, response))
    }
}

/// Files of text as a source of responses.
pub struct Encoded<'a> {
    /// The rows.
    pub records: &'a dyn Records,
    /// How they become tokens.
    pub encoder: &'a Encoder,
}

impl ResponseSource for Encoded<'_> {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn identity(&self) -> String {
        let form = match (&self.encoder.template, self.encoder.end_of_turn) {
            (None, _) => "raw",
            (Some(_), true) => "chat",
            (Some(_), false) => "chat-open",
        };
        format!("{}:{form}", self.records.identity())
    }

    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Response, Refused>>> {
        let rows = self.records.read(range.clone())?;
        let encode = |(row, record): (usize, Result<super::Record, Refused>)| {
            let record = record?;
            let (prompt, response) =
                self.encoder.encode(&record.content).map_err(|why| Refused { row: row as u64, why })?;
            Ok(Response { id: record.id, prompt, response })
        };
        Ok(range.zip(rows).map(encode).collect())
    }
}
