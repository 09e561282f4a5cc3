//! Layers composed of candle's own operations: what runs on every device but the CPU, and on the CPU as the reference
//! device, so that the same code is tested without a GPU.
//!
//! Invariants: nothing here is read back to the host; statistics (norms, softmax) and rotations are in f32 whatever the
//! activations; keys are never repeated for the query heads that share them, and the scores of a segment are made for a
//! few queries at a time, so no matrix of all queries by all keys exists.

use candle_core::{D, DType, Device, Result, Tensor};
use demask_kernels::Segment;

use super::Attention;

/// Scores that exist at a time.
const SCORES: usize = 1 << 25;

/// RMSNorm of every row.
pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let wide = x.to_dtype(DType::F32)?;
    let mean = (wide.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?;
    let normed = wide.broadcast_div(&mean.sqrt()?)?.to_dtype(x.dtype())?;
    normed.broadcast_mul(&weight.to_dtype(x.dtype())?)
}

/// LayerNorm of every row.
pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    let wide = x.to_dtype(DType::F32)?;
    let centred = wide.broadcast_sub(&wide.mean_keepdim(D::Minus1)?)?;
    let variance = (centred.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?;
    let normed = centred.broadcast_div(&variance.sqrt()?)?.broadcast_mul(&weight.to_dtype(DType::F32)?)?;
    normed.broadcast_add(&bias.to_dtype(DType::F32)?)?.to_dtype(x.dtype())
}

/// `x + y` in the number format of the stream.
pub(super) fn add(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x + y.to_dtype(x.dtype())?
}

/// Cosines and sines of the angles by which rows turn, `[rows, 1, rotary/2]` each.
#[derive(Debug, Clone)]
pub struct Angles {
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    /// Of all positions below `count`.
    pub fn table(count: usize, rotary: usize, theta: f64, device: &Device) -> Result<Self> {
        let half = rotary / 2;
        let frequencies: Vec<f64> = (0..half).map(|i| theta.powf(-2.0 * i as f64 / rotary as f64)).collect();
        let angle = |index: usize| (index / half) as f64 * frequencies[index % half];
        let angles: Vec<f32> = (0..count * half).map(|index| angle(index) as f32).collect();
        let angles = Tensor::from_vec(angles, (count, 1, half), device)?;
        Ok(Self { cos: angles.cos()?, sin: angles.sin()? })
    }

