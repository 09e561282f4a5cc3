//! `c = a·wᵀ + bias` with quantised weights: activations become bytes row by row and group by group on the fly, once for
//! all products that share them; and `silu(a·gateᵀ) · (a·upᵀ)` without either of the two in memory.
//!
//! Invariant: an element is `Σ_g fma(sum_g, scale_a·scale_w, ·)` over the groups in order (each followed by
//! `fma(scale_a·Σa, offset_w, ·)` where weights have offsets), each `sum_g` an exact 32-bit sum of byte products, then the
//! bias. It is therefore bit-identical whatever `m`, the threads, the batch, the instruction set and what it shares its
//! activations with. A row with a number that is not finite gives NaN.

mod acts;
mod cut;
mod task;

use acts::{Acts, quantize_rows};
use cut::Cut;
use rayon::prelude::*;
use task::RowsByPanels;

use crate::arch::{Dot, WithDot};
use crate::dispatch::Level;
use crate::memory::{Grid, Scratch};
use crate::meter::{Work, counted};
use crate::ops::quantize::{Bits, Layout, QuantizedWeights};
use crate::ops::silu_gate::silu_gate;
use crate::parallel::least_run;

/// `c[m, n] = a[m, k] · w[n, k]ᵀ (+ bias[n])`, one of several with the same `a`.
#[derive(Debug)]
pub struct Product<'a> {
    /// Quantised weights.
    pub w: &'a QuantizedWeights<'a>,
    /// `[n]`
    pub bias: Option<&'a [f32]>,
    /// `[m, n]`
    pub c: &'a mut [f32],
}

/// `c[m, n] = a[m, k] · w[n, k]ᵀ (+ bias[n])` with `w` quantised.
///
/// # Panics
/// If a slice length disagrees with the shape.
pub fn gemm_quantized(a: &[f32], m: usize, w: &QuantizedWeights<'_>, bias: Option<&[f32]>, c: &mut [f32]) {
    gemm_quantized_each(a, m, &mut [Product { w, bias, c }]);
}

/// Several products with the same `a[m, k]`, which is quantised once for those whose weights are grouped alike.
///
/// # Panics
/// If a slice length disagrees with the shape.
pub fn gemm_quantized_each(a: &[f32], m: usize, products: &mut [Product<'_>]) {
    for product in &*products {
        let Layout { n, k, .. } = product.w.layout();
        assert_eq!(a.len(), m * k, "gemm_quantized: a must be [m, k]");
        assert_eq!(product.c.len(), m * n, "gemm_quantized: c must be [m, n]");
        if let Some(bias) = product.bias {
            assert_eq!(bias.len(), n, "gemm_quantized: bias must be [n]");
        }
    }
    for alike in products.chunk_by_mut(|a, b| a.w.layout().shares_activations(&b.w.layout())) {
        let outputs = alike.iter_mut().filter(|p| m > 0 && p.w.n() > 0);
        let outputs: Vec<Output<'_>> =
            outputs.map(|p| Output { of: Of::One(p.w), bias: p.bias, c: Grid::new(p.c, p.w.n()) }).collect();
        run(a, m, &outputs);
    }
}

/// `out[m, n] = silu(a[m, k] · gate[n, k]ᵀ) · (a · up[n, k]ᵀ)`, the numbers of [`silu_gate`] over two products.
///
/// # Panics
/// If a slice length or the two shapes disagree.
pub fn gemm_silu_gate(
    a: &[f32],
    m: usize,
    gate: &QuantizedWeights<'_>,
    up: &QuantizedWeights<'_>,
    out: &mut [f32],
) {
    let Layout { n, k, .. } = gate.layout();
    assert_eq!((n, k), (up.n(), up.k()), "gemm_silu_gate: gate and up must have the same shape");
    assert_eq!(a.len(), m * k, "gemm_silu_gate: a must be [m, k]");
    assert_eq!(out.len(), m * n, "gemm_silu_gate: out must be [m, n]");
    if m == 0 || n == 0 {
        return;
    }
    if gate.layout().shares_activations(&up.layout()) {
        run(a, m, &[Output { of: Of::Gated { gate, up }, bias: None, c: Grid::new(out, n) }]);
    } else {
        let (mut g, mut u) = (vec![0.0; m * n], vec![0.0; m * n]);
        gemm_quantized(a, m, gate, None, &mut g);
        gemm_quantized(a, m, up, None, &mut u);
        silu_gate(&g, &u, out);
    }
}

/// Where sums go and which weights make them.
#[derive(Clone, Copy)]
struct Output<'a> {
    of: Of<'a>,
    bias: Option<&'a [f32]>,
    c: Grid<'a>,
}

