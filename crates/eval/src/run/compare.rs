//! Decoders beside one another on a few problems, without records: how often each is right and what it takes.

use demask_decode::StrategySpec;
use demask_engine::{Decoding, Model, Prompt};

use super::suite::Suite;
use crate::error::Result;

/// A decoder on all items of a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The strategy.
    pub strategy: StrategySpec,
    /// Items.
    pub items: usize,
    /// Items answered right.
    pub right: usize,
    /// Forward passes of all items together.
    pub forwards: usize,
}

impl Compared {
    /// Share of right answers.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.items.max(1) as f64
    }

    /// Mean forward passes of an item.
    pub fn forwards_each(&self) -> f64 {
        self.forwards as f64 / self.items.max(1) as f64
    }
}

/// Decodes and judges every item of a suite with one strategy, one item at a time; strategy and length of `decoding` are
/// replaced.
pub fn compare(
    model: &Model,
    suite: &dyn Suite,
    strategy: &StrategySpec,
    decoding: &Decoding,
) -> Result<Compared> {
    let mut compared = Compared { strategy: strategy.clone(), items: suite.len(), right: 0, forwards: 0 };
    for index in 0..suite.len() {
        let item = suite.item(index, model.text())?;
        let (strategy, length) = (Some(strategy.clone()), Some(item.max_new_tokens));
        let decoding = Decoding { strategy, length, ..decoding.clone() };
        let answer = model.generate(Prompt::Tokens(item.tokens)).decoding(decoding).run()?;
        let response = model.text().response(answer.response(), &item.until)?;
        compared.right += usize::from(suite.score(index, &response)?.correct);
        compared.forwards += answer.metrics.forwards;
    }
    Ok(compared)
}
