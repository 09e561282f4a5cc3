//! Mean-field parallel decoding: each mask has a commit score `q`, iterated `q ← σ(c − D·q)` from `q = σ(c)`, all at once,
//! with `c_i = ln p₍₁₎ − ln p₍₂₎` and `D_ij = 1 − JSD(p_i, p_j)/ln 2` over its largest off-diagonal value, zero diagonal.
//! Everything with `q` of at least the threshold is unmasked, with the arg-max.
//!
//! So positions with the *same* marginals repel each other; no dependence is measured. Strictness: `≥`. When nothing
//! passes, the largest `q` (the paper does not say). Ties go left. The published code is not to be had; the numbers of the
//! tests are the paper's formulas.
//!
//! The divergence costs `O(|M|²·V)`. With `top=n` only the n best tokens of either position are told apart and all others
//! count as one symbol, which never raises it.

use demask_kernels::softmax_stats;
use demask_model::Rows;
use rayon::prelude::*;

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{kept_rows, passing, top_k};
use crate::strategy::{Keep, Needs, Selection, Step, Strategy, TokenRule};

pub(super) const ENTRY: Entry = Entry {
    name: "mean-field",
    aliases: &["mean_field"],
    summary: "unmask by commit scores in which positions with alike distributions hold each other back",
    source: "Mean-field parallel decoding (Zoabi et al. 2026), by its formulas",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "threshold",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "least commit score (≥)",
        },
        Param {
            key: "iterations",
            default: "2",
            kind: Kind::Whole,
            help: "mean-field updates; 0 is a threshold on the margin",
        },
        Param {
            key: "top",
            default: "0",
            kind: Kind::Whole,
            help: "tokens of a position that are told apart when distributions are compared (0 is all)",
        },
    ],
    build: |values| {
        Ok(Box::new(MeanField {
            threshold: values.number("threshold"),
            iterations: values.count("iterations").unwrap_or(2),
            top: values.count("top").unwrap_or(0),
        }))
    },
};

struct MeanField {
    threshold: f64,
    iterations: usize,
    top: usize,
}

impl Strategy for MeanField {
    fn needs(&self) -> Needs {
        Needs { keep: Keep::All, ..Needs::default() }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let rows = kept_rows(step, "mean-field")?;
        let scores = commit_scores(rows, self.iterations, self.top);
        let ranked: Vec<f32> = scores.iter().map(|&q| q as f32).collect();
        let selection = passing(&ranked, |_| true, |i| scores[i] >= self.threshold);
        Ok(Selection { tokens: TokenRule::Argmax, ..selection })
    }
}

/// `q` after so many updates.
fn commit_scores(rows: &Rows, iterations: usize, top: usize) -> Vec<f64> {
    let margins: Vec<f64> = rows.iter().map(margin).collect();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut q: Vec<f64> = margins.iter().map(|&c| sigmoid(c)).collect();
    if iterations == 0 || q.len() < 2 {
        return q;
    }
    let interaction = interaction(rows, top);
    let size = q.len();
    for _ in 0..iterations {
        let field = |i: usize| (0..size).map(|j| interaction[i * size + j] * q[j]).sum::<f64>();
        q = (0..size).map(|i| sigmoid(margins[i] - field(i))).collect();
    }
    q
}

/// `ln p₍₁₎ − ln p₍₂₎`; infinite where only one token is possible.
fn margin(logits: &[f32]) -> f64 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &z in logits {
        if z > first {
            (first, second) = (z, first);
        } else if z > second {
            second = z;
        }
    }
    f64::from(first) - f64::from(second)
}

/// `D`, row-major.
fn interaction(rows: &Rows, top: usize) -> Vec<f64> {
    let mut matrix = overlap(rows, top);
    let largest = matrix.iter().copied().fold(0.0, f64::max);
    if largest > 0.0 {
        matrix.iter_mut().for_each(|d| *d /= largest);
    }
    matrix
}

