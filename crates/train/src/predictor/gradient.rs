//! The error of eq. 6, pooled over the off-diagonal pairs of a batch, and its gradient, written out by hand over the
//! kernels' matrix products.
//!
//! Invariant: sums run in a fixed order, so loss and gradient do not depend on the number of threads.

use std::ops::Range;

use demask_decode::dependency::{Measure, softplus};
use demask_kernels::{Shape, Strided, matmul};
use rayon::prelude::*;

use super::{Batch, Model, SquaredError};

impl Model {
    /// `D̂` of every example, one after another, with zero diagonals.
    pub fn predict(&self, parameters: &[f32], batch: &Batch) -> Vec<f32> {
        self.forward(parameters, batch).predicted
    }

    /// The error of `D̂`.
    pub fn error(&self, parameters: &[f32], batch: &Batch) -> SquaredError {
        let predicted = self.predict(parameters, batch);
        let sum = by_example(&predicted, &batch.targets, batch, |p, t| f64::from(p - t).powi(2));
        SquaredError { sum, pairs: batch.pairs() }
    }

    /// The error of `D̂`; writes the gradient of its mean to `gradient`.
    pub fn gradient(&self, parameters: &[f32], batch: &Batch, gradient: &mut [f32]) -> SquaredError {
        let forward = self.forward(parameters, batch);
        let sum = by_example(&forward.predicted, &batch.targets, batch, |p, t| f64::from(p - t).powi(2));
        let pairs = batch.pairs();
        let factor = (2.0 / pairs.max(1) as f64) as f32;
        let slope: Vec<f32> =
            forward.predicted.iter().zip(&batch.targets).map(|(p, t)| factor * (p - t)).collect();
        let slope = off_diagonal(slope, batch);
        let weights = self.weights(parameters);
        let x = forward.x(batch);
        let mut grad_x = self.projection().map(|_| vec![0.0; x.len()]);
        let mut grad_weights = Vec::with_capacity(weights.len());
        for (index, head) in forward.heads.iter().enumerate() {
            grad_weights.push(by_example(&slope, &head.ends, batch, |g, a| f64::from(g) * f64::from(a)));
            self.head_gradient(
                parameters,
                batch,
                index,
                head,
                &slope,
                weights[index],
                x,
                gradient,
                grad_x.as_deref_mut(),
            );
        }
        if let (Some(grad_x), Some(inner)) = (grad_x, &forward.inner) {
            self.projection_gradient(parameters, batch, inner, &grad_x, gradient);
        }
        // Through the softmax of the mix.
        let mean: f64 = grad_weights.iter().zip(&weights).map(|(g, &w)| g * f64::from(w)).sum();
        for (slot, (g, &w)) in gradient[self.mix()].iter_mut().zip(grad_weights.iter().zip(&weights)) {
            *slot = (f64::from(w) * (g - mean)) as f32;
        }
        SquaredError { sum, pairs }
    }

    fn forward(&self, parameters: &[f32], batch: &Batch) -> Forward {
        let rows = batch.rows();
        let inner = self.projection().zip(self.architecture.projection).map(|((first, second), shape)| {
            let before = product(&batch.hidden, rows, self.d, &parameters[first], shape.inner);
            let after: Vec<f32> = before.iter().map(|&u| shape.nonlinearity.activation().apply(u)).collect();
            let x = product(&after, rows, shape.inner, &parameters[second], shape.out);
            Inner { before, after, x }
        });
        let x = inner.as_ref().map_or(batch.hidden.as_slice(), |inner| &inner.x);
        let weights = self.weights(parameters);
        let mut predicted = vec![0.0_f32; batch.targets.len()];
        let mut heads = Vec::with_capacity(self.architecture.heads);
        for (index, weight) in weights.iter().enumerate() {
            let (query, key) = self.head(index);
            let q = product(x, rows, self.width, &parameters[query], self.rank);
            let k = product(x, rows, self.width, &parameters[key], self.rank);
            let ends = off_diagonal(self.ends(&q, &k, batch), batch);
            predicted.iter_mut().zip(&ends).for_each(|(p, a)| *p += weight * a);
            heads.push(HeadPass { q, k, ends });
        }
        Forward { inner, heads, predicted }
    }

