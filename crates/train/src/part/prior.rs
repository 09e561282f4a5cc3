//! Training of CoDD's prior: a hidden Markov model `ω` of blocks of answers, so that the frozen model's marginals times the
//! prior say more of what is masked than the marginals alone. With known cells as they are and marginals `p_i` at the masks,
//! `−ln p̂ = −(ln p_ω(x_B) + Σ ln p_i(x_i) − ln Z)`, per mask; the gradient is expected counts under soft evidence less those
//! with the block's tokens clamped. Rows are softmaxes of the parameters. It starts from Baum–Welch on the answers.
//!
//! Baseline: the marginals alone, which is what a prior with uniform emissions gives.

use std::path::Path;

use demask_decode::rng::{Purpose, Rng};
use demask_decode::trained::{PartHeader, Prior};
use demask_kernels::softmax_stats;
use demask_model::{Backbone, Query, Rows};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::hmm::{self, Hmm, masks};
use super::{Objective, Outcome, Slots};
use crate::error::{Error, Result};
use crate::tv_cache::ResponseSource;

pub use super::hmm::BlockCell;

/// Added to expected counts, so that nothing becomes impossible.
const SMOOTHING: f64 = 1e-2;

/// Sizes of the model and of its updates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PriorShape {
    /// Hidden states.
    pub states: usize,
    /// Cells of a block.
    pub block: usize,
    /// Blocks per update.
    pub batch: usize,
    /// Blocks that are held out.
    pub held: usize,
    /// Rounds of Baum–Welch on the answers before the first update.
    pub rounds: usize,
    /// Temperature of the marginals.
    pub tau: f32,
}

/// A prompt and its answer with its end, as the canvas has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// The answer, its end included.
    pub response: Vec<u32>,
}

/// Answers among the first `limit` of a source that are shorter than `length` cells and, with their prompts, fit `room`
/// positions; filled up with `eos` where there is one.
pub fn answers(
    source: &dyn ResponseSource,
    limit: usize,
    length: usize,
    eos: Option<u32>,
    room: usize,
) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for row in source.read(0..source.len().min(limit))?.into_iter().flatten() {
        let mut response = row.response;
        if response.len() >= length || row.prompt.is_empty() || row.prompt.len() + length > room {
            continue;
        }
        match eos {
            Some(eos) => response.resize(length, eos),
            None if response.is_empty() => continue,
            None => {}
        }
        answers.push(Answer { prompt: row.prompt, response });
    }
    if answers.len() < 2 {
        let allowed = "large enough for two answers or more";
        return Err(Error::Setting { name: "the length of a response", value: length.to_string(), allowed });
    }
    Ok(answers)
}

/// The prior in training.
pub struct PriorObjective<'a> {
    backbone: &'a dyn Backbone,
    answers: &'a [Answer],
    shape: PriorShape,
    slots: Slots,
    training: usize,
    seed: u64,
    gathered: Vec<Vec<BlockCell>>,
    held: Vec<Vec<BlockCell>>,
}

impl<'a> PriorObjective<'a> {
    /// On these answers.
    pub fn new(
        backbone: &'a dyn Backbone,
        answers: &'a [Answer],
        shape: PriorShape,
        seed: u64,
    ) -> Result<Self> {
        let PriorShape { states, block, batch, held, tau, .. } = shape;
        let refuse =
            |value: String, allowed| Err(Error::Setting { name: "the prior's shape", value, allowed });
        if states == 0 || block < 2 || batch == 0 || held == 0 || !(tau > 0.0 && tau.is_finite()) {
            return refuse(
                format!("{shape:?}"),
                "of at least one state, blocks of at least 2 and a positive tau",
            );
        }
        if answers.len() < 2 || answers.iter().any(|a| a.response.is_empty() || a.prompt.is_empty()) {
            return refuse(
                format!("{} answers", answers.len()),
                "trained on two answers or more, none empty",
            );
        }
        let vocab = backbone.spec().vocab;
        let slots = Slots::new([
            ("initial", vec![states]),
            ("transition", vec![states, states]),
            ("emission", vec![states, vocab]),
        ]);
        let training = answers.len() - (answers.len() / 20).max(1);
        let mut this =
            Self { backbone, answers, shape, slots, training, seed, gathered: Vec::new(), held: Vec::new() };
        this.held = this.blocks(training..answers.len(), Rng::new(seed, u64::MAX), held)?;
        Ok(this)
    }

