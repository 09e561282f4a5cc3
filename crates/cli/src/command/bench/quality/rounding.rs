//! Relative error `‖y − ŷ‖ / ‖y‖` of products whose inputs have outlier channels, by bits, group and way of rounding.
//!
//! Inputs are correlated as a network's are (a part of each lies in a space of fewer dimensions), and one depth in 64 is
//! larger by a factor. Ways that look at inputs are shown others of the same kind than those the error is taken on.

use anyhow::Result;
use demask::kernels::{Bits, QuantizedWeights, Scales, Weights, gemm, gemm_quantized};
use demask::model::checkpoint::quantized::Packing;
use demask::plot::Mark;
use half::f16;
use rayon::prelude::*;

use super::super::gemm::noise;
use super::super::report::{Cell, Report};

/// Depths, outputs, rows the error is taken on and rows that may be looked at.
const K: usize = 768;
const N: usize = 512;
const ROWS: usize = 128;
const SEEN: usize = 1536;
/// Dimensions that the common part of the inputs has.
const RANK: usize = 96;

/// A way to four bits.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Nearest, scale `max|w| / 7`.
    Plain,
    /// The scale of least squared error, large weights counting more.
    Own,
    /// The scale of least squared error, all counting the same.
    Squares,
    /// The same with each depth weighed by the mean square of its inputs.
    Weighed,
    /// The error of each depth is made up for by the depths after it (GPTQ, Frantar et al. 2022).
    Compensated,
    /// What `demask quantize` does in groups of 128: as `Own`, with a factor for every 32 depths.
    Factors,
    /// The same with each depth weighed by the mean square of its inputs.
    FactorsWeighed,
}

const WAYS: [(Way, &str); 7] = [
    (Way::Plain, "q4 max/7"),
    (Way::Squares, "q4, least squares"),
    (Way::Own, "q4"),
    (Way::Weighed, "q4, inputs' squares"),
    (Way::Compensated, "q4, error made up for"),
    (Way::Factors, "q4 with factors"),
    (Way::FactorsWeighed, "q4 with factors, inputs' squares"),
];

/// All of them.
pub(super) fn products(groups: &[usize]) -> Result<Report> {
    let mut report = Report::new("quality", &["outliers in", "factor", "weights", "group", "relative error"]);
    for (place, in_weights, in_acts) in
        [("neither", false, false), ("activations", false, true), ("both", true, true)]
    {
        for factor in if in_acts { vec![10.0, 100.0] } else { vec![1.0] } {
            let scaled = |mut values: Vec<f32>, wanted: bool| {
                let outliers = values.iter_mut().enumerate().filter(|(i, _)| wanted && i % K % 64 == 7);
                outliers.for_each(|(_, x)| *x *= factor);
                values
            };
            let (a, seen) = (scaled(inputs(ROWS, 11), in_acts), scaled(inputs(SEEN, 21), in_acts));
            let w = scaled(weights(), in_weights);
            let mut exact = vec![0.0; ROWS * N];
            gemm(&a, ROWS, K, Weights::F32(&w), N, None, &mut exact);
            let error = |w: &QuantizedWeights<'_>| {
                let mut y = vec![0.0; ROWS * N];
                gemm_quantized(&a, ROWS, w, None, &mut y);
                relative(&exact, &y)
            };
            let factors = Inputs::new(&seen);
            let mut add = |label: &str, group: usize, error: f64| {
                let row = [place.into(), Cell::Number(f64::from(factor), 0), label.into()];
                report.rows.push([&row[..], &[Cell::Count(group), Cell::Number(error, 5)]].concat());
                let label = format!("{label}, {place}, x{factor}");
                report.chart.point(&label, Mark::Line, (group as f64, error));
            };
            for &group in groups {
                add("int8", group, error(&QuantizedWeights::quantize(Weights::F32(&w), N, K, group)?));
                let factors_fit = Packing::four(group).bits == Bits::FourScaled;
                let fits = |way| factors_fit || !matches!(way, Way::Factors | Way::FactorsWeighed);
                for (way, label) in WAYS.into_iter().filter(|(way, _)| fits(*way)) {
                    add(label, group, error(&four(way, &w, group, &factors)?));
                }
            }
        }
    }
    report.note("depth", K as f64, format!("products {ROWS}x{K}x{N}, outliers in one depth of 64"));
    report.chart.title = "relative error of quantised products".into();
    report.chart.x = "weights that share a scale".into();
    report.chart.y = "relative error".into();
    Ok(report)
}

/// Nearly normal: sums of six even numbers.
fn weights() -> Vec<f32> {
    let mut sum = vec![0.0; N * K];
    for seed in 40..46 {
        sum.iter_mut().zip(noise(N * K, seed)).for_each(|(sum, x)| *sum += x);
    }
    sum
}

/// Rows with a common part.
fn inputs(rows: usize, seed: u64) -> Vec<f32> {
    let (basis, common, mut own) = (noise(RANK * K, 31), noise(rows * RANK, seed), noise(rows * K, seed + 1));
    for (own, common) in own.chunks_exact_mut(K).zip(common.chunks_exact(RANK)) {
        for (&c, basis) in common.iter().zip(basis.chunks_exact(K)) {
            own.iter_mut().zip(basis).for_each(|(x, b)| *x = (c * 0.15).mul_add(*b, *x));
        }
    }
    own
}

