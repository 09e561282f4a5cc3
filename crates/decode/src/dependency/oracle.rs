//! The true dependency by reveal and measure (section 4.3, phase 1): for every masked j draw y_j,
//! reveal it alone, run the backbone, and take the total variation at every masked i over the
//! whole vocabulary.
//!
//! One primitive, three uses: DEMASK with the true D, TV-cache generation, and the sub-additivity
//! run. The canvases of several examples may share forward passes. The logits with everything masked
//! are kept, `|M|×V` of each example; those of the reveals are bounded by the token budget of a batch.

mod on_device;

use demask_kernels::{softmax_stats, total_variation};
use demask_model::{HiddenRow, Rows};
use rayon::prelude::*;

use crate::dependency::{Dependency, DependencySource};
use crate::error::{Error, Result};
use crate::probe::{Probe, Question};
use crate::rng::{Purpose, Rng};
use crate::strategy::Step;

use on_device::Base;

/// Tokens revealed together: `(index into M, token)`.
pub type Set = Vec<(usize, u32)>;

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
    measure: Measure,
}

/// What is measured between a position's distribution before and after a reveal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Measure {
    /// Total variation (eq. 4 of the paper).
    #[default]
    #[serde(rename = "tv")]
    TotalVariation,
    #[serde(rename = "kl")]
    /// `KL(after ‖ before)`, whose expectation over the revealed token is the mutual information.
    Divergence,
}

impl Measure {
    /// How it is spelled in files and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::TotalVariation => "tv",
            Self::Divergence => "kl",
        }
    }

    /// The measure of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::TotalVariation, Self::Divergence].into_iter().find(|measure| measure.name() == name)
    }

    fn between(self, before: (&[f32], f32), after: (&[f32], f32)) -> f32 {
        match self {
            Self::TotalVariation => total_variation(before.0, before.1, after.0, after.1),
            Self::Divergence => divergence(after, before),
        }
    }
}

/// `KL(p ‖ q)` of logits with their log-sum-exp, in nats; never below 0.
fn divergence(p: (&[f32], f32), q: (&[f32], f32)) -> f32 {
    let term = |(&a, &b): (&f32, &f32)| {
        let (a, b) = (f64::from(a - p.1), f64::from(b - q.1));
        if a == f64::NEG_INFINITY { 0.0 } else { a.exp() * (a - b) }
    };
    p.0.iter().zip(q.0).map(term).sum::<f64>().max(0.0) as f32
}

impl Oracle {
    /// An oracle that reveals tokens this way.
    pub fn new(draws: Draws) -> Self {
        Self { draws, measure: Measure::TotalVariation }
    }

    /// The same, measuring something else.
    pub fn measuring(self, measure: Measure) -> Self {
        Self { measure, ..self }
    }
}

impl DependencySource for Oracle {
    fn hidden_row(&self) -> Option<HiddenRow> {
        None
    }

    fn dependency(&self, step: &Step<'_>) -> Result<Dependency> {
        let base = Reveals::measure(step.probe, step.canvas.tokens(), step.masked)?;
        match self.draws {
            Draws::Sampled(count) => {
                let mut sum = vec![0.0_f32; step.masked.len() * step.masked.len()];
                for draw in 0..count {
                    let mask = step.canvas.ids().mask;
                    let tokens =
                        base.draw_with(step.probe, step.rng, step.index as u64, draw as u64, mask)?;
                    let reveals =
                        Reveals::reveal_by(self.measure, step.probe, &[(&base, &tokens)])?.remove(0);
                    sum.iter_mut().zip(reveals.data()).for_each(|(s, d)| *s += d / count as f32);
                }
                Ok(Dependency::from_rows(sum, step.masked.len()))
            }
            Draws::Enumerated => base.enumerate(self.measure, step.probe, step.canvas.ids().mask),
        }
    }
}

/// The distributions with all of M masked, kept to compare reveals with.
pub struct Reveals<'a> {
    tokens: &'a [u32],
    masked: &'a [usize],
    logits: Base,
    lse: Vec<f32>,
    hidden: Option<Rows>,
    vocab: usize,
}

/// A canvas to measure reveals on.
#[derive(Debug, Clone, Copy)]
pub struct Masked<'a> {
    /// The whole canvas, masks included.
    pub tokens: &'a [u32],
    /// The paper's `M`, ascending.
    pub masked: &'a [usize],
    /// Rows of the residual stream to keep (after the final norm).
    pub rows: Option<&'a [usize]>,
}

impl<'a> Reveals<'a> {
    /// Runs the canvas as it is and keeps the distributions at `masked`.
    pub fn measure(probe: &dyn Probe, tokens: &'a [u32], masked: &'a [usize]) -> Result<Self> {
        Ok(Self::measure_each(probe, &[Masked { tokens, masked, rows: None }])?.remove(0))
    }