    /// Blocks of masked answers with what the model says of them.
    fn blocks(&self, from: std::ops::Range<usize>, rng: Rng, count: usize) -> Result<Vec<Vec<BlockCell>>> {
        let mask = self.backbone.spec().ids.mask;
        let mut drawn = Vec::with_capacity(count);
        for index in 0..count as u64 {
            let pick = |purpose, count: usize| (rng.bits(purpose, index, u64::MAX) % count as u64) as usize;
            let answer = &self.answers[from.start + pick(Purpose::Position, from.len())];
            let length = answer.response.len().min(self.shape.block);
            let start = pick(Purpose::Mask, answer.response.len() - length + 1);
            let ratio = rng.uniform(Purpose::Reveal, index, u64::MAX);
            let hidden = |offset: usize| rng.uniform(Purpose::Mask, index, offset as u64) < ratio;
            let mut hides: Vec<bool> = (0..answer.response.len()).map(hidden).collect();
            if !hides[start..start + length].contains(&true) {
                hides[start + pick(Purpose::Noise, length)] = true;
            }
            let mut tokens = answer.prompt.clone();
            tokens.extend(answer.response.iter().zip(&hides).map(|(&t, &hide)| if hide { mask } else { t }));
            let first = answer.prompt.len() + start;
            let masked: Vec<usize> = (first..first + length).filter(|&p| tokens[p] == mask).collect();
            drawn.push((answer, tokens, first..first + length, masked));
        }
        let mut batch: Vec<Query<'_>> = drawn
            .iter()
            .map(|(_, tokens, _, predict)| Query { tokens, predict, ..Query::default() })
            .collect();
        let passes = self.backbone.forward(&mut batch)?;
        let mut blocks = Vec::with_capacity(count);
        for ((answer, tokens, cells, _), pass) in drawn.iter().zip(&passes) {
            let mut marginals = self.marginals(&pass.predicting)?.into_iter();
            let cell = |position: usize| match tokens[position] == mask {
                false => BlockCell::Known(tokens[position]),
                true => BlockCell::Masked {
                    marginal: marginals.next().unwrap_or_default(),
                    truth: answer.response[position - answer.prompt.len()],
                },
            };
            blocks.push(cells.clone().map(cell).collect());
        }
        Ok(blocks)
    }

    fn marginals(&self, rows: &Rows) -> Result<Vec<Vec<f32>>> {
        let (vocab, mut all) = (self.backbone.spec().vocab, Vec::new());
        self.backbone.logits(rows, &mut |_, chunk| {
            for row in chunk.chunks_exact(vocab) {
                let scaled: Vec<f32> = row.iter().map(|z| z / self.shape.tau).collect();
                let lse = softmax_stats(&scaled).logsumexp;
                all.push(scaled.into_iter().map(|z| (z - lse).exp()).collect());
            }
        })?;
        Ok(all)
    }

    /// Rounds of Baum–Welch on blocks of the answers from a random start.
    fn fitted(&self, seed: u64) -> Vec<f32> {
        let mut parameters: Vec<f32> = {
            let rng = Rng::new(seed, 1);
            (0..self.slots.len()).map(|i| rng.uniform(Purpose::Token, 0, i as u64) as f32).collect()
        };
        let blocks: Vec<Vec<BlockCell>> = self.answers[..self.training]
            .iter()
            .flat_map(|answer| answer.response.chunks(self.shape.block))
            .map(|tokens| tokens.iter().map(|&t| BlockCell::Known(t)).collect())
            .collect();
        for _ in 0..self.shape.rounds {
            let model = self.model(&parameters);
            let counts = model.counted(&blocks, |model, block, counts| {
                model.count(block, true, 1.0, counts);
            });
            for (range, counts) in [
                (self.slots.range("initial"), counts.initial),
                (self.slots.range("transition"), counts.transition),
                (self.slots.range("emission"), counts.emission),
            ] {
                let values = counts.iter().map(|c| (c + SMOOTHING).ln() as f32);
                parameters[range].iter_mut().zip(values).for_each(|(p, v)| *p = v);
            }
        }
        parameters
    }

