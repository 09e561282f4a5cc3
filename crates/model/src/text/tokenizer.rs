//! Text to token ids and back, through the checkpoint's own tokenizer.
//!
//! Invariant: every id it knows is below the model's vocabulary, so an encoded text can always be embedded.

use std::path::{Path, PathBuf};

use super::{TokenizerSettings, bpe};
use crate::error::{Error, Result};
use crate::files;
use crate::gguf::{self, Gguf};
use crate::guard::caught;

const TOKENIZER: &str = "tokenizer.json";

/// What chat templates of this field put after a turn; it ends a response as EOS does.
const END_OF_TURN: [&str; 2] = ["<|im_end|>", "<|eot_id|>"];

/// A tokenizer that fits the model.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    settings: TokenizerSettings,
    /// One flag per id of the model's vocabulary.
    known: Vec<bool>,
    longest: usize,
}

impl Tokenizer {
    /// The tokenizer of a checkpoint folder, for a model of `vocab` tokens.
    pub fn open(folder: impl AsRef<Path>, vocab: usize) -> Result<Self> {
        let folder = folder.as_ref();
        let settings = TokenizerSettings::open(folder)?;
        if gguf::is_gguf(folder) {
            // A tokenizer.json beside the file says more than the file can.
            let beside = folder.with_file_name(TOKENIZER);
            if beside.exists() {
                let json = files::read(&beside).map_err(Error::read(&beside))?;
                return Self::new(beside, &json, settings, vocab);
            }
            let json = gguf::tokenizer_json(&Gguf::open(folder)?)?;
            return Self::new(folder.to_path_buf(), &json, settings, vocab);
        }
        let path = folder.join(TOKENIZER);
        if path.exists() {
            let json = files::read(&path).map_err(Error::read(&path))?;
            Self::new(path, &json, settings, vocab)
        } else if folder.join("vocab.json").exists() && folder.join("merges.txt").exists() {
            let json = bpe::as_tokenizer_json(folder, &settings)?;
            Self::new(folder.join("vocab.json"), &json, settings, vocab)
        } else {
            let wanted = "tokenizer.json (nor vocab.json with merges.txt)";
            Err(Error::NotACheckpoint { path: folder.to_path_buf(), wanted })
        }
    }

    /// A tokenizer that is already in memory, e.g. compiled into the program; `path` stands for it in messages.
    pub fn from_bytes(
        path: impl Into<PathBuf>,
        json: &[u8],
        settings: TokenizerSettings,
        vocab: usize,
    ) -> Result<Self> {
        Self::new(path.into(), json, settings, vocab)
    }

    /// A tokenizer whose tokens are the ids themselves, written as numbers, for a checkpoint that has none.
    pub fn of_numbers(folder: impl AsRef<Path>, vocab: usize) -> Result<Self> {
        let words: serde_json::Map<String, serde_json::Value> =
            (0..vocab).map(|id| (id.to_string(), id.into())).collect();
        // No word stands for the unknown, so a text that is not of ids is an error.
        let json = serde_json::json!({
            "version": "1.0", "added_tokens": [], "pre_tokenizer": { "type": "WhitespaceSplit" },
            "model": { "type": "WordLevel", "vocab": words, "unk_token": "" },
        });
        let settings = TokenizerSettings::open(folder.as_ref())?;
        Self::new(folder.as_ref().to_path_buf(), json.to_string().as_bytes(), settings, vocab)
    }

    fn new(path: PathBuf, json: &[u8], settings: TokenizerSettings, vocab: usize) -> Result<Self> {
        let unusable = |cause: String| Error::Tokenizer { path: path.clone(), cause };
        let read = caught(|| tokenizers::Tokenizer::from_bytes(json)).map_err(unusable)?;
        let mut inner = read.map_err(|cause| unusable(cause.to_string()))?;
        // A canvas is never cut or padded by the tokenizer.
        inner.with_truncation(None).map_err(|cause| unusable(cause.to_string()))?;
        inner.with_padding(None);

        let tokens = caught(|| inner.get_vocab(true)).map_err(unusable)?;
        match tokens.iter().max_by_key(|(_, id)| **id) {
            None => return Err(unusable("it has no tokens".to_owned())),
            Some((token, &largest)) if largest as usize >= vocab => {
                return Err(Error::TokenizerTooLarge { path, largest, token: token.clone(), vocab });
            }
            Some(_) => {}
        }
        let longest = tokens.keys().map(String::len).max().unwrap_or(1).max(1);
        let mut known = vec![false; vocab];
        for id in tokens.into_values() {
            known[id as usize] = true;
        }
        Ok(Self { inner, settings, known, longest })
    }

