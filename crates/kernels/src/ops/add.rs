//! The residual sum `out = a + b`, element by element.

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::parallel::{GRAIN, least_run};

/// `out = a + b`.
///
/// # Panics
/// If the lengths disagree.
pub fn add(a: &[f32], b: &[f32], out: &mut [f32]) {
    assert_eq!(a.len(), b.len(), "add: a and b must have the same length");
    assert_eq!(a.len(), out.len(), "add: out must have the length of a");
    let level = Level::active();
    let inputs = a.par_chunks(GRAIN).zip(b.par_chunks(GRAIN));
    let tasks = inputs.zip(out.par_chunks_mut(GRAIN)).with_min_len(least_run());
    tasks.for_each(|((a, b), out)| level.run(Add { a, b, out }));
}

struct Add<'a> {
    a: &'a [f32],
    b: &'a [f32],
    out: &'a mut [f32],
}

impl Op for Add<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        for ((out, a), b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *out = a + b;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sums_every_element() {
        let a: Vec<f32> = (0..40_001).map(|i| i as f32).collect();
        let b: Vec<f32> = a.iter().map(|x| 0.5 - x).collect();
        let mut out = vec![0.0; a.len()];
        super::add(&a, &b, &mut out);
        assert!(out.iter().all(|&x| x == 0.5));
    }
}
