//! Weights in the Hub's layout: `model.safetensors`, or shards with `model.safetensors.index.json`.
//!
//! [`Store`] maps the files and hands out [`Mapped`] tensors; [`mod@write`] and [`synthetic`] make such folders;
//! [`source`] finds one by what the user calls it. Invariant: a tensor's bytes were checked against the
//! file's length before anything refers to them, and nothing is copied unless it must be (wrong alignment, another dtype).

mod bytes;
pub(crate) mod digest;
mod header;
mod hub;
mod map;
mod mapped;
pub mod quantized;
pub mod source;
mod store;
pub mod synthetic;
pub mod write;

pub use bytes::Bytes;
pub use map::guard_mappings;
pub use mapped::{Dtype, Mapped};
pub use quantized::Quantized;
pub use store::{Store, weight_files};
pub(crate) use store::{bytes_of, shard_names};

/// The weights of an unsharded checkpoint.
pub const WEIGHTS: &str = "model.safetensors";
/// The table of a sharded one: which tensor is in which file.
pub const INDEX: &str = "model.safetensors.index.json";
