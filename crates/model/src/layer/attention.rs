//! Grouped-query attention over packed canvases: rows of all canvases lie in one matrix, and
//! [`Segment`]s say which query rows see which key rows, so no padding exists to leak.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};
use demask_kernels::{self as kernels, Heads, Segment};
use rayon::prelude::*;

use crate::layer::{composed, cpu};

/// Head counts and width of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Of candle's own operations even on the CPU.
    pub composed: bool,
}

/// Shadows whose keys are gathered at a time; bounds the memory that takes.
const SHADOWS_AT_ONCE: usize = 16;

/// Which keys a shadow row sees: those of its canvas but one, and those of the shadows of that canvas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowKeys {
    /// Keys of the canvas.
    pub canvas: Range<usize>,
    /// The key among them that is hidden.
    pub hidden: usize,
    /// Keys of the shadows.
    pub shadows: Range<usize>,
}

impl ShadowKeys {
    /// The keys it sees.
    fn visible(&self) -> impl Iterator<Item = Range<usize>> {
        let before = self.canvas.start..self.hidden;
        let after = self.hidden + 1..self.canvas.end;
        [before, after, self.shadows.clone()].into_iter().filter(|r| !r.is_empty())
    }
}

/// Keys and values of one canvas in memory of their own, and the queries that see them.
#[derive(Debug)]
pub struct OwnKeys<'a> {
    /// `[keys, kv_heads·dim]`
    pub keys: &'a [f32],
    /// The same of values.
    pub values: &'a [f32],
    /// Which of all queries see which of these keys; consecutive queries.
    pub segments: Vec<Segment>,
}

type Grads = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

impl Attention {
    /// `q` is `[rows, heads·dim]`, `k` and `v` are `[keys, kv_heads·dim]`; returns `[rows, heads·dim]`.
    pub fn forward(&self, q: &Tensor, k: &Tensor, v: &Tensor, segments: &Arc<[Segment]>) -> Result<Tensor> {
        if cpu::takes(q) && !self.composed {
            let op = Op { attention: *self, segments: segments.clone(), lse: OnceLock::new() };
            return q.contiguous()?.apply_op3(&k.contiguous()?, &v.contiguous()?, op);
        }
        composed::attend(self, q, k, v, segments)
    }

    /// As [`Self::forward`], where the last rows of `q` are these shadows, in order.
    pub fn forward_with(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        segments: &Arc<[Segment]>,
        shadows: &[ShadowKeys],
    ) -> Result<Tensor> {
        if shadows.is_empty() {
            return self.forward(q, k, v, segments);
        }
        let real = q.dim(0)? - shadows.len();
        let mut parts = Vec::new();
        if real > 0 {
            parts.push(self.forward(&q.narrow(0, 0, real)?, k, v, segments)?);
        }
        for (index, some) in shadows.chunks(SHADOWS_AT_ONCE).enumerate() {
            let q = q.narrow(0, real + index * SHADOWS_AT_ONCE, some.len())?;
            let (mut keys, mut values, mut segments, mut start) = (Vec::new(), Vec::new(), Vec::new(), 0);
            for (row, shadow) in some.iter().enumerate() {
                for range in shadow.visible() {
                    keys.push(k.narrow(0, range.start, range.len())?);
                    values.push(v.narrow(0, range.start, range.len())?);
                }
                let end = start + shadow.visible().map(|r| r.len()).sum::<usize>();
                segments.push(Segment { q: row..row + 1, k: start..end, causal_offset: None });
                start = end;
            }
            let (keys, values) = (Tensor::cat(&keys, 0)?, Tensor::cat(&values, 0)?);
            parts.push(self.forward(&q, &keys, &values, &segments.into())?);
        }
        Tensor::cat(&parts, 0)
    }

    /// Queries on the CPU that see keys lying apart, canvas by canvas; together the canvases hold all rows of `q` in order.
    pub fn forward_own(&self, q: &Tensor, parts: &[OwnKeys<'_>]) -> Result<Tensor> {
        let (rows, width) = q.dims2()?;
        let mut out = vec![0.0; rows * width];
        cpu::with(q, |q| {
            let (mut tasks, mut rest) = (Vec::with_capacity(parts.len()), out.as_mut_slice());
            for part in parts {
                let rows = part.segments.iter().map(|s| s.q.len()).sum::<usize>();
                let (own, after) = rest.split_at_mut(rows * width);
                tasks.push((part, own));
                rest = after;
            }
            let each = tasks.into_par_iter().with_min_len(kernels::least_run());
            each.for_each(|(part, out)| {
                let start = part.segments.first().map_or(0, |s| s.q.start);
                let q = &q[start * width..start * width + out.len()];
                let from_first = |s: &Segment| Segment { q: s.q.start - start..s.q.end - start, ..s.clone() };
                let segments: Vec<Segment> = part.segments.iter().map(from_first).collect();
                kernels::attention(q, part.keys, part.values, self.kernel_heads(), &segments, out, None);
            });
        })?;
        Tensor::from_vec(out, (rows, width), q.device())
    }

    /// Attention probabilities of each segment, averaged over heads: `[q_rows, k_rows]` each.
    pub fn mean_probabilities(&self, q: &Tensor, k: &Tensor, segments: &[Segment]) -> Result<Vec<Tensor>> {
        segments.iter().map(|s| composed::mean_probabilities(self, q, k, s)).collect()
    }

    fn kernel_heads(&self) -> Heads {
        Heads { query: self.heads, kv: self.kv_heads, dim: self.head_dim }
    }
}

struct Op {
    attention: Attention,
    segments: Arc<[Segment]>,
    /// Row statistics of the forward pass, kept for the backward pass.
    lse: OnceLock<Vec<f32>>,
}

impl CustomOp3 for Op {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        ql: &Layout,
        k: &CpuStorage,
        kl: &Layout,
        v: &CpuStorage,
        vl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (q, k, v) = (cpu::slice(q, ql)?, cpu::slice(k, kl)?, cpu::slice(v, vl)?);
        let mut out = vec![0.0; q.len()];
        let mut lse = vec![0.0; q.len() / self.attention.head_dim];
        kernels::attention(q, k, v, self.attention.kernel_heads(), &self.segments, &mut out, Some(&mut lse));
        let _ = self.lse.set(lse);
        Ok((CpuStorage::F32(out), ql.shape().clone()))
    }

