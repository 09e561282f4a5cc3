//! Sequential samples of selected sets, many sets and chains per forward pass.
//!
//! Invariant: a chain's draws are a function of (seed, prompt, step, chain), whatever the batch.

use std::ops::ControlFlow;

use demask_decode::batch::measured_together;
use demask_decode::probe::{BackboneProbe, Probe, Question};
use demask_decode::rng::{Purpose, Rng};
use demask_model::Backbone;

use super::{BoundSettings, Selected};
use crate::error::Result;

/// What the chains of one set say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean over chains of `Σ_t TV(P(Y_{s_t}), P(Y_{s_t} | y_{s<t}))`.
    pub telescoped: f64,
    /// Mean over chains of `(1 − Q/P)₊`: TV(P, Q).
    pub distance: f64,
    /// Standard error of `distance` over the chains.
    pub error: f64,
}

/// Estimates every set, as many at a time as the budgets allow; tells how many are done, and may be stopped.
pub(super) fn estimate(
    backbone: &dyn Backbone,
    sets: &[Selected],
    settings: &BoundSettings,
    done: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Estimate>> {
    let vocab = backbone.spec().vocab;
    let mut estimates = Vec::with_capacity(sets.len());
    while estimates.len() < sets.len() {
        let rest = &sets[estimates.len()..];
        let sizes = rest.iter().map(|s| (settings.chains * s.canvas.len(), s.set.len()));
        let count = measured_together(sizes, settings.token_budget, vocab);
        estimates.extend(together(backbone, &rest[..count], settings)?);
        if done(estimates.len()).is_break() {
            break;
        }
    }
    Ok(estimates)
}

/// The marginals of a set: probabilities per position, in the order of selection.
struct Marginals {
    probabilities: Vec<Vec<f64>>,
}

/// One sequential sample of a set.
struct Chain {
    /// Index of the set.
    of: usize,
    rng: Rng,
    canvas: Vec<u32>,
    telescoped: f64,
    /// `ln Q(y) − ln P(y)` so far.
    log_ratio: f64,
}

fn together(backbone: &dyn Backbone, sets: &[Selected], settings: &BoundSettings) -> Result<Vec<Estimate>> {
    let probe = BackboneProbe::new(backbone, settings.token_budget);
    let mask = backbone.spec().ids.mask;
    let marginals = marginals(&probe, sets, mask)?;
    let mut chains: Vec<Chain> = Vec::new();
    for (of, set) in sets.iter().enumerate() {
        let rng = Rng::named(settings.options.seed, &format!("chain of {} {}", set.prompt, set.step));
        for number in 0..settings.chains {
            let rng = Rng::new(rng.bits(Purpose::Reveal, 0, number as u64), 0);
            let mut chain = Chain { of, rng, canvas: set.canvas.clone(), telescoped: 0.0, log_ratio: 0.0 };
            // The first position has no history: joint and product agree on it.
            chain.reveal(0, set.set[0], &marginals[of].probabilities[0]);
            chains.push(chain);
        }
    }
    let longest = sets.iter().map(|s| s.set.len()).max().unwrap_or(0);
    for t in 1..longest {
        let active: Vec<usize> = (0..chains.len()).filter(|&c| sets[chains[c].of].set.len() > t).collect();
        let conditionals = {
            let questions: Vec<Question<'_>> = active
                .iter()
                .map(|&c| Question {
                    tokens: &chains[c].canvas,
                    predict: &sets[chains[c].of].set[t..=t],
                    hidden: None,
                })
                .collect();
            distributions(&probe, &questions, mask)?
        };
        for (&c, conditional) in active.iter().zip(&conditionals) {
            let chain = &mut chains[c];
            let marginal = &marginals[chain.of].probabilities[t];
            chain.telescoped += total_variation(marginal, conditional);
            let token = chain.reveal(t, sets[chain.of].set[t], conditional);
            chain.log_ratio += marginal[token].ln() - conditional[token].ln();
        }
    }
    Ok((0..sets.len()).map(|of| summary(chains.iter().filter(|c| c.of == of))).collect())
}

fn marginals(probe: &dyn Probe, sets: &[Selected], mask: u32) -> Result<Vec<Marginals>> {
    let questions: Vec<Question<'_>> =
        sets.iter().map(|s| Question { tokens: &s.canvas, predict: &s.set, hidden: None }).collect();
    let mut all = distributions(probe, &questions, mask)?.into_iter();
    Ok(sets.iter().map(|s| Marginals { probabilities: all.by_ref().take(s.set.len()).collect() }).collect())
}

/// The model's distribution at every position asked for, without the mask token.
fn distributions(probe: &dyn Probe, questions: &[Question<'_>], mask: u32) -> Result<Vec<Vec<f64>>> {
    let vocab = probe.vocab();
    let mut all = Vec::new();
    probe.ask_each(questions, &mut |_, logits| {
        for row in logits.chunks_exact_mut(vocab) {
            row[mask as usize] = f32::NEG_INFINITY;
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f64> = row.iter().map(|&z| f64::from(z - max).exp()).collect();
            let sum: f64 = weights.iter().sum();
            all.push(weights.into_iter().map(|w| w / sum).collect::<Vec<f64>>());
        }
    })?;
    let places = questions.iter().flat_map(|q| q.predict);
    match all.iter().zip(places).find(|(row, _)| row.iter().any(|p| p.is_nan())) {
        Some((_, &position)) => Err(demask_decode::Error::NotFinite { position, step: 0 }.into()),
        None => Ok(all),
    }
}

impl Chain {
    /// Draws the `t`-th token and writes it.
    fn reveal(&mut self, t: usize, position: usize, probabilities: &[f64]) -> usize {
        let mut left = self.rng.uniform(Purpose::Reveal, t as u64, position as u64);
        let mut token = 0;
        for (candidate, &p) in probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            token = candidate;
            left -= p;
            if left < 0.0 {
                break;
            }
        }
        self.canvas[position] = token as u32;
        token
    }
}

fn total_variation(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

fn summary<'a>(chains: impl Iterator<Item = &'a Chain>) -> Estimate {
    let (mut count, mut telescoped, mut sum, mut squares) = (0.0, 0.0, 0.0, 0.0);
    for chain in chains {
        let distance = (1.0 - chain.log_ratio.exp()).max(0.0);
        count += 1.0;
        telescoped += chain.telescoped;
        sum += distance;
        squares += distance * distance;
    }
    let mean: f64 = sum / count;
    let variance =
        if count > 1.0 { ((squares / count - mean * mean) * count / (count - 1.0)).max(0.0) } else { 0.0 };
    Estimate { telescoped: telescoped / count, distance: mean, error: (variance / count).sqrt() }
}
