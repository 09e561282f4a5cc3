//! The table of strategies: names, parameters, defaults, meaning and source. Help texts, parsing,
//! documentation and the server's validation all read it.

use std::sync::Arc;

use crate::dependency::Predictor;
use crate::error::{Error, Result};
use crate::strategy::spec::Values;
use crate::strategy::{
    Strategy, credit, dapd, dawn, demask, eb, entropy_threshold, factor, hierarchical, klass, localleap,
    low_confidence, multi_block, origin, pc, pcg, punt, ranked, remdm, saber, slowfast, threshold,
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
    /// More forward passes.
    ExtraForwards,
}

/// A parameter of a strategy.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its key.
    pub key: &'static str,
    /// Default as it would be written; empty when absent by default.
    pub default: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// One line of meaning.
    pub help: &'static str,
}

/// Values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A whole number of at least 1.
    Count,
    /// A real number in a closed range.
    Number(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Param {
    pub(super) fn check(&self, strategy: &str, value: &str) -> Result<()> {
        let why = match self.kind {
            Kind::Count if value.parse::<usize>().is_ok_and(|v| v >= 1) => return Ok(()),
            Kind::Count => "must be a whole number of at least 1".to_owned(),
            Kind::Number(low, high) => match value.parse::<f64>() {
                Ok(v) if v >= low && v <= high => return Ok(()),
                _ if high == f64::INFINITY => format!("must be a number of at least {low}"),
                _ => format!("must be a number between {low} and {high}"),
            },
            Kind::Choice(words) if words.contains(&value) => return Ok(()),
            Kind::Choice(words) => format!("must be one of {}", words.join(", ")),
        };
        Err(Error::BadValue { what: format!("{strategy}:{}", self.key), value: value.into(), why })
    }
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

impl Entry {
    /// Looks a parameter up; an unknown key is answered with the nearest one.
    pub fn param(&self, key: &str) -> Result<&'static Param> {
        self.params.iter().find(|p| p.key == key).ok_or_else(|| Error::UnknownParameter {
            strategy: self.name.into(),
            key: key.into(),
            nearest: nearest(key, self.params.iter().map(|p| p.key)),
        })
    }
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
];

/// Looks a strategy up by name or alias; an unknown one is answered with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry> {
    let same = |e: &&Entry| e.name == name || e.aliases.contains(&name);
    ALL.iter().find(same).ok_or_else(|| Error::UnknownStrategy {
        name: name.into(),
        nearest: nearest(name, ALL.iter().map(|e| e.name)),
    })
}

/// The known word with the smallest edit distance, if it is near enough to be meant; for a hopeless
/// word, the list of all.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.collect();
    let (distance, best) = known.iter().map(|k| (edits(word, k), *k)).min()?;
    let near = distance <= 1 + word.chars().count().max(best.chars().count()) / 3;
    Some(if near { best.to_owned() } else { format!("one of {}", known.join(", ")) })
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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

    #[test]
    fn distance_counts_edits() {
        assert_eq!((edits("kitten", "sitting"), edits("", "abc"), edits("same", "same")), (3, 3, 0));
    }
}
