//! Token embedding: a row of the table per token.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::parameter::{Parameter, Place, Role, Use};
use crate::checkpoint::Mapped;
use crate::config::Spec;
use crate::error::Result as Loaded;

/// The embedding table.
pub const EMBED: Role = Role("token_embd");
/// The output head; absent where it is tied to the table.
pub const HEAD: Role = Role("output");

/// The embedding table `[vocab, d]`.
#[derive(Debug, Clone)]
pub enum Embedding {
    /// In a candle tensor: any device, differentiable.
    Dense(Tensor),
    /// In the mapped file: only the rows looked up are ever read.
    Mapped(Mapped),
    /// The same in a format of blocks, which stays as it is: rows are unpacked when they are looked up.
    Blocks(Arc<dyn Table>),
}

/// Rows that are made when they are looked up.
pub trait Table: std::fmt::Debug + Send + Sync {
    /// Numbers of a row.
    fn width(&self) -> usize;
    /// Writes row `row`, which exists.
    fn row(&self, row: usize, out: &mut [f32]) -> Result<()>;
}

impl Embedding {
    /// The table.
    pub fn parameter(spec: &Spec, place: &Place) -> Loaded<Parameter> {
        place.parameter(EMBED, &[spec.vocab, spec.table_width()], Use::Table { tied: spec.tied }, None)
    }

    /// The output head: a map of its own, or the table used as one.
    pub fn head(spec: &Spec, place: &Place) -> Loaded<Parameter> {
        place.map(if spec.tied { EMBED } else { HEAD }, [spec.vocab, spec.table_width()], false)
    }

    /// `[tokens.len(), d]`; every token must be inside the vocabulary.
    pub fn forward(&self, tokens: &[u32], device: &Device) -> Result<Tensor> {
        match self {
            Self::Dense(table) => table.index_select(&Tensor::new(tokens, device)?, 0),
            Self::Mapped(table) => {
                let width = table.shape()[1];
                let mut rows = vec![0.0_f32; tokens.len() * width];
                for (row, &token) in rows.chunks_exact_mut(width).zip(tokens) {
                    table.row_f32(token as usize, row);
                }
                Tensor::from_vec(rows, (tokens.len(), width), device)
            }
            Self::Blocks(table) => {
                let width = table.width();
                let mut rows = vec![0.0_f32; tokens.len() * width];
                for (row, &token) in rows.chunks_exact_mut(width).zip(tokens) {
                    table.row(token as usize, row)?;
                }
                Tensor::from_vec(rows, (tokens.len(), width), device)
            }
        }
    }
}
