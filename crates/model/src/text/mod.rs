//! The only place of the model where strings live: tokenizer, chat template and what they read from the folder.

mod bpe;
mod byte_level;
mod chat;
mod isolation;
mod jinja;
mod message;
mod nesting;
mod python;
mod settings;
mod tokenizer;

pub use byte_level::byte_letter;
pub use chat::{ChatTemplate, Conversation, Ending, Trailing};
pub use isolation::{isolate_templates, template_worker};
pub use message::Message;
pub use settings::TokenizerSettings;
pub use tokenizer::Tokenizer;
