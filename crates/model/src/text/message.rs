//! One turn of a conversation: a role, a content and whatever else the template may ask for.
//!
//! Invariant: it is a JSON object with a string `role`, and its keys keep the order they were given in, because templates
//! print them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct Message(Map<String, Value>);

impl Message {
    /// A plain turn.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        let mut fields = Map::new();
        fields.insert("role".to_owned(), role.into());
        fields.insert("content".to_owned(), Value::String(content.into()));
        Self(fields)
    }

    /// The same turn with one more field, e.g. `tool_calls`.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0.insert(field.to_owned(), value.into());
        self
    }

    /// Who speaks.
    pub fn role(&self) -> &str {
        self.0.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// The text of the turn; of a content in parts, the last part's.
    pub fn text(&self) -> Option<&str> {
        match self.0.get("content")? {
            Value::String(text) => Some(text),
            Value::Array(parts) => parts.iter().rev().find_map(|part| part.get("text")?.as_str()),
            _ => None,
        }
    }

    /// Any field.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl TryFrom<Map<String, Value>> for Message {
    type Error = &'static str;

    fn try_from(fields: Map<String, Value>) -> Result<Self, Self::Error> {
        match fields.get("role") {
            Some(Value::String(_)) => Ok(Self(fields)),
            _ => Err("a message needs a `role` that is a string"),
        }
    }
}

impl From<Message> for Map<String, Value> {
    fn from(message: Message) -> Self {
        message.0
    }
}
