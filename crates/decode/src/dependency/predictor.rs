//! The learned dependency predictor (section 4.3): `D̂ = σ(H W_Q (H W_K)ᵀ / √d)` over the hidden
//! rows of the masked positions, zero diagonal; trained on divergences instead of total variation it ends in a softplus
//! (mutual information, for the strategy `mi`). At inference `W = W_Q W_Kᵀ` is merged, so one d×d
//! product per head remains.
//!
//! Several heads and a two-layer projection before them (the paper's future directions) are data of
//! [`Parts`]; the paper's predictor is one head and no projection.
//! Invariant: a predictor that exists has matrices that fit one another and finite numbers.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Tensor;
use demask_kernels::{Weights, gemm, least_run};
use demask_model::hash::Hash;
use demask_model::{HiddenRow, OnDevice, Rows};
use rayon::prelude::*;

use crate::dependency::feature::{Opinion, features};
use crate::dependency::on_device::ResidentHeads;
use crate::dependency::parts::{Activation, Head, Metadata, Mix, Parts};
use crate::dependency::{Dependency, DependencySource, Measure};
use crate::error::{Error, Result};
use crate::strategy::Step;

/// A predictor ready for inference.
#[derive(Debug, Clone)]
pub struct Predictor {
    width: usize,
    pub(super) projection: Option<Layers>,
    pub(super) heads: Vec<Bilinear>,
    pub(super) scale: f32,
    pub(super) mix: Mix,
    metadata: Metadata,
    /// The same matrices on the devices it was asked on.
    resident: Arc<Mutex<Vec<Arc<ResidentHeads>>>>,
}

/// A projection's matrices as `[out, in]`, so that each layer is a plain GEMM.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    pub(super) first: Rows,
    pub(super) second: Rows,
    pub(super) activation: Activation,
}

/// A head's bilinear form over rows of one width; matrices as `[out, in]`.
#[derive(Debug, Clone)]
pub(super) enum Bilinear {
    /// `Wᵀ`: one product per step.
    Merged(Rows),
    /// `W_Qᵀ` and `W_Kᵀ`, kept apart where two narrow products are cheaper than one square one.
    Narrow(Rows, Rows),
}

impl Predictor {
    /// From its parts.
    pub fn new(parts: Parts) -> Result<Self> {
        parts.check()?;
        if parts.heads.is_empty() {
            return Err(Error::Predictor("its file holds a stability head and none of dependency".into()));
        }
        let (width, head_width) = (parts.width(), parts.head_width());
        let prepare = |head: &Head| match head {
            Head::Merged(w) => Bilinear::Merged(transpose(w)),
            Head::Pair { query, key } if 2 * query.width < head_width => {
                Bilinear::Narrow(transpose(query), transpose(key))
            }
            // Wᵀ = W_K W_Qᵀ, row-major `[out, in]`.
            Head::Pair { query, key } => Bilinear::Merged(times_transposed(key, query)),
        };
        Ok(Self {
            width,
            heads: parts.heads.iter().map(prepare).collect(),
            projection: parts.projection.map(|p| Layers {
                first: transpose(&p.first),
                second: transpose(&p.second),
                activation: p.activation,
            }),
            scale: parts.scale.unwrap_or(1.0 / (head_width as f32).sqrt()),
            mix: parts.mix,
            metadata: parts.metadata,
            resident: Arc::default(),
        })
    }

    /// From one merged `W` per head, row-major `[in, out]`.
    pub fn from_merged(d: usize, heads: Vec<Vec<f32>>, mix: Mix, metadata: Metadata) -> Result<Self> {
        let heads = heads.into_iter().map(|data| Head::Merged(Rows { data, width: d })).collect();
        Self::new(Parts { heads, projection: None, mix, scale: None, metadata, stability: None })
    }

    /// From `W_Q` and `W_K` per head, row-major `[in, out]` (`q = h·W_Q`).
    pub fn from_pairs(
        d: usize,
        heads: &[(Vec<f32>, Vec<f32>)],
        mix: Mix,
        metadata: Metadata,
    ) -> Result<Self> {
        let rows = |data: &Vec<f32>| Rows { data: data.clone(), width: data.len() / d.max(1) };
        let heads = heads.iter().map(|(q, k)| Head::Pair { query: rows(q), key: rows(k) }).collect();
        Self::new(Parts { heads, projection: None, mix, scale: None, metadata, stability: None })
    }

