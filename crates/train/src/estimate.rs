//! How long a predictor takes to make, from a few examples that are measured and a few updates that are made; and what
//! fits into a time.

use std::time::{Duration, Instant};

use demask_model::HiddenRow;

use crate::error::{Error, Result};
use crate::fit::Config;
use crate::predictor::{Batch, Model};
use crate::tv_cache::{Generator, HiddenRows, Stored, TvCacheSettings};

/// Responses that are measured for an estimate, one mask each.
const RESPONSES: usize = 4;
/// Updates that are made for an estimate.
const UPDATES: usize = 2;
/// Share of a budget that is planned for; the rest is for what an estimate misses.
const PLANNED: f64 = 0.9;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Responses.
    pub responses: usize,
    /// Masks of each.
    pub masks: u32,
}

impl Plan {
    /// Examples in all.
    pub fn examples(self) -> usize {
        self.responses * self.masks as usize
    }
}

/// What an example costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Examples it is measured on.
    pub examples: usize,
    /// Seconds to measure one.
    pub measuring: f64,
    /// Seconds to train on one, all epochs and both hidden rows together.
    pub training: f64,
}

impl Estimate {
    /// Measures a few of the generator's own responses and trains on them.
    pub fn measure(generator: &Generator<'_>, config: &Config) -> Result<Self> {
        let settings = TvCacheSettings {
            limit: RESPONSES,
            masks_per_response: 1,
            hidden: HiddenRows::Both,
            hidden_dtype: Stored::F32,
            ..generator.settings.clone()
        };
        let start = Instant::now();
        let examples = Generator { settings: &settings, ..*generator }.examples()?;
        let measured = start.elapsed().as_secs_f64();
        if examples.is_empty() {
            let value = format!("the first {RESPONSES} cannot be used");
            return Err(Error::Setting { name: "the data", value, allowed: "responses that can be masked" });
        }
        let width = generator.backbone.spec().hidden;
        let model = Model::new(width, config.architecture)?;
        let (weights, mut gradient) = (model.initial(config.seed), vec![0.0; model.len()]);
        let mut batch = Batch::default();
        for example in &examples {
            let hidden = example.hidden_i.as_ref().map(|rows| rows.to_f32()).unwrap_or_default();
            batch.push(&hidden, &example.dependency.to_f32(), example.positions.len());
        }
        let start = Instant::now();
        for _ in 0..UPDATES {
            model.gradient(&weights, &batch, &mut gradient);
        }
        let update = start.elapsed().as_secs_f64() / (UPDATES * examples.len()) as f64;
        let rows = [HiddenRow::I, HiddenRow::IMinusOne].len() as f64;
        Ok(Self {
            examples: examples.len(),
            measuring: measured / examples.len() as f64,
            training: update * rows * config.epochs as f64,
        })
    }

    /// How long a plan takes.
    pub fn time(&self, plan: Plan) -> Duration {
        Duration::from_secs_f64((plan.examples() as f64 * (self.measuring + self.training)).min(1e9))
    }

    /// The largest plan within a time: fewer masks of every response first, down to two, then fewer responses. Many
    /// responses with few masks show more kinds of text than few with many.
    pub fn within(&self, full: Plan, budget: Duration) -> Plan {
        let each = (self.measuring + self.training).max(1e-9);
        let examples = ((PLANNED * budget.as_secs_f64() / each) as usize).max(2);
        if examples >= full.examples() {
            return full;
        }
        let masks = (examples / full.responses.max(1)).clamp(2.min(full.masks as usize), full.masks as usize);
        Plan { responses: (examples / masks).clamp(1, full.responses), masks: masks as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_gives_up_masks_before_responses() {
        let estimate = Estimate { examples: 4, measuring: 0.9, training: 0.1 };
        let full = Plan { responses: 1000, masks: 5 };
        assert_eq!(estimate.time(full), Duration::from_secs(5000));
        assert_eq!(estimate.within(full, Duration::from_secs(6000)), full);
        assert_eq!(estimate.within(full, Duration::from_secs(3400)), Plan { responses: 1000, masks: 3 });
        assert_eq!(estimate.within(full, Duration::from_secs(1000)), Plan { responses: 450, masks: 2 });
        let least = estimate.within(full, Duration::from_secs(1));
        assert_eq!(least, Plan { responses: 1, masks: 2 });
        for seconds in [10, 100, 1000, 4000] {
            let plan = estimate.within(full, Duration::from_secs(seconds));
            assert!(estimate.time(plan) <= Duration::from_secs(seconds.max(2)), "{plan:?}");
        }
    }
}
