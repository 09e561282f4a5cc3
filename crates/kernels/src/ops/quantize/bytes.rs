//! Eight bits: `w ≈ scale · q` with `q` in −127..=127 and `scale = max|w| / 127` over the group, rounded to nearest.

use super::layout::Layout;
use super::pack::{pack, values};
use super::{Bits, QuantizeError, QuantizedWeights, Scales};
use crate::arch::round;
use crate::ops::gemm::Weights;

/// How a group of numbers becomes bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// What a byte is worth: NaN if a number is not finite, zero if all are zero or too small to divide by.
    pub(crate) scale: f32,
    pub(crate) inverse: f32,
}

impl Step {
    #[inline(always)]
    pub(crate) fn of(group: &[f32]) -> Self {
        // As bits, NaN is above infinity and infinity above every number, so nothing is lost on the way.
        let bits = group.iter().fold(0u32, |most, x| most.max(x.to_bits() & 0x7fff_ffff));
        let most = f32::from_bits(bits);
        if !most.is_finite() {
            Self { scale: f32::NAN, inverse: 0.0 }
        } else if most < 1e-36 {
            Self { scale: 0.0, inverse: 0.0 }
        } else {
            Self { scale: most / 127.0, inverse: 127.0 / most }
        }
    }

    /// The byte nearest to `x`, ties to even.
    #[inline(always)]
    fn round(self, x: f32) -> i8 {
        round(x, self.inverse)
    }
}

/// A signed byte as panels hold it.
fn stored(q: i8) -> u8 {
    q.wrapping_add(-128) as u8
}

impl QuantizedWeights<'static> {
    /// Quantises `w` (`[n, k]`) to bytes in groups of `group` depths.
    ///
    /// # Errors
    /// If the group is out of range or `w` has another length.
    pub fn quantize(w: Weights<'_>, n: usize, k: usize, group: usize) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group, Bits::Eight)?;
        layout.expect("weights", n * k, w.len())?;
        let (packed, scales) = pack(layout, 0.0f32, |row, depths, q| {
            let group = values(w, row * k + depths.start..row * k + depths.end);
            let step = Step::of(&group);
            for (q, &w) in q.iter_mut().zip(group.iter()) {
                *q = stored(step.round(w));
            }
            step.scale
        });
        Ok(Self { layout, packed: packed.into(), scales: Scales::Single(scales.into()) })
    }

    /// Packs bytes quantised elsewhere: `q` is `[n, k]`, `scales` `[n, k / group]` (rounded up). Q8_0 is group 32.
    ///
    /// # Errors
    /// If the group is out of range or a slice has another length.
    pub fn from_rows(
        q: &[i8],
        scales: &[f32],
        n: usize,
        k: usize,
        group: usize,
    ) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group, Bits::Eight)?;
        layout.expect("bytes", n * k, q.len())?;
        layout.expect("scales", n * layout.groups(), scales.len())?;
        let (packed, scales) = pack(layout, 0.0f32, |row, depths, to| {
            for (to, &q) in to.iter_mut().zip(&q[row * k + depths.start..row * k + depths.end]) {
                *to = stored(q);
            }
            scales[row * layout.groups() + depths.start / group]
        });
        Ok(Self { layout, packed: packed.into(), scales: Scales::Single(scales.into()) })
    }
}