    /// Positions it knows.
    pub fn len(&self) -> usize {
        self.cos.dims()[0]
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those of some rows.
    pub fn select(&self, rows: &Tensor) -> Result<Self> {
        Ok(Self { cos: self.cos.index_select(rows, 0)?, sin: self.sin.index_select(rows, 0)? })
    }

    /// Turns every head of every row.
    pub(super) fn turn(&self, x: &Tensor, head_dim: usize, rotary: usize) -> Result<Tensor> {
        let (rows, width) = x.dims2()?;
        let half = rotary / 2;
        let heads = x.reshape((rows, width / head_dim, head_dim))?.to_dtype(DType::F32)?;
        let (a, b) = (heads.narrow(2, 0, half)?, heads.narrow(2, half, half)?);
        let first = (a.broadcast_mul(&self.cos)? - b.broadcast_mul(&self.sin)?)?;
        let second = (b.broadcast_mul(&self.cos)? + a.broadcast_mul(&self.sin)?)?;
        let turned = if rotary == head_dim {
            Tensor::cat(&[first, second], 2)?
        } else {
            Tensor::cat(&[first, second, heads.narrow(2, rotary, head_dim - rotary)?], 2)?
        };
        turned.reshape((rows, width))?.to_dtype(x.dtype())
    }
}

/// Attention of all segments, `[queries, heads·dim]`, in their order.
pub(super) fn attend(
    shape: &Attention,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    segments: &[Segment],
) -> Result<Tensor> {
    #[cfg(feature = "flash-attn")]
    if let Some(out) = super::flash::attend(shape, q, k, v, segments)? {
        return Ok(out);
    }
    let parts: Vec<Tensor> =
        segments.iter().map(|segment| attend_segment(shape, q, k, v, segment)).collect::<Result<_>>()?;
    Tensor::cat(&parts, 0)
}

/// Attention of one segment.
fn attend_segment(
    shape: &Attention,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    segment: &Segment,
) -> Result<Tensor> {
    let (keys, values) = (of_heads(shape, k, segment)?, of_heads(shape, v, segment)?);
    let transposed = keys.transpose(1, 2)?;
    let at_once = (SCORES / (shape.heads * segment.k.len()).max(1)).max(1);
    let mut parts = Vec::with_capacity(segment.q.len().div_ceil(at_once));
    for start in segment.q.clone().step_by(at_once) {
        let rows = at_once.min(segment.q.end - start);
        let weights = weights(shape, q, &transposed, segment, start, rows)?;
        let out = weights.to_dtype(values.dtype())?.matmul(&values)?;
        // [kv, group·rows, dim] → [rows, kv·group·dim]
        let group = shape.heads / shape.kv_heads;
        let out = out.reshape((shape.kv_heads, group, rows, shape.head_dim))?.permute((2, 0, 1, 3))?;
        parts.push(out.reshape((rows, shape.heads * shape.head_dim))?);
    }
    if parts.len() == 1 { Ok(parts.remove(0)) } else { Tensor::cat(&parts, 0) }
}

/// Probabilities of one segment averaged over heads, `[queries, keys]`.
pub(super) fn mean_probabilities(
    shape: &Attention,
    q: &Tensor,
    k: &Tensor,
    segment: &Segment,
) -> Result<Tensor> {
    let transposed = of_heads(shape, k, segment)?.transpose(1, 2)?;
    let at_once = (SCORES / (shape.heads * segment.k.len()).max(1)).max(1);
    let mut parts = Vec::with_capacity(segment.q.len().div_ceil(at_once));
    for start in segment.q.clone().step_by(at_once) {
        let rows = at_once.min(segment.q.end - start);
        let weights = weights(shape, q, &transposed, segment, start, rows)?;
        parts.push(weights.reshape((shape.heads, rows, segment.k.len()))?.mean(0)?);
    }
    Tensor::cat(&parts, 0)
}

/// `[kv, keys, dim]` of a segment's keys or values.
fn of_heads(shape: &Attention, x: &Tensor, segment: &Segment) -> Result<Tensor> {
    let rows = x.narrow(0, segment.k.start, segment.k.len())?;
    rows.reshape((segment.k.len(), shape.kv_heads, shape.head_dim))?.transpose(0, 1)?.contiguous()
}

/// Softmax of the scores of some queries in f32, `[kv, group·rows, keys]`: query heads of one key head lie together.
fn weights(
    shape: &Attention,
    q: &Tensor,
    keys: &Tensor,
    segment: &Segment,
    start: usize,
    rows: usize,
) -> Result<Tensor> {
    let group = shape.heads / shape.kv_heads;
    let q = q.narrow(0, start, rows)?.reshape((rows, shape.kv_heads, group, shape.head_dim))?;
    let q = q.permute((1, 2, 0, 3))?.contiguous()?.reshape((shape.kv_heads, group * rows, shape.head_dim))?;
    let scores = q.matmul(keys)?.to_dtype(DType::F32)?;
    let scores = (scores / (shape.head_dim as f64).sqrt())?;
    let scores = match segment.causal_offset {
        None => scores,
        Some(offset) => {
            let (first, keys) = (start - segment.q.start, segment.k.len());
            let hide = |i: usize, j: usize| if j > first + i + offset { f32::NEG_INFINITY } else { 0.0 };
            let bias: Vec<f32> = (0..rows * keys).map(|index| hide(index / keys, index % keys)).collect();
            let bias = Tensor::from_vec(bias, (1, rows, keys), scores.device())?;
            let apart = scores.reshape((shape.heads, rows, keys))?.broadcast_add(&bias)?;
            apart.reshape((shape.kv_heads, group * rows, keys))?
        }
    };
    // The largest score only keeps exp in range: no gradient flows through it.
    let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
    scores.broadcast_div(&scores.sum_keepdim(D::Minus1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A half overflows at 65,504, which is the square of 256.
    #[test]
    fn norms_of_halves_are_taken_in_f32() {
        for (dtype, near) in [(DType::F16, 2e-3), (DType::BF16, 2e-2)] {
            let (x, d) = (Tensor::new(&[[300.0_f32, -4000.0, 20000.0, 60000.0]], &Device::Cpu).unwrap(), 4);
            let ones = Tensor::ones(d, dtype, &Device::Cpu).unwrap();
            let zeros = ones.zeros_like().unwrap();
            let halves = x.to_dtype(dtype).unwrap();
            let read = |t: Tensor| t.to_dtype(DType::F32).unwrap().to_vec2::<f32>().unwrap().remove(0);
            let numbers = read(x);
            let (mean, n) = (numbers.iter().sum::<f32>() / d as f32, d as f32);
            let rms = (numbers.iter().map(|v| v * v).sum::<f32>() / n).sqrt();
            let deviation = (numbers.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / n).sqrt();
            let both = [
                (read(rms_norm(&halves, &ones, 1e-6).unwrap()), 0.0, rms),
                (read(layer_norm(&halves, &ones, &zeros, 1e-6).unwrap()), mean, deviation),
            ];
            for (found, from, by) in both {
                for (found, v) in found.iter().zip(&numbers) {
                    assert!((found - (v - from) / by).abs() < near, "{dtype:?}: {found} {}", (v - from) / by);
                }
            }
        }
    }
}