/// What ways of rounding know of inputs.
struct Inputs {
    squares: Vec<f32>,
    /// The upper Cholesky factor of the inverse of `XᵀX`, damped.
    upper: Vec<f64>,
}

impl Inputs {
    fn new(x: &[f32]) -> Self {
        let mut h = vec![0.0_f64; K * K];
        h.par_chunks_exact_mut(K).enumerate().for_each(|(i, h)| {
            for row in x.chunks_exact(K) {
                h.iter_mut().zip(row).for_each(|(h, &x)| *h += f64::from(row[i]) * f64::from(x));
            }
        });
        let squares: Vec<f32> = (0..K).map(|i| (h[i * K + i] / SEEN as f64) as f32).collect();
        let mean = (0..K).map(|i| h[i * K + i]).sum::<f64>() / K as f64;
        (0..K).for_each(|i| h[i * K + i] += 0.01 * mean);
        Self { squares, upper: upper_of_inverse(&h) }
    }
}

/// `U` with `h⁻¹ = Uᵀ·U`, both `[K, K]`.
///
/// With the indices reversed, `h = R·Rᵀ` for an upper `R`, so `U = R⁻¹` up to that order.
fn upper_of_inverse(h: &[f64]) -> Vec<f64> {
    // h = R·Rᵀ, R upper: Cholesky from the last row up.
    let mut r = vec![0.0; K * K];
    for j in (0..K).rev() {
        for i in (0..=j).rev() {
            let sum: f64 = (j + 1..K).map(|p| r[i * K + p] * r[j * K + p]).sum();
            let rest = h[i * K + j] - sum;
            r[i * K + j] = if i == j { rest.max(1e-12).sqrt() } else { rest / r[j * K + j] };
        }
    }
    // h⁻¹ = R⁻ᵀ·R⁻¹, and R⁻¹ is upper: that is U.
    let mut u = vec![0.0; K * K];
    for j in 0..K {
        u[j * K + j] = 1.0 / r[j * K + j];
        for i in (0..j).rev() {
            let sum: f64 = (i + 1..=j).map(|p| r[i * K + p] * u[p * K + j]).sum();
            u[i * K + j] = -sum / r[i * K + i];
        }
    }
    u
}

fn four(way: Way, w: &[f32], group: usize, inputs: &Inputs) -> Result<QuantizedWeights<'static>> {
    let own = |importance: Option<&[f32]>| {
        QuantizedWeights::quantize_four(Weights::F32(w), N, K, group, importance)
    };
    let factors = |importance: Option<&[f32]>| {
        QuantizedWeights::quantize_scaled(Weights::F32(w), N, K, group, importance)
    };
    Ok(match way {
        Way::Factors => factors(None)?,
        Way::FactorsWeighed => factors(Some(&inputs.squares))?,
        Way::Own => own(None)?,
        Way::Squares => own(Some(&[1.0; K]))?,
        Way::Weighed => own(Some(&inputs.squares))?,
        Way::Plain | Way::Compensated => {
            let compensate = matches!(way, Way::Compensated);
            let rows: Vec<(Vec<u8>, Vec<f16>)> = w
                .par_chunks_exact(K)
                .map(|row| one_row(row, group, compensate.then_some(&inputs.upper)))
                .collect();
            let q: Vec<u8> = rows.iter().flat_map(|(q, _)| q.iter().copied()).collect();
            let scales: Vec<f16> = rows.iter().flat_map(|(_, s)| s.iter().copied()).collect();
            QuantizedWeights::from_nibbles(&q, &scales, None, N, K, group)?
        }
    })
}

/// Numbers and scales of one row: plain, or with every error made up for.
fn one_row(row: &[f32], group: usize, upper: Option<&Vec<f64>>) -> (Vec<u8>, Vec<f16>) {
    let mut w: Vec<f64> = row.iter().map(|&w| f64::from(w)).collect();
    let (mut q, mut scales) = (Vec::with_capacity(K), Vec::new());
    for p in 0..K {
        if p % group == 0 {
            let some: Vec<f32> = w[p..K.min(p + group)].iter().map(|&w| w as f32).collect();
            scales.push(match upper {
                None => f16::from_f32(some.iter().fold(0.0_f32, |m, w| m.max(w.abs())) / 7.0),
                Some(_) => scale_of(&some),
            });
        }
        let scale = scales[scales.len() - 1].to_f64();
        let number = if scale == 0.0 { 0.0 } else { (w[p] / scale).round_ties_even().clamp(-8.0, 7.0) };
        q.push((number + 8.0) as u8);
        if let Some(upper) = upper {
            let line = &upper[p * K..(p + 1) * K];
            let error = (w[p] - scale * number) / line[p];
            w[p + 1..].iter_mut().zip(&line[p + 1..]).for_each(|(w, u)| *w -= error * u);
        }
    }
    (q, scales)
}

/// The scale of least squared error of a group.
fn scale_of(group: &[f32]) -> f16 {
    let one = QuantizedWeights::quantize_four(Weights::F32(group), 1, group.len(), group.len(), None);
    match one.as_ref().map(|one| one.scales()) {
        Ok(Scales::Half(scales, _)) => scales[0],
        _ => f16::ZERO,
    }
}

fn relative(exact: &[f32], other: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let error: f64 = exact.iter().zip(other).map(|(a, b)| square(a - b)).sum();
    (error / exact.iter().map(|a| square(*a)).sum::<f64>()).sqrt()
}