    /// `σ(Q Kᵀ / √w)` of every example, or the softplus of the same.
    fn ends(&self, q: &[f32], k: &[f32], batch: &Batch) -> Vec<f32> {
        let scale = self.scale();
        let mut out = vec![0.0; batch.targets.len()];
        let places = parts(&mut out, &batch.squares());
        places.into_par_iter().zip(spans(batch)).for_each(|(out, span)| {
            let shape = Shape { m: span.len(), n: span.len(), k: self.rank };
            let (q, k) = (self.head_rows(q, &span), self.head_rows(k, &span));
            matmul(shape, Strided::rows(q, self.rank), Strided::rows(k, self.rank).t(), out, false);
            out.iter_mut().for_each(|s| *s = self.end(*s * scale));
        });
        out
    }

    #[expect(clippy::too_many_arguments, reason = "one head's share of the backward pass and its buffers")]
    fn head_gradient(
        &self,
        parameters: &[f32],
        batch: &Batch,
        index: usize,
        head: &HeadPass,
        slope: &[f32],
        weight: f32,
        x: &[f32],
        gradient: &mut [f32],
        grad_x: Option<&mut [f32]>,
    ) {
        let (rows, rank, factor) = (batch.rows(), self.rank, weight * self.scale());
        let scores: Vec<f32> =
            slope.iter().zip(&head.ends).map(|(g, &a)| g * factor * self.end_slope(a)).collect();
        let (mut grad_q, mut grad_k) = (vec![0.0; rows * rank], vec![0.0; rows * rank]);
        let widths: Vec<usize> = batch.sizes.iter().map(|size| size * rank).collect();
        let (starts, spans) = (starts(&batch.squares()), spans(batch));
        let places = parts(&mut grad_q, &widths).into_par_iter().zip(parts(&mut grad_k, &widths));
        places.zip(spans.into_par_iter().zip(starts)).for_each(|((grad_q, grad_k), (span, start))| {
            let size = span.len();
            let scores = Strided::rows(&scores[start..start + size * size], size);
            let shape = Shape { m: size, n: rank, k: size };
            matmul(shape, scores, Strided::rows(self.head_rows(&head.k, &span), rank), grad_q, false);
            matmul(shape, scores.t(), Strided::rows(self.head_rows(&head.q, &span), rank), grad_k, false);
        });
        let (query, key) = self.head(index);
        let shape = Shape { m: self.width, n: rank, k: rows };
        let xt = Strided::rows(x, self.width).t();
        matmul(shape, xt, Strided::rows(&grad_q, rank), &mut gradient[query.clone()], false);
        matmul(shape, xt, Strided::rows(&grad_k, rank), &mut gradient[key.clone()], false);
        if let Some(grad_x) = grad_x {
            let shape = Shape { m: rows, n: self.width, k: rank };
            for (grad, matrix) in [(&grad_q, query), (&grad_k, key)] {
                matmul(
                    shape,
                    Strided::rows(grad, rank),
                    Strided::rows(&parameters[matrix], rank).t(),
                    grad_x,
                    true,
                );
            }
        }
    }

    fn projection_gradient(
        &self,
        parameters: &[f32],
        batch: &Batch,
        inner: &Inner,
        grad_x: &[f32],
        gradient: &mut [f32],
    ) {
        let (Some((first, second)), Some(shape)) = (self.projection(), self.architecture.projection) else {
            return;
        };
        let (rows, grad_x) = (batch.rows(), Strided::rows(grad_x, shape.out));
        let after = Strided::rows(&inner.after, shape.inner);
        let sizes = Shape { m: shape.inner, n: shape.out, k: rows };
        matmul(sizes, after.t(), grad_x, &mut gradient[second.clone()], false);
        let mut grad = vec![0.0; rows * shape.inner];
        let weights = Strided::rows(&parameters[second], shape.out).t();
        matmul(Shape { m: rows, n: shape.inner, k: shape.out }, grad_x, weights, &mut grad, false);
        grad.iter_mut().zip(&inner.before).for_each(|(g, &u)| *g *= shape.nonlinearity.slope(u));
        let hidden = Strided::rows(&batch.hidden, self.d).t();
        let sizes = Shape { m: self.d, n: shape.inner, k: rows };
        matmul(sizes, hidden, Strided::rows(&grad, shape.inner), &mut gradient[first], false);
    }