    fn bwd(&self, q: &Tensor, k: &Tensor, v: &Tensor, out: &Tensor, grad: &Tensor) -> Result<Grads> {
        let Some(lse) = self.lse.get() else { candle_core::bail!("attention: backward before forward") };
        let zeros = |t: &Tensor| vec![0.0_f32; t.elem_count()];
        let (mut gq, mut gk, mut gv) = (zeros(q), zeros(k), zeros(v));
        let heads = self.attention.kernel_heads();
        cpu::with(q, |q| {
            cpu::with(k, |k| {
                cpu::with(v, |v| {
                    cpu::with(out, |out| {
                        cpu::with(grad, |g| {
                            kernels::attention_backward(
                                q,
                                k,
                                v,
                                out,
                                lse,
                                g,
                                heads,
                                &self.segments,
                                &mut gq,
                                &mut gk,
                                &mut gv,
                            );
                        })
                    })
                })
            })
        })?????;
        let tensor = |data, like: &Tensor| Tensor::from_vec(data, like.shape(), like.device()).map(Some);
        Ok((tensor(gq, q)?, tensor(gk, k)?, tensor(gv, v)?))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// Softmax attention of one query over the keys named, in plain loops.
    fn naive(a: &Attention, q: &[f32], k: &[Vec<f32>], v: &[Vec<f32>], keys: &[usize]) -> Vec<f32> {
        let group = a.heads / a.kv_heads;
        let mut out = Vec::new();
        for head in 0..a.heads {
            let part = |row: &[f32], head: usize| row[head * a.head_dim..(head + 1) * a.head_dim].to_vec();
            let q = part(q, head);
            let score = |&j: &usize| {
                let dot: f32 = part(&k[j], head / group).iter().zip(&q).map(|(a, b)| a * b).sum();
                dot / (a.head_dim as f32).sqrt()
            };
            let weights: Vec<f32> = keys.iter().map(|j| score(j).exp()).collect();
            let total: f32 = weights.iter().sum();
            for d in 0..a.head_dim {
                let sum: f32 =
                    keys.iter().zip(&weights).map(|(&j, w)| w * part(&v[j], head / group)[d]).sum();
                out.push(sum / total);
            }
        }
        out
    }

    #[test]
    fn a_shadow_sees_all_but_its_own_position() {
        let attention = Attention { heads: 4, kv_heads: 2, head_dim: 4, composed: false };
        let number = |i: usize| ((i * 37 % 101) as f32 / 101.0 - 0.5) * 3.0;
        let matrix = |rows: usize, width: usize, salt: usize| -> Vec<Vec<f32>> {
            (0..rows).map(|r| (0..width).map(|c| number(r * width + c + salt)).collect()).collect()
        };
        // Canvases of 5 and 3 rows, then shadows of positions 2 and 3 of the first and 0 of the second.
        let (q, k, v) = (matrix(11, 16, 1), matrix(11, 8, 7), matrix(11, 8, 13));
        let tensor = |rows: &[Vec<f32>]| {
            Tensor::from_vec(rows.concat(), (rows.len(), rows[0].len()), &Device::Cpu).unwrap()
        };
        let segments: Arc<[Segment]> =
            [0..5, 5..8].map(|r: Range<usize>| Segment { q: r.clone(), k: r, causal_offset: None }).into();
        let shadows = [
            ShadowKeys { canvas: 0..5, hidden: 2, shadows: 8..10 },
            ShadowKeys { canvas: 0..5, hidden: 3, shadows: 8..10 },
            ShadowKeys { canvas: 5..8, hidden: 5, shadows: 10..11 },
        ];
        let (qs, ks, vs) = (tensor(&q), tensor(&k), tensor(&v));
        let out = attention.forward_with(&qs, &ks, &vs, &segments, &shadows).unwrap();
        let out = out.to_vec2::<f32>().unwrap();
        let seen: [&[usize]; 3] = [&[0, 1, 3, 4, 8, 9], &[0, 1, 2, 4, 8, 9], &[6, 7, 10]];
        let real = (0..8).map(|r| if r < 5 { vec![0, 1, 2, 3, 4] } else { vec![5, 6, 7] });
        for (row, keys) in real.chain(seen.map(<[usize]>::to_vec)).enumerate() {
            let expected = naive(&attention, &q[row], &k, &v, &keys);
            let far = out[row].iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far < 1e-5, "row {row} differs by {far}");
        }
    }
}
