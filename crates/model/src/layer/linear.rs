//! A linear map `x·Wᵀ + b` whose weights may live in a tensor (trained, or on a GPU), in the mapped
//! checkpoint file in the dtype it was stored in, or quantised to bytes or four bits.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};
use demask_kernels::{self as kernels, Product, QuantizedWeights, Strided};

use crate::checkpoint::{Mapped, Quantized};
use crate::importance::Squares;
use crate::layer::cpu;

/// A linear map with weights `[out, in]`.
#[derive(Debug, Clone)]
pub enum Linear {
    /// Weights in a candle tensor: any device, differentiable.
    Dense {
        /// `[out, in]`
        weight: Tensor,
        /// `[out]`
        bias: Option<Tensor>,
    },
    /// Weights in a candle tensor of any device, multiplied by candle; rows take their number format.
    Composed {
        /// `[out, in]`
        weight: Tensor,
        /// `[out]`
        bias: Option<Tensor>,
    },
    /// Weights in the mapped file: CPU, inference only, never copied.
    Mapped {
        /// `[out, in]`
        weight: Mapped,
        /// `[out]`
        bias: Option<Arc<[f32]>>,
    },
    /// Weights as bytes or four bits: CPU, inference only; activations become bytes on the fly.
    Quantized {
        /// `[out, in]`
        weight: Quantized,
        /// `[out]`
        bias: Option<Arc<[f32]>>,
    },
    /// Another map whose inputs are counted.
    Watched {
        /// The map.
        map: Box<Self>,
        /// What it was given.
        seen: Arc<Squares>,
    },
}

impl Linear {
    /// Whether a backward pass may follow, for which inner activations are kept.
    pub fn is_dense(&self) -> bool {
        matches!(self, Self::Dense { .. })
    }

    /// Whether it is composed of candle's own operations even on the CPU.
    pub fn is_composed(&self) -> bool {
        matches!(self, Self::Composed { .. })
    }

    /// `x` is `[rows, in]`; returns `[rows, out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense { weight, bias } => {
                let y = if cpu::takes(x) {
                    x.contiguous()?.apply_op2(weight, Dense)?
                } else {
                    x.matmul(&weight.t()?)?
                };
                match bias {
                    Some(bias) => y.broadcast_add(bias),
                    None => Ok(y),
                }
            }
            Self::Composed { weight, bias } => {
                let y = x.to_dtype(weight.dtype())?.matmul(&weight.t()?)?;
                match bias {
                    Some(bias) => y.broadcast_add(&bias.to_dtype(y.dtype())?),
                    None => Ok(y),
                }
            }
            Self::Mapped { weight, bias } => {
                x.contiguous()?.apply_op1_no_bwd(&FromFile { weight, bias: bias.as_deref() })
            }
            Self::Quantized { weight, bias } => {
                x.contiguous()?.apply_op1_no_bwd(&FromBytes { weight, bias: bias.as_deref() })
            }
            Self::Watched { map, seen } => {
                let width = x.dim(1)?;
                cpu::with(&x.to_dtype(candle_core::DType::F32)?, |x| seen.add(x, width))?;
                map.forward(x)
            }
        }
    }
}

impl Linear {
    /// The map onto some of the outputs, with the same weights; nothing is copied where that can be helped.
    pub fn rows(&self, rows: Range<usize>) -> Result<Self> {
        let part = |bias: &Option<Arc<[f32]>>| bias.as_ref().map(|b| b[rows.clone()].into());
        Ok(match self {
            Self::Dense { weight, bias } => Self::Dense {
                weight: weight.narrow(0, rows.start, rows.len())?,
                bias: bias.as_ref().map(|b| b.narrow(0, rows.start, rows.len())).transpose()?,
            },
            Self::Composed { weight, bias } => Self::Composed {
                weight: weight.narrow(0, rows.start, rows.len())?,
                bias: bias.as_ref().map(|b| b.narrow(0, rows.start, rows.len())).transpose()?,
            },
            Self::Mapped { weight, bias } => {
                Self::Mapped { weight: weight.rows(rows.clone()), bias: part(bias) }
            }
            Self::Quantized { weight, bias } => match weight.rows(rows.clone()) {
                Some(weight) => Self::Quantized { weight, bias: part(bias) },
                // A cut inside a packed panel: the same weights, unpacked.
                None => Self::Mapped { weight: weight.to_f32().rows(rows.clone()), bias: part(bias) },
            },
            Self::Watched { map, seen } => {
                Self::Watched { map: Box::new(map.rows(rows.clone())?), seen: seen.clone() }
            }
        })
    }

    /// As [`Self::forward`], without tensors around the numbers.
    pub(super) fn on_rows(&self, x: &[f32], rows: usize) -> Result<Vec<f32>> {
        match self {
            Self::Mapped { weight, bias } => {
                let (n, k) = (weight.shape()[0], weight.shape()[1]);
                let mut out = vec![0.0; rows * n];
                kernels::gemm(x, rows, k, weight.weights(), n, bias.as_deref(), &mut out);
                Ok(out)
            }
            Self::Quantized { weight, bias } => {
                let mut out = vec![0.0; rows * weight.shape()[0]];
                kernels::gemm_quantized(x, rows, &weight.weights(), bias.as_deref(), &mut out);
                Ok(out)
            }
            Self::Watched { map, seen } => {
                seen.add(x, x.len() / rows.max(1));
                map.on_rows(x, rows)
            }
            Self::Dense { weight, .. } | Self::Composed { weight, .. } => {
                let x = Tensor::from_slice(x, (rows, weight.dim(1)?), weight.device())?;
                self.forward(&x)?.flatten_all()?.to_vec1()
            }
        }
    }
}

