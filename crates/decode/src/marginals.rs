//! Per-position statistics of one forward pass: the paper's `p_top1` and its relatives, computed
//! while logits stream by, so `|M|×V` need not exist.

use std::fmt;
use std::str::FromStr;

use candle_core::Tensor;
use demask_kernels::{SoftmaxStats, least_run, softmax_stats};
use demask_model::{Backbone, Bias, OnDevice, Pass, Rows};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::rng::{Purpose, Rng};
use crate::sampler::{Candidate, Sampling, ScoreDtype};

/// What is known of one masked position after a forward pass.
#[derive(Debug, Clone, Copy)]
pub struct Marginal {
    /// Statistics of the model's own distribution (temperature 1, no filter).
    pub raw: SoftmaxStats,
    /// The sampler's proposal and the scores of the filtered distribution.
    pub candidate: Candidate,
}

/// Tokens that must not be produced, and a penalty on ending.
#[derive(Debug, Clone, Default)]
pub struct Suppression {
    /// Ids set to −∞: the mask and ids that the tokenizer does not know.
    pub ids: Vec<u32>,
    /// Subtracted from the logits of end-of-sequence ids.
    pub eos_penalty: f32,
    /// End-of-sequence is impossible before this position.
    pub no_eos_before: usize,
    /// The end-of-sequence ids.
    pub eos: Vec<u32>,
    /// A position that would take one of these waits: its confidence is zero, and that of the others is as if these
    /// tokens did not exist (LLaDA's `confidence_eos_eot_inf`, at any temperature).
    pub deferred: Vec<u32>,
    /// What [`Suppression::hold`] was asked for, for records.
    pub held: HoldEos,
}

/// Where the end of a response is held back, as LLaDA does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HoldEos {
    /// Nowhere.
    #[default]
    Never,
    /// In the logits: the config's end of sequence cannot be written, only the chat template's end of turn.
    Logits,
    /// In the confidence: positions that would end the response are unmasked last.
    Confidence,
}

impl FromStr for HoldEos {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "never" => Ok(Self::Never),
            "logits" => Ok(Self::Logits),
            "confidence" => Ok(Self::Confidence),
            _ => Err(Error::BadValue {
                what: "hold-eos".into(),
                value: text.into(),
                why: "must be never, logits or confidence".into(),
            }),
        }
    }
}

impl fmt::Display for HoldEos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "never",
            Self::Logits => "logits",
            Self::Confidence => "confidence",
        })
    }
}

impl Suppression {
    /// Holds the end of the response back; `eos` are the ids that end one, the config's first.
    pub fn hold(&mut self, hold: HoldEos, eos: &[u32]) {
        self.held = hold;
        match hold {
            HoldEos::Never => {}
            HoldEos::Logits => self.ids.extend(eos.first()),
            HoldEos::Confidence => self.deferred = eos.to_vec(),
        }
    }

    fn apply(&self, position: usize, logits: &mut [f32]) {
        for &id in &self.ids {
            if let Some(z) = logits.get_mut(id as usize) {
                *z = f32::NEG_INFINITY;
            }
        }
        for &id in &self.eos {
            let z = &mut logits[id as usize];
            *z = if position < self.no_eos_before { f32::NEG_INFINITY } else { *z - self.eos_penalty };
        }
    }

    /// The same for rows on a device: what is added to the logits of these positions.
    fn bias(&self, positions: &[usize]) -> Bias {
        let hidden = self.ids.iter().map(|&id| (id, f32::NEG_INFINITY));
        let penalty = self.eos.iter().filter(|_| self.eos_penalty != 0.0).map(|&id| (id, -self.eos_penalty));
        Bias {
            ids: hidden.chain(penalty).collect(),
            marked_ids: self.eos.iter().map(|&id| (id, f32::NEG_INFINITY)).collect(),
            marked: positions.iter().map(|&p| !self.eos.is_empty() && p < self.no_eos_before).collect(),
        }
    }

