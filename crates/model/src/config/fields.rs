//! Typed access to the fields of a `config.json`, with errors that name file and field.
//!
//! Invariant: every look at a field goes through [`Fields::get`], which keeps its name, so that what nobody looked at can be
//! told.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::SpecialIds;
use crate::error::{Error, Result};
use crate::files;

/// What is said of a field that must be there.
const MISSING: &str = "is missing";

/// The fields of a `config.json`, and the ids that the files beside it name.
pub struct Fields<'a> {
    value: &'a Value,
    path: &'a Path,
    beside: Beside,
    /// Names that were looked at, whether they are there or not.
    asked: RefCell<BTreeSet<String>>,
    /// What was assumed where the config is silent.
    assumed: RefCell<Vec<String>>,
}

/// What other files of a checkpoint folder say about special ids.
#[derive(Debug, Clone, Default)]
pub(super) struct Beside {
    /// The tokenizer's mask.
    pub(super) mask: Option<u32>,
    /// Ends of a response that `generation_config.json` names.
    pub(super) eos: Vec<u32>,
    /// Where they lie.
    folder: Option<PathBuf>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(value: &'a Value, path: &'a Path, beside: Beside) -> Self {
        Self { value, path, beside, asked: RefCell::default(), assumed: RefCell::default() }
    }

    /// Of a config inside another; messages about it are not shown.
    pub(crate) fn bare(value: &'a Value) -> Self {
        Self::new(value, Path::new(""), Beside::default())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.path
    }

    /// The field, unless it is absent or null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(name.to_owned());
        self.value.get(name).filter(|value| !value.is_null())
    }

    /// The field, unless it is absent, null or false, which are three ways to say that there is none.
    pub fn given(&self, name: &str) -> Option<&'a Value> {
        self.get(name).filter(|value| **value != Value::Bool(false))
    }

    /// Fields that nobody looked at, sorted; one that is null says nothing.
    pub(crate) fn unasked(&self) -> Vec<&'a str> {
        let asked = self.asked.borrow();
        let fields = self.value.as_object().into_iter().flatten();
        let said = fields.filter(|(name, value)| !value.is_null() && !asked.contains(*name));
        let mut names: Vec<&str> = said.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Remembers what was assumed, as a sentence without its full stop.
    pub(crate) fn assume(&self, sentence: String) {
        self.assumed.borrow_mut().push(sentence);
    }

    /// What was assumed.
    pub(super) fn into_assumed(self) -> Vec<String> {
        self.assumed.into_inner()
    }

    /// The field as text, if present.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// First entry of a list of strings.
    pub fn first_text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_array()?.first()?.as_str()
    }

    /// A required size.
    pub fn size(&self, name: &str) -> Result<usize> {
        self.optional_size(name)?.ok_or_else(|| self.bad(name, MISSING.into()))
    }

    /// A size that may be absent or null.
    pub fn optional_size(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_u64().and_then(|v| usize::try_from(v).ok()) {
            Some(size) => Ok(Some(size)),
            None => Err(self.bad(name, format!("{value} is not a size"))),
        }
    }

    /// A required number: one without which the config describes another model than its author's.
    pub fn needed(&self, name: &str) -> Result<f64> {
        self.get(name).ok_or_else(|| self.bad(name, MISSING.into()))?;
        self.number(name, 0.0)
    }

    /// A required flag.
    pub fn needed_flag(&self, name: &str) -> Result<bool> {
        self.get(name).ok_or_else(|| self.bad(name, MISSING.into()))?;
        self.flag(name, false)
    }

    /// A number with a default.
    pub fn number(&self, name: &str, default: f64) -> Result<f64> {
        let Some(value) = self.get(name) else { return Ok(default) };
        value.as_f64().ok_or_else(|| self.bad(name, format!("{value} is not a number")))
    }

    /// A flag with a default.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(name) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.bad(name, format!("{value} is not true or false")))
    }

    /// An id, or a list of ids, or nothing.
    pub fn ids(&self, name: &str) -> Result<Vec<u32>> {
        let one =
            |value: &Value| id_of(value).ok_or_else(|| self.bad(name, format!("{value} is not a token id")));
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(one).collect(),
            Some(value) => Ok(vec![one(value)?]),
        }
    }

    /// The special ids: the mask of the config, else the tokenizer's, else the family's; ends of the config and of
    /// `generation_config.json`.
    pub fn special_ids(&self, family_mask: Option<u32>) -> Result<SpecialIds> {
        let mask = self.ids("mask_token_id")?.first().copied().or(self.beside.mask).or(family_mask);
        let mask = mask.ok_or_else(|| self.bad("mask_token_id", MISSING.into()))?;
        let mut eos = self.ids("eos_token_id")?;
        for &id in &self.beside.eos {
            if !eos.contains(&id) {
                eos.push(id);
            }
        }
        let first = |name| Ok::<_, Error>(self.ids(name)?.first().copied());
        Ok(SpecialIds { mask, eos, pad: first("pad_token_id")?, bos: first("bos_token_id")? })
    }

    /// The id that the `tokenizer.json` beside the config gives a special token.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        let text = files::read(&self.beside.folder.as_ref()?.join("tokenizer.json")).ok()?;
        let tokenizer: Value = serde_json::from_slice(&text).ok()?;
        let added = tokenizer["added_tokens"].as_array()?;
        id_of(&added.iter().find(|added| added["content"] == token)?["id"])
    }

    /// An error about this file.
    pub fn bad(&self, field: &str, problem: String) -> Error {
        Error::Config { path: self.path.to_owned(), field: field.to_owned(), problem }
    }
}

fn id_of(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|v| u32::try_from(v).ok())
}

impl Beside {
    /// Reads the files of a folder. One that is absent says nothing; a broken one is reported where it is used.
    pub(super) fn read(folder: &Path) -> Self {
        let json = |name: &str| {
            let text = files::read(&folder.join(name)).ok()?;
            serde_json::from_slice::<Value>(&text).ok()
        };
        let eos = json("generation_config.json").map(|config| match &config["eos_token_id"] {
            Value::Array(list) => list.iter().filter_map(id_of).collect(),
            one => id_of(one).into_iter().collect(),
        });
        let settings = json("tokenizer_config.json").unwrap_or_default();
        Self { mask: mask_of(&settings), eos: eos.unwrap_or_default(), folder: Some(folder.to_owned()) }
    }
}

/// The id of `mask_token` in a `tokenizer_config.json`.
fn mask_of(settings: &Value) -> Option<u32> {
    let mask = &settings["mask_token"];
    let mask = mask.as_str().or_else(|| mask["content"].as_str())?;
    let added = settings["added_tokens_decoder"].as_object()?;
    added.iter().find(|(_, token)| token["content"] == mask)?.0.parse().ok()
}