impl Linear {
    /// Several maps of one `x`, whose rows quantised maps share.
    pub fn forward_each<const N: usize>(maps: [&Self; N], x: &Tensor) -> Result<[Tensor; N]> {
        let mut quantized = Vec::with_capacity(N);
        for map in maps {
            let Self::Quantized { weight, bias } = map else { break };
            quantized.push((weight.weights(), bias.as_deref()));
        }
        if quantized.len() < N || !cpu::takes(x) {
            let mut all = maps.iter().map(|map| map.forward(x));
            return array(|| all.next().unwrap_or_else(|| unreachable!("one for each map")));
        }
        let rows = x.dim(0)?;
        let mut outs: [Vec<f32>; N] = std::array::from_fn(|i| vec![0.0; rows * quantized[i].0.n()]);
        cpu::with(x, |x| {
            let with = quantized.iter().zip(&mut outs);
            let mut products: Vec<Product<'_>> =
                with.map(|((w, bias), c)| Product { w, bias: *bias, c }).collect();
            kernels::gemm_quantized_each(x, rows, &mut products);
        })?;
        let mut outs = outs.into_iter().zip(&quantized);
        array(|| {
            let (out, (w, _)) = outs.next().unwrap_or_else(|| unreachable!("one for each map"));
            Tensor::from_vec(out, (rows, w.n()), x.device())
        })
    }

    /// The weights, where they are quantised and there is no bias.
    pub(super) fn quantized(&self) -> Option<QuantizedWeights<'_>> {
        match self {
            Self::Quantized { weight, bias: None } => Some(weight.weights()),
            _ => None,
        }
    }
}

/// An array of what `next` gives, or its first error.
fn array<T, const N: usize>(mut next: impl FnMut() -> Result<T>) -> Result<[T; N]> {
    let all = (0..N).map(|_| next()).collect::<Result<Vec<T>>>()?;
    Ok(all.try_into().unwrap_or_else(|_| unreachable!("there are as many as were asked for")))
}

struct FromFile<'a> {
    weight: &'a Mapped,
    bias: Option<&'a [f32]>,
}

impl CustomOp1 for FromFile<'_> {
    fn name(&self) -> &'static str {
        "linear-mapped"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, k) = layout.shape().dims2()?;
        let n = self.weight.shape()[0];
        let mut out = vec![0.0; rows * n];
        kernels::gemm(cpu::slice(x, layout)?, rows, k, self.weight.weights(), n, self.bias, &mut out);
        Ok((CpuStorage::F32(out), (rows, n).into()))
    }
}

struct FromBytes<'a> {
    weight: &'a Quantized,
    bias: Option<&'a [f32]>,
}

impl CustomOp1 for FromBytes<'_> {
    fn name(&self) -> &'static str {
        "linear-quantized"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, _) = layout.shape().dims2()?;
        let [n, _] = self.weight.shape();
        let mut out = vec![0.0; rows * n];
        kernels::gemm_quantized(cpu::slice(x, layout)?, rows, &self.weight.weights(), self.bias, &mut out);
        Ok((CpuStorage::F32(out), (rows, n).into()))
    }
}

struct Dense;

impl CustomOp2 for Dense {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        w: &CpuStorage,
        wl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ((rows, k), (n, _)) = (xl.shape().dims2()?, wl.shape().dims2()?);
        let mut out = vec![0.0; rows * n];
        let weights = kernels::Weights::F32(cpu::slice(w, wl)?);
        kernels::gemm(cpu::slice(x, xl)?, rows, k, weights, n, None, &mut out);
        Ok((CpuStorage::F32(out), (rows, n).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let ((rows, k), (n, _)) = (x.dims2()?, w.dims2()?);
        let (mut grad_x, mut grad_w) = (vec![0.0; rows * k], vec![0.0; n * k]);
        cpu::with(grad, |g| {
            cpu::with(w, |w| {
                let (g, w) = (Strided { data: g, row: n, col: 1 }, Strided { data: w, row: k, col: 1 });
                kernels::matmul(kernels::Shape { m: rows, n: k, k: n }, g, w, &mut grad_x, false);
            })?;
            cpu::with(x, |x| {
                let (gt, x) = (Strided { data: g, row: 1, col: n }, Strided { data: x, row: k, col: 1 });
                kernels::matmul(kernels::Shape { m: n, n: k, k: rows }, gt, x, &mut grad_w, false);
            })
        })??;
        let grad_x = Tensor::from_vec(grad_x, (rows, k), x.device())?;
        Ok((Some(grad_x), Some(Tensor::from_vec(grad_w, (n, k), w.device())?)))
    }
}
