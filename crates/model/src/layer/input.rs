//! What a row of the stream starts with: its token's row of the table, and in BERT's line the rows of its position and of
//! the first token type, added, normalised, and mapped to the width of the stream where the tables have one of their own (ALBERT).

use candle_core::{Device, Tensor};

use super::parameter::{Parameter, Parameters, Place, Role, Use};
use super::{Embedding, Linear, Norm, composed, residual};
use crate::config::{Positions, Spec};
use crate::error::Result;

/// The table of positions.
pub const POSITIONS: Role = Role("position_embd");
/// The table of token types.
pub const TYPES: Role = Role("token_types");
/// The norm of their sum.
pub const INPUT_NORM: Role = Role("token_embd_norm");
/// From the tables' width to the stream's.
pub const WIDEN: Role = Role("token_embd_widen");

/// The tables with their weights.
#[derive(Debug)]
pub struct Input {
    composed: bool,
    tokens: Embedding,
    positions: Option<Embedding>,
    types: Option<Embedding>,
    norm: Option<Norm>,
    widen: Option<Linear>,
}

impl Input {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(spec: &Spec, place: &Place) -> Result<Vec<Parameter>> {
        let mut all = vec![Embedding::parameter(spec, place)?];
        all.extend(Self::positions(spec, place)?);
        all.extend(Self::types(spec, place)?);
        if spec.positions == Positions::Learned {
            all.extend(Norm::parameters(spec, INPUT_NORM, spec.table_width(), place)?);
        }
        all.extend(Self::widen(spec, place)?);
        Ok(all)
    }

    /// Made of its parameters.
    pub fn load(spec: &Spec, place: &Place, from: &mut dyn Parameters) -> Result<Self> {
        let tokens = from.embedding(&Embedding::parameter(spec, place)?)?;
        let positions = Self::positions(spec, place)?.map(|p| from.embedding(&p)).transpose()?;
        let types = Self::types(spec, place)?.map(|p| from.embedding(&p)).transpose()?;
        let norm = match spec.positions {
            Positions::Rotary => None,
            Positions::Learned => Some(Norm::load(spec, INPUT_NORM, spec.table_width(), place, from)?),
        };
        let widen = Self::widen(spec, place)?.map(|p| from.linear(&p)).transpose()?;
        Ok(Self { composed: from.composed(), tokens, positions, types, norm, widen })
    }

    fn positions(spec: &Spec, place: &Place) -> Result<Option<Parameter>> {
        let table = || Self::table(POSITIONS, spec.max_positions, spec, place);
        (spec.positions == Positions::Learned).then(table).transpose()
    }

    fn types(spec: &Spec, place: &Place) -> Result<Option<Parameter>> {
        (spec.token_types > 0).then(|| Self::table(TYPES, spec.token_types, spec, place)).transpose()
    }

    fn table(role: Role, rows: usize, spec: &Spec, place: &Place) -> Result<Parameter> {
        place.parameter(role, &[rows, spec.table_width()], Use::Table { tied: false }, None)
    }

    fn widen(spec: &Spec, place: &Place) -> Result<Option<Parameter>> {
        spec.table.map(|width| place.map(WIDEN, [spec.hidden, width], true)).transpose()
    }

    /// The tokens' rows of the table alone, in the width of the stream.
    pub fn tokens(&self, tokens: &[u32], device: &Device) -> Result<Tensor> {
        self.widened(self.tokens.forward(tokens, device)?)
    }

    /// `[tokens.len(), d]`; tokens lie inside the vocabulary and positions inside the context.
    pub fn forward(&self, tokens: &[u32], positions: &[u32], device: &Device) -> Result<Tensor> {
        let mut x = self.tokens.forward(tokens, device)?;
        if let Some(table) = &self.positions {
            x = self.added(&x, &table.forward(positions, device)?)?;
        }
        if let Some(table) = &self.types {
            x = self.added(&x, &table.forward(&vec![0; tokens.len()], device)?)?;
        }
        if let Some(norm) = &self.norm {
            x = norm.forward(&x)?;
        }
        self.widened(x)
    }

    fn added(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok(if self.composed { composed::add(x, y)? } else { residual(x, y)? })
    }

    fn widened(&self, x: Tensor) -> Result<Tensor> {
        Ok(match &self.widen {
            Some(widen) => widen.forward(&x)?,
            None => x,
        })
    }
}
