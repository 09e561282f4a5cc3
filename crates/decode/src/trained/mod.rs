//! Trained parts beside the backbone, and the one header of their files: what kind of part it is and whose backbone it was
//! trained on.
//!
//! Invariant: a part that was trained on one backbone is refused on another.

pub mod adjust;
pub mod policy;
pub mod prior;

use std::collections::BTreeMap;
use std::path::Path;

use demask_model::checkpoint::{Mapped, Store, write};
use demask_model::{Backbone, HiddenRow, Rows};

use crate::error::{Error, Result};

pub use adjust::Adjust;
pub use policy::Policy;
pub use prior::Prior;

/// What a part's file says of itself: the one header of trained parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PartHeader {
    /// What kind of part it is: `policy`, `prior`, `adjust`.
    pub kind: String,
    /// Fingerprint of the backbone it was trained on; files of other programs do not say.
    pub backbone: Option<String>,
    /// What it was trained on.
    pub trained_on: Option<String>,
    /// Which hidden rows of the backbone it reads, if any.
    pub hidden_row: Option<HiddenRow>,
    /// Its sizes by name.
    pub sizes: BTreeMap<String, usize>,
    /// Held-out loss of the kept weights, and what doing without the part would have.
    pub loss: Option<(f64, f64)>,
}

/// Before the name of a size in a file's metadata.
const SIZE: &str = "size.";

impl PartHeader {
    /// Of a part that is trained on this backbone.
    pub fn of(kind: &str, backbone: &dyn Backbone, trained_on: &str) -> Self {
        Self {
            kind: kind.into(),
            backbone: Some(backbone.fingerprint()),
            trained_on: Some(trained_on.into()),
            ..Self::default()
        }
    }

    /// With this size.
    #[must_use]
    pub fn sized(mut self, name: &str, size: usize) -> Self {
        self.sizes.insert(name.into(), size);
        self
    }

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

    /// What the file says, which must be of a part of this kind, or of another program.
    fn read(store: &Store, kind: &str) -> Result<Self> {
        let about = store.metadata();
        if let Some(other) = about.get("demask_part").filter(|k| *k != kind) {
            return Err(Error::Part(format!("{} holds a {other}, not a {kind}", store.path().display())));
        }
        let text = |key: &str| about.get(key).cloned();
        let number = |key: &str| about.get(key).and_then(|v| v.parse::<f64>().ok());
        let size = |(key, value): (&String, &String)| {
            Some((key.strip_prefix(SIZE)?.to_owned(), value.parse().ok()?))
        };
        Ok(Self {
            kind: kind.into(),
            backbone: text("backbone"),
            trained_on: text("trained_on"),
            hidden_row: about.get("hidden_row").and_then(|row| HiddenRow::named(row)),
            sizes: about.iter().filter_map(size).collect(),
            loss: number("validation_loss").zip(number("baseline_loss")),
        })
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        let fields = [
            ("demask_part", Some(self.kind.clone())),
            ("backbone", self.backbone.clone()),
            ("trained_on", self.trained_on.clone()),
            ("hidden_row", self.hidden_row.map(|row| row.to_string())),
            ("validation_loss", self.loss.map(|loss| loss.0.to_string())),
            ("baseline_loss", self.loss.map(|loss| loss.1.to_string())),
        ];
        let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        fields
            .chain(self.sizes.iter().map(|(name, size)| (format!("{SIZE}{name}"), size.to_string())))
            .collect()
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

/// A named tensor of a part: name, shape, values.
pub type Named<'a> = (&'a str, &'a [usize], &'a [f32]);

/// Writes named tensors with the header, through a temporary neighbour.
pub fn write_part(path: &Path, header: &PartHeader, tensors: &[Named<'_>]) -> Result<()> {
    let tensors: Vec<(String, Mapped)> = tensors
        .iter()
        .map(|(name, shape, values)| ((*name).to_owned(), Mapped::from_f32(shape, values.to_vec())))
        .collect();
    write::file(path, &tensors, &header.metadata())?;
    Ok(())
}
