//! How likely a model holds a given response: the Monte-Carlo bound on its log-likelihood that the evaluations of LLaDA and
//! Dream use.
//!
//! A sample masks `k` of the response's `L` tokens at random and adds `L/k · Σ ln p(token)` over them; the mean over `k`
//! uniform in `1…L` is a lower bound on the log-likelihood (LLaDA, appendix B.5: fewer samples than masking each token with
//! a ratio). Samples take their `k` in equal steps around one random start, as LLaDA's code does. Invariant: the estimate is
//! a function of (seed, prompt, response, samples), whatever else is asked in the same call.

use demask_decode::probe::{BackboneProbe, Probe, Question};
use demask_decode::rng::{Purpose, Rng};
use demask_kernels::softmax_stats;
use demask_model::hash::Hash;

use crate::error::Result;
use crate::model::Model;

/// Tokens that go through the backbone at once.
const TOGETHER: usize = 8192;
/// Canvases prepared at a time.
const PREPARED: usize = 256;

/// One masked copy of a pair.
struct Sample {
    pair: usize,
    tokens: Vec<u32>,
    masked: Vec<usize>,
    weight: f64,
}

impl Model {
    /// A lower bound on `ln p(response | prompt)` of every pair of ids, estimated with `samples` forward passes each (of a
    /// response of one token, one pass gives it exactly).
    pub fn log_likelihood(
        &self,
        pairs: &[(Vec<u32>, Vec<u32>)],
        samples: usize,
        seed: u64,
    ) -> Result<Vec<f64>> {
        let mut sums = vec![0.0_f64; pairs.len()];
        let mut waiting: Vec<Sample> = Vec::new();
        for (number, (prompt, response)) in pairs.iter().enumerate() {
            if response.is_empty() {
                continue;
            }
            let whole: Vec<u32> = prompt.iter().chain(response).copied().collect();
            let every: Vec<usize> = (prompt.len()..whole.len()).collect();
            self.check_positions(&whole, &every)?;
            let count = if response.len() == 1 { 1 } else { samples.max(1) };
            waiting.extend(self.samples(number, &whole, prompt.len(), count, seed));
            if waiting.len() >= PREPARED {
                self.add(&std::mem::take(&mut waiting), pairs, &mut sums)?;
            }
        }
        self.add(&waiting, pairs, &mut sums)?;
        Ok(sums)
    }

    fn samples(&self, pair: usize, whole: &[u32], start: usize, count: usize, seed: u64) -> Vec<Sample> {
        let length = whole.len() - start;
        let identity = whole.iter().fold(Hash::new().bytes(&(start as u64).to_le_bytes()), |hash, token| {
            hash.bytes(&token.to_le_bytes())
        });
        let rng = Rng::new(seed, identity.value());
        let first = 1 + (rng.uniform(Purpose::Mask, 0, 0) * length as f64) as usize;
        let sample = |number: usize| {
            let step = (number as f64 * length as f64 / count as f64).round() as usize;
            let masks = (first - 1 + step) % length + 1;
            let mut order: Vec<usize> = (start..whole.len()).collect();
            let key = |&p: &usize| rng.bits(Purpose::Mask, 1 + number as u64, p as u64);
            order.sort_by_key(key);
            let mut masked = order[..masks].to_vec();
            masked.sort_unstable();
            let mut tokens = whole.to_vec();
            masked.iter().for_each(|&p| tokens[p] = self.ids().mask);
            Sample { pair, tokens, masked, weight: length as f64 / masks as f64 / count as f64 }
        };
        (0..count).map(sample).collect()
    }