    fn model(&self, parameters: &[f32]) -> Hmm {
        let (states, vocab) = (self.shape.states, self.backbone.spec().vocab);
        let rows = |name: &str, width: usize| -> Vec<f64> {
            parameters[self.slots.range(name)].chunks_exact(width).flat_map(hmm::softmax).collect()
        };
        Hmm {
            initial: rows("initial", states),
            transition: rows("transition", states),
            emission: rows("emission", vocab),
            states,
            vocab,
        }
    }

    /// Mean surprise per mask of some blocks.
    fn surprise(&self, parameters: &[f32], blocks: &[Vec<BlockCell>]) -> f64 {
        let model = self.model(parameters);
        let each: Vec<(f64, usize)> = blocks.par_iter().map(|block| model.surprise(block)).collect();
        let (sum, masks) = each.iter().fold((0.0, 0), |(s, m), (own, masks)| (s + own, m + masks));
        sum / masks.max(1) as f64
    }

    /// Loss of some blocks, and its gradient.
    pub fn gradient_of(&self, parameters: &[f32], blocks: &[Vec<BlockCell>], gradient: &mut [f32]) -> f64 {
        let model = self.model(parameters);
        let masks: usize = blocks.iter().map(|block| masks(block)).sum();
        let weight = 1.0 / masks.max(1) as f64;
        // Soft evidence less clamped tokens: the slope of the loss.
        let counts = model.counted(blocks, |model, block, counts| {
            model.count(block, false, weight, counts);
            model.count(block, true, -weight, counts);
        });
        let parts = [
            (self.slots.range("initial"), &counts.initial, &model.initial, self.shape.states),
            (self.slots.range("transition"), &counts.transition, &model.transition, self.shape.states),
            (self.slots.range("emission"), &counts.emission, &model.emission, model.vocab),
        ];
        for (range, counts, probabilities, width) in parts {
            let rows = gradient[range].chunks_exact_mut(width).zip(counts.chunks_exact(width));
            for ((slope, counts), row) in rows.zip(probabilities.chunks_exact(width)) {
                let sum: f64 = counts.iter().sum();
                let each = slope.iter_mut().zip(counts).zip(row);
                each.for_each(|((slope, count), p)| *slope = (count - sum * p) as f32);
            }
        }
        self.surprise(parameters, blocks)
    }
}

impl Objective for PriorObjective<'_> {
    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn initial(&self, seed: u64) -> Result<Vec<f32>> {
        Ok(self.fitted(seed))
    }

    fn gather(&mut self, _: &[f32], step: u64) -> Result<usize> {
        self.gathered = self.blocks(0..self.training, Rng::new(self.seed, step), self.shape.batch)?;
        Ok(1)
    }

    fn gradient(&mut self, parameters: &[f32], gradient: &mut [f32]) -> Result<Option<f64>> {
        Ok(Some(self.gradient_of(parameters, &self.gathered, gradient)))
    }

    fn validate(&mut self, parameters: &[f32]) -> Result<f64> {
        Ok(self.surprise(parameters, &self.held))
    }

    fn baseline(&mut self) -> Result<(String, f64)> {
        Ok(("the marginals alone".into(), self.surprise(&vec![0.0; self.slots.len()], &self.held)))
    }
}

impl PriorObjective<'_> {
    /// The prior of these parameters, ready to be saved.
    pub fn prior(&self, trained_on: &str, outcome: &Outcome) -> Result<Prior> {
        let header = PartHeader {
            loss: Some((outcome.validation, outcome.baseline)),
            ..PartHeader::of("prior", self.backbone, trained_on)
        };
        let model = self.model(&outcome.parameters);
        let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<f32>>();
        let rows = |values: &[f64], width: usize| Rows { data: narrow(values), width };
        let (transition, emission) =
            (rows(&model.transition, model.states), rows(&model.emission, model.vocab));
        Ok(Prior::new(header, narrow(&model.initial), transition, emission)?)
    }

    /// Writes the prior's file.
    pub fn save(&self, path: &Path, trained_on: &str, outcome: &Outcome) -> Result<()> {
        Ok(self.prior(trained_on, outcome)?.save(path)?)
    }
}
