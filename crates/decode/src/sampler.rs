//! Dream's sampler, in Dream's order: temperature → top-p (the token that crosses stays) → top-k
//! (ties stay) → softmax → draw. It proposes one candidate token per position with the scores the
//! selection rules read.

use demask_kernels::SoftmaxStats;
use half::bf16;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 takes the most probable token.
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probability reaches this.
    pub top_p: Option<f32>,
    /// Keep this many tokens (and those tied with the last).
    pub top_k: Option<usize>,
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

impl Sampling {
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
            _ => Ok(()),
        }
    }

    /// Proposes a token for one row of logits; `uniform` is a draw from (0, 1).
    pub fn candidate(
        &self,
        logits: &[f32],
        raw: &SoftmaxStats,
        dtype: ScoreDtype,
        uniform: f64,
    ) -> Candidate {
        let filters = self.top_p.is_some_and(|p| p < 1.0) || self.top_k.is_some();
        if self.temperature == 0.0 && !filters && dtype == ScoreDtype::F32 {
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
        let sum: f64 = logits.iter().map(|&z| f64::from((scaled(z) - top).exp())).sum();
        let top_p = self.top_p.filter(|&p| p < 1.0);
        // Tokens below this cannot be in the nucleus: all of them together weigh less than 1 - p.
        let floor = top_p.map_or(0.0, |p| (1.0 - f64::from(p)) / logits.len() as f64);
        let mut kept: Vec<(u32, f32)> = Vec::new();
        for (id, &z) in logits.iter().enumerate() {
            let p = f64::from((scaled(z) - top).exp()) / sum;
            if p > 0.0 && p >= floor {
                kept.push((id as u32, p as f32));
            }
        }
        kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
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
        let sampling = Sampling { temperature: 1.0, top_p: Some(0.6), top_k: None };
        assert_eq!(ids(sampling, &[0.2, 0.5, 0.3]), [1, 2]);
        let strict = Sampling { temperature: 1.0, top_p: Some(0.4), top_k: None };
        assert_eq!(ids(strict, &[0.2, 0.5, 0.3]), [1]);
    }

    #[test]
    fn top_k_keeps_ties() {
        let sampling = Sampling { temperature: 1.0, top_p: None, top_k: Some(2) };
        assert_eq!(ids(sampling, &[0.25, 0.5, 0.25]), [1, 0, 2]);
    }

    #[test]
    fn temperature_comes_before_top_p() {
        // At T = 0.5 probabilities 0.5/0.3/0.2 become 0.658/0.237/0.105.
        let sampling = Sampling { temperature: 0.5, top_p: Some(0.65), top_k: None };
        assert_eq!(ids(sampling, &[0.5, 0.3, 0.2]), [0]);
    }

    #[test]
    fn draws_follow_the_filtered_distribution() {
        let z = logits(&[0.1, 0.6, 0.3]);
        let stats = softmax_stats(&z);
        let sampling = Sampling { temperature: 1.0, top_p: Some(0.8), top_k: None };
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
        let sampling = Sampling { temperature: 0.1, top_p: Some(0.9), top_k: None };
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
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
