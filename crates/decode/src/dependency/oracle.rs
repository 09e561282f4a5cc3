//! The true dependency by reveal and measure (section 4.3, phase 1): for every masked j draw y_j,
//! reveal it alone, run the backbone, and take the total variation at every masked i over the
//! whole vocabulary.
//!
//! One primitive, three uses: DEMASK with the true D, TV-cache generation, and the sub-additivity
//! run. Memory is bounded by the token budget of a batch, whatever `|M|`.

use demask_kernels::{softmax_stats, total_variation};
use demask_model::HiddenRow;
use rayon::prelude::*;

use crate::dependency::{Dependency, DependencySource};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Rng};
use crate::strategy::{Probe, Step};

/// Which tokens are revealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// Draw this many tokens from the model's distribution and average.
    Sampled(usize),
    /// Weigh every token of the vocabulary by its probability: exact, for small vocabularies.
    Enumerated,
}

/// Measures dependency with extra forward passes.
#[derive(Debug, Clone, Copy)]
pub struct Oracle {
    draws: Draws,
}

impl Oracle {
    /// An oracle that reveals tokens this way.
    pub fn new(draws: Draws) -> Self {
        Self { draws }
    }
}

impl DependencySource for Oracle {
    fn hidden_row(&self) -> Option<HiddenRow> {
        None
    }

    fn dependency(&self, step: &Step<'_>) -> Result<Dependency> {
        let base = Base::measure(step.probe, step.canvas.tokens(), step.masked)?;
        match self.draws {
            Draws::Sampled(count) => {
                let mut sum = vec![0.0_f32; step.masked.len() * step.masked.len()];
                for draw in 0..count {
                    let tokens = base.draw(step.rng, step.index as u64, draw as u64, step.canvas.ids().mask);
                    let reveals = base.reveal(step.probe, &tokens)?;
                    sum.iter_mut().zip(reveals.data()).for_each(|(s, d)| *s += d / count as f32);
                }
                Ok(Dependency::from_rows(sum, step.masked.len()))
            }
            Draws::Enumerated => base.enumerate(step.probe, step.canvas.ids().mask),
        }
    }
}

/// The distributions with all of M masked, kept to compare reveals with.
pub struct Reveals<'a> {
    tokens: &'a [u32],
    masked: &'a [usize],
    /// `|M|×V` logits.
    logits: Vec<f32>,
    lse: Vec<f32>,
    vocab: usize,
}

type Base<'a> = Reveals<'a>;

impl<'a> Reveals<'a> {
    /// Runs the canvas as it is and keeps the distributions at `masked`.
    pub fn measure(probe: &dyn Probe, tokens: &'a [u32], masked: &'a [usize]) -> Result<Self> {
        let vocab = probe.vocab();
        let mut logits = Vec::with_capacity(masked.len() * vocab);
        probe.ask(&[tokens.to_vec()], masked, &mut |_, _, rows| logits.extend_from_slice(rows))?;
        let lse: Vec<f32> = logits.par_chunks_exact(vocab).map(|row| softmax_stats(row).logsumexp).collect();
        if let Some(bad) = lse.iter().position(|l| !l.is_finite()) {
            return Err(Error::NotFinite { position: masked[bad], step: 0 });
        }
        Ok(Self { tokens, masked, logits, lse, vocab })
    }

    /// Logits of masked position number `index`.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.logits[index * self.vocab..(index + 1) * self.vocab]
    }

    /// Probability of `token` at masked position number `index`.
    pub fn probability(&self, index: usize, token: u32) -> f32 {
        (self.row(index)[token as usize] - self.lse[index]).exp()
    }

    /// One token per masked position from the model's own distribution (temperature 1), never the
    /// mask itself. A function of (rng, step, draw, position) only.
    pub fn draw(&self, rng: Rng, step: u64, draw: u64, mask: u32) -> Vec<u32> {
        let sample = |index: usize| {
            let slot = draw * (1 << 32) + self.masked[index] as u64;
            let without_mask = 1.0 - f64::from(self.probability(index, mask));
            let mut left = rng.uniform(Purpose::Reveal, step, slot) * without_mask;
            let mut last = 0;
            for (token, &z) in self.row(index).iter().enumerate().filter(|(t, _)| *t != mask as usize) {
                let p = f64::from((z - self.lse[index]).exp());
                if p > 0.0 {
                    last = token as u32;
                }
                left -= p;
                if left < 0.0 {
                    return token as u32;
                }
            }
            last
        };
        (0..self.masked.len()).into_par_iter().map(sample).collect()
    }

    /// `D(y)`: column j is the total variation at every i after revealing `tokens[j]` at j alone.
    pub fn reveal(&self, probe: &dyn Probe, tokens: &[u32]) -> Result<Dependency> {
        let size = self.masked.len();
        let canvases: Vec<Vec<u32>> = (0..size).map(|j| self.with(&[(j, tokens[j])])).collect();
        let mut data = vec![0.0; size * size];
        self.compare(probe, &canvases, |j, i, tv| {
            if i != j {
                data[i * size + j] = tv;
            }
        })?;
        Ok(Dependency::from_rows(data, size))
    }

    /// Total variation at every masked position after revealing several tokens at once:
    /// `(index into M, token)` pairs.
    pub fn reveal_together(&self, probe: &dyn Probe, tokens: &[(usize, u32)]) -> Result<Vec<f32>> {
        let mut tv = vec![0.0; self.masked.len()];
        self.compare(probe, &[self.with(tokens)], |_, i, value| tv[i] = value)?;
        Ok(tv)
    }

    /// The expectation over every token but the mask, weighted by its probability.
    fn enumerate(&self, probe: &dyn Probe, mask: u32) -> Result<Dependency> {
        let size = self.masked.len();
        let mut sum = vec![0.0_f64; size * size];
        for token in (0..self.vocab as u32).filter(|&t| t != mask) {
            let canvases: Vec<Vec<u32>> = (0..size).map(|j| self.with(&[(j, token)])).collect();
            self.compare(probe, &canvases, |j, i, tv| {
                if i != j {
                    sum[i * size + j] += f64::from(self.probability(j, token)) * f64::from(tv);
                }
            })?;
        }
        Ok(Dependency::from_rows(sum.into_iter().map(|d| d as f32).collect(), size))
    }

    fn with(&self, reveals: &[(usize, u32)]) -> Vec<u32> {
        let mut canvas = self.tokens.to_vec();
        for &(j, token) in reveals {
            canvas[self.masked[j]] = token;
        }
        canvas
    }

    fn compare(
        &self,
        probe: &dyn Probe,
        canvases: &[Vec<u32>],
        mut measured: impl FnMut(usize, usize, f32),
    ) -> Result<()> {
        probe.ask(canvases, self.masked, &mut |canvas, first, logits| {
            let rows = logits.par_chunks_exact(self.vocab).enumerate();
            let tv: Vec<f32> = rows
                .map(|(offset, row)| {
                    let i = first + offset;
                    total_variation(self.row(i), self.lse[i], row, softmax_stats(row).logsumexp)
                })
                .collect();
            tv.into_iter().enumerate().for_each(|(offset, tv)| measured(canvas, first + offset, tv));
        })
    }
}
