//! Settings of a training run; the defaults are the paper's.

use std::path::Path;

use demask_decode::dependency::Measure;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::optimizer::AdamW;
use crate::predictor::Architecture;
use crate::schedule::Schedule;

/// What to train and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Seed of starting weights and of the order of examples.
    pub seed: u64,
    /// Passes over the training examples.
    pub epochs: u64,
    /// Examples per update.
    pub batch: usize,
    /// Highest learning rate.
    pub rate: f64,
    /// Share of the updates spent warming up.
    pub warmup: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Decay of AdamW's first moment.
    pub beta1: f64,
    /// Decay of AdamW's second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Largest norm of the gradient; 0 does not clip.
    pub clip: f64,
    /// Share of the responses held out.
    pub validation: f64,
    /// At most this many held-out examples are used.
    pub validation_examples: usize,
    /// Validations in every epoch.
    pub validations_per_epoch: u64,
    /// Files that are shuffled together and held in memory.
    pub window: usize,
    /// What is predicted: total variation (the paper), or the divergence whose mean is the mutual information.
    #[serde(skip_serializing_if = "is_usual")]
    pub target: Measure,
    /// The predictor.
    pub architecture: Architecture,
}

/// Whether it is the paper's target, which states of earlier versions do not name.
fn is_usual(measure: &Measure) -> bool {
    *measure == Measure::TotalVariation
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 5,
            batch: 32,
            rate: 1e-5,
            warmup: 0.05,
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            clip: 0.0,
            validation: 0.05,
            validation_examples: 4096,
            validations_per_epoch: 4,
            window: 32,
            target: Measure::TotalVariation,
            architecture: Architecture::default(),
        }
    }
}

impl Config {
    /// Reads a TOML file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::read(path))?;
        let unusable = |problem: String| Error::Config { path: path.to_owned(), problem };
        let config: Self = toml::from_str(&text).map_err(|cause| unusable(cause.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Refuses values that train nothing.
    pub fn check(&self) -> Result<()> {
        let refuse = |name, value: String, allowed| Err(Error::Setting { name, value, allowed });
        let counts = [
            ("the number of epochs", self.epochs),
            ("the batch size", self.batch as u64),
            ("the number of validation examples", self.validation_examples as u64),
            ("the number of validations per epoch", self.validations_per_epoch),
            ("the number of files shuffled together", self.window as u64),
        ];
        for (name, value) in counts {
            if value == 0 {
                return refuse(name, "0".into(), "at least 1");
            }
        }
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return refuse("the learning rate", self.rate.to_string(), "a positive number");
        }
        for (name, value) in
            [("the warm-up", self.warmup), ("the share of held-out responses", self.validation)]
        {
            if !(0.0..1.0).contains(&value) {
                return refuse(name, value.to_string(), "at least 0 and below 1");
            }
        }
        match self.optimizer().problem() {
            Some(problem) => refuse("the optimizer", problem, "usable"),
            None => Ok(()),
        }
    }

    pub(crate) fn optimizer(&self) -> AdamW {
        // Above any gradient of a mean squared error of numbers between 0 and 1.
        let clip = if self.clip > 0.0 { self.clip } else { 1e30 };
        AdamW {
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
            weight_decay: self.weight_decay,
            clip,
            ema: 0.0,
        }
    }

    pub(super) fn schedule(&self, steps: u64) -> Schedule {
        Schedule { peak: self.rate, warmup: (self.warmup * steps as f64).round() as u64, floor: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::MixRule;

    #[test]
    fn the_defaults_are_usable_and_bad_values_are_named() {
        Config::default().check().unwrap();
        for (config, named) in [
            (Config { batch: 0, ..Config::default() }, "batch"),
            (Config { rate: -1.0, ..Config::default() }, "rate"),
            (Config { validation: 1.0, ..Config::default() }, "held-out"),
            (Config { beta2: 1.0, ..Config::default() }, "beta2"),
        ] {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    /// Section 4.3, word by word: AdamW with learning rate 1e-5 and weight decay 0.01, a cosine schedule with 5 % warm-up
    /// that ends at nothing, five epochs, one pair of d×d matrices, total variation.
    #[test]
    fn the_defaults_are_the_papers() {
        let config = Config::default();
        assert_eq!((config.rate, config.weight_decay, config.warmup, config.epochs), (1e-5, 0.01, 0.05, 5));
        assert_eq!((config.beta1, config.beta2, config.eps, config.clip), (0.9, 0.999, 1e-8, 0.0));
        assert_eq!(config.target, Measure::TotalVariation);
        let plain =
            Architecture { heads: 1, mix: MixRule::Mean, rank: 0, projection: None, marginals: false };
        assert_eq!(config.architecture, plain);
        let model = crate::predictor::Model::new(3584, config.architecture).unwrap();
        assert_eq!(model.len(), 2 * 3584 * 3584, "2d², about 26 million for Dream-7B");
        let (schedule, steps) = (config.schedule(1000), 1000);
        assert_eq!(schedule.warmup, 50);
        assert_eq!(schedule.rate(49, steps), 1e-5);
        assert!((schedule.rate(525, steps) - 0.5e-5).abs() < 1e-7 && schedule.rate(999, steps) < 1e-9);
        let optimizer = config.optimizer();
        assert_eq!((optimizer.weight_decay, optimizer.beta2, optimizer.ema), (0.01, 0.999, 0.0));
        // Phase 1: five masks a response, t ~ U(0,1) (checked where masks are drawn), 100,000 responses.
        assert_eq!(crate::tv_cache::TvCacheSettings::default().masks_per_response, 5);
    }

    #[test]
    fn files_are_read_and_unknown_keys_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("predictor.toml");
        let text = "epochs = 2\nrate = 1e-3\n[architecture]\nheads = 2\nmix = \"learned\"\n";
        std::fs::write(&path, text).unwrap();
        let config = Config::read(&path).unwrap();
        assert_eq!((config.epochs, config.architecture.heads, config.batch), (2, 2, 32));
        std::fs::write(&path, "epoch = 2\n").unwrap();
        assert!(Config::read(&path).unwrap_err().to_string().contains("epoch"));
    }
}
