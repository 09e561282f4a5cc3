//! The saved state of a run: weights, moments, place in the stream.
//!
//! Invariant: a state file is complete or absent, the last two are kept, and a run that continues from one makes the same
//! weights, bit for bit, as a run that was never stopped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use demask_model::checkpoint::{Mapped, Store, write};

use crate::error::{Error, Result};
use crate::optimizer::Moments;

/// States kept in the folder.
const KEPT: usize = 2;
const PARTS: [&str; 5] = ["parameters", "first", "second", "ema", "momentum"];

/// Everything a run needs to continue.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Updates done.
    pub step: u64,
    /// Next example of the stream.
    pub cursor: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// Seconds of training so far.
    pub seconds: f64,
    /// Best mean validation score so far.
    pub best: Option<f64>,
    /// Weights and moments.
    pub moments: Moments,
    /// Momentum of Muon, where it is used.
    pub momentum: Option<Vec<f32>>,
}

impl State {
    /// A run that has not begun.
    pub fn new(moments: Moments) -> Self {
        Self { step: 0, cursor: 0, tokens: 0, seconds: 0.0, best: None, moments, momentum: None }
    }

    /// Saves it in `folder`; `identity` is what a later run must have in common with this one.
    pub fn save(&self, folder: &Path, identity: &str) -> Result<()> {
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let Moments { parameters, first, second, ema, updates } = &self.moments;
        let vectors = [Some(parameters), Some(first), Some(second), ema.as_ref(), self.momentum.as_ref()];
        let named = PARTS.iter().zip(vectors).filter_map(|(name, vector)| Some((name, vector?)));
        let tensors: Vec<(String, Mapped)> = named
            .map(|(&name, vector)| (name.to_owned(), Mapped::from_f32(&[vector.len()], vector.clone())))
            .collect();
        let mut metadata = BTreeMap::from([
            ("identity".to_owned(), identity.to_owned()),
            ("step".to_owned(), self.step.to_string()),
            ("cursor".to_owned(), self.cursor.to_string()),
            ("tokens".to_owned(), self.tokens.to_string()),
            ("seconds".to_owned(), self.seconds.to_string()),
            ("updates".to_owned(), updates.to_string()),
        ]);
        if let Some(best) = self.best {
            metadata.insert("best".to_owned(), best.to_string());
        }
        write::file(&folder.join(format!("step-{:010}.safetensors", self.step)), &tensors, &metadata)?;
        for old in files(folder)?.iter().rev().skip(KEPT) {
            fs::remove_file(old).map_err(Error::write(old))?;
        }
        Ok(())
    }

    /// The newest readable state of `folder` for a run with `len` parameters and, at the state's step, this identity;
    /// nothing if there is no state.
    pub fn newest(folder: &Path, identity: impl Fn(u64) -> String, len: usize) -> Result<Option<Self>> {
        let mut failure = None;
        for path in files(folder)?.iter().rev() {
            match Self::read(path, len) {
                Ok((state, found)) if found == identity(state.step) => return Ok(Some(state)),
                Ok(_) => {
                    let problem =
                        "was saved by a run with another config, tokenizer or start; use another folder"
                            .into();
                    return Err(Error::State { path: path.clone(), problem });
                }
                // A damaged file is skipped for the one before it; with none left, the damage is reported.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    fn read(path: &Path, len: usize) -> Result<(Self, String)> {
        let store = Store::open_file(path)?;
        let text = |name: &str| store.metadata().get(name).cloned();
        let bad = |problem: String| Error::State { path: path.to_owned(), problem };
        let number = |name: &str| {
            let value = text(name).and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| bad(format!("has no {name}; delete it to continue from the state before")))
        };
        let vector = |name: &str| -> Result<Vec<f32>> { Ok(store.tensor_shaped(name, &[len])?.to_f32()) };
        let optional = |name: &str| store.contains(name).then(|| vector(name)).transpose();
        let moments = Moments {
            parameters: vector(PARTS[0])?,
            first: vector(PARTS[1])?,
            second: vector(PARTS[2])?,
            ema: optional(PARTS[3])?,
            updates: number("updates")?,
        };
        let state = Self {
            step: number("step")?,
            cursor: number("cursor")?,
            tokens: number("tokens")?,
            seconds: text("seconds").and_then(|value| value.parse().ok()).unwrap_or(0.0),
            best: text("best").and_then(|value| value.parse().ok()),
            moments,
            momentum: optional(PARTS[4])?,
        };
        Ok((state, text("identity").unwrap_or_default()))
    }
}

/// State files, oldest first.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(Error::read(folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|n| n.starts_with("step-") && n.ends_with(".safetensors")).collect();
    names.sort_unstable();
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::AdamW;

    fn state(step: u64) -> State {
        let settings = AdamW { ema: 0.9, ..AdamW::default() };
        let mut moments = Moments::new(vec![0.5, f32::MIN_POSITIVE, -3.25], &settings);
        moments.update(&settings, &[0.1, 0.2, 0.3], std::slice::from_ref(&(0..3)), 1e-3);
        State {
            step,
            cursor: step * 7,
            tokens: step * 100,
            seconds: 1.5,
            best: Some(0.25),
            moments,
            momentum: Some(vec![0.5; 3]),
        }
    }

    #[test]
    fn a_state_comes_back_bit_for_bit_and_two_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::newest(folder.path(), |_| "a".into(), 3).unwrap(), None);
        for step in 1..=4 {
            state(step).save(folder.path(), "a").unwrap();
        }
        assert_eq!(State::newest(folder.path(), |_| "a".into(), 3).unwrap(), Some(state(4)));
        assert_eq!(files(folder.path()).unwrap().len(), KEPT);
    }

    #[test]
    fn a_damaged_state_gives_way_to_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        state(1).save(folder.path(), "a").unwrap();
        state(2).save(folder.path(), "a").unwrap();
        let newest = files(folder.path()).unwrap().pop().unwrap();
        let bytes = fs::read(&newest).unwrap();
        fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(State::newest(folder.path(), |_| "a".into(), 3).unwrap().map(|state| state.step), Some(1));
    }

    #[test]
    fn another_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        state(1).save(folder.path(), "a").unwrap();
        let error = State::newest(folder.path(), |_| "b".into(), 3).unwrap_err().to_string();
        assert!(error.contains("step-0000000001") && error.contains("another"), "{error}");
    }
}
