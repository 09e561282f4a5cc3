//! Rotary position embedding, half-split (NeoX) form, by absolute position; all of a head or its leading dimensions.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use demask_kernels as kernels;

use crate::layer::{Angles, cpu};

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

/// Where rows stand, and on a device the angles of that, which every layer of a pass shares.
#[derive(Debug, Clone)]
pub struct Turn {
    positions: Arc<[u32]>,
    angles: Option<Angles>,
}

impl From<&Arc<[u32]>> for Turn {
    fn from(positions: &Arc<[u32]>) -> Self {
        Self { positions: positions.clone(), angles: None }
    }
}

impl Turn {
    /// Rows whose angles lie on a device already.
    pub fn on_device(positions: &Arc<[u32]>, angles: Angles) -> Self {
        Self { positions: positions.clone(), angles: Some(angles) }
    }

    /// Some of the rows, which stand at these positions.
    pub fn select(&self, rows: &Tensor, positions: &Arc<[u32]>) -> Result<Self> {
        let angles = self.angles.as_ref().map(|angles| angles.select(rows)).transpose()?;
        Ok(Self { positions: positions.clone(), angles })
    }
}

impl Rope {
    /// `x` is `[rows, heads·head_dim]`, `turn` the absolute position of each row.
    pub fn forward(&self, x: &Tensor, turn: &Turn) -> Result<Tensor> {
        if let Some(angles) = &turn.angles {
            return angles.turn(x, self.head_dim, self.rotary);
        }
        if cpu::takes(x) {
            let positions = turn.positions.clone();
            return x.contiguous()?.apply_op1(Op { rope: *self, positions, inverse: false });
        }
        // Training on a device: no table is at hand.
        let positions = Tensor::new(&*turn.positions, x.device())?;
        let count = turn.positions.iter().max().map_or(0, |&last| last as usize + 1);
        let angles = Angles::table(count, self.rotary, self.theta, x.device())?.select(&positions)?;
        angles.turn(x, self.head_dim, self.rotary)
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
