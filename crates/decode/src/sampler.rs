//! Dream's sampler, in Dream's order: temperature → top-p (the token that crosses stays) → top-k
//! (ties stay) → softmax → draw. It proposes one candidate token per position with the scores the
//! selection rules read.
//!
//! LLaDA draws otherwise: Gumbel noise on all logits in f64 and the largest wins, which is the same distribution
//! without filters, while scores stay those of the model at temperature 1.

use std::str::FromStr;

use demask_kernels::SoftmaxStats;
use demask_model::{Drawn, Filter};
use half::bf16;
use serde::{Deserialize, Serialize};

use crate::canvas::Pick;
use crate::error::{Error, Result};
use crate::marginals::Marginal;
use crate::strategy::{Selection, TokenRule};
use crate::trace::Commit;

/// How tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 takes the most probable token.
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probability reaches this.
    pub top_p: Option<f32>,
    /// Keep this many tokens (and those tied with the last).
    pub top_k: Option<usize>,
    /// How one token is drawn.
    #[serde(default)]
    pub draw: Draw,
}

/// How a token is drawn at a temperature above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// From the filtered distribution, whose scores strategies see (Dream).
    #[default]
    Categorical,
    /// `argmax(z/T + Gumbel noise)` in f64; strategies see the scores of the model's own distribution (LLaDA).
    Gumbel,
}

impl FromStr for Draw {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "categorical" => Ok(Self::Categorical),
            "gumbel" => Ok(Self::Gumbel),
            _ => Err(Error::BadValue {
                what: "sampler".into(),
                value: text.into(),
                why: "must be categorical or gumbel".into(),
            }),
        }
    }
}

/// Arithmetic of the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScoreDtype {
    /// Full precision.
    #[default]
    F32,
    /// As if softmax, logarithm and sums were kept in bfloat16, the precision Dream's published
    /// evaluation runs in; it ties most confident positions exactly.
    Bf16,
}

/// A proposed token and the filtered distribution's scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: u32,
    /// Its probability after filtering.
    pub probability: f32,
    /// Its probability in the model's own distribution.
    pub raw: f32,
    /// Largest probability after filtering.
    pub top1: f32,
    /// Largest minus second largest.
    pub margin: f32,
    /// `-Σ q ln(q + 1e-10)`.
    pub entropy: f32,
}

impl From<Drawn> for Candidate {
    fn from(drawn: Drawn) -> Self {
        let Drawn { token, probability, raw, top1, margin, entropy } = drawn;
        Self { token, probability, raw, top1, margin, entropy }
    }
}

/// A token drawn for a chosen position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    /// What is written.
    pub(crate) pick: Pick,
    /// Probability of the token in the model's own distribution.
    pub(crate) probability: f32,
}

impl Sampled {
    /// As a record tells it.
    pub(crate) fn commit(&self) -> Commit {
        let Pick { position, token, confidence } = self.pick;
        Commit { position, token, confidence, probability: self.probability }
    }
}

/// The tokens of a selection, each drawn from its own marginal, in the order of choice.
pub(crate) fn sample(masked: &[usize], marginals: &[Marginal], selection: &Selection) -> Vec<Sampled> {
    let draw = |(number, &index): (usize, &usize)| {
        let Marginal { raw, candidate } = &marginals[index];
        let (token, probability) = match &selection.tokens {
            TokenRule::Sampled => (candidate.token, candidate.raw),
            TokenRule::Argmax => (raw.argmax as u32, raw.top1),
            TokenRule::Given(drawn) => (drawn[number].token, drawn[number].probability),
        };
        Sampled { pick: Pick { position: masked[index], token, confidence: raw.top1 }, probability }
    };
    selection.chosen.iter().enumerate().map(draw).collect()
}

impl Sampling {
    /// These defaults where tokens are drawn by `draw`: Gumbel noise knows no filters, so only ones that a request names
    /// are an error.
    pub fn drawn_by(&self, draw: Draw) -> Self {
        match draw {
            Draw::Categorical => Self { draw, ..*self },
            Draw::Gumbel => Self { temperature: self.temperature, draw, ..Self::default() },
        }
    }

