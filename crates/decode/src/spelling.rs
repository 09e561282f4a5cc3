//! The one spelling of strategies and caches, everywhere: `NAME[:key=value,…]`, read against a table of
//! names and parameters. Unknown words are answered with the nearest known one.
//!
//! Invariant: a [`Spelled`] that was read names an entry of its table and holds only parameters that entry has, with
//! values in range. Only one that was recorded by a program with strategies of its own may name what is not known here.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// A parameter of a strategy or a cache.
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
    /// A whole number, 0 included.
    Whole,
    /// A real number in a closed range.
    Number(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, or a name that the program added; judged when the thing is built.
    Open(&'static [&'static str]),
}

impl Param {
    /// Refuses a value that is not one of its kind.
    pub(crate) fn check(&self, owner: &str, value: &str) -> Result<()> {
        let why = match self.kind {
            Kind::Count if value.parse::<usize>().is_ok_and(|v| v >= 1) => return Ok(()),
            Kind::Count => "must be a whole number of at least 1".to_owned(),
            Kind::Whole if value.parse::<usize>().is_ok() => return Ok(()),
            Kind::Whole => "must be a whole number".to_owned(),
            Kind::Number(low, high) => match value.parse::<f64>() {
                Ok(v) if v >= low && v <= high => return Ok(()),
                _ if high == f64::INFINITY => format!("must be a number of at least {low}"),
                _ => format!("must be a number between {low} and {high}"),
            },
            Kind::Open(_) if !value.is_empty() => return Ok(()),
            Kind::Open(words) => {
                format!("must be one of {}, or a name that the program added", words.join(", "))
            }
            Kind::Choice(words) if words.contains(&value) => return Ok(()),
            Kind::Choice(words) => format!("must be one of {}", words.join(", ")),
        };
        Err(Error::BadValue { what: format!("{owner}:{}", self.key), value: value.into(), why })
    }
}

/// An entry of a table, as far as its spelling goes.
pub trait Listed: 'static {
    /// Canonical name.
    fn name(&self) -> &'static str;
    /// Other spellings that are understood.
    fn aliases(&self) -> &'static [&'static str];
    /// Its parameters.
    fn params(&self) -> &'static [Param];
}

/// A family of things that are spelled.
pub trait Family: Clone + 'static {
    /// What one of them is called in messages.
    const KIND: &'static str;
    /// Whether programs may add their own, so that a recorded name need not be one of ours.
    const OPEN: bool;
    /// One of them.
    type Entry: Listed;
    /// Those of this crate.
    fn standard() -> &'static [Self::Entry];
}

/// Looks an entry up by name or alias; an unknown one is answered with the nearest name.
pub fn find<'e, F: Family>(entries: &'e [F::Entry], name: &str) -> Result<&'e F::Entry> {
    let same = |e: &&F::Entry| e.name() == name || e.aliases().contains(&name);
    entries.iter().find(same).ok_or_else(|| Error::Unknown {
        kind: F::KIND,
        name: name.into(),
        nearest: nearest(name, entries.iter().map(Listed::name)),
    })
}

/// Reads a spelling of one of these entries.
pub fn read<F: Family>(entries: &[F::Entry], text: &str) -> Result<Spelled<F>> {
    let words: Words<'_> = words(F::KIND, text)?;
    let entry = find::<F>(entries, words.name)?;
    let (name, params) = (entry.name().to_owned(), Some(entry.params()));
    let bare = Spelled { name, given: Vec::new(), params, family: PhantomData };
    words.given.into_iter().try_fold(bare, |spec, (key, value)| spec.with(key, value))
}

/// A text taken apart, before anybody knows what it means.
struct Words<'a> {
    name: &'a str,
    given: Vec<(&'a str, &'a str)>,
}

fn words<'a>(kind: &str, text: &'a str) -> Result<Words<'a>> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut words = Words { name: name.trim(), given: Vec::new() };
    for pair in rest.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Error::BadValue {
                what: format!("{kind} {name}"),
                value: pair.into(),
                why: "parameters are written key=value".into(),
            });
        };
        let (key, value) = (key.trim(), value.trim());
        if words.given.iter().any(|(k, _)| *k == key) {
            return Err(Error::BadValue {
                what: format!("{name}:{key}"),
                value: value.into(),
                why: "is given twice".into(),
            });
        }
        words.given.push((key, value));
    }
    Ok(words)
}

