//! The learned dependency predictor (section 4.3): `D̂ = σ(H W_Q (H W_K)ᵀ / √d)` over the hidden
//! rows of the masked positions, zero diagonal. At inference `W = W_Q W_Kᵀ` is merged, so one d×d
//! product per head remains.

use demask_kernels::{Weights, gemm};
use demask_model::{HiddenRow, Rows};
use rayon::prelude::*;

use crate::dependency::{Dependency, DependencySource};
use crate::error::{Error, Result};
use crate::strategy::Step;

/// How the heads' matrices become one.
#[derive(Debug, Clone, PartialEq)]
pub enum Mix {
    /// The mean of the heads' sigmoids (one head: the paper).
    Mean,
    /// A learned convex combination.
    Weighted(Vec<f32>),
}

/// What a predictor's file says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    /// Which hidden row stands for a position.
    pub hidden_row: HiddenRow,
    /// Fingerprint of the backbone it was trained on.
    pub backbone: Option<String>,
    /// What it was trained on.
    pub trained_on: Option<String>,
    /// Validation MSE of the kept checkpoint.
    pub validation_mse: Option<f64>,
}

/// A predictor ready for inference.
#[derive(Debug, Clone)]
pub struct Predictor {
    d: usize,
    /// Per head `Wᵀ` as `[out, in]`, so that `A = H·W` is a plain GEMM.
    merged: Vec<Vec<f32>>,
    mix: Mix,
    metadata: Metadata,
}

impl Predictor {
    /// From one merged `W` per head, row-major `[in, out]`.
    pub fn from_merged(d: usize, heads: Vec<Vec<f32>>, mix: Mix, metadata: Metadata) -> Result<Self> {
        if heads.is_empty() || heads.iter().any(|w| w.len() != d * d) {
            return Err(Error::Predictor(format!("a predictor of width {d} needs {d}×{d} matrices")));
        }
        let merged = heads.iter().map(|w| transpose(w, d)).collect();
        Ok(Self { d, merged, mix, metadata })
    }

    /// From `W_Q` and `W_K` per head, row-major `[in, out]` (`q = h·W_Q`).
    pub fn from_pairs(d: usize, heads: &[(Vec<f32>, Vec<f32>)], mix: Mix, metadata: Metadata) -> Result<Self> {
        if heads.iter().any(|(q, k)| q.len() != k.len() || q.is_empty() || q.len() % d != 0) {
            return Err(Error::Predictor(format!("a predictor of width {d} needs pairs of matrices with {d} rows")));
        }
        let merge = |(q, k): &(Vec<f32>, Vec<f32>)| {
            let inner = q.len() / d;
            let mut w = vec![0.0; d * d];
            gemm(q, d, inner, Weights::F32(k), d, None, &mut w);
            w
        };
        Self::from_merged(d, heads.iter().map(merge).collect(), mix, metadata)
    }

    /// Width of the hidden rows it reads.
    pub fn width(&self) -> usize {
        self.d
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.merged.len()
    }

    /// What its file says.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// `D̂` over hidden rows `[|M|, d]`.
    pub fn predict(&self, hidden: &Rows) -> Dependency {
        let (size, d) = (hidden.len(), self.d);
        let mut out = vec![0.0_f32; size * size];
        let (mut projected, mut scores) = (vec![0.0; size * d], vec![0.0; size * size]);
        let scale = 1.0 / (d as f32).sqrt();
        for (head, w) in self.merged.iter().enumerate() {
            let weight = match &self.mix {
                Mix::Mean => 1.0 / self.merged.len() as f32,
                Mix::Weighted(weights) => weights[head],
            };
            gemm(&hidden.data, size, d, Weights::F32(w), d, None, &mut projected);
            gemm(&projected, size, d, Weights::F32(&hidden.data), size, None, &mut scores);
            out.par_iter_mut().zip(&scores).for_each(|(o, s)| *o += weight / (1.0 + (-s * scale).exp()));
        }
        (0..size).for_each(|i| out[i * size + i] = 0.0);
        Dependency::from_rows(out, size)
    }
}

impl DependencySource for Predictor {
    fn hidden_row(&self) -> Option<HiddenRow> {
        Some(self.metadata.hidden_row)
    }

    fn dependency(&self, step: &Step<'_>) -> Result<Dependency> {
        let hidden = step.hidden.ok_or_else(|| Error::Predictor("the forward pass returned no hidden rows".into()))?;
        if hidden.width != self.d {
            return Err(Error::Predictor(format!(
                "the predictor reads hidden rows of width {} but the backbone's are {} wide",
                self.d, hidden.width
            )));
        }
        Ok(self.predict(hidden))
    }
}

fn transpose(w: &[f32], d: usize) -> Vec<f32> {
    let mut t = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..d {
            t[j * d + i] = w[i * d + j];
        }
    }
    t
}
