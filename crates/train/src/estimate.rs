//! How long a predictor takes to make, from a few examples that are measured and a few whole updates that are made (hidden
//! rows made again where they are not stored, gradient, optimiser) and validated; and what fits into a time.

use std::time::{Duration, Instant};

use demask_model::HiddenRow;

use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::fit::{Config, hidden};
use crate::optimizer::Moments;
use crate::predictor::{Batch, Computed, Model};
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
    /// Seconds to train on one, all epochs and both hidden rows together, the optimiser's share included.
    pub training: f64,
    /// Seconds to validate on one that is held out, as often as that is done, both hidden rows together.
    pub validating: f64,
    /// Share of the examples that is held out.
    pub held: f64,
    /// Most of them that are used.
    pub held_at_most: usize,
}

impl Estimate {
    /// Measures a few of the generator's own responses and trains on them.
    pub fn measure(generator: &Generator<'_>, config: &Config, compute: &Compute) -> Result<Self> {
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
        let (optimizer, mut gradient) = (config.optimizer(), vec![0.0; model.len()]);
        let mut moments = Moments::new(model.initial(config.seed), &optimizer);
        // A batch of the real size, of the same few examples again and again.
        let mut batch = Batch::default();
        for example in examples.iter().cycle().take(config.batch) {
            let hidden = example.hidden_i.as_ref().map(|rows| rows.to_f32()).unwrap_or_default();
            batch.push(&hidden, &example.dependency.to_f32(), example.positions.len());
        }
        let matrices = [model.matrices()];
        let computed = Computed { model, compute: compute.clone() };
        let start = Instant::now();
        for _ in 0..UPDATES {
            computed.gradient(&moments.parameters, &batch, &mut gradient)?;
            moments.update(&optimizer, &gradient, &matrices, config.rate);
        }
        let update = start.elapsed().as_secs_f64() / (UPDATES * config.batch) as f64;
        let start = Instant::now();
        std::hint::black_box(computed.error(&moments.parameters, &batch)?);
        let error = start.elapsed().as_secs_f64() / config.batch as f64;
        let rows = [HiddenRow::I, HiddenRow::IMinusOne];
        // Hidden rows that are not stored are made again whenever an example is seen.
        let missing = rows.into_iter().filter(|&row| !generator.settings.hidden.has(row));
        let mut again = 0.0;
        for row in missing {
            let start = Instant::now();
            hidden(generator.backbone, &examples.iter().collect::<Vec<_>>(), row)?;
            again += start.elapsed().as_secs_f64() / examples.len() as f64;
        }
        let (rows, epochs) = (rows.len() as f64, config.epochs as f64);
        Ok(Self {
            examples: examples.len(),
            measuring: measured / examples.len() as f64,
            training: epochs * (rows * update + again),
            validating: epochs * config.validations_per_epoch as f64 * (rows * error + again),
            held: config.validation,
            held_at_most: config.validation_examples,
        })
    }

    /// How long a plan takes.
    pub fn time(&self, plan: Plan) -> Duration {
        Duration::from_secs_f64(self.seconds(plan.examples()).min(1e9))
    }

    /// How long so many examples take.
    fn seconds(&self, examples: usize) -> f64 {
        let all = examples as f64;
        let held = all * self.held;
        all * self.measuring
            + (all - held) * self.training
            + held.min(self.held_at_most as f64) * self.validating
    }

    /// The largest plan within a time: fewer masks of every response first, down to two, then fewer responses. Many
    /// responses with few masks show more kinds of text than few with many.
    pub fn within(&self, full: Plan, budget: Duration) -> Plan {
        let (mut examples, mut too_many) = (2, full.examples());
        if self.seconds(too_many) <= PLANNED * budget.as_secs_f64() {
            return full;
        }
        while examples + 1 < too_many {
            let middle = examples + (too_many - examples) / 2;
            if self.seconds(middle) <= PLANNED * budget.as_secs_f64() {
                examples = middle;
            } else {
                too_many = middle;
            }
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
        let estimate = Estimate {
            examples: 4,
            measuring: 0.9,
            training: 0.1,
            validating: 0.0,
            held: 0.0,
            held_at_most: 0,
        };
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

    #[test]
    fn held_out_examples_cost_what_they_cost_up_to_their_limit() {
        let estimate = Estimate {
            examples: 4,
            measuring: 1.0,
            training: 10.0,
            validating: 4.0,
            held: 0.1,
            held_at_most: 50,
        };
        let seconds = |responses| estimate.time(Plan { responses, masks: 1 }).as_secs();
        assert_eq!(seconds(100), 100 + 90 * 10 + 10 * 4);
        assert_eq!(seconds(1000), 1000 + 900 * 10 + 50 * 4);
        let (full, budget) = (Plan { responses: 1000, masks: 4 }, Duration::from_secs(3000));
        let plan = estimate.within(full, budget);
        let more = Plan { responses: plan.responses + 1, ..plan };
        let planned = budget.mul_f64(PLANNED);
        assert!(estimate.time(plan) <= planned && estimate.time(more) > planned, "{plan:?}");
    }
}
