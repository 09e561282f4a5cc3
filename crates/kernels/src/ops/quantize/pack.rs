//! Puts quantised numbers where the kernels read them: panels of 16 rows, depths interleaved.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::layout::Layout;
use crate::arch::{COLS, SUB};
use crate::memory::filled;
use crate::ops::gemm::Weights;

/// The weights in `at` as `f32`.
pub(super) fn values(w: Weights<'_>, at: Range<usize>) -> Cow<'_, [f32]> {
    match w {
        Weights::F32(w) => Cow::Borrowed(&w[at]),
        Weights::Bf16(w) => w[at].iter().map(|w| w.to_f32()).collect(),
        Weights::F16(w) => w[at].iter().map(|w| w.to_f32()).collect(),
    }
}

/// Packs what `fill` writes for each row and range of depths, numbers as they are stored, then their factors where there
/// are any; it returns the scale. What no weight fills is zero.
pub(super) fn pack<T: Copy + Send + Sync>(
    layout: Layout,
    none: T,
    fill: impl Fn(usize, Range<usize>, &mut [u8]) -> T + Sync,
) -> (Vec<u8>, Vec<T>) {
    // Factors that belong to no weight are 0x88 too: eight times what is at zero.
    let mut packed = filled(layout.bits.zero(), layout.packed_len());
    let mut scales = vec![none; layout.scales_len()];
    if layout.k > 0 {
        let panels = packed
            .par_chunks_mut(layout.bytes(layout.depth()))
            .zip(scales.par_chunks_mut(layout.groups() * COLS));
        panels.enumerate().for_each(|(panel, (packed, scales))| {
            let most = layout.group.min(layout.k);
            let mut q = vec![0u8; most + layout.factors(most)];
            for group in 0..layout.groups() {
                let (depths, start) = (layout.depths(group), layout.start(group));
                for (col, row) in (panel * COLS..layout.n.min((panel + 1) * COLS)).enumerate() {
                    let q = &mut q[..depths.len() + layout.factors(depths.len())];
                    scales[group * COLS + col] = fill(row, depths.clone(), q);
                    let (q, factors) = q.split_at(depths.len());
                    for (sub, &factor) in factors.iter().enumerate() {
                        packed[layout.factor_place(col, start + sub * SUB)] = factor;
                    }
                    for (d, &q) in q.iter().enumerate() {
                        let (byte, shift) = layout.place(col, start + d);
                        let kept = packed[byte] & !(layout.bits.mask() << shift);
                        packed[byte] = kept | q << shift;
                    }
                }
            }
        });
    }
    (packed, scales)
}
