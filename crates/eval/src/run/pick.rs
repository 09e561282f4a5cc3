//! Which configurations a rule picked, on which problems and of how many: what a sweep on validation problems hands to a
//! comparison on test problems, so that every row of a table can say who put it there.
//!
//! Invariant: a folder of test records belongs to one choice; another choice judged on them would be a second look.

use std::path::Path;

use demask_decode::StrategySpec;
use demask_model::checkpoint::write::replace;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Beside a sweep's tables.
pub const FILE: &str = "chosen.json";
/// Beside the records of the comparison.
const JUDGED: &str = "picked.json";

/// A choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Picked {
    /// How it was made.
    pub rule: String,
    /// On which problems.
    pub split: String,
    /// Of which tasks.
    pub tasks: Vec<String>,
    /// How many of each, the same for every configuration.
    pub problems: usize,
    /// What was picked.
    pub picks: Vec<Pick>,
}

/// The configuration of one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    /// The method: a strategy's name, or the label of its grid.
    pub method: String,
    /// What was picked.
    pub strategy: StrategySpec,
    /// Of how many configurations.
    pub tried: usize,
}

impl Picked {
    /// Reads what a sweep wrote into this folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = if folder.is_dir() { folder.join(FILE) } else { folder.to_owned() };
        let text = std::fs::read(&path).map_err(Error::read(&path))?;
        let bad = |cause: serde_json::Error| {
            Error::Data(format!("{} is not what a sweep writes: {cause}", path.display()))
        };
        serde_json::from_slice(&text).map_err(bad)
    }

    /// Writes it into a sweep's folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        self.put(&folder.join(FILE))
    }

    fn put(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::write(path)(e.into()))?;
        Ok(replace(path, |out| writeln!(out, "{text}"))?)
    }

    /// Binds a folder of test records to this choice; refuses one that was bound to another.
    pub fn judge(&self, folder: &Path) -> Result<()> {
        let path = folder.join(JUDGED);
        if path.exists() {
            return match Self::read(&path)? == *self {
                true => Ok(()),
                false => Err(Error::Data(format!(
                    "{} holds test records of another choice; a second choice judged on the same problems is no longer made \
                     beforehand, so use another folder and say so",
                    folder.display()
                ))),
            };
        }
        std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
        self.put(&path)
    }

    /// What picked a row, in a word or two.
    pub fn by(&self, strategy: &StrategySpec) -> String {
        match self.picks.iter().find(|pick| pick.strategy == *strategy) {
            Some(pick) => format!("the rule, of {}", pick.tried),
            None => "nobody".into(),
        }
    }

    /// What those words mean.
    pub fn legend(&self) -> String {
        let on = format!("{} {} problems of each of {}", self.problems, self.split, self.tasks.join(", "));
        let rule = self.rule.trim_end_matches('.');
        format!("the rule ({rule}; {on}; of so many configurations of the method), or nobody's rule")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_test_records_belongs_to_one_choice() {
        let folder = tempfile::tempdir().unwrap();
        let pick = |text: &str| Pick { method: "demask".into(), strategy: text.parse().unwrap(), tried: 3 };
        let first = Picked {
            rule: "r".into(),
            split: "validation".into(),
            tasks: vec!["a".into()],
            problems: 10,
            picks: vec![pick("demask:tau=0.1")],
        };
        first.write(folder.path()).unwrap();
        assert_eq!(Picked::read(folder.path()).unwrap(), first);
        let test = folder.path().join("test");
        first.judge(&test).unwrap();
        first.judge(&test).unwrap();
        let second = Picked { picks: vec![pick("demask:tau=0.2")], ..first.clone() };
        assert!(second.judge(&test).unwrap_err().to_string().contains("another choice"));
        assert_eq!(first.by(&"demask:tau=0.1".parse().unwrap()), "the rule, of 3");
        assert_eq!(first.by(&"demask:tau=0.2".parse().unwrap()), "nobody");
    }
}