    /// Width of the hidden rows it reads.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads.len()
    }

    /// How much of the matrix is a head's.
    pub(super) fn weight(&self, head: usize) -> f32 {
        match &self.mix {
            Mix::Mean => 1.0 / self.heads.len() as f32,
            Mix::Weighted(weights) => weights[head],
        }
    }

    /// What its file says.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Tells predictors apart by what they predict, to three digits, for a fixed input.
    pub fn fingerprint(&self) -> String {
        let wave = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 504.5 - 1.0;
        let width = self.width + self.metadata.features.len();
        let rows = Rows { data: (0..6 * width).map(wave).collect(), width };
        let digits = self.of_rows(&rows).data().iter().map(|v| (v * 1e3).round() as u64).collect::<Vec<_>>();
        digits.into_iter().fold(Hash::new(), Hash::word).to_string()
    }

    /// `D̂` over hidden rows `[|M|, d]` on a device, with what the model thinks of the positions: computed there in f32, and
    /// only the matrix crosses over.
    pub fn predict_on(
        &self,
        device: &dyn OnDevice,
        hidden: &Tensor,
        opinions: &[Opinion],
    ) -> Result<Dependency> {
        let matrices = self.matrices_on(device, hidden)?;
        let size = hidden.dim(0).map_err(demask_model::Error::from)?;
        let features = match self.features(size, opinions)? {
            Some(features) => Some(device.upload(&features.data, features.width, hidden)?),
            None => None,
        };
        let mixed = matrices.mixed(self, hidden, features.as_ref()).map_err(demask_model::Error::from)?;
        let mut out = device.fetch(&mixed)?;
        (0..size).for_each(|i| out[i * size + i] = 0.0);
        Ok(Dependency::from_rows(out, size))
    }

    /// The matrices beside these rows, brought there once.
    fn matrices_on(&self, device: &dyn OnDevice, hidden: &Tensor) -> Result<Arc<ResidentHeads>> {
        let mut known = self.resident.lock().unwrap_or_else(PoisonError::into_inner);
        let place = hidden.device().location();
        if let Some(found) = known.iter().find(|heads| heads.place == place) {
            return Ok(found.clone());
        }
        let heads = Arc::new(ResidentHeads::new(self, device, hidden)?);
        known.push(heads.clone());
        Ok(heads)
    }

    /// `D̂` over hidden rows `[|M|, d]`, with what the model thinks of the positions; a predictor without features does not
    /// look at that.
    pub fn predict(&self, hidden: &Rows, opinions: &[Opinion]) -> Result<Dependency> {
        if hidden.width != self.width {
            return Err(Error::Predictor(format!(
                "the predictor reads hidden rows of width {} but the backbone's are {} wide",
                self.width, hidden.width
            )));
        }
        Ok(match self.features(hidden.len(), opinions)? {
            None => self.of_rows(hidden),
            Some(features) => self.of_rows(&joined(hidden, &features)),
        })
    }

    /// What it reads besides the hidden rows of so many positions, if anything.
    fn features(&self, size: usize, opinions: &[Opinion]) -> Result<Option<Rows>> {
        let wanted = &self.metadata.features;
        if wanted.is_empty() {
            return Ok(None);
        }
        if opinions.len() != size {
            return Err(Error::Predictor(
                "the predictor reads how sure the model is of each position, and was not told; a TV cache stores it \
                 with stability labels"
                    .into(),
            ));
        }
        Ok(Some(features(wanted, opinions, None, 1.0)))
    }

    /// `D̂` over whole rows: hidden row, then features.
    fn of_rows(&self, hidden: &Rows) -> Dependency {
        let size = hidden.len();
        let projected = self.projection.as_ref().map(|layers| layers.forward(hidden));
        let rows = projected.as_ref().unwrap_or(hidden);
        let mut out = vec![0.0_f32; size * size];
        for (index, head) in self.heads.iter().enumerate() {
            let weight = self.weight(index);
            let scores = head.scores(rows);
            let scale = self.scale;
            let pairs = out.par_iter_mut().zip(&scores.data).with_min_len(least_run());
            match self.metadata.measure {
                Measure::TotalVariation => pairs.for_each(|(o, s)| *o += weight / (1.0 + (-s * scale).exp())),
                Measure::Divergence => pairs.for_each(|(o, s)| *o += weight * softplus(s * scale)),
            }
        }
        (0..size).for_each(|i| out[i * size + i] = 0.0);
        Dependency::from_rows(out, size)
    }
}