    /// The same for several canvases in common forward passes.
    pub fn measure_each(probe: &dyn Probe, canvases: &[Masked<'a>]) -> Result<Vec<Self>> {
        let vocab = probe.vocab();
        let questions = canvases.iter().map(|c| Question {
            tokens: c.tokens,
            predict: c.masked,
            hidden: c.rows.map(|rows| (rows, HiddenRow::I)),
        });
        let questions: Vec<_> = questions.collect();
        if let Some(device) = probe.device() {
            return Self::measure_resident(probe, device, canvases, &questions);
        }
        let ends = ends(canvases.iter().map(|c| c.masked.len()));
        let mut logits: Vec<Vec<f32>> =
            canvases.iter().map(|c| Vec::with_capacity(c.masked.len() * vocab)).collect();
        let hidden = probe.ask_each(&questions, &mut |first, chunk| {
            let (mut row, mut rest) = (first, &*chunk);
            while !rest.is_empty() {
                let canvas = ends.partition_point(|&end| end <= row);
                let (part, later) = rest.split_at(((ends[canvas] - row) * vocab).min(rest.len()));
                logits[canvas].extend_from_slice(part);
                (row, rest) = (row + part.len() / vocab, later);
            }
        })?;
        let each = canvases.iter().zip(logits).zip(hidden);
        each.map(|((c, logits), hidden)| {
            let lse: Vec<f32> =
                logits.par_chunks_exact(vocab).map(|row| softmax_stats(row).logsumexp).collect();
            if let Some(bad) = lse.iter().position(|l| !l.is_finite()) {
                return Err(Error::NotFinite { position: c.masked[bad], step: 0 });
            }
            Ok(Self { tokens: c.tokens, masked: c.masked, logits: Base::Host(logits), lse, hidden, vocab })
        })
        .collect()
    }

    /// The rows of the residual stream that were to be kept.
    pub fn hidden(&self) -> Option<&Rows> {
        self.hidden.as_ref()
    }

    /// Logits of masked position number `index`.
    pub fn row(&self, index: usize) -> &[f32] {
        let all = match &self.logits {
            Base::Host(logits) => logits,
            Base::Resident(logits, host) => host.get_or_init(|| on_device::looked_at(logits)),
        };
        &all[index * self.vocab..(index + 1) * self.vocab]
    }

    /// Probability of `token` at masked position number `index`.
    pub fn probability(&self, index: usize, token: u32) -> f32 {
        (self.row(index)[token as usize] - self.lse[index]).exp()
    }

    /// One token per masked position from the model's own distribution (temperature 1), never the
    /// mask itself. A function of (rng, step, draw, position) only.
    pub fn draw_with(
        &self,
        probe: &dyn Probe,
        rng: Rng,
        step: u64,
        draw: u64,
        mask: u32,
    ) -> Result<Vec<u32>> {
        let slot = |index: usize| draw * (1 << 32) + self.masked[index] as u64;
        match (&self.logits, probe.device()) {
            (Base::Resident(logits, _), Some(device)) => {
                let uniform = (0..self.masked.len()).map(|i| rng.uniform(Purpose::Reveal, step, slot(i)));
                Ok(device.draw(logits, mask, &uniform.collect::<Vec<_>>())?)
            }
            _ => Ok(self.draw(rng, step, draw, mask)),
        }
    }

    /// As [`Self::draw_with`], from logits on the host.
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
        Ok(Self::reveal_each(probe, &[(self, tokens)])?.remove(0))
    }

    /// `D(y)` of several canvases, or of several draws of one, in common forward passes.
    pub fn reveal_each(probe: &dyn Probe, reveals: &[(&Self, &[u32])]) -> Result<Vec<Dependency>> {
        Self::reveal_by(Measure::TotalVariation, probe, reveals)
    }

    /// The same by another measure.
    pub fn reveal_by(
        measure: Measure,
        probe: &dyn Probe,
        reveals: &[(&Self, &[u32])],
    ) -> Result<Vec<Dependency>> {
        let all = Self::reveal_all([measure], probe, reveals)?;
        Ok(all.into_iter().map(|[one]| one).collect())
    }

    /// The same by several measures, of the same passes.
    pub fn reveal_all<const N: usize>(
        measures: [Measure; N],
        probe: &dyn Probe,
        reveals: &[(&Self, &[u32])],
    ) -> Result<Vec<[Dependency; N]>> {
        let alone = |(base, tokens): &(&Self, &[u32])| -> Vec<Vec<u32>> {
            (0..base.masked.len()).map(|j| base.with(&[(j, tokens[j])])).collect()
        };
        let canvases: Vec<Vec<Vec<u32>>> = reveals.iter().map(alone).collect();
        let empty = |base: &Self| vec![0.0_f32; base.masked.len().pow(2)];
        let mut data: Vec<[Vec<f32>; N]> =
            reveals.iter().map(|(base, _)| std::array::from_fn(|_| empty(base))).collect();
        let compared =
            reveals.iter().zip(&canvases).map(|((base, _), canvases)| (*base, canvases.as_slice()));
        let compared: Vec<_> = compared.collect();
        Self::compare_each(measures, probe, &compared, |example, j, i, values: [f32; N]| {
            if i != j {
                let place = i * reveals[example].0.masked.len() + j;
                data[example].iter_mut().zip(values).for_each(|(data, value)| data[place] = value);
            }
        })?;
        let square = |(data, (base, _)): ([Vec<f32>; N], &(&Self, &[u32]))| {
            data.map(|data| Dependency::from_rows(data, base.masked.len()))
        };
        Ok(data.into_iter().zip(reveals).map(square).collect())
    }

