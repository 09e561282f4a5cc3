//! Four bits: `w ≈ scale · q + offset` with `q` in −8..=7, scales and offsets in half precision.
//!
//! Our own weights have no offset, and the scale is the one of least squared error among some near `w / −8` for the `w` of
//! largest magnitude, large weights counting more: what is large often meets what is large. `docs/numerics.md` has the
//! numbers that chose this. Q4_0 is the same form with a group of 32; Q4_K has offsets.

use half::f16;

use super::layout::Layout;
use super::pack::{pack, values};
use super::{Bits, QuantizeError, QuantizedWeights, Scales};
use crate::arch::Op;
use crate::arch::Simd;
use crate::dispatch::Level;
use crate::ops::gemm::Weights;

impl QuantizedWeights<'static> {
    /// Quantises `w` (`[n, k]`) to four bits in groups of `group` depths. `importance` (`[k]`) weighs the squared error of
    /// each depth: the mean square of what the depth is multiplied by, where that is known. Where it is not, a weight `w`
    /// counts `w² + mean w²` of its group.
    ///
    /// # Errors
    /// If the group is out of range or a slice has another length.
    pub fn quantize_four(
        w: Weights<'_>,
        n: usize,
        k: usize,
        group: usize,
        importance: Option<&[f32]>,
    ) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group, Bits::Four)?;
        layout.expect("weights", n * k, w.len())?;
        if let Some(importance) = importance {
            layout.expect("importances", k, importance.len())?;
        }
        let level = Level::active();
        let (packed, scales) = pack(layout, f16::ZERO, |row, depths, q| {
            let group = values(w, row * k + depths.start..row * k + depths.end);
            let importance = importance.map(|importance| &importance[depths]);
            level.run(Nearest { group: &group, importance, q })
        });
        Ok(Self { layout, packed: packed.into(), scales: Scales::Half(scales.into(), None) })
    }

    /// Packs four-bit numbers quantised elsewhere: `q` is `[n, k]` of 0..=15, which stand for −8..=7, `scales` and
    /// `offsets` are `[n, k / group]` (rounded up).
    ///
    /// # Errors
    /// If the group is out of range or a slice has another length.
    pub fn from_nibbles(
        q: &[u8],
        scales: &[f16],
        offsets: Option<&[f16]>,
        n: usize,
        k: usize,
        group: usize,
    ) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group, Bits::Four)?;
        layout.expect("nibbles", n * k, q.len())?;
        layout.expect("scales", n * layout.groups(), scales.len())?;
        layout.expect("offsets", n * layout.groups(), offsets.map_or(scales.len(), <[f16]>::len))?;
        let (packed, both) = pack(layout, (f16::ZERO, f16::ZERO), |row, depths, to| {
            for (to, &q) in to.iter_mut().zip(&q[row * k + depths.start..row * k + depths.end]) {
                *to = q & 15;
            }
            let at = row * layout.groups() + depths.start / group;
            (scales[at], offsets.map_or(f16::ZERO, |offsets| offsets[at]))
        });
        let scales: Vec<f16> = both.iter().map(|(scale, _)| *scale).collect();
        let offsets = offsets.map(|_| both.iter().map(|(_, offset)| *offset).collect::<Vec<_>>().into());
        Ok(Self { layout, packed: packed.into(), scales: Scales::Half(scales.into(), offsets) })
    }
}

/// Quotients tried, in units of the number of largest magnitude.
const QUOTIENTS: [f32; 9] = [-8.0, -7.0, -7.35, -7.7, -8.3, -8.6, -8.9, 7.5, 8.2];

/// The numbers nearest to a group and their scale.
struct Nearest<'a> {
    group: &'a [f32],
    importance: Option<&'a [f32]>,
    q: &'a mut [u8],
}

impl Op for Nearest<'_> {
    type Out = f16;

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> f16 {
        if self.group.iter().any(|w| !w.is_finite()) {
            self.q.fill(8);
            return f16::NAN;
        }
        let scale = f16::from_f32(scale(self.group, self.importance));
        let wide = scale.to_f32();
        let inverse = if wide == 0.0 { 0.0 } else { 1.0 / wide };
        for (q, &w) in self.q.iter_mut().zip(self.group) {
            *q = (nearest(w, inverse) + 8.0) as u8;
        }
        scale
    }
}

/// The scale of least squared error of finite numbers, among those that the quotients lead to.
#[inline(always)]
pub(super) fn scale(group: &[f32], importance: Option<&[f32]>) -> f32 {
    let most = group.iter().fold(0.0f32, |most, &w| if w.abs() > most.abs() { w } else { most });
    let (mut best, mut scale) = (0.0, 0.0);
    if most.abs() >= 1e-36 {
        let squares: f32 = group.iter().map(|x| (x / most) * (x / most)).sum();
        let mean = squares / group.len() as f32;
        for quotient in QUOTIENTS {
            let (xq, qq) = fit(group, importance, quotient / most, most, mean);
            // What the squared error falls by below that of all zeros.
            if qq > 0.0 && xq * xq / qq > best {
                (best, scale) = (xq * xq / qq, xq / qq);
            }
        }
    }
    scale
}

/// `Σ x·q` and `Σ q²`, weighted, of the numbers nearest to `x · inverse`; `mean` is that of the squares in units of the
/// largest.
#[inline(always)]
fn fit(group: &[f32], importance: Option<&[f32]>, inverse: f32, most: f32, mean: f32) -> (f32, f32) {
    const LANES: usize = 8;
    let (mut xq, mut qq) = ([0.0f32; LANES], [0.0f32; LANES]);
    for (index, some) in group.chunks(LANES).enumerate() {
        for (lane, &x) in some.iter().enumerate() {
            let weight = match importance {
                Some(importance) => importance[index * LANES + lane],
                None => (x / most) * (x / most) + mean,
            };
            let q = nearest(x, inverse);
            xq[lane] += weight * x * q;
            qq[lane] += weight * q * q;
        }
    }
    (xq.iter().sum(), qq.iter().sum())
}

/// The number in −8..=7 nearest to `x · inverse`, ties to even.
#[inline(always)]
fn nearest(x: f32, inverse: f32) -> f32 {
    (x * inverse).round_ties_even().clamp(-8.0, 7.0)
}