    /// Scores after deferral; tokens stay what they are.
    fn defer(&self, logits: &[f32], mut marginal: Marginal) -> Marginal {
        if self.deferred.is_empty() {
            return marginal;
        }
        let mut others = logits.to_vec();
        for &id in &self.deferred {
            if let Some(z) = others.get_mut(id as usize) {
                *z = f32::NEG_INFINITY;
            }
        }
        let stats = softmax_stats(&others);
        if !stats.logsumexp.is_finite() {
            return marginal;
        }
        let nothing = (logits.len() as f32).ln();
        let Marginal { raw, candidate } = &mut marginal;
        if self.deferred.contains(&(raw.argmax as u32)) {
            *raw = SoftmaxStats { top1: 0.0, top2: 0.0, entropy: nothing, ..*raw };
        } else {
            *raw = stats;
        }
        if self.deferred.contains(&candidate.token) {
            let token = candidate.token;
            *candidate =
                Candidate { token, probability: 0.0, raw: 0.0, top1: 0.0, margin: 0.0, entropy: nothing };
        } else {
            candidate.raw = (logits[candidate.token as usize] - stats.logsumexp).exp();
        }
        marginal
    }
}

/// A few rows of aligned logits on their way to the statistics.
pub struct LogitRows<'a> {
    /// Positions of the rows.
    pub positions: &'a [usize],
    /// Their logits, `[positions.len(), vocab]`.
    pub logits: &'a mut [f32],
}

impl<'a> LogitRows<'a> {
    /// The rows at the first of these positions, which follow one another as in `positions`; `None` if there are none.
    pub(crate) fn among(self, positions: &[usize]) -> Option<Self> {
        let last = *positions.last()?;
        // A chunk that ends behind them is cut after the last one; masks and decided positions never coincide.
        let count = match self.positions.iter().position(|&p| p == last) {
            Some(index) => index + 1,
            None if self.positions.first().is_some_and(|p| positions.contains(p)) => self.positions.len(),
            None => return None,
        };
        let vocab = self.vocab();
        let (logits, _) = self.logits.split_at_mut(count * vocab);
        Some(LogitRows { positions: &self.positions[..count], logits })
    }

    /// Size of the vocabulary.
    pub fn vocab(&self) -> usize {
        self.logits.len() / self.positions.len().max(1)
    }

    /// Each position with its row.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut [f32])> {
        let vocab = self.vocab();
        self.positions.iter().copied().zip(self.logits.chunks_exact_mut(vocab))
    }
}

/// How rows become marginals.
pub struct Reader<'a> {
    /// Token drawing.
    pub sampling: &'a Sampling,
    /// Precision of filtered scores.
    pub dtype: ScoreDtype,
    /// Tokens that must not appear.
    pub suppression: &'a Suppression,
    /// Randomness of the request.
    pub rng: Rng,
    /// Step of the decoding.
    pub step: usize,
    /// Prediction rows of the unconditional pass and the strength of guidance, where it is on.
    pub guide: Option<(Predicting<'a>, f32)>,
}

/// Rows that predict positions: on the host, or where they were computed.
#[derive(Clone, Copy)]
pub enum Predicting<'a> {
    /// On the host.
    Host(&'a Rows),
    /// On the backbone's device.
    Resident(&'a dyn OnDevice, &'a Tensor),
}

impl<'a> Predicting<'a> {
    /// Of a pass.
    pub fn of(backbone: &'a dyn Backbone, pass: &'a Pass) -> Self {
        match (backbone.device(), &pass.resident) {
            (Some(device), Some(resident)) => Self::Resident(device, &resident.predicting),
            _ => Self::Host(&pass.predicting),
        }
    }

    /// Their logits on the host, a few rows at a time.
    fn logits(self, backbone: &dyn Backbone, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        match self {
            Self::Host(rows) => Ok(backbone.logits(rows, visit)?),
            Self::Resident(device, rows) => Ok(device.each_logits(rows, &mut |first, logits| {
                visit(first, &mut device.fetch(&logits)?);
                Ok(())
            })?),
        }
    }
}

