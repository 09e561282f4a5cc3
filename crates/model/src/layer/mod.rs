//! The layers a masked-diffusion Transformer is made of, one per file. Each knows its own parameters.

mod attention;
mod block;
mod composed;
pub(crate) mod cpu;
mod embedding;
mod experts;
#[cfg(any(test, feature = "flash-attn"))]
mod flash;
mod head;
mod input;
mod layer_norm;
mod linear;
mod mlp;
mod norm;
mod parameter;
mod plain_mlp;
mod projections;
mod residual;
mod rope;

pub use attention::{Attention, OwnKeys, ShadowKeys};
pub use block::{Block, Ffn};
pub use composed::Angles;
pub use embedding::{Embedding, Table};
pub use experts::{Choice, Experts, Watch};
pub use head::Head;
pub use input::Input;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use mlp::Mlp;
pub use norm::{Norm, RmsNorm};
pub use parameter::{Names, Parameter, Parameters, Place, Role, Use};
pub use plain_mlp::PlainMlp;
pub use projections::Projections;
pub use residual::residual;
pub use rope::{Rope, Turn};

/// The roles of tensors, each defined by its layer.
pub mod role {
    pub use super::block::{ATTN_NORM, FFN_NORM};
    pub use super::embedding::{EMBED, HEAD};
    pub use super::experts::{
        CHOICE_BIAS, EXPERT_DOWN, EXPERT_GATE, EXPERT_UP, ROUTER, SHARED_DOWN, SHARED_GATE, SHARED_UP,
    };
    pub use super::head::{HEAD_BIAS, TRANSFORM, TRANSFORM_NORM};
    pub use super::input::{INPUT_NORM, POSITIONS, TYPES, WIDEN};
    pub use super::mlp::{DOWN, GATE, UP};
    pub use super::norm::NORM;
    pub use super::projections::{K, K_NORM, O, Q, Q_NORM, QKV, V};
}
