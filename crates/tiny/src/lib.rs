//! The files of the small model that is compiled into demask, byte for byte as in the folder `checkpoint`.
//!
//! ```
//! assert!(demask_tiny::CONFIG.contains("\"vocab_size\""));
//! ```

/// How messages name the model.
pub const NAME: &str = "demask-tiny";
/// `config.json`.
pub const CONFIG: &str = include_str!("../checkpoint/config.json");
/// `generation_config.json`.
pub const GENERATION: &[u8] = include_bytes!("../checkpoint/generation_config.json");
/// `model.safetensors`.
pub const WEIGHTS: &[u8] = include_bytes!("../checkpoint/model.safetensors");
/// `tokenizer.json`.
pub const TOKENIZER: &[u8] = include_bytes!("../checkpoint/tokenizer.json");
/// `tokenizer_config.json`.
pub const TOKENIZER_CONFIG: &[u8] = include_bytes!("../checkpoint/tokenizer_config.json");
/// `scope.json`.
pub const SCOPE: &[u8] = include_bytes!("../checkpoint/scope.json");
/// `predictor.safetensors`.
pub const PREDICTOR: &[u8] = include_bytes!("../checkpoint/predictor.safetensors");

/// A small causal model with the same tokenizer, for strategies that ask a second model.
pub struct Assistant {
    /// `config.json`.
    pub config: &'static str,
    /// `model.safetensors`.
    pub weights: &'static [u8],
}

/// The folder `checkpoint/assistant`, where there is one when this is compiled.
pub const ASSISTANT: Option<Assistant> = include!(concat!(env!("OUT_DIR"), "/assistant.rs"));
