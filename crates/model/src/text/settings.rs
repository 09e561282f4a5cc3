//! `tokenizer_config.json`, with `special_tokens_map.json` and `chat_template.jinja` where a folder has them.
//!
//! Invariant: a special token is a plain string here, whichever of the Hub's two spellings the file used.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::files;
use crate::gguf::{self, Gguf};

const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// The special tokens transformers knows by name.
const SPECIAL: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What the checkpoint says about its text.
#[derive(Debug, Clone)]
pub struct TokenizerSettings {
    path: PathBuf,
    fields: Map<String, Value>,
    template_file: Option<(PathBuf, String)>,
    /// Given by the program itself and not by a file.
    trusted: bool,
}

impl TokenizerSettings {
    /// Reads them from a checkpoint folder; all files are optional.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        if gguf::is_gguf(folder) {
            let settings = Self::from_bytes(folder, &gguf::settings(&Gguf::open(folder)?))?;
            return Ok(Self { trusted: false, ..settings });
        }
        let path = folder.join(TOKENIZER_CONFIG);
        let mut fields = object(&path, read(&path)?.as_deref())?;
        let map_path = folder.join("special_tokens_map.json");
        for (name, token) in object(&map_path, read(&map_path)?.as_deref())? {
            fields.entry(name).or_insert(token);
        }
        let template_path = folder.join("chat_template.jinja");
        let template_file = match read(&template_path)? {
            None => None,
            Some(text) => match String::from_utf8(text) {
                Ok(text) => Some((template_path, text)),
                Err(_) => {
                    let problem = "is not UTF-8".to_owned();
                    return Err(Error::Template { path: template_path, problem });
                }
            },
        };
        Ok(Self { path, fields, template_file, trusted: false })
    }

    /// Reads the text of a `tokenizer_config.json`, e.g. one compiled into the program.
    pub fn from_bytes(path: impl Into<PathBuf>, text: &[u8]) -> Result<Self> {
        let path = path.into();
        let fields = object(&path, Some(text))?;
        Ok(Self { path, fields, template_file: None, trusted: true })
    }

    /// The file most of it comes from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the program itself brought them, and no file.
    pub(super) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// A field as it is in the file.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// The text of a special token: `bos_token`, `eos_token`, `pad_token`, `mask_token`, …
    pub fn special(&self, name: &str) -> Option<&str> {
        token_text(self.fields.get(name)?)
    }

    /// The special tokens a chat template may refer to by name.
    pub(super) fn special_tokens(&self) -> Map<String, Value> {
        let mut tokens: Map<_, _> = SPECIAL
            .iter()
            .filter_map(|&name| Some((name.to_owned(), Value::from(self.special(name)?))))
            .collect();
        if let Some(Value::Array(additional)) = self.fields.get("additional_special_tokens") {
            let texts: Vec<Value> = additional.iter().filter_map(token_text).map(Value::from).collect();
            tokens.insert("additional_special_tokens".to_owned(), texts.into());
        }
        tokens
    }

    /// The file the chat templates come from.
    pub(super) fn template_path(&self) -> &Path {
        self.template_file.as_ref().map_or(&self.path, |(path, _)| path)
    }

    /// The chat templates by name, none if there are none; `default` is the unnamed one.
    pub(super) fn templates(&self) -> Result<Vec<(&str, &str)>> {
        if let Some((_, text)) = &self.template_file {
            return Ok(vec![("default", text)]);
        }
        match self.fields.get("chat_template") {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![("default", text)]),
            Some(Value::Array(named)) => named
                .iter()
                .map(|entry| Some((entry.get("name")?.as_str()?, entry.get("template")?.as_str()?)))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| self.bad_template()),
            Some(_) => Err(self.bad_template()),
        }
    }

    fn bad_template(&self) -> Error {
        Error::Config {
            path: self.path.clone(),
            field: "chat_template".to_owned(),
            problem: "is neither a string nor a list of named templates".to_owned(),
        }
    }
}

fn token_text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match files::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::Read { path: path.to_path_buf(), cause }),
    }
}

fn object(path: &Path, text: Option<&[u8]>) -> Result<Map<String, Value>> {
    text.map_or(Ok(Map::new()), |text| serde_json::from_slice(text).map_err(Error::json(path)))
}