impl Reader<'_> {
    /// Reads the logits of `positions`, predicted by `rows`, as they stream by (or those that are `ready`); `see` gets each
    /// chunk, after suppression, before it becomes statistics and may change it.
    pub fn read(
        &self,
        backbone: &dyn Backbone,
        rows: Predicting<'_>,
        ready: Option<&mut [f32]>,
        positions: &[usize],
        mut see: impl FnMut(LogitRows<'_>),
    ) -> Result<Vec<Marginal>> {
        let vocab = backbone.spec().vocab;
        let mut unguided = Vec::new();
        if let Some((rows, _)) = self.guide {
            rows.logits(backbone, &mut |_, logits| unguided.extend_from_slice(logits))?;
        }
        let mut all: Vec<Marginal> = Vec::with_capacity(positions.len());
        let mut visit = |first: usize, logits: &mut [f32]| {
            if let Some((_, scale)) = self.guide {
                let unguided = &unguided[first * vocab..first * vocab + logits.len()];
                let pairs = logits.par_iter_mut().zip(unguided).with_min_len(least_run());
                pairs.for_each(|(z, &un)| *z = un + (scale + 1.0) * (*z - un));
            }
            let positions = &positions[first..first + logits.len() / vocab];
            let rows = logits.par_chunks_exact_mut(vocab).zip(positions).with_min_len(least_run());
            rows.for_each(|(row, &position)| self.suppression.apply(position, row));
            see(LogitRows { positions, logits });
            let rows = logits.par_chunks_exact(vocab).zip(positions).with_min_len(least_run());
            all.par_extend(rows.map(|(row, &position)| self.marginal(position, row)));
        };
        match ready {
            Some(logits) => visit(0, logits),
            None => rows.logits(backbone, &mut visit)?,
        }
        self.checked(all, positions)
    }

    /// As [`Self::read`] of rows on a device, reduced there: only a few numbers per row cross over. `None` where the
    /// scores need the whole distribution: Gumbel noise, deferred tokens, or the precision of another program.
    pub fn reduce(&self, rows: Predicting<'_>, positions: &[usize]) -> Result<Option<Vec<Marginal>>> {
        let Predicting::Resident(device, rows) = rows else { return Ok(None) };
        if self.dtype != ScoreDtype::F32 || !self.suppression.deferred.is_empty() {
            return Ok(None);
        }
        let guide = match self.guide {
            None => None,
            Some((Predicting::Resident(_, guide), scale)) => Some((guide, scale)),
            Some((Predicting::Host(_), _)) => return Ok(None),
        };
        let bias = self.suppression.bias(positions);
        let all: Vec<Marginal> = if self.sampling.is_plain() {
            let statistics = device.statistics(rows, guide, &bias)?;
            let marginal = |raw: SoftmaxStats| {
                // Without filters the candidate is the most probable token, whatever is drawn.
                Marginal { raw, candidate: self.sampling.candidate(&[], &raw, self.dtype, 0.5) }
            };
            statistics.into_iter().map(marginal).collect()
        } else {
            let Some(filter) = self.sampling.filter_on_device() else { return Ok(None) };
            let draw =
                |&position: &usize| self.rng.uniform(Purpose::Token, self.step as u64, position as u64);
            let uniform: Vec<f64> = positions.iter().map(draw).collect();
            let each = device.candidates(rows, guide, &bias, &filter, &uniform)?;
            each.into_iter().map(|(raw, drawn)| Marginal { raw, candidate: drawn.into() }).collect()
        };
        self.checked(all, positions).map(Some)
    }

    fn checked(&self, all: Vec<Marginal>, positions: &[usize]) -> Result<Vec<Marginal>> {
        match all.iter().position(|m| !m.raw.logsumexp.is_finite()) {
            Some(index) => Err(Error::NotFinite { position: positions[index], step: self.step }),
            None => Ok(all),
        }
    }

    fn marginal(&self, position: usize, logits: &[f32]) -> Marginal {
        let raw = softmax_stats(logits);
        if !raw.logsumexp.is_finite() {
            // Refused by the caller.
            let (probability, top1, margin, entropy) = (0.0, 0.0, 0.0, 0.0);
            return Marginal {
                raw,
                candidate: Candidate { token: 0, probability, raw: 0.0, top1, margin, entropy },
            };
        }
        let (step, at) = (self.step as u64, position as u64);
        let candidate = self.sampling.propose(logits, &raw, self.dtype, |token| match token {
            None => self.rng.uniform(Purpose::Token, step, at),
            Some(token) => self.rng.uniform(Purpose::Noise, step, at << 32 | token as u64),
        });
        self.suppression.defer(logits, Marginal { raw, candidate })
    }
}
