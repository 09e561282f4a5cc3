//! A model of one precision with random weights, whole and in parts that share them.

use anyhow::Result;
use candle_core::Device;
use demask::model::synthetic::Repeated;
use demask::model::{Precision, Spec, Transformer};

use super::parts::Parts;
use crate::args::DtypeArg;

/// What is timed in one precision.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) precision: Precision,
    pub(super) model: Transformer,
    pub(super) parts: Parts,
}

impl Subject {
    /// Of a shape.
    pub(super) fn new(spec: &Spec, dtype: DtypeArg) -> Result<Self> {
        let precision = dtype.precision();
        let mut from = Repeated::new(precision, 0);
        Ok(Self {
            name: dtype.name(),
            precision,
            model: Transformer::new(spec.clone(), Device::Cpu, "synthetic".into(), &mut from)?,
            parts: Parts::new(spec, &mut from)?,
        })
    }

    /// One for each precision.
    pub(super) fn all(spec: &Spec, dtypes: &[DtypeArg]) -> Result<Vec<Self>> {
        dtypes.iter().map(|&dtype| Self::new(spec, dtype)).collect()
    }
}
