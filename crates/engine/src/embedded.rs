//! The small model inside: the files compiled into this library go through the same doors as those of a checkpoint
//! folder, from memory instead of from a mapped file. Invariant: nothing is written to disk.

use std::path::{Path, PathBuf};

use demask_decode::dependency::{Parts, Understanding};
use demask_model::Spec;
use demask_model::checkpoint::Store;
use demask_model::text::{ChatTemplate, Tokenizer, TokenizerSettings};
use demask_tiny::{CONFIG, GENERATION, PREDICTOR, SCOPE, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS};

use crate::defaults::Defaults;
use crate::error::Result;
use crate::scope::Scope;
use crate::text::Text;

pub use demask_tiny::NAME;

fn at(file: &str) -> PathBuf {
    Path::new(NAME).join(file)
}

/// How it reads and writes.
pub fn text() -> Result<Text> {
    let spec = Spec::from_json(CONFIG, &at("config.json"))?;
    let settings = TokenizerSettings::from_bytes(at("tokenizer_config.json"), TOKENIZER_CONFIG)?;
    let chat = ChatTemplate::from_settings(&settings)?;
    let tokenizer = Tokenizer::from_bytes(at("tokenizer.json"), TOKENIZER, settings, spec.vocab)?;
    let scope = Scope::from_json(SCOPE, &at("scope.json"), spec.vocab)?;
    Ok(Text::new(NAME, spec, tokenizer, chat).with_scope(Some(scope)))
}

/// Its shape and its weights as they are stored.
pub fn weights() -> Result<(Spec, Store)> {
    let spec = Spec::from_json(CONFIG, &at("config.json"))?;
    Ok((spec, Store::from_bytes(at("model.safetensors"), WEIGHTS)?))
}

/// Shape and weights of its assistant, where one was compiled in.
pub fn assistant() -> Result<Option<(Spec, Store)>> {
    let Some(files) = demask_tiny::ASSISTANT else { return Ok(None) };
    let spec = Spec::from_json(files.config, &at("assistant/config.json"))?;
    Ok(Some((spec, Store::from_bytes(at("assistant/model.safetensors"), files.weights)?)))
}

/// Whether a place is inside this library.
pub(crate) fn is_own(path: &Path) -> bool {
    path.starts_with(NAME) && !path.exists()
}

/// Its own predictor.
pub(crate) fn predictor() -> Result<(Parts, Understanding)> {
    let store = Store::from_bytes(at("predictor.safetensors"), PREDICTOR)?;
    Ok(Parts::from_store(&store)?)
}

/// Its generation_config.json.
pub(crate) fn defaults() -> Result<Defaults> {
    Defaults::from_json(GENERATION, &at("generation_config.json"))
}
