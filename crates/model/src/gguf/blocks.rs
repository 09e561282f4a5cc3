//! GGUF's blocks of 32 weights (Q8_0, Q4_0) and of 256 (Q4_K) in the packed form of the kernels, bits as they are.
//!
//! Q8_0 and Q4_0 keep every number. A Q4_K weight is `d·s·q − dmin·m` with 6-bit `s` and `m`; it becomes
//! `scale·(q − 8) + offset` with both in half precision, which moves a weight by at most 1/500 of a quantisation step.

use candle_core::quantized::GgmlDType;
use demask_kernels::{QuantizeError, QuantizedWeights};
use half::f16;
use rayon::prelude::*;

/// Depths that share a scale.
pub(super) const BLOCK: usize = 32;
/// Weights of a Q4_K block.
const SUPER: usize = 256;

/// Whether a weight of the format takes about four bits.
pub(super) fn is_four_bits(dtype: GgmlDType) -> bool {
    matches!(dtype, GgmlDType::Q4_0 | GgmlDType::Q4K)
}

/// The matrix of `[n, k]` weights whose row `row` is `row_of(row)` of the file; `None` for other formats.
pub(super) fn pack(
    dtype: GgmlDType,
    bytes: &[u8],
    [n, k]: [usize; 2],
    row_of: impl Fn(usize) -> usize + Sync,
) -> Option<Result<QuantizedWeights<'static>, QuantizeError>> {
    let width = k / dtype.block_size() * dtype.type_size();
    let rows = || (0..n).into_par_iter().map(|row| &bytes[row_of(row) * width..][..width]);
    let groups = k / BLOCK;
    match dtype {
        GgmlDType::Q8_0 => {
            let (mut q, mut scales) = (vec![0_i8; n * k], vec![0.0_f32; n * groups]);
            let to = q.par_chunks_mut(k).zip(scales.par_chunks_mut(groups));
            rows().zip(to).for_each(|(row, (q, scales))| {
                for ((block, q), scale) in row.chunks_exact(34).zip(q.chunks_exact_mut(BLOCK)).zip(scales) {
                    *scale = half(block, 0).to_f32();
                    q.iter_mut().zip(&block[2..]).for_each(|(q, &byte)| *q = byte as i8);
                }
            });
            Some(QuantizedWeights::from_rows(&q, &scales, n, k, BLOCK))
        }
        GgmlDType::Q4_0 => {
            let (mut q, mut scales) = (vec![0_u8; n * k], vec![f16::ZERO; n * groups]);
            let to = q.par_chunks_mut(k).zip(scales.par_chunks_mut(groups));
            rows().zip(to).for_each(|(row, (q, scales))| {
                for ((block, q), scale) in row.chunks_exact(18).zip(q.chunks_exact_mut(BLOCK)).zip(scales) {
                    *scale = half(block, 0);
                    halves(&block[2..], q);
                }
            });
            Some(QuantizedWeights::from_nibbles(&q, &scales, None, n, k, BLOCK))
        }
        GgmlDType::Q4K => {
            let mut q = vec![0_u8; n * k];
            let (mut scales, mut offsets) = (vec![f16::ZERO; n * groups], vec![f16::ZERO; n * groups]);
            let to = scales.par_chunks_mut(groups).zip(offsets.par_chunks_mut(groups));
            rows().zip(q.par_chunks_mut(k)).zip(to).for_each(|((row, q), (scales, offsets))| {
                let groups = SUPER / BLOCK;
                let to = scales.chunks_exact_mut(groups).zip(offsets.chunks_exact_mut(groups));
                for ((block, q), (scales, offsets)) in
                    row.chunks_exact(144).zip(q.chunks_exact_mut(SUPER)).zip(to)
                {
                    q4_k(block, q, scales, offsets);
                }
            });
            Some(QuantizedWeights::from_nibbles(&q, &scales, Some(&offsets), n, k, BLOCK))
        }
        _ => None,
    }
}

/// The half-precision number at `at`.
fn half(block: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([block[at], block[at + 1]])
}

/// The low halves of some bytes, then the high ones.
fn halves(bytes: &[u8], out: &mut [u8]) {
    let (low, high) = out.split_at_mut(bytes.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
}

/// `d`, `dmin`, eight pairs of 6 bits in twelve bytes, then four times 32 bytes of two groups each.
fn q4_k(block: &[u8], q: &mut [u8], scales: &mut [f16], offsets: &mut [f16]) {
    let (d, least, pairs) = (half(block, 0).to_f32(), half(block, 2).to_f32(), &block[4..16]);
    for group in 0..SUPER / BLOCK {
        let (s, m) = if group < 4 {
            (pairs[group] & 63, pairs[group + 4] & 63)
        } else {
            let (low, high) = (pairs[group + 4], [pairs[group - 4], pairs[group]]);
            (low & 15 | high[0] >> 6 << 4, low >> 4 | high[1] >> 6 << 4)
        };
        let scale = d * f32::from(s);
        scales[group] = f16::from_f32(scale);
        offsets[group] = f16::from_f32(8.0 * scale - least * f32::from(m));
    }
    for (bytes, q) in block[16..].chunks_exact(BLOCK).zip(q.chunks_exact_mut(2 * BLOCK)) {
        halves(bytes, q);
    }
}
