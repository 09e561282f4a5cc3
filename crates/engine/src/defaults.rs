//! What a checkpoint's `generation_config.json` asks for; every field may be missing.

use std::path::Path;

use demask_decode::{Sampling, StrategySpec};
use serde_json::Value;

use crate::error::{Error, Result};

const FILE: &str = "generation_config.json";

/// A checkpoint's own wishes.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    /// Token drawing.
    pub sampling: Sampling,
    /// Length of the response.
    pub length: Option<usize>,
    /// The strategy that was chosen for this model (our own field `strategy`).
    pub strategy: Option<StrategySpec>,
}

impl Defaults {
    /// Of a checkpoint folder; none where the file is missing.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = demask_model::files::read(&path).map_err(demask_model::Error::read(&path))?;
        Self::from_json(&text, &path)
    }

    /// Parses the text of a generation_config.json; `path` stands for it in messages.
    pub fn from_json(text: &[u8], path: &Path) -> Result<Self> {
        let wrong = |problem: String| Error::Defaults { path: path.to_owned(), problem };
        let value: Value =
            serde_json::from_slice(text).map_err(|cause| wrong(format!("is not readable JSON: {cause}")))?;
        let number = |name: &str| value.get(name).and_then(Value::as_f64).map(|v| v as f32);
        let count = |name: &str| value.get(name).and_then(Value::as_u64).map(|v| v as usize);
        let sampling = Sampling {
            temperature: number("temperature").unwrap_or(0.0),
            top_p: number("top_p"),
            top_k: count("top_k").filter(|&k| k > 0),
            ..Sampling::default()
        };
        sampling.check().map_err(|cause| wrong(cause.to_string()))?;
        let strategy = value.get("strategy").and_then(Value::as_str).map(str::parse).transpose();
        let strategy = strategy.map_err(|cause: demask_decode::Error| wrong(cause.to_string()))?;
        Ok(Self { sampling, length: count("max_new_tokens").filter(|&n| n > 0), strategy })
    }
}
