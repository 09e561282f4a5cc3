//! From a hidden row to logits: a map of its own or the table used as one, and in BERT's line a map, a function and a norm
//! before it and a bias behind it.

use candle_core::{DType, Tensor};

use super::parameter::{Parameter, Parameters, Place, Role, Use};
use super::{Embedding, Linear, Norm, plain_mlp};
use crate::config::{Activation, Spec};
use crate::error::Result;

/// The map before the decoder.
pub const TRANSFORM: Role = Role("output_transform");
/// The norm behind it.
pub const TRANSFORM_NORM: Role = Role("output_transform_norm");
/// A number per token that is added to its logit.
pub const HEAD_BIAS: Role = Role("output_added");

/// The head with its weights.
#[derive(Debug)]
pub struct Head {
    transform: Option<(Linear, Activation, Norm)>,
    decoder: Linear,
}

impl Head {
    /// Its parameters, in the order of a checkpoint; the table apart where the head is tied to it.
    pub fn parameters(spec: &Spec, place: &Place) -> Result<Vec<Parameter>> {
        let mut all = Vec::new();
        if spec.head_transform {
            all.push(Self::transform(spec, place)?);
            all.extend(Norm::parameters(spec, TRANSFORM_NORM, spec.table_width(), place)?);
            all.push(Self::bias(spec, place)?);
        }
        if !spec.tied {
            all.push(Embedding::head(spec, place)?);
        }
        Ok(all)
    }

    /// Made of its parameters.
    pub fn load(spec: &Spec, place: &Place, from: &mut dyn Parameters) -> Result<Self> {
        let decoder = from.linear(&Embedding::head(spec, place)?)?;
        if !spec.head_transform {
            return Ok(Self { transform: None, decoder });
        }
        let map = from.linear(&Self::transform(spec, place)?)?;
        let norm = Norm::load(spec, TRANSFORM_NORM, spec.table_width(), place, from)?;
        let bias = from.vector(&Self::bias(spec, place)?)?;
        Ok(Self { transform: Some((map, spec.activation, norm)), decoder: biased(decoder, bias)? })
    }

    fn transform(spec: &Spec, place: &Place) -> Result<Parameter> {
        place.map(TRANSFORM, [spec.table_width(), spec.hidden], true)
    }

    fn bias(spec: &Spec, place: &Place) -> Result<Parameter> {
        place.parameter(HEAD_BIAS, &[spec.vocab], Use::Added, None)
    }

    /// Logits `[rows, V]` of hidden rows.
    pub fn forward(&self, hidden: &Tensor) -> Result<Tensor> {
        let Some((map, activation, norm)) = &self.transform else { return Ok(self.decoder.forward(hidden)?) };
        let x = plain_mlp::activate(*activation, map.forward(hidden)?, map.is_composed())?;
        Ok(self.decoder.forward(&norm.forward(&x)?)?)
    }
}

/// The same map with a bias.
fn biased(map: Linear, bias: Tensor) -> Result<Linear> {
    let numbers = || Ok::<_, crate::Error>(Some(bias.to_dtype(DType::F32)?.to_vec1::<f32>()?.into()));
    Ok(match map {
        Linear::Mapped { weight, .. } => Linear::Mapped { weight, bias: numbers()? },
        Linear::Quantized { weight, .. } => Linear::Quantized { weight, bias: numbers()? },
        Linear::Dense { weight, .. } => Linear::Dense { weight, bias: Some(bias) },
        Linear::Composed { weight, .. } => Linear::Composed { weight, bias: Some(bias) },
        Linear::Watched { map, seen } => Linear::Watched { map: Box::new(biased(*map, bias)?), seen },
    })
}
