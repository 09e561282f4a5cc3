//! The small model inside the program: what `--model` names when it is absent.
//!
//! The files of `assets/tiny` are compiled in and go through the same doors as any checkpoint folder's, from memory
//! instead of from a mapped file. Invariant: nothing is written to disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use demask_decode::dependency::{Parts, Predictor};
use demask_model::checkpoint::Store;
use demask_model::text::{ChatTemplate, Settings, Tokenizer};
use demask_model::{Backbone as _, Spec, Transformer};

use crate::args::ModelArgs;
use crate::loaded::{self, Defaults, Loaded};
use crate::wording::Wording;

/// How messages name the embedded files.
pub const NAME: &str = "demask-tiny";

const CONFIG: &str = include_str!("../../../assets/tiny/config.json");
const GENERATION: &[u8] = include_bytes!("../../../assets/tiny/generation_config.json");
const WEIGHTS: &[u8] = include_bytes!("../../../assets/tiny/model.safetensors");
const TOKENIZER: &[u8] = include_bytes!("../../../assets/tiny/tokenizer.json");
const SETTINGS: &[u8] = include_bytes!("../../../assets/tiny/tokenizer_config.json");
const PREDICTOR: &[u8] = include_bytes!("../../../assets/tiny/predictor.safetensors");

fn at(file: &str) -> PathBuf {
    Path::new(NAME).join(file)
}

/// How the embedded model reads and writes.
pub fn wording() -> Result<Wording> {
    let spec = Spec::from_json(CONFIG, &at("config.json"))?;
    let settings = Settings::from_bytes(at("tokenizer_config.json"), SETTINGS)?;
    let chat = ChatTemplate::from_settings(&settings)?;
    let tokenizer = Tokenizer::from_bytes(at("tokenizer.json"), TOKENIZER, settings, spec.vocab)?;
    Ok(Wording { folder: NAME.into(), spec, tokenizer, chat })
}

/// Loads the embedded model with the predictor the flags name, or its own.
pub fn open(args: &ModelArgs) -> Result<Loaded> {
    let options = args.load_options()?;
    let Wording { spec, tokenizer, chat, .. } = wording()?;
    let store = Store::from_bytes(at("model.safetensors"), WEIGHTS)?;
    let backbone = Transformer::from_store(spec, &store, &options)?;
    let predictor = match loaded::predictor(args, NAME.as_ref(), &backbone)? {
        Some(named) => named,
        None => own_predictor(&backbone)?,
    };
    let defaults = Defaults::from_json(GENERATION).context("generation_config.json")?;
    Ok(Loaded::assemble(NAME.into(), backbone, tokenizer, chat, Some(predictor), defaults))
}

/// Its shape and its weights as they are stored.
pub fn weights() -> Result<(Spec, Store)> {
    let spec = Spec::from_json(CONFIG, &at("config.json"))?;
    Ok((spec, Store::from_bytes(at("model.safetensors"), WEIGHTS)?))
}

fn own_predictor(backbone: &Transformer) -> Result<Arc<Predictor>> {
    let store = Store::from_bytes(at("predictor.safetensors"), PREDICTOR)?;
    let predictor = Predictor::new(Parts::from_store(&store)?.0)?;
    predictor.check_fit(backbone.spec(), &backbone.fingerprint())?;
    Ok(Arc::new(predictor))
}
