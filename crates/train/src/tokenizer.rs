//! Training a tokenizer of our own: byte-level BPE whose small whole numbers are one token each.
//!
//! A number is written digit by digit by plain BPE, which a small model cannot calculate with; here 0 to 199 are
//! vocabulary entries, with and without a leading space, and larger numbers fall back to digits. Special tokens
//! keep the names of Dream's. Invariant: `decode(encode(text)) == text` for every UTF-8 text, because the pieces
//! of the split cover the text and every byte is a token.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::str::FromStr;

use demask_model::text::byte_letter;
use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Tokenizer, Trainer,
};

/// End of text, also the padding.
pub const END: &str = "<|endoftext|>";
/// The mask of diffusion.
pub const MASK: &str = "<|mask|>";
/// Opens a chat turn.
pub const TURN_START: &str = "<|im_start|>";
/// Closes a chat turn.
pub const TURN_END: &str = "<|im_end|>";
/// The special tokens; their ids are 0 to 3.
pub const SPECIAL: [&str; 4] = [END, MASK, TURN_START, TURN_END];

/// Numbers up to this one are single tokens.
pub const LARGEST_NUMBER: u32 = 199;

/// The last message of the user by itself, and what follows it: these models are trained on single questions, and one that
/// stands behind others is a prompt they never saw. Of a conversation without a user every turn is told. One line per turn,
/// its role and newline one token, nothing between turns: a short prompt is mostly content.
pub const CHAT_TEMPLATE: &str = "{% set last = namespace(user=0) %}{% for message in messages %}{% if message['role'] == 'user' %}\
     {% set last.user = loop.index0 %}{% endif %}{% endfor %}{% for message in messages[last.user:] %}{{ '<|im_start|>' + \
     message['role'] + '\\n' + message['content'] + '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}\
     {{ '<|im_start|>assistant\\n' }}{% endif %}";

/// How text is cut before merging: a role line, an option label, a word, up to three digits, or one sign or common
/// pair of signs, each with the space before it; then other white space. Longer runs of signs would become tokens
/// too rare to learn.
const PIECES: &str = r#"^(?:system|user|assistant)\n| ?\([A-Z]\)| ?\p{L}+| ?[0-9]{1,3}| ?(?:\*\*|==|::|\):|\(\)|"{3}|[^\s\p{L}0-9])|\s+(?!\S)|\s+"#;
const ROLES: [&str; 3] = ["system\n", "user\n", "assistant\n"];
const BYTES: usize = 256;

/// Why a tokenizer could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The limit leaves no room for bytes, numbers and special tokens.
    #[error("a vocabulary of {limit} is too small: bytes, numbers and special tokens alone need {needed}")]
    Limit {
        /// Asked for.
        limit: usize,
        /// Least possible.
        needed: usize,
    },
    /// The tokenizers library refused.
    #[error("the tokenizer could not be trained: {0}")]
    Library(String),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] demask_model::Error),
}

/// Trains a tokenizer of at most `vocab_limit` tokens on `texts`, then gives up to `words` more to the commonest pieces that
/// merges leave in parts: a list is copied word by word, and a word of several tokens is where a small model slips.
///
/// Merging stops early once every piece seen twice is one token. Same texts, same tokenizer.
pub fn train(
    texts: impl Iterator<Item = String> + Send,
    vocab_limit: usize,
    words: usize,
) -> Result<Tokenizer, Error> {
    let fixed = fixed_entries();
    let needed = SPECIAL.len() + BYTES + fixed.len();
    if vocab_limit < needed {
        return Err(Error::Limit { limit: vocab_limit, needed });
    }
    let splitter = assemble(&byte_level_vocabulary(&fixed), &[])?;
    let texts: Vec<String> = texts.collect();
    let model = merge(texts.iter().cloned(), &splitter, vocab_limit - fixed.len())?;
    let mut vocabulary = model.vocabulary;
    vocabulary.extend(fixed);
    vocabulary.dedup();
    let common = in_parts(&texts, &splitter, &vocabulary)?;
    vocabulary.extend(common.into_iter().take(words));
    assemble(&vocabulary, &model.merges)
}

