//! What Python chooses about a decoding, and what it is of.

use demask::{Decoding, Message, Model, Prompt};
use pyo3::prelude::*;

use crate::error::{exception, library};

/// The strategy, and options by name and spelling; what is not named is the model's own.
#[derive(FromPyObject)]
pub(crate) struct Choices(Option<String>, Vec<(String, String)>);

impl Choices {
    /// As the library takes them; mistakes are told in its words.
    pub(crate) fn decoding(&self, model: &Model) -> PyResult<Decoding> {
        let Self(strategy, options) = self;
        let strategy = strategy.as_deref().map(|spelling| model.parse_strategy(spelling)).transpose();
        let strategy = strategy.map_err(|error| library(&error))?;
        let mut decoding = Decoding { strategy, ..Decoding::default() };
        let options = options.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        decoding.choose(options).map_err(|error| library(&error))?;
        Ok(decoding)
    }
}

/// The options there are.
#[pyfunction]
pub(crate) fn options() -> Vec<&'static str> {
    Decoding::option_names().collect()
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