    /// Refuses values outside their range.
    pub fn check(&self) -> Result<()> {
        let bad = |what: &str, value: String, why: &str| {
            Err(Error::BadValue { what: what.into(), value, why: why.into() })
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return bad("temperature", self.temperature.to_string(), "must be 0 or more");
        }
        match (self.top_p, self.top_k) {
            (Some(p), _) if !(p > 0.0 && p <= 1.0) => {
                bad("top-p", p.to_string(), "must be above 0 and at most 1")
            }
            (_, Some(0)) => bad("top-k", "0".into(), "must be at least 1"),
            (p, k) if self.draw == Draw::Gumbel && (p.is_some_and(|p| p < 1.0) || k.is_some()) => {
                bad("sampler", "gumbel".into(), "draws from all tokens; leave out top-p and top-k")
            }
            _ => Ok(()),
        }
    }

    /// Whether the most probable token is taken without any filter, so that statistics are all that is needed.
    pub(crate) fn is_plain(&self) -> bool {
        self.temperature == 0.0 && self.top_p.is_none_or(|p| p >= 1.0) && self.top_k.is_none()
    }

    /// The same filters for rows on a device; `None` where noise is drawn for every token.
    pub(crate) fn filter_on_device(&self) -> Option<Filter> {
        if self.draw == Draw::Gumbel && self.temperature > 0.0 {
            return None;
        }
        let draw = self.temperature > 0.0;
        let temperature = if draw { self.temperature } else { 1.0 };
        Some(Filter { temperature, top_p: self.top_p, top_k: self.top_k, draw })
    }

    /// Proposes a token for one row of logits; `uniform` gives a draw from (0, 1) for each token, or for the position
    /// where only one is needed.
    pub(crate) fn propose(
        &self,
        logits: &[f32],
        raw: &SoftmaxStats,
        dtype: ScoreDtype,
        uniform: impl Fn(Option<usize>) -> f64,
    ) -> Candidate {
        if self.draw == Draw::Categorical || self.temperature == 0.0 {
            return self.candidate(logits, raw, dtype, uniform(None));
        }
        let token = gumbel_max(logits, raw.argmax, f64::from(self.temperature), |token| uniform(Some(token)));
        let probability = (logits[token] - raw.logsumexp).exp();
        let (top1, margin, entropy) = (raw.top1, raw.top1 - raw.top2, raw.entropy);
        Candidate { token: token as u32, probability, raw: probability, top1, margin, entropy }
    }

    /// Proposes a token for one row of logits; `uniform` is a draw from (0, 1).
    pub fn candidate(
        &self,
        logits: &[f32],
        raw: &SoftmaxStats,
        dtype: ScoreDtype,
        uniform: f64,
    ) -> Candidate {
        if self.is_plain() && dtype == ScoreDtype::F32 {
            return Candidate {
                token: raw.argmax as u32,
                probability: raw.top1,
                raw: raw.top1,
                top1: raw.top1,
                margin: raw.top1 - raw.top2,
                entropy: raw.entropy,
            };
        }
        let kept = self.filter(logits, raw.max, dtype);
        let index = if self.temperature > 0.0 { draw(&kept, uniform) } else { 0 };
        let scores = kept.iter().map(|k| round(k.1, dtype));
        Candidate {
            token: kept[index].0,
            probability: round(kept[index].1, dtype),
            raw: (logits[kept[index].0 as usize] - raw.logsumexp).exp(),
            top1: round(kept[0].1, dtype),
            margin: round(round(kept[0].1, dtype) - kept.get(1).map_or(0.0, |k| round(k.1, dtype)), dtype),
            entropy: entropy(scores, dtype),
        }
    }

    /// Tokens that survive the filters with their probabilities, most probable first, ties by id.
    pub fn filter(&self, logits: &[f32], max: f32, dtype: ScoreDtype) -> Vec<(u32, f32)> {
        let temperature = if self.temperature > 0.0 { self.temperature } else { 1.0 };
        let scaled = |z: f32| round(round(z, dtype) / temperature, dtype);
        let top = scaled(max);
        let weights: Vec<f32> = logits.iter().map(|&z| (scaled(z) - top).exp()).collect();
        let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let top_p = self.top_p.filter(|&p| p < 1.0);
        // Tokens below this cannot be in the nucleus: all of them together weigh less than 1 - p.
        let floor = top_p.map_or(0.0, |p| (1.0 - f64::from(p)) / logits.len() as f64);
        // Probabilities have no sign, so the order of their bits is theirs: one number sorts by both.
        let mut keys: Vec<u64> = Vec::with_capacity(logits.len());
        for (id, &weight) in weights.iter().enumerate() {
            let p = f64::from(weight) / sum;
            if p > 0.0 && p >= floor {
                keys.push(u64::from(!(p as f32).to_bits()) << 32 | id as u64);
            }
        }
        keys.sort_unstable();
        let entry = |key: u64| (key as u32, f32::from_bits(!((key >> 32) as u32)));
        let mut kept: Vec<(u32, f32)> = keys.into_iter().map(entry).collect();
        if let Some(p) = top_p {
            let mut before = 0.0_f64;
            let inside = kept.iter().take_while(|k| {
                let keep = before <= f64::from(p);
                before += f64::from(k.1);
                keep
            });
            let count = inside.count().max(1);
            kept.truncate(count);
        }
        if let Some(k) = self.top_k.filter(|&k| k < kept.len()) {
            let last = kept[k - 1].1;
            kept.retain(|entry| entry.1 >= last);
        }
        let total: f64 = kept.iter().map(|k| f64::from(k.1)).sum();
        kept.iter_mut().for_each(|k| k.1 = (f64::from(k.1) / total) as f32);
        kept
    }
}

