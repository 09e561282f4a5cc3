//! What a `demask predictor train --budget` decided to measure, written beside its cache as `plan.json`.
//!
//! Invariant: what a stopped run made fits the run that continues it. Passes measured again would give another plan, and
//! a cache of other sizes.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use demask::model::file::Pending;
use demask::model::files;
use demask::train::estimate::Plan;
use serde::{Deserialize, Serialize};

/// Its name in the folder of a run.
pub(super) const FILE_NAME: &str = "plan.json";

/// What a plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// Time it may take.
    pub(super) budget_milliseconds: u64,
    /// Identifies the backbone's weights.
    pub(super) backbone: String,
    /// Identifies the responses.
    pub(super) data: String,
    /// Seed of masks and draws.
    pub(super) seed: u64,
    /// Responses without a budget.
    pub(super) all_responses: usize,
    /// Masks of each without a budget.
    pub(super) all_masks: u32,
}

/// A plan as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    asked: Asked,
    responses: usize,
    masks: u32,
    /// What it was to take when it was made.
    seconds: u64,
}

impl Kept {
    /// A plan and how long it takes.
    pub(super) fn new(asked: Asked, plan: Plan, time: Duration) -> Self {
        Self { asked, responses: plan.responses, masks: plan.masks, seconds: time.as_secs() }
    }

    /// The plan.
    pub(super) fn plan(&self) -> Plan {
        Plan { responses: self.responses, masks: self.masks }
    }

    /// What it was to take when it was made.
    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// The plan that an earlier run left in a folder for the same work; one for other work is refused where something
    /// was made by it.
    pub(super) fn of(folder: &Path, cache: &Path, asked: &Asked) -> Result<Option<Self>> {
        let path = folder.join(FILE_NAME);
        if !path.exists() {
            return Ok(None);
        }
        let kept = Self::read(&path)?;
        if kept.asked == *asked {
            return Ok(Some(kept));
        }
        if cache.exists() {
            bail!(
                "{} was made for another budget, model, data, limit or seed; use another folder, or delete it and {}",
                path.display(),
                cache.display()
            );
        }
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        Ok(None)
    }

    /// Writes it into a folder, which is made where needed. Who is first decides: what is returned is what lies there.
    pub(super) fn write(self, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(FILE_NAME);
        let mut file = Pending::create(&path)?;
        writeln!(file, "{}", serde_json::to_string_pretty(&self)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        if file.finish_if_first()? { Ok(self) } else { Self::read(&path) }
    }

    fn read(path: &Path) -> Result<Self> {
        let text = files::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not the plan of a training; delete it", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(seconds: u64) -> Asked {
        Asked {
            budget_milliseconds: seconds * 1000,
            backbone: "b".into(),
            data: "task:arith:0:6".into(),
            seed: 0,
            all_responses: 6,
            all_masks: 5,
        }
    }

    #[test]
    fn the_first_plan_stays_for_the_same_work_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, cache) = (folder.path().join("out"), folder.path().join("out/cache"));
        let kept = |responses| {
            let plan = Plan { responses, masks: 2 };
            Kept::new(asked(60), plan, Duration::from_secs(50))
        };
        assert_eq!(Kept::of(&folder, &cache, &asked(60)).unwrap(), None);
        assert_eq!(kept(3).write(&folder).unwrap(), kept(3));
        assert_eq!(kept(4).write(&folder).unwrap(), kept(3), "another was first");
        assert_eq!(Kept::of(&folder, &cache, &asked(60)).unwrap(), Some(kept(3)));
        std::fs::create_dir(&cache).unwrap();
        let refused = Kept::of(&folder, &cache, &asked(61)).unwrap_err().to_string();
        assert!(refused.contains("plan.json") && refused.contains("another budget"), "{refused}");
        std::fs::remove_dir(&cache).unwrap();
        assert_eq!(Kept::of(&folder, &cache, &asked(61)).unwrap(), None, "nothing was made by it");
        std::fs::write(folder.join(FILE_NAME), "{").unwrap();
        let refused = Kept::of(&folder, &cache, &asked(60)).unwrap_err().to_string();
        assert!(refused.contains("plan.json"), "{refused}");
    }
}
