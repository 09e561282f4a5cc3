//! What can go wrong between a checkpoint folder and a decoded text.
//!
//! Invariant: every message is one sentence that names the file (or the Hub name), the value that was found and, where
//! the user can act on it, what to do. The cause is part of the sentence and not a `source()`, so a chain printer never says it twice.

use std::io;
use std::path::{Path, PathBuf};

/// The result of anything in this crate that reads a checkpoint.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a checkpoint, a tokenizer, a chat template or a forward pass was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Whoever asked for it wants it no more.
    #[error("the work was stopped before it was done")]
    Stopped,
    /// A file could not be opened or read.
    #[error("cannot read {}: {}", path.display(), describe_io(cause))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {}", path.display(), describe_io(cause))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Another process writes to the folder.
    #[error("{} is being written by process {holder}; wait for it to end, or name another folder", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// The number of the process.
        holder: String,
    },
    /// A mapped file is not what it was when it was opened.
    #[error("{} was changed while it is in use ({change}); restore it and start again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// How it differs.
        change: String,
    },
    /// A folder lacks what every checkpoint has.
    #[error("{} is not a checkpoint folder: it has no {wanted}", path.display())]
    NotACheckpoint {
        /// The folder.
        path: PathBuf,
        /// The file that is missing.
        wanted: &'static str,
    },
    /// A JSON file is not JSON, or not of the expected form.
    #[error("{} is not readable JSON: {cause}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why parsing stopped.
        cause: String,
    },
    /// A safetensors file is truncated or contradicts itself.
    #[error("{} is not a valid safetensors file: {cause}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A GGUF file is damaged, or holds what this engine does not run.
    #[error("{} is not a usable GGUF file: {cause}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The index names a shard that is not in the folder.
    #[error("{} names the shard {shard}, which is not in the folder; download it again", index.display())]
    ShardMissing {
        /// The index file.
        index: PathBuf,
        /// The shard's file name.
        shard: String,
    },
    /// The index places a tensor in a shard that does not hold it.
    #[error("{} places tensor `{tensor}` in {shard}, which does not hold it", index.display())]
    WrongShard {
        /// The index file.
        index: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shard's file name.
        shard: String,
    },
    /// The checkpoint has no tensor of this name.
    #[error("{} has no tensor `{tensor}`", path.display())]
    TensorMissing {
        /// The checkpoint.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// The checkpoint has tensors the architecture does not know.
    #[error("{} has tensors that its config.json has no place for ({count}, the first is `{first}`)", path.display())]
    TensorsUnused {
        /// The checkpoint.
        path: PathBuf,
        /// How many are left over.
        count: usize,
        /// The first of them by name.
        first: String,
    },
    /// A tensor has another shape than config.json asks for.
    #[error("{}: tensor `{tensor}` has shape {found:?}, config.json asks for {expected:?}", path.display())]
    Shape {
        /// The file that holds the tensor.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape config.json implies.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// A tensor's element type is not one a weight may have.
    #[error("{}: tensor `{tensor}` has dtype {found}, weights are F32, BF16 or F16", path.display())]
    Dtype {
        /// The file that holds the tensor.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The dtype in the file.
        found: String,
    },
    /// A field of config.json (or of another JSON file of the folder) is missing or out of range.
    #[error("{}: `{field}` {problem}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// What is wrong with it, as the end of a sentence: "is 0, must be at least 1".
        problem: String,
    },
    /// What was asked of the checkpoint writer contradicts itself.
    #[error("cannot write a checkpoint to {}: {problem}", path.display())]
    Plan {
        /// Where it was to be written.
        path: PathBuf,
        /// The contradiction.
        problem: String,
    },
    /// What should name a model is neither a folder nor a Hub name.
    #[error("`{name}` is neither a folder nor a Hub name like `org/name` or `org/name@revision`")]
    ModelName {
        /// What was given.
        name: String,
    },
    /// The Hub, its cache or the network refused.
    #[error("{name}: {problem}")]
    Hub {
        /// The Hub name, with its revision.
        name: String,
        /// What went wrong and what to do.
        problem: String,
    },
    /// tokenizer.json could not be used.
    #[error("{} is not a usable tokenizer: {cause}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// The tokenizer has ids the model has no embedding for.
    #[error("{} has token id {largest} (`{token}`), but config.json's vocab_size is {vocab}; the tokenizer belongs to another model", path.display())]
    TokenizerTooLarge {
        /// The tokenizer file.
        path: PathBuf,
        /// Its largest id.
        largest: u32,
        /// The token of that id.
        token: String,
        /// The vocabulary of config.json.
        vocab: usize,
    },
    /// A text could not be encoded, or ids could not be decoded.
    #[error("the tokenizer cannot {action}: {cause}")]
    Tokenize {
        /// `encode this text` or `decode these ids`.
        action: &'static str,
        /// Why.
        cause: String,
    },
    /// The chat template does not parse, fails, or does not end.
    #[error("the chat template of {} {problem}", path.display())]
    Template {
        /// The file it came from.
        path: PathBuf,
        /// What it did, as the end of a sentence.
        problem: String,
    },
    /// A forward pass was asked for something the model or the canvas does not have.
    #[error("{0}")]
    Query(String),
    /// The tensor library failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A message given to the chat template is not usable.
    #[error("message {index}: {problem}")]
    Message {
        /// Its place in the conversation, from 0.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// For `map_err`: a file that could not be read.
    pub fn read(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |cause| Self::Read { path, cause }
    }

    /// For `map_err`: a file that could not be written.
    pub fn write(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |cause| Self::Write { path, cause }
    }

    /// For `map_err`: a file that is not the JSON it should be.
    pub fn json(path: impl AsRef<Path>) -> impl FnOnce(serde_json::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |cause| Self::Json { path, cause: cause.to_string() }
    }
}

/// The common causes in plain words, the rest as the system puts it.
fn describe_io(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => "no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full".to_owned(),
        _ => cause.to_string(),
    }
}
