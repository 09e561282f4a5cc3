//! The table of strategies: names, parameters, defaults, meaning and source. Help texts, parsing,
//! documentation and the server's validation all read it.

use std::sync::Arc;

use crate::dependency::Predictor;
use crate::error::Result;
use crate::spelling::Table as _;
pub use crate::spelling::{Kind, Param};
use crate::strategy::spec::{Strategies, Values};
use crate::strategy::{
    Strategy, credit, dapd, dawn, demask, eb, entropy_threshold, factor, hierarchical, klass, localleap,
    low_confidence, multi_block, origin, pc, pcg, punt, ranked, remdm, saber, slowfast, threshold, wino,
};

/// What a strategy may use besides the step.
#[derive(Clone, Default)]
pub struct Context {
    /// The dependency predictor of the backbone, if there is one.
    pub predictor: Option<Arc<Predictor>>,
}

/// What a step costs besides the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Nothing beyond the logits of the masked rows.
    Logits,
    /// The dependency predictor: one d×d product over the masked rows.
    Predictor,
    /// Attention maps of the last layers.
    Attention,
    /// A second copy of the block in the same pass.
    Shadow,
    /// More forward passes.
    ExtraForwards,
}

/// A strategy's entry.
pub struct Entry {
    /// Canonical name.
    pub name: &'static str,
    /// Other spellings that are understood.
    pub aliases: &'static [&'static str],
    /// One line of meaning.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What a step costs.
    pub cost: Cost,
    /// Its parameters.
    pub params: &'static [Param],
    /// Makes one with fresh state.
    pub build: fn(&Values<'_>) -> Result<Box<dyn Strategy>>,
}

/// Every strategy.
pub const ALL: &[Entry] = &[
    demask::ENTRY,
    ranked::ENTROPY,
    ranked::TOP1,
    ranked::MASKGIT_PLUS,
    ranked::MARGIN,
    ranked::TOKEN_ORDER,
    ranked::RANDOM,
    origin::ENTRY,
    low_confidence::ENTRY,
    threshold::ENTRY,
    factor::ENTRY,
    entropy_threshold::ENTRY,
    eb::ENTRY,
    klass::ENTRY,
    localleap::ENTRY,
    hierarchical::ENTRY,
    credit::ENTRY,
    multi_block::ENTRY,
    slowfast::ENTRY,
    pc::ENTRY,
    pcg::ENTRY,
    dawn::ENTRY,
    dapd::ENTRY,
    punt::ENTRY,
    saber::ENTRY,
    remdm::ENTRY,
    wino::ENTRY,
];

/// Looks a strategy up by name or alias; an unknown one is answered with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry> {
    Strategies::find(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_with_its_defaults_and_is_named_once() {
        let mut names = Vec::new();
        for entry in ALL {
            names.extend(std::iter::once(entry.name).chain(entry.aliases.iter().copied()));
            for param in entry.params.iter().filter(|p| !p.default.is_empty()) {
                param.check(entry.name, param.default).unwrap();
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
