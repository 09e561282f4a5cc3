//! Rotary position embedding, half-split (NeoX) form, by absolute position; all of a head or its leading dimensions.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};
use demask_kernels as kernels;

use crate::layer::cpu;

/// Rotates every head of every row by the row's position.
#[derive(Debug, Clone, Copy)]
pub struct Rope {
    /// Width of one head.
    pub head_dim: usize,
    /// Leading dimensions of a head that rotate.
    pub rotary: usize,
    /// Base of the geometric series of frequencies.
    pub theta: f64,
}

impl Rope {
    /// `x` is `[rows, heads·head_dim]`, `positions` one absolute position per row.
    pub fn forward(&self, x: &Tensor, positions: &Arc<[u32]>) -> Result<Tensor> {
        let (rows, width) = x.dims2()?;
        if cpu::takes(x) {
            return x.contiguous()?.apply_op1(Op {
                rope: *self,
                positions: positions.clone(),
                inverse: false,
            });
        }
        let half = self.rotary / 2;
        let frequency = |i: usize| self.theta.powf(-2.0 * i as f64 / self.rotary as f64);
        let angles: Vec<f32> = positions
            .iter()
            .flat_map(|&p| (0..half).map(move |i| (f64::from(p) * frequency(i)) as f32))
            .collect();
        let angles = Tensor::from_vec(angles, (rows, 1, half), x.device())?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let heads = x.reshape((rows, width / self.head_dim, self.head_dim))?.to_dtype(DType::F32)?;
        let (a, b) = (heads.narrow(2, 0, half)?, heads.narrow(2, half, half)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        let rest = heads.narrow(2, self.rotary, self.head_dim - self.rotary)?;
        Tensor::cat(&[first, second, rest], 2)?.reshape((rows, width))?.to_dtype(x.dtype())
    }
}

struct Op {
    rope: Rope,
    positions: Arc<[u32]>,
    inverse: bool,
}

impl CustomOp1 for Op {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut out = cpu::slice(x, layout)?.to_vec();
        let Rope { head_dim, rotary, theta } = self.rope;
        let heads =
            kernels::RotaryHeads { count: layout.shape().dims2()?.1 / head_dim, dim: head_dim, rotary };
        kernels::rope_heads(&mut out, &self.positions, heads, theta as f32, self.inverse);
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        // A rotation's transpose is the rotation back.
        let back = Self { rope: self.rope, positions: self.positions.clone(), inverse: !self.inverse };
        Ok(Some(grad.contiguous()?.apply_op1_no_bwd(&back)?))
    }
}