    /// Adds what the samples say of their pairs.
    fn add(&self, samples: &[Sample], pairs: &[(Vec<u32>, Vec<u32>)], sums: &mut [f64]) -> Result<()> {
        let probe = BackboneProbe::new(self.backbone(), TOGETHER);
        let asked = |s: &'_ Sample| -> Vec<(usize, u32, f64)> {
            let (prompt, response) = &pairs[s.pair];
            s.masked.iter().map(|&p| (s.pair, response[p - prompt.len()], s.weight)).collect()
        };
        let rows: Vec<(usize, u32, f64)> = samples.iter().flat_map(asked).collect();
        let questions: Vec<Question<'_>> = samples
            .iter()
            .map(|s| Question { tokens: &s.tokens, predict: &s.masked, hidden: None })
            .collect();
        let vocab = probe.vocab();
        probe.ask_each(&questions, &mut |first, logits| {
            for (row, logits) in logits.chunks_exact(vocab).enumerate() {
                let (pair, token, weight) = rows[first + row];
                let stats = softmax_stats(logits);
                sums[pair] += weight * f64::from(logits[token as usize] - stats.logsumexp);
            }
        })?;
        Ok(())
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    /// `ln p` of one masked token, from a plain forward pass.
    fn one(model: &Model, tokens: &[u32], at: usize) -> f64 {
        let mut masked = tokens.to_vec();
        masked[at] = model.ids().mask;
        let logits = model.forward_at(&masked, &[at]).unwrap().logits.data;
        f64::from(logits[tokens[at] as usize] - softmax_stats(&logits).logsumexp)
    }

    #[test]
    fn one_token_is_exact_and_two_are_the_mean_of_both_orders() {
        let model = Model::embedded().unwrap();
        let prompt = model.tokenizer().encode("Tom has 3 pens. Tom").unwrap();
        let response = model.tokenizer().encode(" buys").unwrap();
        let whole: Vec<u32> = prompt.iter().chain(&response).copied().collect();
        let (first, second) = (prompt.clone(), whole[prompt.len()..prompt.len() + 1].to_vec());
        let exact = one(&model, &whole[..=prompt.len()], prompt.len());
        let found = model.log_likelihood(&[(first, second)], 7, 1).unwrap()[0];
        assert!((found - exact).abs() < 1e-4, "{found} {exact}");
        // Of two tokens: k = 2 masks both, k = 1 one of them; four samples take each k twice.
        let two = model.tokenizer().encode("5 + 6").unwrap()[..2].to_vec();
        let whole: Vec<u32> = prompt.iter().chain(&two).copied().collect();
        let (a, b) = (prompt.len(), prompt.len() + 1);
        let mut both = whole.clone();
        both[a] = model.ids().mask;
        both[b] = model.ids().mask;
        let logits = model.forward_at(&both, &[a, b]).unwrap().logits;
        let joint: f64 = logits
            .data
            .chunks_exact(logits.width)
            .zip(&two)
            .map(|(row, &t)| f64::from(row[t as usize] - softmax_stats(row).logsumexp))
            .sum();
        let (alone_a, alone_b) = (one(&model, &whole, a), one(&model, &whole, b));
        let estimate = model.log_likelihood(&[(prompt.clone(), two.clone())], 400, 3).unwrap()[0];
        // Which of the two is masked alone is a fair draw.
        let expected = 0.5 * joint + 0.5 * (alone_a + alone_b);
        let spread = (alone_a - alone_b).abs() * 0.5 * 2.0 / (200.0_f64).sqrt() + 1e-4;
        assert!((estimate - expected).abs() < 4.0 * spread, "{estimate} {expected} ± {spread}");
    }

    #[test]
    fn an_estimate_does_not_depend_on_its_neighbours() {
        let model = Model::embedded().unwrap();
        let ids = |text: &str| model.tokenizer().encode(text).unwrap();
        let pairs = [(ids("Tom has 3 pens."), ids(" Tom buys 2 more.")), (ids("Say"), ids(" hello."))];
        let together = model.log_likelihood(&pairs, 5, 9).unwrap();
        let alone = model.log_likelihood(&pairs[1..], 5, 9).unwrap();
        assert_eq!(together[1], alone[0]);
        assert!(together.iter().all(|&l| l < 0.0));
        assert_eq!(model.log_likelihood(&[(ids("x"), Vec::new())], 5, 9).unwrap(), [0.0]);
    }
}
