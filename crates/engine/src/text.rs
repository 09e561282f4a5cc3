//! How a model reads and writes: everything of a checkpoint but its weights.
//!
//! Invariant: nothing here opens weights; the ids that end a response are the config's and, where there is a chat
//! template, those with which it ends a turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use demask_model::text::{ChatTemplate, Conversation, Message, Tokenizer};
use demask_model::{Spec, SpecialIds};

use crate::error::{Error, Result};
use crate::gaps::{GapError, Piece, split};
use crate::scope::Scope;

/// Said where a chat template takes the last message alone.
const ALONE: &str =
    "this model answers each message by itself: its chat template leaves out what was said before";
/// Said where it takes no system message.
const NO_SYSTEM: &str = "this model's chat template leaves the system message out";

/// Config, tokenizer and chat template of a checkpoint.
#[derive(Debug, Clone)]
pub struct Text {
    source: PathBuf,
    spec: Spec,
    tokenizer: Tokenizer,
    chat: Option<ChatTemplate>,
    /// The mask, and ids that stand for no token.
    unwritable: Vec<u32>,
    scope: Option<Arc<Scope>>,
}

impl Text {
    /// Puts the parts together; `source` stands for them in messages.
    pub fn new(
        source: impl Into<PathBuf>,
        spec: Spec,
        tokenizer: Tokenizer,
        chat: Option<ChatTemplate>,
    ) -> Self {
        let mut unwritable = tokenizer.holes();
        unwritable.push(spec.ids.mask);
        Self { source: source.into(), spec, tokenizer, chat: None, unwritable, scope: None }.with_chat(chat)
    }

    /// Of a checkpoint folder (its weights may be missing) or a GGUF file.
    pub fn open(folder: &Path) -> Result<Self> {
        let spec = Spec::from_folder(folder)?;
        let tokenizer = Tokenizer::open(folder, spec.vocab)?;
        let scope = Scope::open(folder, spec.vocab)?;
        Ok(Self::new(folder, spec, tokenizer, ChatTemplate::open(folder)?).with_scope(scope))
    }

    /// Of a checkpoint folder that may have no tokenizer: then ids are written as numbers.
    pub fn open_by_ids(folder: &Path) -> Result<Self> {
        match Self::open(folder) {
            Err(Error::Model(demask_model::Error::NotACheckpoint { .. }))
                if folder.join("config.json").exists() =>
            {
                let spec = Spec::from_folder(folder)?;
                let tokenizer = Tokenizer::of_numbers(folder, spec.vocab)?;
                Ok(Self::new(folder, spec, tokenizer, None))
            }
            opened => opened,
        }
    }

    /// The same with another chat template.
    pub fn with_chat(mut self, chat: Option<ChatTemplate>) -> Self {
        if chat.is_some() {
            let (vocab, eos) = (self.spec.vocab, &mut self.spec.ids.eos);
            for id in self.tokenizer.ends_of_turn().into_iter().filter(|&id| (id as usize) < vocab) {
                if !eos.contains(&id) {
                    eos.push(id);
                }
            }
        }
        self.chat = chat;
        self
    }

    /// The same with another scope.
    pub fn with_scope(mut self, scope: Option<Scope>) -> Self {
        self.scope = scope.map(Arc::new);
        self
    }

    /// What is to be said of a user's message that is none of the kinds the model is for; nothing where it is, and
    /// nothing of a model without a scope.
    pub fn remark(&self, message: &str) -> Result<Option<&str>> {
        let Some(scope) = &self.scope else { return Ok(None) };
        Ok(scope.remark(&self.tokenizer.encode(message)?))
    }

