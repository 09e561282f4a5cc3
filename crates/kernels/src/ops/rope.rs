//! Rotary position embedding, half-split (NeoX) pairing: dimension `j` turns with dimension `j + rotary/2`, where the
//! first `rotary` dimensions of a head turn (all of them, or fewer) and the rest stays.
//!
//! Angles are computed in `f64`, so that a far position keeps its phase, and kept in a table per `(theta, rotary)`.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::parallel::{least_run, rows_per_task};

/// Heads of a row, and how much of each turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotaryHeads {
    /// Heads of a row.
    pub count: usize,
    /// Width of one.
    pub dim: usize,
    /// Leading dimensions of one that turn.
    pub rotary: usize,
}

/// [`rope_heads`] where all of a head turns.
///
/// # Panics
/// If `x` is not `[positions.len(), heads * head_dim]` or `head_dim` is odd.
pub fn rope(x: &mut [f32], positions: &[u32], heads: usize, head_dim: usize, theta: f32, inverse: bool) {
    let heads = RotaryHeads { count: heads, dim: head_dim, rotary: head_dim };
    rope_heads(x, positions, heads, theta, inverse);
}

/// Rotates `x` (`[rows, heads.count * heads.dim]`) in place by its rows' positions; `inverse` rotates back, which is
/// also the gradient.
///
/// # Panics
/// If `x` is not `[positions.len(), heads.count * heads.dim]`, or what turns is odd or wider than a head.
pub fn rope_heads(x: &mut [f32], positions: &[u32], heads: RotaryHeads, theta: f32, inverse: bool) {
    let RotaryHeads { count, dim, rotary } = heads;
    let width = count * dim;
    assert_eq!(x.len(), positions.len() * width, "rope: x must be [positions, heads * head_dim]");
    assert!(rotary.is_multiple_of(2), "rope: the dimensions that turn ({rotary}) must be even");
    assert!(rotary <= dim, "rope: {rotary} dimensions cannot turn in a head of {dim}");
    let Some(&last) = positions.iter().max() else { return };
    if x.is_empty() || rotary == 0 {
        return;
    }
    let level = Level::active();
    let turns = Turns::up_to(last as usize, theta, rotary);
    let rows = rows_per_task(width);
    let tasks = x.par_chunks_mut(rows * width).zip(positions.par_chunks(rows));
    tasks.with_min_len(least_run()).for_each(|(x, positions)| {
        for (row, &position) in x.chunks_exact_mut(width).zip(positions) {
            let far;
            let turn = match turns.at(position as usize) {
                Some(turn) => turn,
                None => {
                    far = turn(position as usize, theta, rotary);
                    &far
                }
            };
            level.run(Rotate { row, dim, turn, inverse });
        }
    });
}

/// Positions beyond this are computed when met, so that a stray position does not allocate a huge table.
const TABLE_POSITIONS: usize = 1 << 17;

/// Cosines then sines of one position, `[head_dim]`.
fn turn(position: usize, theta: f32, head_dim: usize) -> Vec<f32> {
    let angle = |j: usize| position as f64 * f64::from(theta).powf(-2.0 * j as f64 / head_dim as f64);
    let half = head_dim / 2;
    let cosines = (0..half).map(|j| angle(j).cos() as f32);
    cosines.chain((0..half).map(|j| angle(j).sin() as f32)).collect()
}

/// [`turn`] of the positions from zero on.
struct Turns {
    theta: f32,
    head_dim: usize,
    table: Vec<f32>,
}

impl Turns {
    /// The table of `(theta, head_dim)`, grown to hold `position` if it is not too far.
    fn up_to(position: usize, theta: f32, head_dim: usize) -> Arc<Self> {
        static TABLES: Mutex<Vec<Arc<Turns>>> = Mutex::new(Vec::new());
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = (position + 1).min(TABLE_POSITIONS);
        let found =
            tables.iter().position(|t| t.theta.to_bits() == theta.to_bits() && t.head_dim == head_dim);
        if let Some(index) = found {
            if tables[index].table.len() >= wanted * head_dim {
                return Arc::clone(&tables[index]);
            }
            tables.remove(index);
        }
        let table = (0..wanted.next_power_of_two()).flat_map(|p| turn(p, theta, head_dim)).collect();
        let turns = Arc::new(Self { theta, head_dim, table });
        // Only a handful of models are alive at once.
        tables.truncate(7);
        tables.insert(0, Arc::clone(&turns));
        turns
    }

    fn at(&self, position: usize) -> Option<&[f32]> {
        self.table.get(position * self.head_dim..(position + 1) * self.head_dim)
    }
}

/// One row, all its heads.
struct Rotate<'a> {
    row: &'a mut [f32],
    /// Width of a head, at least that of the turn.
    dim: usize,
    turn: &'a [f32],
    inverse: bool,
}

impl Op for Rotate<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let half = self.turn.len() / 2;
        let (cos, sin) = self.turn.split_at(half);
        let sign = if self.inverse { -1.0 } else { 1.0 };
        let whole = half / S::LANES * S::LANES;
        for head in self.row.chunks_exact_mut(self.dim) {
            let head = &mut head[..2 * half];
            let (low, high) = head.split_at_mut(half);
            for j in (0..whole).step_by(S::LANES) {
                let (cos, sin) = (simd.read(&cos[j..]), simd.mul(simd.splat(sign), simd.read(&sin[j..])));
                let (a, b) = (simd.read(&low[j..]), simd.read(&high[j..]));
                simd.write(&mut low[j..], simd.fnma(b, sin, simd.mul(a, cos)));
                simd.write(&mut high[j..], simd.fma(a, sin, simd.mul(b, cos)));
            }
            for j in whole..half {
                let (sin, a, b) = (sign * sin[j], low[j], high[j]);
                low[j] = (-b).mul_add(sin, a * cos[j]);
                high[j] = a.mul_add(sin, b * cos[j]);
            }
        }
    }
}