/// Pieces of the texts that are no entry, the commonest first; those seen once are left out.
fn in_parts(texts: &[String], splitter: &Tokenizer, vocabulary: &[String]) -> Result<Vec<String>, Error> {
    let known: HashSet<&str> = vocabulary.iter().map(String::as_str).collect();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for text in texts {
        for piece in pieces(splitter, text).map_err(library)? {
            let letters = piece.chars().count() > 1 && piece.chars().skip(1).all(char::is_alphabetic);
            if letters && !known.contains(piece.as_str()) {
                *counts.entry(piece).or_default() += 1;
            }
        }
    }
    let mut common: Vec<(String, usize)> = counts.into_iter().filter(|(_, count)| *count > 1).collect();
    common.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    Ok(common.into_iter().map(|(piece, _)| piece).collect())
}

/// Writes `tokenizer.json` and `tokenizer_config.json` into a checkpoint folder.
pub fn save(tokenizer: &Tokenizer, folder: &Path) -> Result<(), Error> {
    let text = tokenizer.to_string(true).map_err(library)?;
    write(&folder.join("tokenizer.json"), &text)?;
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
        "add_prefix_space": false,
        "bos_token": null,
        "eos_token": END,
        "pad_token": END,
        "unk_token": null,
        "mask_token": MASK,
        "additional_special_tokens": [TURN_START, TURN_END],
        "chat_template": CHAT_TEMPLATE,
    });
    write(&folder.join("tokenizer_config.json"), &format!("{config:#}\n"))
}

/// Entries that no merge leads to: numbers and role lines, in byte-level spelling.
fn fixed_entries() -> Vec<String> {
    let numbers = (0..=LARGEST_NUMBER).flat_map(|n| [n.to_string(), format!(" {n}")]);
    // A lone digit is a byte already.
    let numbers = numbers.filter(|number| number.len() > 1);
    numbers.chain(ROLES.map(String::from)).map(|text| spell(&text)).collect()
}

/// The byte-level spelling of a text.
fn spell(text: &str) -> String {
    text.bytes().map(byte_letter).collect()
}

struct Merged {
    /// In the order of their ids.
    vocabulary: Vec<String>,
    merges: Vec<Value>,
}

/// Plain BPE over the pieces that are not numbers.
fn merge(
    texts: impl Iterator<Item = String> + Send,
    splitter: &Tokenizer,
    size: usize,
) -> Result<Merged, Error> {
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(size)
        .min_frequency(2)
        .special_tokens(SPECIAL.iter().map(|token| AddedToken::from(*token, true)).collect())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    trainer.feed(texts, |text| pieces(splitter, text)).map_err(library)?;
    let mut model = BPE::default();
    trainer.train(&mut model).map_err(library)?;
    let model = serde_json::to_value(&model).map_err(|error| library(error.into()))?;
    let mut entries: Vec<(u64, String)> = model["vocab"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(token, id)| (id.as_u64().unwrap_or(u64::MAX), token.clone()))
        .collect();
    entries.sort_unstable();
    Ok(Merged {
        vocabulary: entries.into_iter().map(|(_, token)| token).collect(),
        merges: model["merges"].as_array().cloned().unwrap_or_default(),
    })
}

/// The byte-level pieces of a text, numbers left out.
fn pieces(splitter: &Tokenizer, text: &str) -> tokenizers::Result<Vec<String>> {
    let mut cut = PreTokenizedString::from(text);
    if let Some(pre_tokenizer) = splitter.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut cut)?;
    }
    let parts = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
    let words = parts.into_iter().map(|(piece, _, _)| piece.to_string());
    Ok(words.filter(|piece| !piece.contains(|c: char| c.is_ascii_digit())).collect())
}

fn byte_level_vocabulary(fixed: &[String]) -> Vec<String> {
    let mut bytes: Vec<String> = ByteLevel::alphabet().into_iter().map(String::from).collect();
    bytes.sort_unstable();
    SPECIAL.map(String::from).into_iter().chain(bytes).chain(fixed.iter().cloned()).collect()
}

/// A tokenizer of this vocabulary, through the file format every reader knows.
fn assemble(vocabulary: &[String], merges: &[Value]) -> Result<Tokenizer, Error> {
    let ids: serde_json::Map<String, Value> =
        vocabulary.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    let special = |(id, content): (usize, &&str)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let split =
        json!({"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": false});
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": SPECIAL.iter().enumerate().map(special).collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            // A piece that is an entry is that entry, merges or not: so numbers need no merges.
            "ignore_merges": true,
            "vocab": ids,
            "merges": merges,
        },
    });
    Tokenizer::from_str(&file.to_string()).map_err(library)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    Ok(demask_model::file::replace(path, |out| out.write_all(text.as_bytes()))?)
}

fn library(error: tokenizers::Error) -> Error {
    Error::Library(error.to_string())
}

#[cfg(test)]
mod tests;
