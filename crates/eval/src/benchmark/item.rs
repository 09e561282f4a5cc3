//! One question of a benchmark: how it is put, where its answer ends, and how the answer is marked.

use std::fmt;

use demask_model::text::{ChatTemplate, Conversation, Ending, Message, Tokenizer, Trailing};

use crate::error::{Error, Remedy, Result};
use crate::sandbox::Sandbox;
use crate::task::Score;

/// Marks answers to one question.
pub trait Check: Send + Sync {
    /// The mark of a response that is already cut. A benchmark of programs needs the sandbox.
    fn check(&self, response: &str, sandbox: Option<&Sandbox>) -> Result<Score>;
}

/// What is said, before a chat template is applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt {
    /// The system turn.
    pub system: String,
    /// The shots and the question.
    pub user: String,
    /// How the answer begins; the response continues it.
    pub prefix: String,
}

/// One question.
pub struct Question {
    /// The task; of a benchmark with subjects, with its subject.
    pub task: String,
    /// Number of the question within its task.
    pub doc_id: usize,
    /// What is said.
    pub prompt: Prompt,
    /// Whether it goes through the chat template.
    pub chat: bool,
    /// Where a response is cut, in turn.
    pub until: Vec<String>,
    /// Length of the response.
    pub max_new_tokens: usize,
    /// Tokens of the prompt that are kept, from its end.
    pub max_prompt_tokens: Option<usize>,
    /// What the answer is compared with: a value, or the tests it has to pass.
    pub target: String,
    pub(super) check: Box<dyn Check>,
}

impl Question {
    /// Names the item among all benchmarks.
    pub fn id(&self) -> String {
        format!("{}/{}", self.task, self.doc_id)
    }

    /// The turns of the conversation.
    pub fn messages(&self) -> Vec<Message> {
        let Prompt { system, user, prefix } = &self.prompt;
        [("system", system), ("user", user), ("assistant", prefix)]
            .into_iter()
            .filter(|(role, text)| *role == "user" || !text.is_empty())
            .map(|(role, text)| Message::new(role, text.clone()))
            .collect()
    }

    /// The text of the prompt. `trailing` says what becomes of white space at the end of an answer's beginning.
    pub fn text(&self, template: Option<&ChatTemplate>, trailing: Trailing) -> Result<String> {
        let Prompt { system, user, prefix } = &self.prompt;
        if !self.chat {
            return Ok(format!("{system}{user}{prefix}"));
        }
        let Some(template) = template else {
            let problem =
                format!("{} is asked through a chat template, and the checkpoint has none", self.task);
            return Err(Error::Choice { problem, remedy: Remedy::WithoutTemplate });
        };
        let messages = self.messages();
        let ending = if prefix.is_empty() { Ending::Answer } else { Ending::Continue(trailing) };
        Ok(template.render(&Conversation { ending, ..Conversation::new(&messages) })?)
    }

    /// The ids of the prompt's text, all of them.
    pub fn encode(&self, text: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
        // A template writes the special tokens itself.
        Ok(if self.chat { tokenizer.encode(text)? } else { tokenizer.encode_document(text)? })
    }

    /// The end of the prompt that the model sees: what the protocol keeps and what fits a context of `positions`.
    pub fn kept<'a>(&self, ids: &'a [u32], positions: usize) -> &'a [u32] {
        let room = positions.saturating_sub(self.max_new_tokens);
        let keep = self.max_prompt_tokens.unwrap_or(usize::MAX).min(room).min(ids.len());
        &ids[ids.len() - keep..]
    }

    /// A response up to the first of the stops, taken in turn.
    pub fn cut<'a>(&self, response: &'a str) -> &'a str {
        self.until
            .iter()
            .filter(|stop| !stop.is_empty())
            .fold(response, |text, stop| text.split_once(stop.as_str()).map_or(text, |(before, _)| before))
    }

    /// The mark of a response as the model gave it.
    pub fn score(&self, response: &str, sandbox: Option<&Sandbox>) -> Result<Score> {
        self.check.check(self.cut(response), sandbox)
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("id", &self.id()).field("target", &self.target).finish_non_exhaustive()
    }
}

/// Runs the program an answer amounts to.
pub(super) fn run(sandbox: Option<&Sandbox>, code: String, tests: &str) -> Result<Score> {
    let sandbox = sandbox.ok_or(Error::CodeNotAllowed)?;
    let outcome = sandbox.test(&code, tests)?;
    Ok(Score { correct: outcome.passed(), strict: None, extracted: Some(code) })
}
