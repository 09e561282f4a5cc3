//! Reveals measured on a device: the logits stay there, and one number per pair crosses over.

use std::sync::OnceLock;

use candle_core::Tensor;
use demask_model::OnDevice;

use super::{Masked, Reveals, ends};
use crate::error::{Error, Result};
use crate::probe::{Probe, Question};

/// `|M|×V` logits, where they are compared with others.
pub(super) enum Base {
    Host(Vec<f32>),
    /// On the device that made them; on the host only if somebody looks at them.
    Resident(Tensor, OnceLock<Vec<f32>>),
}

/// Logits on the host, for enumeration and tests, which look at them; a tensor that cannot be read shows as rows that are
/// no distribution.
pub(super) fn looked_at(logits: &Tensor) -> Vec<f32> {
    let flat = logits.flatten_all().and_then(|flat| flat.to_vec1());
    flat.unwrap_or_else(|_| vec![f32::NAN; logits.elem_count()])
}

impl<'a> Reveals<'a> {
    /// As [`Self::measure_each`] where the logits stay on the device.
    pub(super) fn measure_resident(
        probe: &dyn Probe,
        device: &dyn OnDevice,
        canvases: &[Masked<'a>],
        questions: &[Question<'_>],
    ) -> Result<Vec<Self>> {
        let mut kept = Vec::with_capacity(canvases.len());
        let hidden = probe.ask_resident(questions, &mut |_, rows| {
            let mut parts = Vec::new();
            device.each_logits(rows, &mut |_, logits| {
                parts.push(logits);
                Ok(())
            })?;
            let logits = Tensor::cat(&parts, 0).map_err(demask_model::Error::from)?;
            kept.push((device.log_sums(&logits)?, logits));
            Ok(())
        })?;
        let each = canvases.iter().zip(kept).zip(hidden);
        each.map(|((c, (lse, logits)), hidden)| {
            if let Some(bad) = lse.iter().position(|l| !l.is_finite()) {
                return Err(Error::NotFinite { position: c.masked[bad], step: 0 });
            }
            let logits = Base::Resident(logits, OnceLock::new());
            Ok(Self { tokens: c.tokens, masked: c.masked, logits, lse, hidden, vocab: probe.vocab() })
        })
        .collect()
    }

    /// Total variation as [`Self::compare_each`] takes it, where logits stay on the device: one number per masked position crosses over.
    pub(super) fn compare_resident(
        probe: &dyn Probe,
        device: &dyn OnDevice,
        bases: &[(&Self, &[Vec<u32>])],
        questions: &[Question<'_>],
        measured: &mut dyn FnMut(usize, usize, usize, f32),
    ) -> Result<()> {
        let ends = ends(bases.iter().map(|(_, canvases)| canvases.len()));
        let mut bad = None;
        probe.ask_resident(questions, &mut |number, rows| {
            let index = ends.partition_point(|&end| end <= number);
            let (base, canvas) = (bases[index].0, number - if index == 0 { 0 } else { ends[index - 1] });
            let Base::Resident(logits, _) = &base.logits else { return Ok(()) };
            let against: Vec<u32> = (0..base.masked.len() as u32).collect();
            for (i, tv) in device.total_variation(logits, &against, rows)?.into_iter().enumerate() {
                if !tv.is_finite() {
                    bad.get_or_insert(base.masked[i]);
                }
                measured(index, canvas, i, tv);
            }
            Ok(())
        })?;
        bad.map_or(Ok(()), |position| Err(Error::NotFinite { position, step: 0 }))
    }
}