/// `1 − JSD/ln 2` of every two rows, zero for a row and itself.
fn overlap(rows: &Rows, top: usize) -> Vec<f64> {
    let distributions: Vec<Vec<f64>> = rows.data.par_chunks_exact(rows.width).map(probabilities).collect();
    let best: Vec<Vec<usize>> =
        if top == 0 { Vec::new() } else { rows.iter().map(|row| top_k(row, top)).collect() };
    let size = distributions.len();
    let alike = |at: usize| {
        let (i, j) = (at / size, at % size);
        if i == j {
            return 0.0;
        }
        // Both halves are the same sum, so that the matrix is symmetric to the bit.
        let (p, q) = (&distributions[i.min(j)], &distributions[i.max(j)]);
        let divergence = if top == 0 {
            jensen_shannon(p.iter().copied().zip(q.iter().copied()))
        } else {
            let mut told: Vec<usize> = best[i].iter().chain(&best[j]).copied().collect();
            told.sort_unstable();
            told.dedup();
            let rest = |p: &[f64]| (1.0 - told.iter().map(|&t| p[t]).sum::<f64>()).max(0.0);
            jensen_shannon(told.iter().map(|&t| (p[t], q[t])).chain([(rest(p), rest(q))]))
        };
        1.0 - divergence / std::f64::consts::LN_2
    };
    (0..size * size).into_par_iter().map(alike).collect()
}

fn probabilities(logits: &[f32]) -> Vec<f64> {
    let lse = f64::from(softmax_stats(logits).logsumexp);
    let weights: Vec<f64> = logits.iter().map(|&z| (f64::from(z) - lse).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / sum).collect()
}

/// In nats.
fn jensen_shannon(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let term = |p: f64, m: f64| if p > 0.0 { p * (p / m).ln() } else { 0.0 };
    let sum: f64 = pairs.map(|(p, q)| term(p, (p + q) / 2.0) + term(q, (p + q) / 2.0)).sum();
    sum / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, rows};

    #[test]
    fn scores_and_choices_are_those_of_the_formulas() {
        let cases = fixture("rivals-toy/formulas.json");
        for case in cases["mean_field"].as_array().unwrap() {
            let logits = rows(&case["logits"]);
            for (name, matrix) in [("overlap", overlap(&logits, 0)), ("interaction", interaction(&logits, 0))]
            {
                let want = rows(&case[name]).data;
                assert_eq!(matrix.len(), want.len());
                for (number, (got, want)) in matrix.iter().zip(want).enumerate() {
                    assert!((got - f64::from(want)).abs() < 1e-5, "{name} {number}: {got} {want}");
                }
            }
            for (iterations, want) in case["commit_scores"].as_array().unwrap().iter().enumerate() {
                let got = commit_scores(&logits, iterations, 0);
                for (got, want) in got.iter().zip(want.as_array().unwrap()) {
                    assert!((got - want.as_f64().unwrap()).abs() < 1e-5, "{got} {want}");
                }
            }
            let q = commit_scores(&logits, 2, 0);
            for (threshold, want) in case["selected_at"].as_object().unwrap() {
                let threshold: f64 = threshold.parse().unwrap();
                let scores: Vec<f32> = q.iter().map(|&q| q as f32).collect();
                let mut got = passing(&scores, |_| true, |i| q[i] >= threshold).chosen;
                got.sort_unstable();
                let want: Vec<usize> =
                    want.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect();
                assert_eq!(got, want, "at {threshold}");
            }
        }
    }

    #[test]
    fn merging_tokens_never_raises_the_divergence() {
        let cases = fixture("rivals-toy/formulas.json");
        for case in cases["mean_field"].as_array().unwrap() {
            let logits = rows(&case["logits"]);
            let (vocab, size) = (logits.width, logits.len());
            // With all tokens told apart it is the same; with one of each, positions look more alike.
            let all = interaction(&logits, vocab);
            assert!(all.iter().zip(interaction(&logits, 0)).all(|(a, b)| (a - b).abs() < 1e-9));
            let apart = |top: usize| {
                let p: Vec<Vec<f64>> = logits.iter().map(probabilities).collect();
                let best = top_k(logits.row(0), top);
                let rest = |p: &[f64]| 1.0 - best.iter().map(|&t| p[t]).sum::<f64>();
                let pairs = best.iter().map(|&t| (p[0][t], p[size - 1][t]));
                jensen_shannon(pairs.chain([(rest(&p[0]), rest(&p[size - 1]))]))
            };
            assert!(apart(1) <= apart(vocab) + 1e-9);
        }
    }

    #[test]
    fn one_possible_token_is_sure() {
        assert_eq!(margin(&[0.0, f32::NEG_INFINITY]), f64::INFINITY);
        let one = Rows { data: vec![0.0, f32::NEG_INFINITY], width: 2 };
        assert_eq!(commit_scores(&one, 2, 0), [1.0]);
    }
}
