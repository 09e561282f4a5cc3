//! The one spelling of a decoder, everywhere: `NAME[:key=value,…]`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::strategy::Strategy;
use crate::strategy::registry::{self, Context, Entry};

/// A strategy's name and the parameters that were given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct StrategySpec {
    name: &'static str,
    given: Vec<(&'static str, String)>,
}

impl StrategySpec {
    /// The canonical name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Parameters that were given.
    pub fn given(&self) -> &[(&'static str, String)] {
        &self.given
    }

    /// Adds or replaces a parameter.
    pub fn with(mut self, key: &str, value: impl ToString) -> Result<Self> {
        let param = self.entry().param(key)?;
        let value = value.to_string();
        param.check(self.name, &value)?;
        self.given.retain(|(k, _)| *k != param.key);
        self.given.push((param.key, value));
        Ok(self)
    }

    /// Its registry entry.
    pub fn entry(&self) -> &'static Entry {
        registry::find(self.name).unwrap_or_else(|_| unreachable!("a spec is only made of a known name"))
    }

    /// Builds the strategy with fresh state.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Strategy>> {
        (self.entry().build)(&Values { spec: self, context })
    }
}

impl FromStr for StrategySpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut spec = Self { name: registry::find(name.trim())?.name, given: Vec::new() };
        for pair in rest.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(Error::BadValue {
                    what: format!("strategy {}", spec.name),
                    value: pair.into(),
                    why: "parameters are written key=value".into(),
                });
            };
            if spec.given.iter().any(|(k, _)| *k == key.trim()) {
                return Err(Error::BadValue {
                    what: format!("{}:{}", spec.name, key.trim()),
                    value: value.into(),
                    why: "is given twice".into(),
                });
            }
            spec = spec.with(key.trim(), value.trim())?;
        }
        Ok(spec)
    }
}

impl fmt::Display for StrategySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (i, (key, value)) in self.given.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl From<StrategySpec> for String {
    fn from(spec: StrategySpec) -> Self {
        spec.to_string()
    }
}

impl TryFrom<String> for StrategySpec {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

/// Parameter values of a spec, given or default, for the builder of a strategy.
pub struct Values<'a> {
    spec: &'a StrategySpec,
    /// What the strategy may use of its surroundings.
    pub context: &'a Context,
}

impl Values<'_> {
    /// The value as written, or the default (empty means absent).
    pub fn text(&self, key: &str) -> &str {
        let given = self.spec.given.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
        given.unwrap_or_else(|| self.spec.entry().param(key).map_or("", |p| p.default))
    }

    /// The value as a number; checked when the spec was made.
    pub fn number(&self, key: &str) -> f64 {
        self.text(key).parse().unwrap_or(f64::NAN)
    }

    /// The value as a count, or `None` if it was not given and has no default.
    pub fn count(&self, key: &str) -> Option<usize> {
        self.text(key).parse().ok()
    }

    /// The strategy's name.
    pub fn name(&self) -> &'static str {
        self.spec.name
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
