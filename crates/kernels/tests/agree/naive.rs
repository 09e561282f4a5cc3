//! The twins: what each operation means, in plain loops.

use demask_kernels::{Heads, Segment, Shape, Strided, Weights};

pub(crate) fn weight(w: Weights<'_>, index: usize) -> f32 {
    match w {
        Weights::F32(w) => w[index],
        Weights::Bf16(w) => w[index].to_f32(),
        Weights::F16(w) => w[index].to_f32(),
    }
}

/// One chain of fused multiply-adds per element, then the bias.
pub(crate) fn gemm(
    a: &[f32],
    m: usize,
    k: usize,
    w: Weights<'_>,
    n: usize,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let mut c = vec![];
    for i in 0..m {
        for j in 0..n {
            let sum = (0..k).fold(0.0f32, |sum, p| a[i * k + p].mul_add(weight(w, j * k + p), sum));
            c.push(bias.map_or(sum, |bias| sum + bias[j]));
        }
    }
    c
}

/// One chain per element, begun at `c`.
pub(crate) fn matmul(shape: Shape, a: Strided<'_>, b: Strided<'_>, c: &mut [f32]) {
    for i in 0..shape.m {
        for j in 0..shape.n {
            let element = &mut c[i * shape.n + j];
            for p in 0..shape.k {
                let (a, b) = (a.data[i * a.row + p * a.col], b.data[p * b.row + j * b.col]);
                *element = a.mul_add(b, *element);
            }
        }
    }
}

/// Rows of `weight.len()`.
pub(crate) fn rms_norm(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    let mut out = vec![];
    for row in x.chunks(weight.len()) {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        out.extend(row.iter().zip(weight).map(|(x, w)| x / (mean + eps).sqrt() * w));
    }
    out
}

/// Rows of `weight.len()`.
pub(crate) fn layer_norm(x: &[f64], weight: &[f64], bias: &[f64], eps: f64) -> Vec<f64> {
    let mut out = vec![];
    for row in x.chunks(weight.len()) {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
        let parts = row.iter().zip(weight).zip(bias);
        out.extend(parts.map(|((x, w), b)| (x - mean) / (variance + eps).sqrt() * w + b));
    }
    out
}

/// The error function by its series, summed from the largest term on; good to 1e-8 where `|x| < 4.3`.
pub(crate) fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

pub(crate) fn silu_gate(gate: &[f64], up: &[f64]) -> Vec<f64> {
    gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect()
}

pub(crate) fn rope(x: &[f64], positions: &[u32], heads: usize, dim: usize, theta: f64) -> Vec<f64> {
    let mut out = x.to_vec();
    for (row, &position) in out.chunks_mut(heads * dim).zip(positions) {
        for head in row.chunks_mut(dim) {
            for j in 0..dim / 2 {
                let angle = f64::from(position) * theta.powf(-2.0 * j as f64 / dim as f64);
                let (a, b) = (head[j], head[j + dim / 2]);
                head[j] = a * angle.cos() - b * angle.sin();
                head[j + dim / 2] = b * angle.cos() + a * angle.sin();
            }
        }
    }
    out
}

/// Maximum, logsumexp, argmax, best and second probability, entropy.
pub(crate) fn softmax_stats(logits: &[f32]) -> (f32, f64, usize, f64, f64, f64) {
    let argmax = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("logits");
    let max = f64::from(logits[argmax]);
    let sum: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
    let mut p: Vec<f64> = logits.iter().map(|&x| (f64::from(x) - max).exp() / sum).collect();
    let entropy = p.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
    p.sort_by(|a, b| b.total_cmp(a));
    (logits[argmax], max + sum.ln(), argmax, p[0], p.get(1).copied().unwrap_or(0.0), entropy)
}

pub(crate) fn total_variation(a: &[f32], b: &[f32]) -> f64 {
    let (lse_a, lse_b) = (softmax_stats(a).1, softmax_stats(b).1);
    let terms =
        a.iter().zip(b).map(|(&a, &b)| ((f64::from(a) - lse_a).exp() - (f64::from(b) - lse_b).exp()).abs());
    0.5 * terms.sum::<f64>()
}

