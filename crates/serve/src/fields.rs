//! The fields of a request's JSON object, taken one by one by name and type.
//!
//! Invariant: a field that nobody took is refused by name, so a misspelt setting is never silently dropped.

use serde_json::{Map, Value};

use crate::error::Refusal;

type Result<T> = std::result::Result<T, Refusal>;

/// Fields not yet taken.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads a body; absent and `null` are the same.
    pub(crate) fn parse(body: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|cause| Refusal::request(format!("the body is not readable JSON: {cause}")))?;
        match value {
            Value::Object(map) => Ok(Self(map.into_iter().filter(|(_, value)| !value.is_null()).collect())),
            _ => Err(Refusal::request("the body must be a JSON object")),
        }
    }

    /// Any value.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name)
    }

    /// Whether a field is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// `true` or `false`; absent is `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(Refusal::field(name, format!("must be true or false, not {}", short(&other)))),
        }
    }

    /// A whole number between two bounds.
    pub(crate) fn count(&mut self, name: &str, low: usize, high: usize) -> Result<Option<usize>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
        match number.filter(|n| (low..=high).contains(n)) {
            Some(number) => Ok(Some(number)),
            None => Err(Refusal::field(
                name,
                format!("must be a whole number between {low} and {high}, not {}", short(&value)),
            )),
        }
    }

    /// A number between two bounds.
    pub(crate) fn number(&mut self, name: &str, low: f64, high: f64) -> Result<Option<f64>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_f64().filter(|n| (low..=high).contains(n)) {
            Some(number) => Ok(Some(number)),
            None => Err(Refusal::field(
                name,
                format!("must be a number between {low} and {high}, not {}", short(&value)),
            )),
        }
    }

    /// A text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(Refusal::field(name, format!("must be a string, not {}", short(&other)))),
        }
    }

    /// A field that may only have values that change nothing.
    pub(crate) fn neutral(&mut self, name: &str, is_neutral: impl FnOnce(&Value) -> bool) -> Result<()> {
        match self.take(name) {
            Some(value) if !is_neutral(&value) => {
                Err(Refusal::field(name, format!("{} is not supported by this server", short(&value))))
            }
            _ => Ok(()),
        }
    }

    /// Names that are left.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => {
                Err(Refusal::field(&clip(name, 80), "there is no such field; docs/serving.md lists them"))
            }
        }
    }
}

/// A value as it may be shown in a message.
pub(crate) fn short(value: &Value) -> String {
    clip(&value.to_string(), 60)
}

fn clip(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