    fn head_rows<'a>(&self, rows: &'a [f32], span: &Range<usize>) -> &'a [f32] {
        &rows[span.start * self.rank..span.end * self.rank]
    }

    /// What a score ends in.
    fn end(&self, score: f32) -> f32 {
        match self.measure {
            Measure::TotalVariation => sigmoid(score),
            Measure::Divergence => softplus(score),
        }
    }

    /// Its slope, where it ends in `value`.
    fn end_slope(&self, value: f32) -> f32 {
        match self.measure {
            Measure::TotalVariation => value * (1.0 - value),
            Measure::Divergence => -(-value).exp_m1(),
        }
    }

    pub(super) fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}

struct Forward {
    inner: Option<Inner>,
    heads: Vec<HeadPass>,
    predicted: Vec<f32>,
}

impl Forward {
    /// The rows the heads read.
    fn x<'a>(&'a self, batch: &'a Batch) -> &'a [f32] {
        self.inner.as_ref().map_or(batch.hidden.as_slice(), |inner| &inner.x)
    }
}

/// A projection's intermediate rows.
struct Inner {
    before: Vec<f32>,
    after: Vec<f32>,
    x: Vec<f32>,
}

struct HeadPass {
    q: Vec<f32>,
    k: Vec<f32>,
    /// What its scores end in, with zero diagonals.
    ends: Vec<f32>,
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `a[rows, k] · w[k, n]`.
fn product(a: &[f32], rows: usize, k: usize, w: &[f32], n: usize) -> Vec<f32> {
    let mut out = vec![0.0; rows * n];
    matmul(Shape { m: rows, n, k }, Strided::rows(a, k), Strided::rows(w, n), &mut out, false);
    out
}

/// Rows of each example.
fn spans(batch: &Batch) -> Vec<Range<usize>> {
    let starts = starts(&batch.sizes);
    starts.into_iter().zip(&batch.sizes).map(|(start, size)| start..start + size).collect()
}

fn starts(sizes: &[usize]) -> Vec<usize> {
    let mut end = 0;
    let start = |size: &usize| {
        end += size;
        end - size
    };
    sizes.iter().map(start).collect()
}

/// Consecutive pieces of these sizes.
fn parts<'a>(mut values: &'a mut [f32], sizes: &[usize]) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(sizes.len());
    for &size in sizes {
        let (part, rest) = values.split_at_mut(size);
        parts.push(part);
        values = rest;
    }
    parts
}

fn off_diagonal(mut values: Vec<f32>, batch: &Batch) -> Vec<f32> {
    for (start, &size) in starts(&batch.squares()).into_iter().zip(&batch.sizes) {
        (0..size).for_each(|i| values[start + i * (size + 1)] = 0.0);
    }
    values
}

/// Sums a term over two flat vectors, example by example.
fn by_example(a: &[f32], b: &[f32], batch: &Batch, term: impl Fn(f32, f32) -> f64 + Sync) -> f64 {
    let spans: Vec<(usize, usize)> = starts(&batch.squares()).into_iter().zip(batch.squares()).collect();
    let sum = |&(start, size): &(usize, usize)| -> f64 {
        a[start..start + size].iter().zip(&b[start..start + size]).map(|(&a, &b)| term(a, b)).sum()
    };
    let sums: Vec<f64> = spans.par_iter().map(sum).collect();
    sums.iter().sum()
}
