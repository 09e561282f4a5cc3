//! How large the inputs of every linear map are: the mean square of each, over passes of a model that counts them. Rounding
//! weighs the error of a weight by it, since an error is multiplied by the input.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Tensor;

use crate::checkpoint::Store;
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::gguf;
use crate::layer::{Embedding, Linear, Parameter, Parameters};
use crate::load::{FromStore, LoadOptions};
use crate::transformer::Transformer;

/// Sums of the squares of a map's inputs; shared by all who count.
#[derive(Debug, Default)]
pub struct Squares(Mutex<(Vec<f64>, u64)>);

impl Squares {
    /// Counts rows `[rows, width]` of inputs.
    pub(crate) fn add(&self, x: &[f32], width: usize) {
        let mut own = vec![0.0_f64; width];
        for row in x.chunks_exact(width.max(1)) {
            own.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
        }
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sums, rows) = &mut *held;
        sums.resize(width, 0.0);
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        *rows += (x.len() / width.max(1)) as u64;
    }

    /// The mean square of every input; nothing if there was none.
    pub fn mean(&self) -> Option<Vec<f32>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sums, rows) = &*held;
        (*rows > 0).then(|| sums.iter().map(|sum| (sum / *rows as f64) as f32).collect())
    }
}

/// The inputs of a model's maps by name.
#[derive(Debug, Default)]
pub struct Inputs(BTreeMap<String, Arc<Squares>>);

impl Inputs {
    /// The mean square of every input of the map of this name; nothing if it had none.
    pub fn of(&self, map: &str) -> Option<Vec<f32>> {
        self.0.get(map)?.mean()
    }

    /// The largest mean square of a map's inputs by their mean, over all maps: 1 where all inputs are alike.
    pub fn spread(&self) -> f32 {
        let of = |squares: &Arc<Squares>| {
            let means = squares.mean()?;
            let mean = means.iter().sum::<f32>() / means.len().max(1) as f32;
            (mean > 0.0).then(|| means.iter().fold(0.0, |a: f32, b| a.max(*b)) / mean)
        };
        self.0.values().filter_map(of).fold(1.0, f32::max)
    }
}

/// A model that counts the inputs of its maps in every pass, and the counts.
pub fn watched(folder: &Path, options: &LoadOptions) -> Result<(Transformer, Inputs)> {
    if gguf::is_gguf(folder) {
        let problem =
            "inputs are counted on a checkpoint folder, whose weights are to be rounded; this is a GGUF file";
        return Err(Error::Plan { path: folder.to_path_buf(), problem: problem.into() });
    }
    let (spec, store) = (Spec::from_folder(folder)?, Store::open_as(folder, options.mapped)?);
    let fingerprint = store.fingerprint(&spec);
    let mut from = Watching { from: FromStore { store: &store, options }, inputs: Inputs::default() };
    let model = Transformer::new(spec, options.device.clone(), fingerprint, &mut from)?;
    Ok((model, from.inputs))
}

/// Parameters whose maps count.
struct Watching<'a> {
    from: FromStore<'a>,
    inputs: Inputs,
}

impl Parameters for Watching<'_> {
    fn embedding(&mut self, which: &Parameter) -> Result<Embedding> {
        self.from.embedding(which)
    }

    fn linear(&mut self, which: &Parameter) -> Result<Linear> {
        let seen = self.inputs.0.entry(which.name.clone()).or_default().clone();
        Ok(Linear::Watched { map: Box::new(self.from.linear(which)?), seen })
    }

    fn vector(&mut self, which: &Parameter) -> Result<Tensor> {
        self.from.vector(which)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_means_over_all_rows() {
        let squares = Squares::default();
        assert_eq!(squares.mean(), None);
        squares.add(&[1.0, 2.0, 3.0, 4.0], 2);
        squares.add(&[0.0, 6.0], 2);
        assert_eq!(squares.mean(), Some(vec![10.0 / 3.0, 56.0 / 3.0]));
    }
}
