//! Four bits with factors: `w ≈ scale · factor · (n − zero)`, the scale of a group in half precision, a whole factor of 1 to 15
//! for every 32 depths, `n` of four bits and `zero` 8, or 7 where the largest number is positive.
//!
//! Each 32 depths first get the scale they would have alone; the factors are what these are in fifteenths of the largest, give
//! or take one, and the group's scale is then that of least squared error, twice in turn.

use half::f16;

use super::layout::Layout;
use super::nibbles::scale;
use super::pack::{pack, values};
use super::{Bits, QuantizeError, QuantizedWeights, Scales};
use crate::arch::{Op, SUB, Simd};
use crate::dispatch::Level;
use crate::ops::gemm::Weights;

/// The largest factor: times −8 or 8 it is a byte.
const MOST: f32 = 15.0;
/// How often factors and scale are fitted to each other.
const ROUNDS: usize = 2;
/// Shares of the largest scale that the factors begin from.
const BEGINNINGS: [f32; 3] = [1.0, 0.95, 1.05];

impl QuantizedWeights<'static> {
    /// Quantises `w` (`[n, k]`) to four bits with factors, in groups of `group` depths, a multiple of 128. `importance` is
    /// as in [`quantize_four`](Self::quantize_four).
    ///
    /// # Errors
    /// If the group is out of range or a slice has another length.
    pub fn quantize_scaled(
        w: Weights<'_>,
        n: usize,
        k: usize,
        group: usize,
        importance: Option<&[f32]>,
    ) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group, Bits::FourScaled)?;
        layout.expect("weights", n * k, w.len())?;
        if let Some(importance) = importance {
            layout.expect("importances", k, importance.len())?;
        }
        let level = Level::active();
        let (packed, scales) = pack(layout, f16::ZERO, |row, depths, out| {
            let group = values(w, row * k + depths.start..row * k + depths.end);
            let importance = importance.map(|importance| &importance[depths]);
            level.run(Fit { group: &group, importance, out })
        });
        Ok(Self { layout, packed: packed.into(), scales: Scales::Factored(scales.into()) })
    }
}

/// The numbers nearest to a group, then their factors; the result is the scale.
struct Fit<'a> {
    group: &'a [f32],
    importance: Option<&'a [f32]>,
    out: &'a mut [u8],
}

/// What some depths are rounded to.
#[derive(Clone, Copy)]
struct Sub {
    /// The scale they would have alone.
    alone: f32,
    zero: f32,
    factor: f32,
}

impl Op for Fit<'_> {
    type Out = f16;

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> f16 {
        let Self { group, importance, out } = self;
        if group.iter().any(|w| !w.is_finite()) {
            out.fill(0x88);
            return f16::NAN;
        }
        let counts = counts(group, importance);
        let mut subs: Vec<Sub> = Vec::with_capacity(group.len().div_ceil(SUB));
        for (index, some) in group.chunks(SUB).enumerate() {
            let importance = importance.map(|importance| &importance[index * SUB..][..some.len()]);
            let alone = scale(some, importance);
            subs.push(Sub { alone: alone.abs(), zero: if alone < 0.0 { 7.0 } else { 8.0 }, factor: 1.0 });
        }
        let largest = subs.iter().fold(0.0f32, |most, sub| most.max(sub.alone));
        let (mut best, mut found) = (f32::INFINITY, (f16::ZERO, subs.clone()));
        for beginning in BEGINNINGS {
            let mut scale = f16::from_f32(largest / MOST * beginning);
            for _ in 0..ROUNDS {
                if scale.to_f32() == 0.0 {
                    break;
                }
                let (error, next) = choose(group, &counts, &mut subs, scale.to_f32());
                if error < best {
                    (best, found) = (error, (scale, subs.clone()));
                }
                scale = f16::from_f32(next);
            }
        }
        write(group, &found.1, found.0.to_f32(), out);
        found.0
    }
}

/// What the squared error of every number counts.
#[inline(always)]
fn counts(group: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    if let Some(importance) = importance {
        return importance.to_vec();
    }
    let mut counts = Vec::with_capacity(group.len());
    for some in group.chunks(SUB) {
        // In units of the largest, so that no square is lost.
        let most = some.iter().fold(1e-36f32, |most, w| most.max(w.abs()));
        let squares: f32 = some.iter().map(|x| (x / most) * (x / most)).sum();
        let mean = squares / some.len() as f32;
        counts.extend(some.iter().map(|x| (x / most) * (x / most) + mean));
    }
    counts
}

/// Chooses the factors of least error for a scale; returns that error and the scale of least error for what was chosen.
#[inline(always)]
fn choose(group: &[f32], counts: &[f32], subs: &mut [Sub], scale: f32) -> (f32, f32) {
    let (mut error, mut xv, mut vv) = (0.0, 0.0, 0.0);
    for (index, sub) in subs.iter_mut().enumerate() {
        let at = index * SUB..group.len().min((index + 1) * SUB);
        let (some, counts) = (&group[at.clone()], &counts[at]);
        let near = (sub.alone / scale).round().clamp(1.0, MOST);
        let mut best = [f32::INFINITY, 0.0, 0.0];
        for factor in [near, near - 1.0, near + 1.0] {
            if (1.0..=MOST).contains(&factor) {
                let tried = fit(some, counts, sub.zero, factor, scale);
                if tried[0] < best[0] {
                    (best, sub.factor) = (tried, factor);
                }
            }
        }
        error += best[0];
        xv += best[1];
        vv += best[2];
    }
    (error, if vv > 0.0 { xv / vv } else { 0.0 })
}

/// The squared error, `Σ x·v` and `Σ v²`, weighted, of the numbers `v = factor · q` nearest to `x / scale`.
#[inline(always)]
fn fit(some: &[f32], counts: &[f32], zero: f32, factor: f32, scale: f32) -> [f32; 3] {
    const LANES: usize = 8;
    let (step, inverse) = (factor * scale, 1.0 / (factor * scale));
    let mut sums = [[0.0f32; LANES]; 3];
    for (some, counts) in some.chunks(LANES).zip(counts.chunks(LANES)) {
        for (lane, (&x, &count)) in some.iter().zip(counts).enumerate() {
            let q = nearest(x, inverse, zero);
            let (rest, v) = (x - step * q, factor * q);
            sums[0][lane] += count * rest * rest;
            sums[1][lane] += count * x * v;
            sums[2][lane] += count * v * v;
        }
    }
    sums.map(|lanes| lanes.iter().sum())
}

/// The number in `−zero..=15 − zero` nearest to `x · inverse`, ties to even.
#[inline(always)]
fn nearest(x: f32, inverse: f32, zero: f32) -> f32 {
    (x * inverse).round_ties_even().clamp(-zero, 15.0 - zero)
}

/// Numbers and factors as they are stored.
#[inline(always)]
fn write(group: &[f32], subs: &[Sub], scale: f32, out: &mut [u8]) {
    let (numbers, factors) = out.split_at_mut(group.len());
    for (index, sub) in subs.iter().enumerate() {
        let at = index * SUB..group.len().min((index + 1) * SUB);
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / (sub.factor * scale) };
        for (n, &x) in numbers[at.clone()].iter_mut().zip(&group[at]) {
            *n = (nearest(x, inverse, sub.zero) + sub.zero) as u8;
        }
        factors[index] = sub.factor as u8 | (sub.zero as u8) << 4;
    }
}
