//! The predictor's matrices on a device, in f32 as the paper has them, beside a backbone of any precision.

use candle_core::{DType, DeviceLocation, Result as Candle, Tensor};
use demask_model::{OnDevice, Rows};

use crate::dependency::parts::Activation;
use crate::dependency::predictor::{Bilinear, Predictor};
use crate::error::Result;

/// Matrices `[out, in]` on one device.
#[derive(Debug)]
pub(super) struct ResidentHeads {
    pub(super) place: DeviceLocation,
    projection: Option<(Tensor, Tensor, Activation)>,
    heads: Vec<Form>,
}

#[derive(Debug)]
enum Form {
    Merged(Tensor),
    Narrow(Tensor, Tensor),
}

impl ResidentHeads {
    /// Beside these rows.
    pub(super) fn new(predictor: &Predictor, device: &dyn OnDevice, hidden: &Tensor) -> Result<Self> {
        let (place, upload) =
            (hidden.device().location(), |m: &Rows| device.upload(&m.data, m.width, hidden));
        let mut heads = Vec::with_capacity(predictor.heads.len());
        for head in &predictor.heads {
            heads.push(match head {
                Bilinear::Merged(w) => Form::Merged(upload(w)?),
                Bilinear::Narrow(query, key) => Form::Narrow(upload(query)?, upload(key)?),
            });
        }
        let projection = match &predictor.projection {
            Some(layers) => Some((upload(&layers.first)?, upload(&layers.second)?, layers.activation)),
            None => None,
        };
        Ok(Self { place, projection, heads })
    }

    /// The mix of the heads' sigmoids, `[|M|, |M|]`.
    pub(super) fn mixed(
        &self,
        predictor: &Predictor,
        hidden: &Tensor,
        features: Option<&Tensor>,
    ) -> Candle<Tensor> {
        let mut rows = hidden.to_dtype(DType::F32)?;
        if let Some(features) = features {
            rows = Tensor::cat(&[&rows, features], 1)?;
        }
        if let Some((first, second, activation)) = &self.projection {
            let inner = rows.matmul(&first.t()?)?;
            let inner = match activation {
                Activation::Relu => inner.relu()?,
                Activation::Silu => inner.silu()?,
            };
            rows = inner.matmul(&second.t()?)?;
        }
        let mut sum: Option<Tensor> = None;
        for (index, head) in self.heads.iter().enumerate() {
            let scores = match head {
                Form::Merged(w) => rows.matmul(&w.t()?)?.matmul(&rows.t()?)?,
                Form::Narrow(query, key) => {
                    rows.matmul(&query.t()?)?.matmul(&rows.matmul(&key.t()?)?.t()?)?
                }
            };
            // 1/(1 + e^{-s}) with a weight; |M|² numbers.
            let odds = ((scores * f64::from(-predictor.scale))?.exp()? + 1.0)?;
            let part = (odds.recip()? * f64::from(predictor.weight(index)))?;
            sum = Some(match sum {
                None => part,
                Some(sum) => (sum + part)?,
            });
        }
        sum.ok_or_else(|| candle_core::Error::Msg("a predictor without heads".into()))
    }
}
