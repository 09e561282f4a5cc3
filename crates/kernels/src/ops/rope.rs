//! Rotary position embedding, half-split (NeoX) pairing: dimension `j` turns with dimension `j + dim/2`.
//!
//! Angles are computed in `f64`, so that a far position keeps its phase.

use rayon::prelude::*;

/// Rotates `x` (`[rows, heads * head_dim]`) in place by its rows' positions; `inverse` rotates back, which is also the
/// gradient.
///
/// # Panics
/// If `x` is not `[positions.len(), heads * head_dim]` or `head_dim` is odd.
pub fn rope(x: &mut [f32], positions: &[u32], heads: usize, head_dim: usize, theta: f32, inverse: bool) {
    assert_eq!(x.len(), positions.len() * heads * head_dim, "rope: x must be [positions, heads * head_dim]");
    assert!(head_dim.is_multiple_of(2), "rope: head_dim ({head_dim}) must be even");
    if x.is_empty() {
        return;
    }
    let half = head_dim / 2;
    x.par_chunks_mut(heads * head_dim).zip(positions).for_each(|(row, &position)| {
        let turns: Vec<(f32, f32)> = (0..half)
            .map(|j| {
                let (sin, cos) = (f64::from(position)
                    * f64::from(theta).powf(-2.0 * j as f64 / head_dim as f64))
                .sin_cos();
                (if inverse { -sin as f32 } else { sin as f32 }, cos as f32)
            })
            .collect();
        for head in row.chunks_exact_mut(head_dim) {
            let (low, high) = head.split_at_mut(half);
            for ((a, b), &(sin, cos)) in low.iter_mut().zip(high).zip(&turns) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    });
}