    /// The same of a text with gaps, judged by its words where they are at least so many tokens.
    pub(crate) fn remark_on_gaps(&self, text: &str, least: usize) -> Result<Option<&str>> {
        let Some(scope) = &self.scope else { return Ok(None) };
        let words = split(text)?.into_iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            Piece::Gap(_) => None,
        });
        let tokens = self.tokenizer.encode(words.collect::<String>().trim())?;
        Ok(if tokens.len() < least { None } else { scope.remark(&tokens) })
    }

    /// What of a conversation its chat template leaves out, each in a sentence. A template that fails on a part of it leaves
    /// nothing out.
    pub fn left_out(&self, messages: &[Message]) -> Vec<&'static str> {
        let Some(chat) = &self.chat else { return Vec::new() };
        let render = |messages: &[Message]| chat.render(&Conversation::new(messages)).ok();
        let is_system = |message: &Message| message.role() == "system";
        let turns: Vec<Message> = messages.iter().filter(|message| !is_system(message)).cloned().collect();
        let last = turns.iter().rposition(|message| message.role() == "user").unwrap_or(0);
        let system = turns.len() < messages.len();
        if (!system && last == 0) || turns.is_empty() {
            return Vec::new();
        }
        let Some(bare) = render(&turns) else { return Vec::new() };
        let mut sentences = Vec::new();
        if last > 0 && render(&turns[last..]).as_ref() == Some(&bare) {
            sentences.push(ALONE);
        }
        if system && render(messages).as_ref() == Some(&bare) {
            sentences.push(NO_SYSTEM);
        }
        sentences
    }

    /// The folder or file it came from.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The model's shape, with all ids that end a response.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The model's special ids.
    pub fn ids(&self) -> &SpecialIds {
        &self.spec.ids
    }

    /// Every token that ends a text: the config's, and the tokenizer's own.
    pub fn ends(&self) -> Vec<u32> {
        let own = self.tokenizer.special("eos_token");
        self.spec.ids.eos.iter().copied().chain(own).collect()
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The chat template, if there is one.
    pub fn chat(&self) -> Option<&ChatTemplate> {
        self.chat.as_ref()
    }

    /// A conversation as the model sees it: text and ids.
    pub fn conversation(&self, messages: &[Message]) -> Result<(String, Vec<u32>)> {
        let Some(chat) = &self.chat else { return Err(Error::NoTemplate { path: self.source.clone() }) };
        let prompt = chat.render(&Conversation::new(messages))?;
        let tokens = self.tokenizer.encode(&prompt)?;
        Ok((prompt, tokens))
    }

    /// One message of a user through the chat template, or as it is where there is none: text and ids.
    pub fn user(&self, message: &str) -> Result<(String, Vec<u32>)> {
        match self.chat {
            Some(_) => self.conversation(&[Message::new("user", message)]),
            None => Ok((message.to_owned(), self.tokenizer.encode(message)?)),
        }
    }

    /// What the user said in a prompt, without the chat template around it; of any other prompt, the whole.
    pub fn asked(&self, ids: &[u32]) -> demask_model::Result<String> {
        const MARK: &str = "\u{1}";
        let whole = self.tokenizer.decode_verbatim(ids)?;
        let Ok((shell, _)) = self.user(MARK) else { return Ok(whole) };
        let inner = shell.split_once(MARK).and_then(|(before, after)| {
            whole.strip_prefix(before.trim_start()).and_then(|rest| rest.strip_suffix(after))
        });
        Ok(inner.unwrap_or(&whole).to_owned())
    }

    /// Ids of a text that stands beside masks and must not bring any of its own.
    pub fn plain(&self, text: &str) -> Result<Vec<u32>> {
        let ids = self.tokenizer.encode(text)?;
        if ids.contains(&self.ids().mask) { Err(Error::MaskInText) } else { Ok(ids) }
    }

    /// Ids of a text whose gaps (`[MASK]`, `[MASK:5]`) are masks; at least one gap is needed.
    pub fn with_gaps(&self, text: &str) -> Result<Vec<u32>> {
        let pieces = split(text)?;
        if !pieces.iter().any(|piece| matches!(piece, Piece::Gap(_))) {
            return Err(GapError::None.into());
        }
        let mut tokens = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => tokens.extend(self.plain(text)?),
                Piece::Gap(length) => tokens.extend(std::iter::repeat_n(self.ids().mask, length)),
            }
        }
        Ok(tokens)
    }

    /// The text of a response: up to its first end of sequence, then cut at every `until` in turn.
    pub fn response(&self, ids: &[u32], until: &[String]) -> Result<String> {
        let mut text = self.tokenizer.decode_response(ids, &self.ids().eos)?;
        for stop in until.iter().filter(|stop| !stop.is_empty()) {
            if let Some(end) = text.find(stop.as_str()) {
                text.truncate(end);
            }
        }
        Ok(text)
    }

    /// Ids that must never be written: the mask, and ids that stand for no token.
    pub fn unwritable(&self) -> &[u32] {
        &self.unwritable
    }
}
