//! The safe API, one operation per file.

pub(crate) mod add;
pub(crate) mod attention;
pub(crate) mod gelu;
pub(crate) mod gemm;
pub(crate) mod gemm_quantized;
pub(crate) mod layer_norm;
pub(crate) mod matmul;
pub(crate) mod matmul_bf16;
pub(crate) mod peak;
pub(crate) mod quantize;
pub(crate) mod rms_norm;
pub(crate) mod rope;
pub(crate) mod silu_gate;
pub(crate) mod softmax_stats;
pub(crate) mod total_variation;