/// Output and logsumexp.
pub(crate) fn attention(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    heads: Heads,
    segments: &[Segment],
) -> (Vec<f64>, Vec<f64>) {
    let Heads { query, kv, dim } = heads;
    let (mut out, mut lse) = (vec![0.0; q.len()], vec![f64::NEG_INFINITY; q.len() / dim]);
    for segment in segments {
        for (i, row) in segment.q.clone().enumerate() {
            let seen = segment.causal_offset.map_or(segment.k.len(), |o| segment.k.len().min(i + o + 1));
            for head in (0..query).filter(|_| seen > 0) {
                let q = &q[(row * query + head) * dim..][..dim];
                let key = |j: usize| ((segment.k.start + j) * kv + head / (query / kv)) * dim;
                let score =
                    |j: usize| (0..dim).map(|d| q[d] * k[key(j) + d]).sum::<f64>() / (dim as f64).sqrt();
                let scores: Vec<f64> = (0..seen).map(score).collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let norm = max + scores.iter().map(|s| (s - max).exp()).sum::<f64>().ln();
                lse[row * query + head] = norm;
                for (j, score) in scores.iter().enumerate() {
                    for d in 0..dim {
                        out[(row * query + head) * dim + d] += (score - norm).exp() * v[key(j) + d];
                    }
                }
            }
        }
    }
    (out, lse)
}

/// Bytes and scale of one group: `max|x| / 127`, nearest with ties to even.
pub(crate) fn quantize(x: &[f32]) -> (Vec<i8>, f32) {
    if x.iter().any(|x| !x.is_finite()) {
        return (vec![0; x.len()], f32::NAN);
    }
    let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    if most < 1e-36 {
        return (vec![0; x.len()], 0.0);
    }
    (x.iter().map(|x| (x * (127.0 / most)).round_ties_even() as i8).collect(), most / 127.0)
}

/// Rows of `k` quantised in groups: bytes `[rows, k]`, scales `[rows, groups]`.
pub(crate) fn quantize_rows(x: &[f32], k: usize, group: usize) -> (Vec<i8>, Vec<f32>) {
    let (mut bytes, mut scales) = (vec![], vec![]);
    for row in x.chunks(k) {
        for group in row.chunks(group) {
            let (q, scale) = quantize(group);
            bytes.extend(q);
            scales.push(scale);
        }
    }
    (bytes, scales)
}

/// Quantised weights, row by row.
#[derive(Clone, Copy)]
pub(crate) struct Quantized<'a> {
    pub(crate) q: &'a [i8],
    pub(crate) scales: &'a [f32],
    pub(crate) offsets: Option<&'a [f32]>,
    pub(crate) group: usize,
}

/// Exact sums per group, one fused multiply-add each and one for the offset, then the bias.
pub(crate) fn gemm_quantized(
    a: &[f32],
    m: usize,
    k: usize,
    w: Quantized<'_>,
    n: usize,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let Quantized { q, scales, offsets, group } = w;
    let (aq, a_scales) = quantize_rows(a, k, group);
    let groups = k.div_ceil(group);
    let mut c = vec![];
    for i in 0..m {
        for j in 0..n {
            let mut sum = 0.0f32;
            for g in 0..groups {
                let depths = g * group..k.min((g + 1) * group);
                let of = |other: &dyn Fn(usize) -> i64| -> f32 {
                    let sum: i64 = depths.clone().map(|p| i64::from(aq[i * k + p]) * other(p)).sum();
                    sum as i32 as f32
                };
                let scale = a_scales[i * groups + g];
                sum = of(&|p| i64::from(q[j * k + p])).mul_add(scale * scales[j * groups + g], sum);
                if let Some(offsets) = offsets {
                    sum = (scale * of(&|_| 1)).mul_add(offsets[j * groups + g], sum);
                }
            }
            c.push(bias.map_or(sum, |bias| sum + bias[j]));
        }
    }
    c
}
