//! Trained parts beside the backbone, and the one header of their files: what kind of part it is and whose backbone it was
//! trained on.
//!
//! Invariant: a part that was trained on one backbone is refused on another.

pub mod adjust;
pub mod policy;
pub mod prior;

use std::collections::BTreeMap;
use std::path::Path;

use demask_model::checkpoint::{Dtype, Mapped, Store, write};
use demask_model::{Backbone, Rows};

use crate::error::{Error, Result};

pub use adjust::Adjust;
pub use policy::Policy;
pub use prior::Prior;

/// What a part's file says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartHeader {
    /// What kind of part it is: `policy`, `prior`, …
    pub kind: String,
    /// Fingerprint of the backbone it was trained on; files of other programs do not say.
    pub backbone: Option<String>,
    /// What it was trained on.
    pub trained_on: Option<String>,
}

impl PartHeader {
    /// Refuses a backbone that the part was not trained on.
    pub fn check_fit(&self, backbone: &dyn Backbone) -> Result<()> {
        match &self.backbone {
            Some(trained) if !backbone.answers_to(trained) => Err(Error::Part(format!(
                "this {} was trained on backbone {trained} but this one is {}; train one for it",
                self.kind,
                backbone.fingerprint()
            ))),
            _ => Ok(()),
        }
    }

    fn read(store: &Store, kind: &str) -> Result<Self> {
        let about = store.metadata();
        if let Some(other) = about.get("demask_part").filter(|k| *k != kind) {
            return Err(Error::Part(format!("{} holds a {other}, not a {kind}", store.path().display())));
        }
        let text = |key: &str| about.get(key).cloned();
        Ok(Self { kind: kind.into(), backbone: text("backbone"), trained_on: text("trained_on") })
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        let fields = [
            ("demask_part", Some(self.kind.clone())),
            ("backbone", self.backbone.clone()),
            ("trained_on", self.trained_on.clone()),
        ];
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

/// A tensor as a matrix; a vector is one row.
fn matrix(store: &Store, name: &str) -> Result<Rows> {
    let tensor = store.tensor(name)?;
    let width = tensor.shape().last().copied().unwrap_or(1).max(1);
    let data = tensor.to_f32().to_vec();
    match data.iter().all(|v| v.is_finite()) {
        true => Ok(Rows { data, width }),
        false => Err(Error::Part(format!("`{name}` of {} is not finite", store.path().display()))),
    }
}

/// Writes named matrices with the header, through a temporary neighbour.
fn save(path: &Path, header: &PartHeader, tensors: &[(&str, &Rows)]) -> Result<()> {
    let tensors: Vec<(String, Mapped)> = tensors
        .iter()
        .map(|(name, m)| {
            let mapped = Mapped::from_f32(&[m.len(), m.width], m.data.clone());
            ((*name).to_owned(), mapped.to_dtype(Dtype::F32))
        })
        .collect();
    write::file(path, &tensors, &header.metadata())?;
    Ok(())
}
