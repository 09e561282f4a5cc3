//! A tokenizer for made-up weights: one token per byte, so that any text can be encoded, and a name for every other id,
//! so that anything the weights say can be shown.

use std::path::Path;

use anyhow::Result;
use demask::model::Spec;
use demask::model::checkpoint::write;
use demask::model::text::byte_letter;
use serde_json::{Map, Value, json};

/// Writes tokenizer.json and tokenizer_config.json for the first `tokens` ids; too few for all bytes get none.
pub(super) fn write(folder: &Path, spec: &Spec, tokens: usize) -> Result<()> {
    let ids = &spec.ids;
    let special: Vec<u32> =
        [Some(ids.mask), ids.eos.first().copied(), ids.pad, ids.bos].into_iter().flatten().collect();
    let mut plain = (0..tokens as u32).filter(|id| !special.contains(id));
    let bytes: Vec<u32> = plain.by_ref().take(256).collect();
    if bytes.len() < 256 {
        return Ok(());
    }
    let mut vocab: Map<String, Value> =
        (0..=255).zip(bytes).map(|(byte, id)| (byte_letter(byte).to_string(), id.into())).collect();
    vocab.extend(plain.map(|id| (format!("<{id}>"), id.into())));
    let token = |id: u32| if id == ids.mask { "<|mask|>".to_owned() } else { format!("<|{id}|>") };
    let mut distinct = special;
    distinct.sort_unstable();
    distinct.dedup();
    // Added tokens keep their ids only where the vocabulary has them too.
    vocab.extend(distinct.iter().map(|&id| (token(id), id.into())));
    let added: Vec<Value> = distinct
        .into_iter()
        .map(|id| {
            json!({"id": id, "content": token(id), "special": true, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        })
        .collect();
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []}
    });
    let mut config = json!({"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": token(ids.mask)});
    if let Some(&eos) = ids.eos.first() {
        config["eos_token"] = token(eos).into();
    }
    for (name, value) in [("tokenizer.json", tokenizer), ("tokenizer_config.json", config)] {
        write::replace(&folder.join(name), |out| out.write_all(value.to_string().as_bytes()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use demask::model::text::Tokenizer;

    use super::*;

    #[test]
    fn any_text_round_trips_and_every_id_has_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "model_type": "Dream", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 160,
            "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "mask_token_id": 1,
            "pad_token_id": 0, "eos_token_id": 2
        });
        let spec = Spec::from_json(&config.to_string(), Path::new("config.json")).unwrap();
        write(folder.path(), &spec, spec.vocab).unwrap();
        let tokenizer = Tokenizer::open(folder.path(), 300).unwrap();
        assert!(tokenizer.holes().is_empty());
        assert_eq!((tokenizer.special("mask_token"), tokenizer.special("eos_token")), (Some(1), Some(2)));
        for text in ["plain text, 12 + 7 = 19.\n", "naïve 漢字 🙂\t\u{0}"] {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(ids.len(), text.len());
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
    }
}
