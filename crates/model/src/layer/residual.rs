//! The residual sum around each half of a block.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use demask_kernels as kernels;

use crate::layer::cpu;

/// `x + y`, of one shape. candle's own sum hands large tensors to a pool of spinning threads besides ours.
pub fn residual(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if cpu::takes(x) && cpu::takes(y) && x.shape() == y.shape() {
        return x.contiguous()?.apply_op2(&y.contiguous()?, Op);
    }
    x + y
}

struct Op;

impl CustomOp2 for Op {
    fn name(&self) -> &'static str {
        "residual"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        y: &CpuStorage,
        yl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, y) = (cpu::slice(x, xl)?, cpu::slice(y, yl)?);
        let mut out = vec![0.0; x.len()];
        kernels::add(x, y, &mut out);
        Ok((CpuStorage::F32(out), xl.shape().clone()))
    }

    fn bwd(
        &self,
        _: &Tensor,
        _: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((Some(grad.clone()), Some(grad.clone())))
    }
}
