//! How a model reads and writes, without its weights: config, tokenizer and chat template.
//!
//! Invariant: nothing here opens or downloads weights.

use std::path::PathBuf;

use anyhow::Result;
use demask_model::Spec;
use demask_model::checkpoint::source;
use demask_model::text::{ChatTemplate, Tokenizer};

use crate::args::{ModelArgs, hub_options};
use crate::embedded;
use crate::loaded::Downloads;

/// Everything of a checkpoint but its weights.
pub struct Wording {
    /// Where it came from.
    pub folder: PathBuf,
    /// Its config.
    pub spec: Spec,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, if it has one.
    pub chat: Option<ChatTemplate>,
}

impl Wording {
    /// Of the model the flags name, or of the embedded one.
    pub fn open(args: &ModelArgs) -> Result<Self> {
        let Some(model) = &args.model else { return embedded::wording() };
        let folder = source::resolve_description(model, &hub_options(), &mut Downloads::default())?;
        let spec = Spec::from_folder(&folder)?;
        let tokenizer = Tokenizer::open(&folder, spec.vocab)?;
        let chat = ChatTemplate::open(&folder)?;
        Ok(Self { folder, spec, tokenizer, chat })
    }
}
