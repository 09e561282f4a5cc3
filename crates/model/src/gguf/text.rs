//! The tokenizer and chat template a GGUF file carries, in the forms a checkpoint folder has them.

use candle_core::quantized::gguf_file::Value as Entry;
use serde_json::{Map, Value, json};

use super::{Gguf, number, object};
use crate::error::Result;

/// `tokenizer.ggml.token_type` of tokens that are neither text nor bytes.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

/// How the named pre-tokenisers cut a text, as their own tokenizer.json has it.
const SPLITS: [(&[&str], &str); 3] = [
    (
        &["qwen2", "dream"],
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    (
        &["llama-bpe", "llama3", "llama-v3"],
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    (
        &["llada-moe", "bailingmoe", "llada"],
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
];

/// The file's tokenizer as the text of a `tokenizer.json`.
pub(crate) fn tokenizer_json(gguf: &Gguf) -> Result<Vec<u8>> {
    let model = gguf.text("tokenizer.ggml.model").unwrap_or("none");
    if model != "gpt2" {
        return Err(gguf.bad(format!(
            "its tokenizer is {model}, and this engine reads gpt2 (byte-level BPE); put a tokenizer.json beside the file"
        )));
    }
    let missing = |what: &str| gguf.bad(format!("its metadata have no tokenizer.ggml.{what}"));
    let tokens = gguf.strings("tokenizer.ggml.tokens").ok_or_else(|| missing("tokens"))?;
    let merges = gguf.strings("tokenizer.ggml.merges").ok_or_else(|| missing("merges"))?;
    let kinds: Vec<i64> = gguf
        .list("tokenizer.ggml.token_type")
        .map(|list| list.iter().map(|kind| number(kind).unwrap_or(1.0) as i64).collect())
        .unwrap_or_default();
    let (mut vocab, mut added) = (Map::new(), Vec::new());
    for (id, &token) in tokens.iter().enumerate() {
        match kinds.get(id).copied().unwrap_or(1) {
            UNUSED => {}
            kind if kind == CONTROL || kind == USER_DEFINED => added.push(json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": kind == CONTROL,
            })),
            _ => {
                vocab.insert(token.to_owned(), id.into());
            }
        }
    }
    let pre = gguf.text("tokenizer.ggml.pre").unwrap_or("default");
    let byte_level = |regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": regex });
    let splitter = SPLITS.iter().find(|(names, _)| names.contains(&pre)).map(|(_, regex)| regex);
    let pre_tokenizer = match splitter {
        Some(regex) => json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false },
            byte_level(false),
        ] }),
        None if ["default", "gpt-2", "gpt2"].contains(&pre) => byte_level(true),
        None => {
            return Err(gguf.bad(format!(
                "its pre-tokeniser is {pre}, which this engine does not know; put a tokenizer.json beside the file"
            )));
        }
    };
    let normalizer = if ["qwen2", "dream"].contains(&pre) { json!({ "type": "NFC" }) } else { Value::Null };
    let tokenizer = json!({
        "version": "1.0", "added_tokens": added, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
        "decoder": byte_level(false), "model": { "type": "BPE", "vocab": vocab, "merges": merges },
    });
    Ok(tokenizer.to_string().into_bytes())
}

/// What a `tokenizer_config.json` would say: the chat template and the special tokens.
pub(crate) fn settings(gguf: &Gguf) -> Vec<u8> {
    let tokens = gguf.list("tokenizer.ggml.tokens").unwrap_or_default();
    let token = |name: &str| {
        let id = gguf.number(&format!("tokenizer.ggml.{name}_token_id"))?;
        match tokens.get(id as usize)? {
            Entry::String(token) => Some(json!(token)),
            _ => None,
        }
    };
    let fields = object(vec![
        ("chat_template", gguf.text("tokenizer.chat_template").map(|t| json!(t))),
        ("bos_token", token("bos")),
        ("eos_token", token("eos")),
        ("pad_token", token("padding")),
        ("mask_token", token("mask")),
    ]);
    Value::Object(fields).to_string().into_bytes()
}
