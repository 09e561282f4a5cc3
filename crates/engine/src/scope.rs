//! What a small model is for: a linear classifier over the tokens of a prompt, and the remark for prompts outside.
//!
//! A model of a few million weights answers anything, mostly with nonsense; its scope (`scope.json` beside the weights,
//! made by `demask train scope`) tells a prompt of the kinds it was trained on from one that is not. The score of a
//! prompt of n tokens is `bias + Σ w_f·min(count_f, 3) / √F` over its tokens and neighbouring pairs of tokens (hashed
//! into buckets), F of them in all; below zero it is outside. A checkpoint without the file has no scope and is never
//! remarked on.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// File of the scope inside a checkpoint folder.
pub const SCOPE: &str = "scope.json";

/// Buckets that pairs of tokens are hashed into.
const BUCKETS: usize = 4096;

/// How often a feature counts at most: a list of ten names is no more on task than one of three.
const MOST: u32 = 3;

/// A classifier of prompts. Weights are bytes times `scale`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// What is said of a prompt outside.
    remark: String,
    bias: f32,
    scale: f32,
    /// One for each token of the vocabulary, then one for each bucket.
    weights: Vec<i8>,
}

impl Scope {
    /// Rounds trained weights to bytes.
    ///
    /// # Panics
    /// If there are not [`Self::features_of`] weights for some vocabulary.
    pub fn new(remark: impl Into<String>, bias: f32, weights: &[f32]) -> Self {
        assert!(weights.len() > BUCKETS, "a scope has weights for tokens and for pairs");
        let largest = weights.iter().fold(f32::MIN_POSITIVE, |most, w| most.max(w.abs()));
        let scale = largest / 127.0;
        let weights = weights.iter().map(|w| (w / scale).round() as i8).collect();
        Self { remark: remark.into(), bias, scale, weights }
    }

    /// How many weights a scope over a vocabulary has.
    pub fn features_of(vocabulary: usize) -> usize {
        vocabulary + BUCKETS
    }

    /// The features of a prompt with how much each counts, in ascending order.
    pub fn features(tokens: &[u32], vocabulary: usize) -> Vec<(usize, f32)> {
        let edge = vocabulary as u32;
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for &token in tokens {
            *counts.entry(token as usize).or_default() += 1;
        }
        let firsts = std::iter::once(edge).chain(tokens.iter().copied());
        let seconds = tokens.iter().copied().chain(std::iter::once(edge));
        for (first, second) in firsts.zip(seconds) {
            *counts.entry(vocabulary + bucket(first, second)).or_default() += 1;
        }
        let norm = (2.0 * tokens.len() as f32 + 1.0).sqrt();
        counts.into_iter().map(|(feature, count)| (feature, count.min(MOST) as f32 / norm)).collect()
    }

    /// The file of a checkpoint folder, if it has one, for a vocabulary of this size.
    pub fn open(folder: &Path, vocabulary: usize) -> Result<Option<Self>> {
        let path = folder.join(SCOPE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = demask_model::files::read(&path).map_err(demask_model::Error::read(&path))?;
        Self::from_json(&bytes, &path, vocabulary).map(Some)
    }

    /// Reads the file's content; `path` stands for it in messages.
    pub fn from_json(bytes: &[u8], path: &Path, vocabulary: usize) -> Result<Self> {
        let problem = |problem: String| Error::Scope { path: path.to_owned(), problem };
        let scope: Self = serde_json::from_slice(bytes).map_err(|cause| problem(cause.to_string()))?;
        let (have, need) = (scope.weights.len(), Self::features_of(vocabulary));
        if have != need {
            return Err(problem(format!("has {have} weights; this tokenizer needs {need}")));
        }
        if !(scope.bias.is_finite() && scope.scale.is_finite()) {
            return Err(problem("has a bias or scale that is not a number".to_owned()));
        }
        Ok(scope)
    }

    /// The file's content.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and text are JSON")
    }

    /// How much a prompt looks like those of training: below zero it is outside.
    pub fn score(&self, tokens: &[u32]) -> f32 {
        let features = Self::features(tokens, self.weights.len() - BUCKETS);
        let weight = |feature: usize| self.weights.get(feature).map_or(0.0, |&w| f32::from(w) * self.scale);
        features.iter().fold(self.bias, |sum, &(feature, count)| sum + weight(feature) * count)
    }

    /// What is to be said of a prompt: nothing where it is inside.
    pub fn remark(&self, tokens: &[u32]) -> Option<&str> {
        (self.score(tokens) < 0.0).then_some(self.remark.as_str())
    }
}

/// The bucket of two neighbouring tokens: Fibonacci hashing of the pair.
fn bucket(first: u32, second: u32) -> usize {
    let pair = (u64::from(first) << 32) | u64::from(second);
    (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let mut weights = vec![0.0; Scope::features_of(10)];
        weights[3] = 2.0;
        weights[4] = -1.0;
        Scope::new("not mine", -0.25, &weights)
    }

    #[test]
    fn the_score_is_the_sum_it_says() {
        let scope = scope();
        // Four tokens, nine features: the token 3 counts three times at most.
        let expected = -0.25 + (3.0 * 2.0) / 9f32.sqrt();
        assert!((scope.score(&[3, 3, 3, 3]) - expected).abs() < 0.02, "{}", scope.score(&[3, 3, 3, 3]));
        assert_eq!(scope.remark(&[3]), None);
        assert_eq!(scope.remark(&[4]), Some("not mine"));
        assert_eq!(scope.remark(&[]), Some("not mine"));
    }

    #[test]
    fn a_file_of_another_tokenizer_is_refused() {
        let text = scope().to_json();
        let path = Path::new("scope.json");
        assert_eq!(Scope::from_json(text.as_bytes(), path, 10).unwrap(), scope());
        let error = Scope::from_json(text.as_bytes(), path, 11).unwrap_err().to_string();
        assert!(error.contains("scope.json") && error.contains("4106") && error.contains("4107"), "{error}");
    }

    #[test]
    fn order_matters() {
        let pairs = |tokens: &[u32]| -> Vec<usize> {
            Scope::features(tokens, 10).into_iter().map(|(f, _)| f).filter(|&f| f >= 10).collect()
        };
        assert_ne!(pairs(&[1, 2]), pairs(&[2, 1]));
    }
}