/// `ln(1 + e^x)`, which is above 0 like a divergence.
pub fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

impl DependencySource for Predictor {
    fn hidden_row(&self) -> Option<HiddenRow> {
        Some(self.metadata.hidden_row)
    }

    fn takes_resident(&self) -> bool {
        true
    }

    fn dependency(&self, step: &Step<'_>) -> Result<Dependency> {
        let opinions: Vec<Opinion> = step.marginals.iter().map(|m| Opinion::new(m, None)).collect();
        if let Some((device, rows)) = step.resident {
            return self.predict_on(device, rows, &opinions);
        }
        let hidden =
            step.hidden.ok_or_else(|| Error::Predictor("the forward pass returned no hidden rows".into()))?;
        self.predict(hidden, &opinions)
    }

    fn identity(&self) -> Option<String> {
        Some(self.fingerprint())
    }
}

impl Layers {
    fn forward(&self, hidden: &Rows) -> Rows {
        let mut inner = times_transposed(hidden, &self.first);
        inner.data.par_iter_mut().with_min_len(least_run()).for_each(|x| *x = self.activation.apply(*x));
        times_transposed(&inner, &self.second)
    }
}

impl Bilinear {
    /// `h_i W h_jᵀ` for all pairs.
    fn scores(&self, rows: &Rows) -> Rows {
        match self {
            Self::Merged(w) => times_transposed(&times_transposed(rows, w), rows),
            Self::Narrow(query, key) => {
                times_transposed(&times_transposed(rows, query), &times_transposed(rows, key))
            }
        }
    }
}

/// Rows side by side.
fn joined(left: &Rows, right: &Rows) -> Rows {
    let both = left.iter().zip(right.iter()).flat_map(|(a, b)| a.iter().chain(b)).copied();
    Rows { data: both.collect(), width: left.width + right.width }
}

/// `a·bᵀ`.
fn times_transposed(a: &Rows, b: &Rows) -> Rows {
    let mut out = Rows::zeros(a.len(), b.len());
    gemm(&a.data, a.len(), a.width, Weights::F32(&b.data), b.len(), None, &mut out.data);
    out
}