/// A name and the parameters that were given.
#[derive(Debug, Clone)]
pub struct Spelled<F> {
    name: String,
    given: Vec<(String, String)>,
    /// What its entry takes; `None` of a recorded spelling whose entry is not known here.
    params: Option<&'static [Param]>,
    family: PhantomData<F>,
}

impl<F> PartialEq for Spelled<F> {
    fn eq(&self, other: &Self) -> bool {
        // In whatever order they are given; no key is given twice.
        self.name == other.name
            && self.given.len() == other.given.len()
            && self.given.iter().all(|pair| other.given.contains(pair))
    }
}

impl<F> Eq for Spelled<F> {}

impl<F: Family> Spelled<F> {
    /// The canonical name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Parameters that were given.
    pub fn given(&self) -> &[(String, String)] {
        &self.given
    }

    /// Adds or replaces a parameter.
    pub fn with(mut self, key: &str, value: impl ToString) -> Result<Self> {
        let value = value.to_string();
        if let Some(params) = self.params {
            let param = params.iter().find(|p| p.key == key).ok_or_else(|| Error::UnknownParameter {
                kind: F::KIND,
                name: self.name.clone(),
                key: key.into(),
                nearest: nearest(key, params.iter().map(|p| p.key)),
            })?;
            param.check(&self.name, &value)?;
        }
        self.given.retain(|(k, _)| k != key);
        self.given.push((key.into(), value));
        Ok(self)
    }

    /// What its entry takes; nothing is known of a recorded one whose entry is not known here.
    pub fn params(&self) -> &'static [Param] {
        self.params.unwrap_or_default()
    }

    /// Values of its parameters, given or default.
    pub fn values(&self) -> Values<'_> {
        Values { name: &self.name, params: self.params(), given: &self.given }
    }

    /// Whether its words were checked against an entry.
    pub(crate) fn is_checked(&self) -> bool {
        self.params.is_some()
    }

    /// A recorded spelling: checked where the name is one of ours, taken at its word otherwise.
    fn recorded(text: &str) -> Result<Self> {
        match read::<F>(F::standard(), text) {
            Err(Error::Unknown { .. }) if F::OPEN => {
                let words = words(F::KIND, text)?;
                let given = words.given.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
                Ok(Self { name: words.name.into(), given, params: None, family: PhantomData })
            }
            read => read,
        }
    }
}

/// A spelling of what this crate has.
impl<F: Family> FromStr for Spelled<F> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        read(F::standard(), text)
    }
}

impl<F> fmt::Display for Spelled<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.given.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl<F> Serialize for Spelled<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, F: Family> Deserialize<'de> for Spelled<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::recorded(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Parameter values, given or default, for whoever builds the thing.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    name: &'a str,
    params: &'static [Param],
    given: &'a [(String, String)],
}

impl Values<'_> {
    /// The value as written, or the default (empty means absent).
    pub fn text(&self, key: &str) -> &str {
        let given = self.given.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        given.unwrap_or_else(|| self.params.iter().find(|p| p.key == key).map_or("", |p| p.default))
    }

    /// The value as a number; checked when the spelling was read.
    pub fn number(&self, key: &str) -> f64 {
        self.text(key).parse().unwrap_or(f64::NAN)
    }

    /// The value as a whole number, or `None` if it was not given and has no default.
    pub fn count(&self, key: &str) -> Option<usize> {
        self.text(key).parse().ok()
    }

    /// The canonical name.
    pub fn name(&self) -> &str {
        self.name
    }
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
    fn distance_counts_edits() {
        assert_eq!((edits("kitten", "sitting"), edits("", "abc"), edits("same", "same")), (3, 3, 0));
    }

    #[test]
    fn whole_numbers_may_be_zero_and_counts_may_not() {
        let param = |kind| Param { key: "n", default: "", kind, help: "" };
        assert!(param(Kind::Whole).check("x", "0").is_ok() && param(Kind::Count).check("x", "0").is_err());
        assert!(
            param(Kind::Whole).check("x", "-1").is_err() && param(Kind::Whole).check("x", "1.5").is_err()
        );
    }
}