/// The token of the largest `exp(z) / (-ln u)^T`, compared as logarithms so that no logit overflows; ties go to the
/// lowest id.
fn gumbel_max(logits: &[f32], best: usize, temperature: f64, uniform: impl Fn(usize) -> f64) -> usize {
    /// More than the noise of any draw that a 52-bit uniform can give.
    const MOST_NOISE: f64 = 37.0;
    let noised = |token: usize| f64::from(logits[token]) - temperature * (-uniform(token).ln()).ln();
    let (mut winner, mut largest) = (best, noised(best));
    for (token, &z) in logits.iter().enumerate() {
        // Most tokens cannot win whatever their noise, so it is not drawn.
        if f64::from(z) + temperature * MOST_NOISE < largest {
            continue;
        }
        let score = noised(token);
        if score > largest || (score == largest && token < winner) {
            (winner, largest) = (token, score);
        }
    }
    winner
}

fn draw(kept: &[(u32, f32)], uniform: f64) -> usize {
    let mut sum = 0.0;
    for (index, entry) in kept.iter().enumerate() {
        sum += f64::from(entry.1);
        if uniform < sum {
            return index;
        }
    }
    kept.len() - 1
}

fn entropy(probabilities: impl Iterator<Item = f32>, dtype: ScoreDtype) -> f32 {
    let term = |q: f32| round(q * round(round(q + 1e-10, dtype).ln(), dtype), dtype);
    -round(probabilities.map(|q| f64::from(term(q))).sum::<f64>() as f32, dtype)
}

fn round(x: f32, dtype: ScoreDtype) -> f32 {
    match dtype {
        ScoreDtype::F32 => x,
        ScoreDtype::Bf16 => bf16::from_f32(x).to_f32(),
    }
}

#[cfg(test)]
mod tests {
    use demask_kernels::softmax_stats;

    use super::*;

    fn logits(probabilities: &[f32]) -> Vec<f32> {
        probabilities.iter().map(|p| p.ln()).collect()
    }

    fn ids(sampling: Sampling, probabilities: &[f32]) -> Vec<u32> {
        let z = logits(probabilities);
        let max = z.iter().copied().fold(f32::MIN, f32::max);
        sampling.filter(&z, max, ScoreDtype::F32).iter().map(|k| k.0).collect()
    }

    #[test]
    fn top_p_keeps_the_token_that_crosses() {
        let sampling = Sampling { temperature: 1.0, top_p: Some(0.6), top_k: None, ..Sampling::default() };
        assert_eq!(ids(sampling, &[0.2, 0.5, 0.3]), [1, 2]);
        let strict = Sampling { temperature: 1.0, top_p: Some(0.4), top_k: None, ..Sampling::default() };
        assert_eq!(ids(strict, &[0.2, 0.5, 0.3]), [1]);
    }

    #[test]
    fn top_k_keeps_ties() {
        let sampling = Sampling { temperature: 1.0, top_p: None, top_k: Some(2), ..Sampling::default() };
        assert_eq!(ids(sampling, &[0.25, 0.5, 0.25]), [1, 0, 2]);
    }

    #[test]
    fn temperature_comes_before_top_p() {
        // At T = 0.5 probabilities 0.5/0.3/0.2 become 0.658/0.237/0.105.
        let sampling = Sampling { temperature: 0.5, top_p: Some(0.65), top_k: None, ..Sampling::default() };
        assert_eq!(ids(sampling, &[0.5, 0.3, 0.2]), [0]);
    }

