//! A conversation as the prompt its model was trained on, rendered exactly as transformers renders it.
//!
//! Templates are Jinja programs that come with the checkpoint: they run with a bound on instructions, recursion and
//! output, see nothing but the conversation, and fail with a sentence.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State, Value as Jinja};
use serde_json::{Map, Value};

use super::{Message, Settings, python};
use crate::error::{Error, Result};

/// Template instructions before a rendering counts as endless.
const FUEL: u64 = 10_000_000;
/// Bytes before a prompt counts as endless.
const LONGEST: usize = 64 << 20;
/// Nested macro calls before a rendering counts as endless.
const RECURSION: usize = 200;

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// A checkpoint's chat template, compiled.
#[derive(Clone)]
pub struct ChatTemplate {
    path: PathBuf,
    environment: Environment<'static>,
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
        Self::from_settings(&Settings::open(folder)?)
    }

    /// The chat template of settings that are already read, if they have one.
    pub fn from_settings(settings: &Settings) -> Result<Option<Self>> {
        let templates = settings.templates()?;
        if templates.is_empty() {
            return Ok(None);
        }
        let mut template = Self {
            path: settings.template_path().to_path_buf(),
            environment: environment(),
            names: Vec::new(),
            special_tokens: settings.special_tokens(),
        };
        for (name, source) in templates {
            let source = without_generation_tags(source);
            template
                .environment
                .add_template_owned(name.to_owned(), source)
                .map_err(|error| template.failure(&error))?;
            template.names.push(name.to_owned());
        }
        Ok(Some(template))
    }

    /// The names of its templates; most checkpoints have only `default`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The prompt of a conversation.
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<String> {
        let name = self.choose(conversation)?;
        let template = self.environment.get_template(name).map_err(|error| self.failure(&error))?;
        let mut out = Bounded(Vec::new());
        let context = self.context(conversation);
        template.render_captured_to(context, &mut out).map_err(|error| self.failure(&error))?;
        let text = String::from_utf8(out.0).map_err(|_| self.problem("does not write UTF-8".to_owned()))?;
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
    fn context(&self, conversation: &Conversation<'_>) -> Jinja {
        let mut variables = self.special_tokens.clone();
        variables.extend(conversation.variables.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        let messages = conversation.messages.iter().cloned().map(|message| Value::Object(message.into()));
        variables.insert("messages".to_owned(), messages.collect());
        variables.insert("tools".to_owned(), list(conversation.tools));
        variables.insert("documents".to_owned(), list(conversation.documents));
        variables.insert("add_generation_prompt".to_owned(), (conversation.ending == Ending::Answer).into());
        Jinja::from_serialize(variables)
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

    fn failure(&self, error: &minijinja::Error) -> Error {
        let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(Refusal(message)) = error.downcast_ref() {
                return self.problem(format!("refuses these messages: {message}"));
            }
            if error
                .downcast_ref::<minijinja::Error>()
                .is_some_and(|error| error.kind() == ErrorKind::OutOfFuel)
            {
                return self.problem(format!("does not end: it was stopped{line} after {FUEL} instructions"));
            }
            cause = error.source();
        }
        let detail = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        self.problem(match error.kind() {
            ErrorKind::SyntaxError => format!("does not parse{line}: {detail}"),
            ErrorKind::WriteFailure => format!("does not end: it was stopped{line} after {LONGEST} bytes"),
            _ => format!("fails{line}: {detail}"),
        })
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("path", &self.path).field("names", &self.names).finish()
    }
}

/// Jinja as transformers sets it up.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(format_value);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("string", |value: &Jinja| python::text(value));
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment
}

fn format_value(out: &mut Output<'_>, _: &State<'_, '_>, value: &Jinja) -> Result<(), minijinja::Error> {
    match value.kind() {
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default())?,
        _ => out.write_str(&python::text(value))?,
    }
    Ok(())
}

/// What a template says with `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn raise_exception(message: String) -> Result<Jinja, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Refusal(message)))
}

fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    use std::fmt::Write;
    let mut out = String::new();
    write!(out, "{}", chrono::Local::now().format(format)).map_err(|_| {
        minijinja::Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know `{format}`"))
    })?;
    Ok(out)
}

fn list(values: Option<&[Value]>) -> Value {
    values.map_or(Value::Null, |values| values.to_vec().into())
}

/// `{% generation %}` marks what an assistant wrote, for training; it prints nothing, so it becomes a block that always runs.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start + 2..start + length];
        out.push_str(&rest[..start]);
        match tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => out.push_str(&format!("{{%{}%}}", tag.replace("generation", "if true"))),
            "endgeneration" => out.push_str(&format!("{{%{}%}}", tag.replace("endgeneration", "endif"))),
            _ => out.push_str(&rest[start..start + length + 2]),
        }
        rest = &rest[start + length + 2..];
    }
    out + rest
}

/// A buffer that refuses to grow without end.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(io::Error::other("the prompt is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
