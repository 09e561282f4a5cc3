//! The stability head in a predictor's file: four tensors under `stability.` and what the metadata says of them.
//!
//! `stability.first` is `[d + features, inner]` whatever the layout of the rest, `stability.first_bias`, `stability.second`
//! and `stability.second_bias` are vectors, all in full precision. Metadata: `stability_inputs` (the features after the
//! hidden row, in order), `stability_gamma`, `stability_trained_on`, `stability_loss`, `stability_baseline`.

use std::collections::BTreeMap;

use demask_model::checkpoint::{Mapped, Store};
use demask_model::{HiddenRow, Rows};

use crate::dependency::feature::Feature;
use crate::dependency::stability::{Stability, StabilityAbout, StabilityWeights};
use crate::error::{Error, Result};

const FIRST: &str = "stability.first";
const FIRST_BIAS: &str = "stability.first_bias";
const SECOND: &str = "stability.second";
const SECOND_BIAS: &str = "stability.second_bias";
const INPUTS: &str = "stability_inputs";
const GAMMA: &str = "stability_gamma";
const TRAINED_ON: &str = "stability_trained_on";
const LOSS: &str = "stability_loss";
const BASELINE: &str = "stability_baseline";

/// Whether a tensor is one of the head's.
pub(super) fn is_part(name: &str) -> bool {
    [FIRST, FIRST_BIAS, SECOND, SECOND_BIAS].iter().any(|own| ends_with(name, own))
}

/// The name itself, or the name behind a prefix that ends in a dot.
fn ends_with(name: &str, own: &str) -> bool {
    name.strip_suffix(own).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
}

/// The head among these tensors, if there is one.
pub(super) fn read(
    store: &Store,
    names: &[&str],
    about: &BTreeMap<String, String>,
    row: HiddenRow,
) -> Result<Option<Stability>> {
    if !names.iter().any(|name| is_part(name)) {
        return Ok(None);
    }
    let bad = |problem: String| {
        Error::Predictor(format!("{} is not a usable predictor: {problem}", store.path().display()))
    };
    let tensor = |own: &str| {
        let mut found = names.iter().filter(|name| ends_with(name, own));
        match (found.next(), found.next()) {
            (Some(name), None) => Ok(store.tensor(name)?),
            (None, _) => Err(bad(format!("its stability head has no tensor `{own}`"))),
            _ => Err(bad(format!("it holds several tensors named `{own}`"))),
        }
    };
    let first = tensor(FIRST)?;
    let &[_, width] = first.shape() else {
        return Err(bad(format!("`{FIRST}` has shape {:?}, which is no matrix", first.shape())));
    };
    let weights = StabilityWeights {
        first: Rows { data: first.to_f32().to_vec(), width },
        first_bias: tensor(FIRST_BIAS)?.to_f32().to_vec(),
        second: tensor(SECOND)?.to_f32().to_vec(),
        second_bias: tensor(SECOND_BIAS)?.to_f32().first().copied().unwrap_or(f32::NAN),
    };
    let listed = about.get(INPUTS).ok_or_else(|| bad(format!("its metadata lacks {INPUTS}")))?;
    let features = Feature::listed(listed)
        .map_err(|name| bad(format!("its stability head reads {name:?}, which is unknown")))?;
    let number = |key: &str| match about.get(key) {
        None => Ok(None),
        Some(text) => match text.parse::<f64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(bad(format!("its metadata says {key} = {text:?}, which is not a number"))),
        },
    };
    let known = StabilityAbout {
        gamma: number(GAMMA)?.map(|gamma| gamma as f32),
        trained_on: about.get(TRAINED_ON).cloned(),
        loss: number(LOSS)?.zip(number(BASELINE)?),
    };
    Stability::new(row, features, &weights, known).map(Some).map_err(|cause| bad(cause.to_string()))
}

/// The head's tensors.
pub(super) fn tensors(head: &Stability) -> Vec<(String, Mapped)> {
    let StabilityWeights { first, first_bias, second, second_bias } = head.weights();
    let shape = [first.len(), first.width];
    vec![
        (FIRST.into(), Mapped::from_f32(&shape, first.data)),
        (FIRST_BIAS.into(), Mapped::from_f32(&[first_bias.len()], first_bias)),
        (SECOND.into(), Mapped::from_f32(&[second.len()], second)),
        (SECOND_BIAS.into(), Mapped::from_f32(&[1], vec![second_bias])),
    ]
}

/// What the metadata says of it.
pub(super) fn metadata(head: &Stability) -> Vec<(&'static str, Option<String>)> {
    let StabilityAbout { gamma, trained_on, loss } = head.about();
    vec![
        (INPUTS, Some(Feature::list(head.features()))),
        (GAMMA, gamma.map(|gamma| gamma.to_string())),
        (TRAINED_ON, trained_on.clone()),
        (LOSS, loss.map(|(loss, _)| loss.to_string())),
        (BASELINE, loss.map(|(_, baseline)| baseline.to_string())),
    ]
}