    #[test]
    fn draws_follow_the_filtered_distribution() {
        let z = logits(&[0.1, 0.6, 0.3]);
        let stats = softmax_stats(&z);
        let sampling = Sampling { temperature: 1.0, top_p: Some(0.8), top_k: None, ..Sampling::default() };
        let mut counts = [0; 3];
        for i in 0..9000 {
            let candidate = sampling.candidate(&z, &stats, ScoreDtype::F32, (f64::from(i) + 0.5) / 9000.0);
            counts[candidate.token as usize] += 1;
        }
        assert_eq!(counts, [0, 6000, 3000]);
    }

    #[test]
    fn zero_temperature_is_argmax_with_lowest_id_on_ties() {
        let z = logits(&[0.2, 0.4, 0.4]);
        let stats = softmax_stats(&z);
        let candidate = Sampling::default().candidate(&z, &stats, ScoreDtype::F32, 0.99);
        assert_eq!(candidate.token, 1);
        assert!(candidate.margin.abs() < 1e-6);
    }

    #[test]
    fn bfloat16_scores_tie_confident_rows() {
        let sampling = Sampling { temperature: 0.1, top_p: Some(0.9), top_k: None, ..Sampling::default() };
        let score = |p: f32| {
            let z = logits(&[p, 1.0 - p]);
            sampling.candidate(&z, &softmax_stats(&z), ScoreDtype::Bf16, 0.5).probability
        };
        assert_eq!(score(0.9), score(0.99));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in [
            Sampling { temperature: -1.0, ..Default::default() },
            Sampling { top_p: Some(0.0), ..Default::default() },
            Sampling { top_p: Some(1.5), ..Default::default() },
            Sampling { top_k: Some(0), ..Default::default() },
            Sampling { temperature: f32::NAN, ..Default::default() },
            Sampling { draw: Draw::Gumbel, top_k: Some(5), ..Default::default() },
            Sampling { draw: Draw::Gumbel, top_p: Some(0.5), ..Default::default() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    /// The reference's formula, literally.
    #[test]
    fn gumbel_is_the_reference_formula() {
        for row in 0..300_u32 {
            let noise = |token: usize| {
                let bits = crate::rng::Rng::new(7, 0);
                bits.uniform(crate::rng::Purpose::Noise, u64::from(row), token as u64)
            };
            let z: Vec<f32> =
                (0..50).map(|t| ((t * 37 + row as usize * 11) % 23) as f32 * 0.4 - 4.0).collect();
            for temperature in [0.2_f32, 0.7, 1.0, 1.5] {
                let reference: Vec<f64> = (0..z.len())
                    .map(|t| f64::from(z[t]).exp() / (-noise(t).ln()).powf(f64::from(temperature)))
                    .collect();
                let best = (0..z.len()).max_by(|&a, &b| reference[a].total_cmp(&reference[b])).unwrap();
                let sampling = Sampling { temperature, draw: Draw::Gumbel, ..Sampling::default() };
                let stats = softmax_stats(&z);
                let ours = sampling.propose(&z, &stats, ScoreDtype::F32, |token| noise(token.unwrap()));
                assert_eq!(ours.token as usize, best, "row {row} at {temperature}");
                // Confidence is the model's own, at temperature 1 and without noise.
                let p = (z[best] - stats.logsumexp).exp();
                assert!((ours.raw - p).abs() < 1e-6 && ours.raw == ours.probability);
            }
        }
    }

    #[test]
    fn gumbel_draws_follow_the_tempered_distribution() {
        let z = logits(&[0.1, 0.6, 0.3]);
        let sampling = Sampling { temperature: 0.5, draw: Draw::Gumbel, ..Sampling::default() };
        let (stats, rng) = (softmax_stats(&z), crate::rng::Rng::new(3, 0));
        let mut counts = [0.0_f64; 3];
        for i in 0..20_000 {
            let uniform =
                |token: Option<usize>| rng.uniform(crate::rng::Purpose::Noise, i, token.unwrap() as u64);
            counts[sampling.propose(&z, &stats, ScoreDtype::F32, uniform).token as usize] += 1.0 / 20_000.0;
        }
        // Squared and normalised: 0.01, 0.36, 0.09 of 0.46.
        for (count, p) in counts.iter().zip([0.0217, 0.7826, 0.1957]) {
            assert!((count - p).abs() < 0.012, "{counts:?}");
        }
    }
}
