//! A byte-level BPE tokenizer in its older form: `vocab.json`, `merges.txt` and the added tokens of
//! `tokenizer_config.json`. Dream's repository ships this one and no `tokenizer.json`.
//!
//! The two forms differ in what the older one leaves to code: normaliser and pre-tokeniser, which are known per class.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::TokenizerSettings;
use crate::error::{Error, Result};
use crate::files;

/// Classes that split text as Qwen2 does.
const QWEN2: [&str; 3] = ["Qwen2Tokenizer", "Qwen2TokenizerFast", "DreamTokenizer"];

/// Qwen2's pre-tokeniser: contractions, words, single digits, punctuation, line ends, spaces.
const QWEN2_SPLIT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The older form as the text of a `tokenizer.json`.
pub(super) fn as_tokenizer_json(folder: &Path, settings: &TokenizerSettings) -> Result<Vec<u8>> {
    let (vocab_path, merges_path) = (folder.join("vocab.json"), folder.join("merges.txt"));
    let class = settings.field("tokenizer_class").and_then(Value::as_str).unwrap_or("none");
    if !QWEN2.contains(&class) {
        let cause = format!(
            "without a tokenizer.json its class must be one of {}, but it is {class}; save it again with transformers' \
             fast tokenizer",
            QWEN2.join(", ")
        );
        return Err(Error::Tokenizer { path: settings.path().to_path_buf(), cause });
    }
    let vocab = files::read(&vocab_path).map_err(Error::read(&vocab_path))?;
    let vocab: Map<String, Value> = serde_json::from_slice(&vocab).map_err(Error::json(&vocab_path))?;
    let merges = files::read_to_string(&merges_path).map_err(Error::read(&merges_path))?;
    let merges: Vec<&str> =
        merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version")).collect();

    let byte_level = |kind: &str| json!({ "type": kind, "add_prefix_space": false, "trim_offsets": false, "use_regex": false });
    let split = json!({ "type": "Split", "pattern": { "Regex": QWEN2_SPLIT }, "behavior": "Isolated", "invert": false });
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": added_tokens(settings)?,
        "normalizer": { "type": "NFC" },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [split, byte_level("ByteLevel")] },
        "decoder": byte_level("ByteLevel"),
        "model": { "type": "BPE", "vocab": vocab, "merges": merges },
    });
    Ok(tokenizer.to_string().into_bytes())
}

/// The added tokens in the order of their ids, which is the order they get them in.
fn added_tokens(settings: &TokenizerSettings) -> Result<Vec<Value>> {
    let Some(Value::Object(tokens)) = settings.field("added_tokens_decoder") else {
        return Ok(Vec::new());
    };
    let mut added = Vec::new();
    for (id, token) in tokens {
        let (Ok(id), Some(content)) = (id.parse::<u32>(), token.get("content").and_then(Value::as_str))
        else {
            return Err(Error::Config {
                path: settings.path().to_path_buf(),
                field: "added_tokens_decoder".to_owned(),
                problem: format!("has an entry `{id}` that is not an id with its content"),
            });
        };
        let flag = |name: &str, default| token.get(name).and_then(Value::as_bool).unwrap_or(default);
        added.push((
            id,
            json!({
                "id": id,
                "content": content,
                "single_word": flag("single_word", false),
                "lstrip": flag("lstrip", false),
                "rstrip": flag("rstrip", false),
                "normalized": flag("normalized", true),
                "special": flag("special", false),
            }),
        ));
    }
    added.sort_by_key(|(id, _)| *id);
    Ok(added.into_iter().map(|(_, token)| token).collect())
}
