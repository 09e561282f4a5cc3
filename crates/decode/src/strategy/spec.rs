//! The one spelling of a decoder, everywhere: `NAME[:key=value,…]`.

use std::ops::Deref;

use crate::error::Result;
use crate::spelling::{self, Listed, Param, Spelled, Table};
use crate::strategy::Strategy;
use crate::strategy::registry::{ALL, Context, Entry};

/// The table of strategies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strategies;

impl Table for Strategies {
    const KIND: &'static str = "strategy";
    type Entry = Entry;

    fn all() -> &'static [Entry] {
        ALL
    }
}

impl Listed for Entry {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn params(&self) -> &'static [Param] {
        self.params
    }
}

/// A strategy's name and the parameters that were given.
pub type StrategySpec = Spelled<Strategies>;

impl StrategySpec {
    /// Builds the strategy with fresh state.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Strategy>> {
        (self.entry().build)(&Values { values: self.values(), context })
    }
}

/// Parameter values of a spec for the builder of a strategy, and what else it may use.
pub struct Values<'a> {
    values: spelling::Values<'a>,
    /// What the strategy may use of its surroundings.
    pub context: &'a Context,
}

impl<'a> Deref for Values<'a> {
    type Target = spelling::Values<'a>;

    fn deref(&self) -> &Self::Target {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_round_trips() {
        for text in ["entropy", "entropy:k=2", "klass:conf=0.9,kl=0.0003", "entropy:steps=20"] {
            assert_eq!(text.parse::<StrategySpec>().unwrap().to_string(), text);
        }
        let json = serde_json::to_string(&"top1:k=3".parse::<StrategySpec>().unwrap()).unwrap();
        assert_eq!(json, "\"top1:k=3\"");
        assert_eq!("maskgit_plus".parse::<StrategySpec>().unwrap().name(), "maskgit-plus");
    }

    #[test]
    fn mistakes_get_the_nearest_right_word() {
        for (text, hint) in [
            ("entropi", "did you mean entropy"),
            ("entropy:kk=2", "did you mean k"),
            ("klass:konf=0.9", "did you mean conf"),
            ("entropy:k=0", "at least 1"),
            ("klass:conf=1.5", "between 0 and 1"),
            ("entropy:k", "key=value"),
            ("entropy:k=1,k=2", "twice"),
            ("entropy:score=best", "raw, filtered"),
            ("entropy:k=2,steps=10", "not both"),
        ] {
            let parsed = text.parse::<StrategySpec>();
            let error =
                parsed.and_then(|s| s.build(&Context::default()).map(|_| ())).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
