//! The layers a masked-diffusion Transformer is made of, one per file.

mod attention;
pub(crate) mod cpu;
mod embedding;
mod linear;
mod mlp;
mod norm;
mod residual;
mod rope;

pub use attention::{Attention, ShadowKeys};
pub use embedding::Embedding;
pub use linear::Linear;
pub use mlp::Mlp;
pub use norm::RmsNorm;
pub use residual::residual;
pub use rope::Rope;