pub(super) fn transpose(matrix: &Rows) -> Rows {
    let (rows, columns) = (matrix.len(), matrix.width);
    let mut out = Rows::zeros(columns, rows);
    // In bands of rows, so that both sides are walked within a few cache lines.
    out.data.par_chunks_mut(rows * 16).enumerate().for_each(|(band, out)| {
        for i in 0..rows {
            for (j, out) in out.chunks_exact_mut(rows).enumerate() {
                out[i] = matrix.data[i * columns + band * 16 + j];
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dependency::parts::Projection;
    use crate::rng::{Purpose, Rng};

    fn matrix(seed: u64, rows: usize, columns: usize, size: f64) -> Rows {
        let rng = Rng::new(seed, 0);
        let draw = |i: usize| (rng.uniform(Purpose::Mask, 0, i as u64) * 2.0 - 1.0) * size;
        Rows { data: (0..rows * columns).map(|i| draw(i) as f32).collect(), width: columns }
    }

    /// `Σ_k row[k]·m[k, ·]` in double precision: the plain meaning of `row·m`.
    fn times(row: &[f64], m: &Rows) -> Vec<f64> {
        (0..m.width).map(|j| row.iter().enumerate().map(|(k, x)| x * f64::from(m.row(k)[j])).sum()).collect()
    }

    /// The definition, pair by pair.
    fn naive(parts: &Parts, hidden: &Rows) -> Vec<f64> {
        let rows: Vec<Vec<f64>> = hidden
            .iter()
            .map(|h| {
                let h: Vec<f64> = h.iter().map(|&x| f64::from(x)).collect();
                let Some(p) = &parts.projection else { return h };
                let inner = times(&h, &p.first);
                let inner: Vec<f64> = inner
                    .iter()
                    .map(|&x| match p.activation {
                        Activation::Relu => x.max(0.0),
                        Activation::Silu => x / (1.0 + (-x).exp()),
                    })
                    .collect();
                times(&inner, &p.second)
            })
            .collect();
        let width = rows[0].len() as f64;
        let scale = parts.scale.map_or(1.0 / width.sqrt(), f64::from);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut out = Vec::new();
        for i in 0..rows.len() {
            for j in 0..rows.len() {
                let mut sum = 0.0;
                for (h, head) in parts.heads.iter().enumerate() {
                    let score = match head {
                        Head::Pair { query, key } => dot(&times(&rows[i], query), &times(&rows[j], key)),
                        Head::Merged(w) => dot(&times(&rows[i], w), &rows[j]),
                    };
                    let weight = match &parts.mix {
                        Mix::Mean => 1.0 / parts.heads.len() as f64,
                        Mix::Weighted(w) => f64::from(w[h]),
                    };
                    sum += weight / (1.0 + (-score * scale).exp());
                }
                out.push(if i == j { 0.0 } else { sum });
            }
        }
        out
    }

    fn assert_as_defined(parts: Parts, positions: usize) {
        let hidden = matrix(99, positions, parts.width(), 1.5);
        let expected = naive(&parts, &hidden);
        let ours = Predictor::new(parts).unwrap().predict(&hidden, &[]).unwrap();
        for (ours, expected) in ours.data().iter().zip(expected) {
            assert!((f64::from(*ours) - expected).abs() < 2e-5, "{ours} {expected}");
        }
    }

    fn pair(seed: u64, width: usize, inner: usize) -> Head {
        Head::Pair { query: matrix(seed, width, inner, 0.5), key: matrix(seed + 1, width, inner, 0.5) }
    }

    fn parts(heads: Vec<Head>) -> Parts {
        Parts {
            heads,
            projection: None,
            mix: Mix::Mean,
            scale: None,
            metadata: Metadata::new(HiddenRow::I),
            stability: None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn equals_the_definition(
            seed in any::<u64>(), width in 1_usize..20, inner in 1_usize..24, heads in 1_usize..4,
            positions in 1_usize..9, projected in proptest::option::of(1_usize..12), silu in any::<bool>(),
            weighted in any::<bool>(), scale in proptest::option::of(0.05_f32..0.5)
        ) {
            let seed = seed >> 8;
            let mut parts = parts((0..heads as u64).map(|h| pair(seed + 2 * h, width, inner)).collect());
            parts.projection = projected.map(|d| Projection {
                first: matrix(seed + 50, d, 7, 0.5),
                second: matrix(seed + 51, 7, width, 0.5),
                activation: if silu { Activation::Silu } else { Activation::Relu },
            });
            if weighted {
                let sum = (heads * (heads + 1) / 2) as f32;
                parts.mix = Mix::Weighted((1..=heads).map(|h| h as f32 / sum).collect());
            }
            parts.scale = scale;
            assert_as_defined(parts, positions);
        }
    }

    #[test]
    fn narrow_and_merged_heads_mix() {
        let mut parts = parts(vec![pair(1, 24, 5), Head::Merged(matrix(9, 24, 24, 0.3))]);
        assert!(matches!(Predictor::new(parts.clone()).unwrap().heads[0], Bilinear::Narrow(..)));
        parts.mix = Mix::Weighted(vec![0.25, 0.75]);
        assert_as_defined(parts, 17);
    }

    #[test]
    fn a_wide_matrix_is_transposed_across_bands() {
        let m = matrix(3, 37, 41, 1.0);
        let t = transpose(&m);
        assert_eq!((t.len(), t.width), (41, 37));
        assert!((0..37).all(|i| (0..41).all(|j| t.row(j)[i] == m.row(i)[j])));
        assert_eq!(transpose(&t), m);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let good = parts(vec![pair(1, 6, 6)]);
        type Case = (&'static str, fn(&mut Parts));
        let cases: [Case; 6] = [
            ("no head", |p| p.heads.clear()),
            ("head 1", |p| p.heads.push(pair(3, 5, 6))),
            ("projection", |p| {
                let (first, second) = (matrix(1, 4, 3, 1.0), matrix(2, 3, 5, 1.0));
                p.projection = Some(Projection { first, second, activation: Activation::Relu });
            }),
            ("sum to 1", |p| p.mix = Mix::Weighted(vec![0.5])),
            ("scale", |p| p.scale = Some(0.0)),
            ("not finite", |p| {
                if let Head::Pair { query, .. } = &mut p.heads[0] {
                    query.data[7] = f32::NAN;
                }
            }),
        ];
        assert!(good.check().is_ok());
        for (named, damage) in cases {
            let mut bad = good.clone();
            damage(&mut bad);
            let error = Predictor::new(bad).unwrap_err().to_string();
            assert!(error.contains(named), "{named}: {error}");
        }
    }
}
