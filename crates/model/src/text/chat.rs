//! A conversation as the prompt its model was trained on, rendered exactly as transformers renders it.
//!
//! Templates are Jinja programs that come with the checkpoint: they see nothing but the conversation and fail with a
//! sentence. Those of strangers' files run in a process of their own ([`super::isolation`]), where depth, memory and time
//! are bounded whatever they do.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::isolation::Worker;
use super::jinja::Renderer;
use super::{Message, TokenizerSettings};
use crate::error::{Error, Result};

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// A checkpoint's chat template, compiled.
///
/// ```
/// use demask_model::text::{ChatTemplate, Conversation, Message, TokenizerSettings};
/// let settings = br#"{"chat_template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"}"#;
/// let settings = TokenizerSettings::from_bytes("tokenizer_config.json", settings)?;
/// let template = ChatTemplate::from_settings(&settings)?.expect("there is one");
/// assert_eq!(template.render(&Conversation::new(&[Message::new("user", "Hi")]))?, "<user>Hi");
/// # Ok::<(), demask_model::Error>(())
/// ```
#[derive(Clone)]
pub struct ChatTemplate {
    path: PathBuf,
    renderer: Arc<Renderer>,
    /// Where a stranger's template runs.
    worker: Option<Arc<Worker>>,
    names: Vec<String>,
    special_tokens: Map<String, Value>,
}

/// How the prompt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// The last message is closed and nothing follows.
    Closed,
    /// The header of the assistant's answer follows (`add_generation_prompt`).
    #[default]
    Answer,
    /// The last message stays open, to be continued (`continue_final_message`).
    Continue(Trailing),
}

/// White space at the end of a message that is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trailing {
    /// Kept where the template keeps it, as transformers does since 4.47.
    #[default]
    Keep,
    /// Stripped, as transformers 4.46 did (the version Dream prescribes).
    Strip,
}

/// Everything a template sees.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conversation<'a> {
    /// The turns so far.
    pub messages: &'a [Message],
    /// Functions the model may call, as JSON schemas.
    pub tools: Option<&'a [Value]>,
    /// Documents the model may cite.
    pub documents: Option<&'a [Value]>,
    /// How the prompt ends.
    pub ending: Ending,
    /// Further variables, e.g. `enable_thinking`.
    pub variables: Option<&'a Map<String, Value>>,
    /// The template to use where the checkpoint has several; by default `tool_use` if there are tools, else `default`.
    pub template: Option<&'a str>,
}

impl<'a> Conversation<'a> {
    /// These turns, with the assistant to answer.
    pub fn new(messages: &'a [Message]) -> Self {
        Self { messages, ..Self::default() }
    }
}

impl ChatTemplate {
    /// The chat template of a checkpoint folder, if it has one.
    pub fn open(folder: impl AsRef<Path>) -> Result<Option<Self>> {
        Self::from_settings(&TokenizerSettings::open(folder)?)
    }

    /// The chat template of settings that are already read, if they have one.
    pub fn from_settings(settings: &TokenizerSettings) -> Result<Option<Self>> {
        let templates = settings.templates()?;
        if templates.is_empty() {
            return Ok(None);
        }
        let path = settings.template_path().to_path_buf();
        let problem = |problem| Error::Template { path: path.clone(), problem };
        let renderer = Renderer::compile(&templates).map_err(problem)?;
        let worker = if settings.is_trusted() { None } else { Worker::of(&templates) };
        Ok(Some(Self {
            renderer: Arc::new(renderer),
            worker: worker.map(Arc::new),
            names: templates.iter().map(|(name, _)| (*name).to_owned()).collect(),
            special_tokens: settings.special_tokens(),
            path,
        }))
    }

    /// The names of its templates; most checkpoints have only `default`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The prompt of a conversation.
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<String> {
        let name = self.choose(conversation)?;
        let variables = Value::Object(self.variables(conversation));
        let rendered = match &self.worker {
            Some(worker) => worker.render(name, &variables),
            None => self.renderer.render(name, &variables),
        };
        let text = rendered.map_err(|problem| self.problem(problem))?;
        match conversation.ending {
            Ending::Continue(trailing) => self.open_last(text, conversation.messages, trailing),
            Ending::Closed | Ending::Answer => Ok(text),
        }
    }

    fn choose<'n>(&self, conversation: &Conversation<'n>) -> Result<&'n str> {
        let has = |name: &str| self.names.iter().any(|known| known == name);
        let name = match conversation.template {
            Some(name) => name,
            None if conversation.tools.is_some() && has(TOOL_USE) => TOOL_USE,
            None => DEFAULT,
        };
        if has(name) {
            return Ok(name);
        }
        Err(self.problem(format!("has no variant `{name}`; it has {}", self.names.join(", "))))
    }

    /// The variables transformers passes, under the names it passes them by; absent tools and documents are `none`.
    fn variables(&self, conversation: &Conversation<'_>) -> Map<String, Value> {
        let mut variables = self.special_tokens.clone();
        variables.extend(conversation.variables.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        let messages = conversation.messages.iter().cloned().map(|message| Value::Object(message.into()));
        variables.insert("messages".to_owned(), messages.collect());
        variables.insert("tools".to_owned(), list(conversation.tools));
        variables.insert("documents".to_owned(), list(conversation.documents));
        variables.insert("add_generation_prompt".to_owned(), (conversation.ending == Ending::Answer).into());
        variables
    }

    /// Cuts the prompt behind the last message's text.
    fn open_last(&self, mut text: String, messages: &[Message], trailing: Trailing) -> Result<String> {
        let Some(last) = messages.last().and_then(Message::text) else {
            let (index, problem) = (messages.len(), "there is no text to continue".to_owned());
            return Err(Error::Message { index: index.saturating_sub(1), problem });
        };
        let Some(place) = text.rfind(last.trim()) else {
            return Err(self.problem("leaves out the last message, so it cannot be continued".to_owned()));
        };
        // transformers compares with the whole message, so one with leading space always counts as trimmed.
        let whole = place + last.trim_start().len();
        let end = match trailing {
            Trailing::Keep if text.get(place..whole) == Some(last) => whole,
            Trailing::Keep | Trailing::Strip => place + last.trim().len(),
        };
        text.truncate(end);
        if trailing == Trailing::Strip {
            text.truncate(text.trim_end().len());
        }
        Ok(text)
    }

    fn problem(&self, problem: String) -> Error {
        Error::Template { path: self.path.clone(), problem }
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("path", &self.path).field("names", &self.names).finish()
    }
}

fn list(values: Option<&[Value]>) -> Value {
    values.map_or(Value::Null, |values| values.to_vec().into())
}