#[derive(Clone, Copy)]
enum Of<'a> {
    One(&'a QuantizedWeights<'a>),
    /// Panels of both, alternating.
    Gated {
        gate: &'a QuantizedWeights<'a>,
        up: &'a QuantizedWeights<'a>,
    },
}

impl<'a> Output<'a> {
    fn layout(&self) -> Layout {
        match self.of {
            Of::One(w) => w.layout(),
            Of::Gated { gate, .. } => gate.layout(),
        }
    }

    /// Columns of all matrices.
    fn columns(&self) -> usize {
        match self.of {
            Of::One(w) => w.n(),
            Of::Gated { gate, up } => gate.n() + up.n(),
        }
    }

    /// Panels of all matrices.
    fn panels(&self) -> usize {
        match self.of {
            Of::One(w) => w.layout().panels(),
            Of::Gated { gate, .. } => 2 * gate.layout().panels(),
        }
    }

    /// The matrix that has panel `panel` of them all, and which of its panels that is.
    #[inline(always)]
    fn panel(&self, panel: usize) -> (&'a QuantizedWeights<'a>, usize) {
        match self.of {
            Of::One(w) => (w, panel),
            Of::Gated { gate, up } => (if panel.is_multiple_of(2) { gate } else { up }, panel / 2),
        }
    }

    /// Panels of a block: a gate and what it gates are in one.
    fn block_panels<D: Dot>(&self) -> usize {
        match self.of {
            Of::Gated { .. } if D::BLOCK_PANELS % 2 == 1 => 2 * D::BLOCK_PANELS,
            _ => D::BLOCK_PANELS,
        }
    }
}

/// Outputs with weights grouped alike.
fn run(a: &[f32], m: usize, outputs: &[Output<'_>]) {
    let Some(first) = outputs.first() else { return };
    let (level, layout) = (Level::active(), first.layout());
    let all = All { a, m, layout, outputs };
    let columns: usize = outputs.iter().map(Output::columns).sum();
    counted(Work::Quantized, 2 * m * layout.k * columns, || match layout.bits {
        Bits::Eight => level.with_bytes(all),
        Bits::Four => level.with_nibbles(all),
        Bits::FourScaled => level.with_scaled(all),
    });
}

struct All<'a> {
    a: &'a [f32],
    m: usize,
    layout: Layout,
    outputs: &'a [Output<'a>],
}

impl WithDot for All<'_> {
    type Out = ();

    fn with<D: Dot>(self, dot: D) {
        let (m, layout) = (self.m, self.layout);
        assert!(D::PER_BYTE == layout.bits.per_byte());
        let mut data = Scratch::take(m.next_multiple_of(D::ROWS) * layout.depth());
        let mut scales = Scratch::take(m * layout.groups());
        let mut starts = Scratch::take(m * layout.groups());
        quantize_rows(dot, self.a, m, layout, data.slice(), scales.slice(), starts.slice());
        let (data, scales, starts) = (data.slice(), scales.slice(), starts.slice());
        let acts = Acts::<D> { m, layout, places: layout.places(), data, scales, starts };
        let cuts: Vec<Cut> = self.outputs.iter().map(|output| Cut::new::<D>(m, output)).collect();
        let run = |index: usize| {
            let mut index = index;
            for (cut, &output) in cuts.iter().zip(self.outputs) {
                if index < cut.count() {
                    let (rows, panels) = cut.task(index);
                    dot.isolate_dot(RowsByPanels { acts, output, rows, panels });
                    return;
                }
                index -= cut.count();
            }
        };
        let count = cuts.iter().map(Cut::count).sum();
        if count == 1 {
            run(0);
        } else {
            (0..count).into_par_iter().with_min_len(least_run()).with_max_len(least_run()).for_each(run);
        }
    }
}
