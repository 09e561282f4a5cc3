//! One training run of the head, from caches to a predictor's file with both heads.

use std::ops::ControlFlow;
use std::path::Path;

use demask_decode::dependency::{Feature, Metadata, Parts, Predictor, Stability, StabilityAbout};
use demask_model::HiddenRow;
use serde::{Deserialize, Serialize};

use super::data;
use super::objective::Learning;
use super::report::StabilityReport;
use crate::error::{Error, Result};
use crate::optimizer::AdamW;
use crate::part::{PartProgress, PartSettings, Training};
use crate::schedule::Schedule;
use crate::tv_cache::{Cache, TvCacheHeader};

/// How the head is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StabilitySettings {
    /// Seed of starting weights and of the order of positions.
    pub seed: u64,
    /// Passes over the labelled positions.
    pub epochs: u64,
    /// Positions per update.
    pub batch: usize,
    /// Width between the layers.
    pub inner: usize,
    /// Highest learning rate.
    pub rate: f64,
    /// Share of the updates spent warming up.
    pub warmup: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Share of the responses held out.
    pub validation: f64,
    /// Validations in every epoch.
    pub validations_per_epoch: u64,
}

impl Default for StabilitySettings {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 8,
            batch: 256,
            inner: 96,
            rate: 1e-3,
            warmup: 0.05,
            weight_decay: 0.01,
            validation: 0.1,
            validations_per_epoch: 2,
        }
    }
}

impl StabilitySettings {
    /// Refuses values that train nothing.
    pub fn check(&self) -> Result<()> {
        let refuse = |name, value: String, allowed| Err(Error::Setting { name, value, allowed });
        for (name, value) in [
            ("the number of epochs", self.epochs),
            ("the batch size", self.batch as u64),
            ("the width of the head", self.inner as u64),
            ("the number of validations per epoch", self.validations_per_epoch),
        ] {
            if value == 0 {
                return refuse(name, "0".into(), "at least 1");
            }
        }
        for (name, value) in
            [("the warm-up", self.warmup), ("the share of held-out responses", self.validation)]
        {
            if !(0.0..1.0).contains(&value) {
                return refuse(name, value.to_string(), "at least 0 and below 1");
            }
        }
        Ok(())
    }

    fn of_part(&self, per_epoch: u64) -> PartSettings {
        let steps = per_epoch * self.epochs;
        PartSettings {
            steps,
            rate: Schedule {
                peak: self.rate,
                warmup: (self.warmup * steps as f64).round() as u64,
                floor: 0.0,
            },
            optimizer: AdamW { beta2: 0.999, weight_decay: self.weight_decay, ..AdamW::default() },
            seed: self.seed,
            validate: per_epoch.div_ceil(self.validations_per_epoch).max(1),
        }
    }
}

/// A run to be started or continued.
pub struct StabilityFit<'a> {
    /// What to train on: caches with labels, of one backbone and one γ.
    pub caches: &'a [Cache],
    /// The predictor whose dependencies it reads and beside which it will lie; without one it stands alone.
    pub parts: Option<&'a Parts>,
    /// Which hidden row stands for a position, where it stands alone.
    pub row: HiddenRow,
    /// How.
    pub settings: &'a StabilitySettings,
    /// Where state and reports go.
    pub folder: &'a Path,
}

/// A trained head.
#[derive(Debug, Clone)]
pub struct StabilityFitted {
    /// The predictor with the head in it.
    pub parts: Parts,
    /// How good it is.
    pub report: StabilityReport,
}

impl StabilityFit<'_> {
    /// Trains to the end; `None` if the watcher stopped it. Continues by itself from the state in the folder.
    pub fn run(
        &self,
        watch: &mut dyn FnMut(&PartProgress) -> ControlFlow<()>,
    ) -> Result<Option<StabilityFitted>> {
        self.settings.check()?;
        let (header, gamma) = self.common()?;
        let row = self.parts.map_or(self.row, |parts| parts.metadata.hidden_row);
        let predictor = match self.parts.filter(|parts| !parts.heads.is_empty()) {
            Some(parts) => Some(Predictor::new(Parts { stability: None, ..parts.clone() })?),
            None => None,
        };
        let features = match predictor {
            Some(_) => Feature::ALL.to_vec(),
            None => Feature::without_dependency(),
        };
        let StabilitySettings { inner, batch, seed, validation, .. } = *self.settings;
        let labelled = data::read(self.caches, row, predictor.as_ref(), &features, validation)?;
        let mut learning = Learning::new(labelled, inner, batch, seed);
        let headers: Vec<&TvCacheHeader> = self.caches.iter().map(Cache::header).collect();
        let identity = serde_json::json!({
            "caches": headers,
            "predictor": predictor.as_ref().map(|predictor| predictor.fingerprint()),
            "row": row.to_string(),
            "settings": self.settings,
        });
        let settings = self.settings.of_part(learning.per_epoch());
        let training = Training { settings: &settings, folder: self.folder, identity: &identity.to_string() };
        let Some(outcome) = training.run(&mut learning, watch)? else { return Ok(None) };
        let mut report = StabilityReport::new(&learning.predictions(&outcome.parameters), gamma);
        report.training = learning.counts().0;
        (report.log_loss, report.constant) = (outcome.validation, outcome.baseline);
        report.steps = (outcome.best_step, outcome.steps);
        report.write(self.folder)?;
        let weights = learning.network.weights(&outcome.parameters, &learning.standard);
        let sources: Vec<&str> = headers.iter().map(|header| header.source.as_str()).collect();
        let about = StabilityAbout {
            gamma: Some(gamma),
            trained_on: Some(sources.join("; ")),
            loss: Some((report.log_loss, report.constant)),
        };
        let head = Stability::new(row, features, &weights, about)?;
        let parts = match self.parts {
            Some(parts) => Parts { stability: Some(head), ..parts.clone() },
            None => {
                let backbone = Some(header.backbone.clone());
                Parts::stable(head, Metadata { backbone, ..Metadata::new(row) })
            }
        };
        parts.check()?;
        Ok(Some(StabilityFitted { parts, report }))
    }

    /// What the caches have in common; refuses those that have not, or that the predictor is not for.
    fn common(&self) -> Result<(&TvCacheHeader, f32)> {
        let refuse = |name, value: String, allowed| Err(Error::Setting { name, value, allowed });
        let Some(first) = self.caches.first().map(Cache::header) else {
            return refuse("the number of caches", "0".into(), "at least 1");
        };
        let gamma = |header: &TvCacheHeader| header.settings.stability.map(|labels| labels.gamma);
        for other in self.caches.iter().map(Cache::header) {
            if other.backbone != first.backbone || gamma(other) != gamma(first) {
                return refuse("a cache", "of another backbone or gamma".into(), "like the first");
            }
        }
        let trained = self.parts.and_then(|parts| parts.metadata.backbone.as_deref());
        if trained.is_some_and(|backbone| backbone != first.backbone) {
            let value = format!("for backbone {}", trained.unwrap_or_default());
            return refuse("the predictor", value, "for the backbone of the caches");
        }
        match gamma(first) {
            Some(gamma) => Ok((first, gamma)),
            None => refuse("the cache", "without stability labels".into(), "generated with them"),
        }
    }
}
