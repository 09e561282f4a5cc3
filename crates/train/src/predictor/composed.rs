//! The error of eq. 6 and its gradient in candle's own operations, on any device: what [`super::gradient`] writes out over
//! the CPU's kernels, differentiated by candle. A test holds the two together.
//!
//! Parameters go to the device once a batch, and the error and its gradient come back; the optimiser stays on the host.

use std::ops::Range;

use candle_core::{D, DType, Device, Tensor, Var};
use demask_decode::dependency::Measure;

use super::{Batch, MixRule, Model, Nonlinearity, SquaredError};
use crate::compute::Compute;
use crate::error::Result;

/// A predictor in training, computed somewhere.
#[derive(Debug, Clone)]
pub struct Computed {
    /// Its shape.
    pub model: Model,
    /// Where.
    pub compute: Compute,
}

/// A matrix on the device and its place in the flat vector.
type Placed = (Range<usize>, Var);

impl Computed {
    /// As [`Model::predict`].
    pub fn predict(&self, parameters: &[f32], batch: &Batch) -> Result<Vec<f32>> {
        if !self.compute.is_composed() {
            return Ok(self.model.predict(parameters, batch));
        }
        let mut all = Vec::with_capacity(batch.targets.len());
        for predicted in self.predicted(&self.variables(parameters)?, batch)? {
            all.extend(predicted.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(all)
    }

    /// As [`Model::error`].
    pub fn error(&self, parameters: &[f32], batch: &Batch) -> Result<SquaredError> {
        if !self.compute.is_composed() {
            return Ok(self.model.error(parameters, batch));
        }
        let sum = self.sum(&self.variables(parameters)?, batch)?;
        Ok(SquaredError { sum: read(&sum)?, pairs: batch.pairs() })
    }

    /// As [`Model::gradient`].
    pub fn gradient(&self, parameters: &[f32], batch: &Batch, gradient: &mut [f32]) -> Result<SquaredError> {
        if !self.compute.is_composed() {
            return Ok(self.model.gradient(parameters, batch, gradient));
        }
        let (vars, pairs) = (self.variables(parameters)?, batch.pairs());
        let sum = self.sum(&vars, batch)?;
        let mut grads = (&sum / pairs.max(1) as f64)?.backward()?;
        gradient.fill(0.0);
        for (range, var) in &vars {
            if let Some(grad) = grads.remove(var) {
                gradient[range.clone()].copy_from_slice(&grad.flatten_all()?.to_vec1::<f32>()?);
            }
        }
        Ok(SquaredError { sum: read(&sum)?, pairs })
    }

    fn device(&self) -> &Device {
        self.compute.device()
    }

    /// Every matrix: the projection's, the heads', then the mix.
    fn variables(&self, parameters: &[f32]) -> Result<Vec<Placed>> {
        let model = &self.model;
        let mut shapes: Vec<(Range<usize>, Vec<usize>)> = Vec::new();
        if let (Some((first, second)), Some(shape)) = (model.projection(), model.architecture.projection) {
            shapes.push((first, vec![model.d, shape.inner]));
            shapes.push((second, vec![shape.inner, shape.out]));
        }
        for head in 0..model.architecture.heads {
            let (query, key) = model.head(head);
            shapes.push((query, vec![model.width, model.rank]));
            shapes.push((key, vec![model.width, model.rank]));
        }
        if !model.mix().is_empty() {
            shapes.push((model.mix(), vec![model.architecture.heads]));
        }
        let variable = |(range, shape): (Range<usize>, Vec<usize>)| {
            Ok((range.clone(), Var::from_slice(&parameters[range], shape, self.device())?))
        };
        shapes.into_iter().map(variable).collect()
    }

    /// The squared error summed over off-diagonal pairs, as a scalar on the device.
    fn sum(&self, vars: &[Placed], batch: &Batch) -> Result<Tensor> {
        let (mut sum, mut start) = (Tensor::zeros((), DType::F32, self.device())?, 0);
        for (predicted, &size) in self.predicted(vars, batch)?.into_iter().zip(&batch.sizes) {
            let targets = &batch.targets[start..start + size * size];
            let targets = Tensor::from_slice(targets, (size, size), self.device())?;
            let apart = ((predicted - targets)? * off_diagonal(size, self.device())?)?;
            sum = (sum + apart.sqr()?.sum_all()?)?;
            start += size * size;
        }
        Ok(sum)
    }

    /// `D̂` of every example, with zero diagonals.
    fn predicted(&self, vars: &[Placed], batch: &Batch) -> Result<Vec<Tensor>> {
        let (model, rows) = (&self.model, batch.rows());
        let mut x = Tensor::from_slice(&batch.hidden, (rows, model.d), self.device())?;
        let mut left = vars.iter().map(|(_, var)| var.as_tensor());
        let mut next = || left.next().ok_or_else(|| candle_core::Error::msg("a matrix is missing"));
        if let Some(shape) = model.architecture.projection {
            let inner = x.matmul(next()?)?;
            let inner = match shape.nonlinearity {
                Nonlinearity::Relu => inner.relu()?,
                Nonlinearity::Silu => inner.silu()?,
            };
            x = inner.matmul(next()?)?;
        }
        let mut heads = Vec::with_capacity(model.architecture.heads);
        for _ in 0..model.architecture.heads {
            heads.push((x.matmul(next()?)?, x.matmul(next()?)?));
        }
        let weights = match model.architecture.mix {
            MixRule::Mean => None,
            MixRule::Learned => Some(softmax(next()?)?),
        };
        let (mut all, mut start) = (Vec::with_capacity(batch.sizes.len()), 0);
        for &size in &batch.sizes {
            let mut sum = Tensor::zeros((size, size), DType::F32, self.device())?;
            for (index, (q, k)) in heads.iter().enumerate() {
                let (q, k) = (q.narrow(0, start, size)?, k.narrow(0, start, size)?);
                let end = self.end(&(q.matmul(&k.t()?)? * f64::from(model.scale()))?)?;
                let share = match &weights {
                    Some(weights) => end.broadcast_mul(&weights.narrow(0, index, 1)?)?,
                    None => (end / heads.len() as f64)?,
                };
                sum = (sum + share)?;
            }
            all.push((sum * off_diagonal(size, self.device())?)?);
            start += size;
        }
        Ok(all)
    }

    /// What a score ends in.
    fn end(&self, score: &Tensor) -> Result<Tensor> {
        Ok(match self.model.measure {
            Measure::TotalVariation => (score.neg()?.exp()? + 1.0)?.recip()?,
            Measure::Divergence => (score.relu()? + (score.abs()?.neg()?.exp()? + 1.0)?.log()?)?,
        })
    }
}

/// One off the diagonal, zero on it.
fn off_diagonal(size: usize, device: &Device) -> Result<Tensor> {
    Ok((1.0 - Tensor::eye(size, DType::F32, device)?)?)
}

fn softmax(logits: &Tensor) -> Result<Tensor> {
    let exp = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?.exp()?;
    Ok(exp.broadcast_div(&exp.sum_keepdim(D::Minus1)?)?)
}

fn read(scalar: &Tensor) -> Result<f64> {
    Ok(f64::from(scalar.to_scalar::<f32>()?))
}
