//! The file that all programs read: random weights, and a vocabulary in which every letter is one token, so that every
//! program sees the same prompt.

use std::path::Path;

use anyhow::Result;
use demask::model::gguf::{Kind, Vocabulary, write};
use demask::model::text::byte_letter;
use demask::model::{Spec, synthetic};
use serde_json::{Map, Value, json};

/// The message as it is: programs that insist on a template add nothing.
const TEMPLATE: &str = "{% for message in messages %}{{ message['content'] }}{% endfor %}";

/// Tokens of the vocabulary besides the special ones: the bytes and a pair.
const BYTES: u32 = 257;

/// Writes a model of this shape.
pub(super) fn make(path: &Path, spec: &Spec, kind: Kind) -> Result<()> {
    let special = spec.ids.eos.iter().chain([&spec.ids.mask]);
    if special.copied().any(|id| id < BYTES) || spec.vocab < BYTES as usize {
        usage!("the vocabulary of this shape has no room for {BYTES} tokens before its special ones");
    }
    let vocabulary =
        Vocabulary { tokenizer: Some(letters(spec)), pre: "qwen2".into(), template: Some(TEMPLATE.into()) };
    write(path, spec, kind, &vocabulary, &mut |name, shape| Ok(synthetic::values(name, shape)))?;
    Ok(())
}

/// A prompt of this many tokens.
pub(super) fn prompt(tokens: usize) -> String {
    ('a'..='z').cycle().take(tokens).collect()
}

/// A `tokenizer.json` of byte-level BPE with the bytes and one merge, which no prompt of letters uses.
fn letters(spec: &Spec) -> Value {
    let mut vocabulary: Map<String, Value> =
        (0..=255_u8).map(|byte| (byte_letter(byte).to_string(), json!(byte))).collect();
    let pair = [byte_letter(b' '), byte_letter(b' ')];
    vocabulary.insert(pair.iter().collect(), json!(256));
    let special = |id: u32, content: String| json!({ "id": id, "content": content, "special": true });
    let mut added = vec![special(spec.ids.mask, "<|mask|>".into())];
    added.extend(spec.ids.eos.iter().map(|&id| special(id, format!("<|end{id}|>"))));
    json!({
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [[pair[0].to_string(), pair[1].to_string()]] },
        "added_tokens": added,
    })
}

#[cfg(test)]
mod tests {
    use demask::model::text::Tokenizer;

    use super::*;

    #[test]
    fn a_prompt_has_as_many_tokens_as_asked_for() {
        let toy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
        let mut spec = Spec::from_folder(&toy).unwrap();
        // Room for the bytes before the special ids.
        (spec.vocab, spec.ids.mask, spec.ids.eos) = (300, 299, vec![298]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.gguf");
        make(&path, &spec, Kind::Q8_0).unwrap();
        let tokenizer = Tokenizer::open(&path, spec.vocab).unwrap();
        let ids = tokenizer.encode(&prompt(40)).unwrap();
        assert_eq!(ids.len(), 40);
        assert_eq!((ids[0], ids[25], ids[26]), (u32::from(b'a'), u32::from(b'z'), u32::from(b'a')));
    }
}