    /// Total variation at every masked position after revealing several tokens at once:
    /// `(index into M, token)` pairs.
    pub fn reveal_together(&self, probe: &dyn Probe, tokens: &[(usize, u32)]) -> Result<Vec<f32>> {
        Ok(Self::reveal_sets(probe, &[(self, vec![tokens.to_vec()])])?.remove(0).data)
    }

    /// The same for several sets of tokens of several canvases, in common forward passes: for each
    /// canvas a row per set, a column per masked position. A revealed position's own value means nothing.
    pub fn reveal_sets(probe: &dyn Probe, reveals: &[(&Self, Vec<Set>)]) -> Result<Vec<Rows>> {
        let canvases: Vec<Vec<Vec<u32>>> =
            reveals.iter().map(|(base, sets)| sets.iter().map(|set| base.with(set)).collect()).collect();
        let mut values: Vec<Rows> =
            reveals.iter().map(|(base, sets)| Rows::zeros(sets.len(), base.masked.len())).collect();
        let compared =
            reveals.iter().zip(&canvases).map(|((base, _), canvases)| (*base, canvases.as_slice()));
        let tv = [Measure::TotalVariation];
        Self::compare_each(tv, probe, &compared.collect::<Vec<_>>(), |example, set, i, [tv]| {
            let width = values[example].width;
            values[example].data[set * width + i] = tv;
        })?;
        Ok(values)
    }

    /// The expectation over every token but the mask, weighted by its probability.
    fn enumerate(&self, measure: Measure, probe: &dyn Probe, mask: u32) -> Result<Dependency> {
        let size = self.masked.len();
        let mut sum = vec![0.0_f64; size * size];
        for token in (0..self.vocab as u32).filter(|&t| t != mask) {
            let canvases: Vec<Vec<u32>> = (0..size).map(|j| self.with(&[(j, token)])).collect();
            self.compare(measure, probe, &canvases, |j, i, tv| {
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
        measure: Measure,
        probe: &dyn Probe,
        canvases: &[Vec<u32>],
        mut measured: impl FnMut(usize, usize, f32),
    ) -> Result<()> {
        Self::compare_each([measure], probe, &[(self, canvases)], |_, canvas, i, [tv]| {
            measured(canvas, i, tv)
        })
    }

    /// These measures at every masked position of every canvas against the base it belongs to:
    /// base, canvas, index into M, values.
    fn compare_each<const N: usize>(
        measures: [Measure; N],
        probe: &dyn Probe,
        bases: &[(&Self, &[Vec<u32>])],
        mut measured: impl FnMut(usize, usize, usize, [f32; N]),
    ) -> Result<()> {
        let vocab = probe.vocab();
        let questions = bases.iter().flat_map(|(base, canvases)| {
            canvases.iter().map(|tokens| Question { tokens, predict: base.masked, hidden: None })
        });
        let questions: Vec<_> = questions.collect();
        // Divergences are taken on the host.
        if let Some(device) =
            probe.device().filter(|_| measures.iter().all(|m| *m == Measure::TotalVariation))
        {
            return Self::compare_resident(probe, device, bases, &questions, &mut |base, canvas, i, tv| {
                measured(base, canvas, i, [tv; N]);
            });
        }
        let ends = ends(bases.iter().map(|(base, canvases)| canvases.len() * base.masked.len()));
        let place = |row: usize| {
            let index = ends.partition_point(|&end| end <= row);
            let base = bases[index].0;
            let local = row - if index == 0 { 0 } else { ends[index - 1] };
            (index, local / base.masked.len(), local % base.masked.len())
        };
        let mut bad = None;
        probe.ask_each(&questions, &mut |first, logits| {
            let compare = |(offset, row): (usize, &[f32])| {
                let (index, _, i) = place(first + offset);
                let base = bases[index].0;
                let after = (row, softmax_stats(row).logsumexp);
                measures.map(|measure| measure.between((base.row(i), base.lse[i]), after))
            };
            let values: Vec<[f32; N]> = logits.par_chunks_exact(vocab).enumerate().map(compare).collect();
            for (offset, values) in values.into_iter().enumerate() {
                let (index, canvas, i) = place(first + offset);
                if values.iter().any(|value| !value.is_finite()) {
                    bad.get_or_insert(bases[index].0.masked[i]);
                }
                measured(index, canvas, i, values);
            }
        })?;
        bad.map_or(Ok(()), |position| Err(Error::NotFinite { position, step: 0 }))
    }
}

/// Running sums.
fn ends(counts: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut end = 0;
    counts
        .map(|count| {
            end += count;
            end
        })
        .collect()
}
