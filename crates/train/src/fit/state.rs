//! The saved state of a run: weights, moments, the best weights so far.
//!
//! Invariant: the state file is complete or absent, and a run that continues from it makes the same weights, bit for
//! bit, as one that was never stopped.

use std::collections::BTreeMap;
use std::path::Path;

use demask_model::checkpoint::{Mapped, Store, write};

use crate::error::{Error, Result};
use crate::optimizer::Moments;
use crate::predictor::SquaredError;

pub(crate) const FILE: &str = "state.safetensors";

/// Everything a run needs to continue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// Updates done.
    pub(crate) step: u64,
    /// Weights and moments.
    pub(crate) moments: Moments,
    /// Weights with the lowest validation error, that error and its step.
    pub(crate) best: Option<(Vec<f32>, f64, u64)>,
    /// Training error since the last point of the curve.
    pub(crate) tally: SquaredError,
}

impl State {
    pub(crate) fn new(moments: Moments) -> Self {
        Self { step: 0, moments, best: None, tally: SquaredError::default() }
    }

    /// Saves it; `identity` is what a later run must have in common with this one.
    pub(crate) fn save(&self, folder: &Path, identity: &str) -> Result<()> {
        let vector = |name: &str, values: &[f32]| {
            (name.to_owned(), Mapped::from_f32(&[values.len()], values.to_vec()))
        };
        let Moments { parameters, first, second, updates, .. } = &self.moments;
        let mut tensors =
            vec![vector("parameters", parameters), vector("first", first), vector("second", second)];
        let mut metadata = BTreeMap::from([
            ("identity".to_owned(), identity.to_owned()),
            ("step".to_owned(), self.step.to_string()),
            ("updates".to_owned(), updates.to_string()),
            ("tally_sum".to_owned(), self.tally.sum.to_string()),
            ("tally_pairs".to_owned(), self.tally.pairs.to_string()),
        ]);
        if let Some((weights, mse, step)) = &self.best {
            tensors.push(vector("best", weights));
            metadata.insert("best_mse".to_owned(), mse.to_string());
            metadata.insert("best_step".to_owned(), step.to_string());
        }
        write::file(&folder.join(FILE), &tensors, &metadata)?;
        Ok(())
    }

    /// The state of a run of this identity with `len` parameters, if the folder has one.
    pub(crate) fn read(folder: &Path, identity: &str, len: usize) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let store = Store::open_file(&path)?;
        let bad = |problem: &str| Error::State { path: path.clone(), problem: problem.to_owned() };
        let text = |name: &str| store.metadata().get(name).map(String::as_str);
        if text("identity") != Some(identity) {
            return Err(bad(
                "was saved by a run with another cache or config; delete its folder or use another output",
            ));
        }
        let damaged = || bad("is damaged; delete it to start again");
        let number = |name: &str| text(name).and_then(|value| value.parse::<u64>().ok()).ok_or_else(damaged);
        let exact = |name: &str| text(name).and_then(|value| value.parse::<f64>().ok()).ok_or_else(damaged);
        let vector = |name: &str| -> Result<Vec<f32>> { Ok(store.tensor_shaped(name, &[len])?.to_f32()) };
        let best = match store.contains("best") {
            true => Some((vector("best")?, exact("best_mse")?, number("best_step")?)),
            false => None,
        };
        Ok(Some(Self {
            step: number("step")?,
            moments: Moments {
                parameters: vector("parameters")?,
                first: vector("first")?,
                second: vector("second")?,
                ema: None,
                updates: number("updates")?,
            },
            best,
            tally: SquaredError { sum: exact("tally_sum")?, pairs: number("tally_pairs")? },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::AdamW;

    #[test]
    fn a_state_comes_back_bit_for_bit_and_another_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::read(folder.path(), "a", 3).unwrap(), None);
        let settings = AdamW::default();
        let mut state = State::new(Moments::new(vec![0.5, -1.5, f32::MIN_POSITIVE], &settings));
        state.moments.update(&settings, &[0.1, 0.2, 0.3], std::slice::from_ref(&(0..3)), 1e-3);
        state.step = 1;
        state.tally = SquaredError { sum: 0.1 + 0.2, pairs: 7 };
        state.best = Some((vec![1.0, 2.0, 3.0], 1.0 / 3.0, 1));
        state.save(folder.path(), "a").unwrap();
        assert_eq!(State::read(folder.path(), "a", 3).unwrap(), Some(state));
        assert!(State::read(folder.path(), "b", 3).unwrap_err().to_string().contains("another"));
    }
}