    /// What `tokenizer_config.json` says.
    pub fn settings(&self) -> &TokenizerSettings {
        &self.settings
    }

    /// The ids of a text. Special tokens written in it are recognised; none are added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_with(text, false)
    }

    /// The ids of a text with the special tokens the tokenizer puts around every text, if any.
    pub fn encode_document(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_with(text, true)
    }

    fn encode_with(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>> {
        let failed = |cause: String| Error::Tokenize { action: "encode this text", cause };
        let encoding = caught(|| self.inner.encode_fast(text, add_special_tokens)).map_err(failed)?;
        let encoding = encoding.map_err(|cause| failed(cause.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of ids, special tokens left out.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.decode_with(ids, true)
    }

    /// The text of ids, special tokens written out.
    pub fn decode_verbatim(&self, ids: &[u32]) -> Result<String> {
        self.decode_with(ids, false)
    }

    /// The text of a response: up to and without its first end-of-sequence token.
    pub fn decode_response(&self, ids: &[u32], eos: &[u32]) -> Result<String> {
        let end = ids.iter().position(|id| eos.contains(id)).unwrap_or(ids.len());
        self.decode(&ids[..end])
    }

    fn decode_with(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String> {
        let failed = |cause: String| Error::Tokenize { action: "decode these ids", cause };
        let text = caught(|| self.inner.decode(ids, skip_special_tokens)).map_err(failed)?;
        text.map_err(|cause| failed(cause.to_string()))
    }

    /// The text one token adds behind another, for showing tokens one by one: some tokenizers put the
    /// space between words only when they see both.
    pub fn piece(&self, previous: Option<u32>, id: u32) -> String {
        let text = |ids: &[u32]| self.decode_verbatim(ids).unwrap_or_default();
        let alone = text(&[id]);
        let Some(previous) = previous else { return alone };
        let both = text(&[previous, id]);
        both.strip_prefix(&text(&[previous])).map_or(alone, str::to_owned)
    }

    /// Whether the tokenizer has a token of this id.
    pub fn known(&self, id: u32) -> bool {
        self.known.get(id as usize).copied().unwrap_or(false)
    }

    /// The ids of the model's vocabulary that stand for no token, and so must never be written.
    pub fn holes(&self) -> Vec<u32> {
        (0_u32..).zip(&self.known).filter(|(_, known)| !**known).map(|(id, _)| id).collect()
    }

    /// Bytes of the longest token as the vocabulary spells it: no token stands for more text than this, white space
    /// that the tokenizer drops apart.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// How many tokens it knows.
    pub fn size(&self) -> usize {
        self.known.iter().filter(|known| **known).count()
    }

    /// The id of a token as the vocabulary spells it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token of an id as the vocabulary spells it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The id of a special token by its role: `bos_token`, `eos_token`, `pad_token`, `mask_token`, …
    pub fn special(&self, role: &str) -> Option<u32> {
        self.id(self.settings.special(role)?)
    }

    /// The ids with which a chat template ends a turn: where there is a template, they end a response too.
    pub fn ends_of_turn(&self) -> Vec<u32> {
        END_OF_TURN.iter().filter_map(|token| self.id(token)).collect()
    }

    /// The ids that [`Self::decode`] leaves out, sorted.
    pub fn special_ids(&self) -> Vec<u32> {
        let added = self.inner.get_added_tokens_decoder();
        let mut ids: Vec<u32> = added.iter().filter(|(_, token)| token.special).map(|(&id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}
