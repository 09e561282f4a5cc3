//! CPU compute on slices: GEMM, attention, normalisation, rotary embedding, softmax statistics, total variation.
//!
//! Everything is row-major `f32` unless said. Shape mistakes are programming errors and panic with the two sizes that
//! disagree; values (NaN, infinities, denormals) never do. No result depends on the number of threads.

#![allow(
    unsafe_code,
    reason = "instructions, disjoint tiles and packed panels; every block says why it is sound"
)]

mod arch;
mod dispatch;
mod math;
mod memory;
mod meter;
mod ops;
mod pack;
mod parallel;
mod product;
mod tile;
mod tile_bytes;

pub use dispatch::{Isa, force, isa};
pub use memory::{give_back_memory, reuse_freed_memory};
pub use meter::{Counted, Meter, meter};
pub use ops::add::add;
pub use ops::attention::{Heads, Segment, attention, attention_backward};
pub use ops::gelu::{Pointwise, pointwise};
pub use ops::gemm::{Weights, gemm};
pub use ops::gemm_quantized::{Product, gemm_quantized, gemm_quantized_each, gemm_silu_gate};
pub use ops::layer_norm::layer_norm;
pub use ops::matmul::{Shape, Strided, matmul};
pub use ops::matmul_bf16::{has_bf16_products, matmul_bf16};
pub use ops::peak::{bandwidth, peak_fma, peak_four, peak_int8};
pub use ops::quantize::{Bits, QuantizeError, QuantizedWeights, Scales};
pub use ops::rms_norm::{rms_norm, rms_norm_backward};
pub use ops::rope::{RotaryHeads, rope, rope_heads};
pub use ops::silu_gate::{silu_gate, silu_gate_backward};
pub use ops::softmax_stats::{SoftmaxStats, softmax_stats};
pub use ops::total_variation::total_variation;
pub use parallel::{least_run, on_this_thread, threads};
