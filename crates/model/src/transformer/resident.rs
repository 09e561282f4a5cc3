//! A pass whose rows stay on the device: hidden rows as tensors, keys and values in caches that are written in place.

use candle_core::Tensor;

use super::Transformer;
use super::device::Resident;
use super::pack::Placed;
use crate::backbone::{KvCache, Pass, Query};
use crate::error::Result;

/// Runs of rows up to which each is written by a copy of its own; more are scattered at once.
const RUNS: usize = 4;

impl Transformer {
    /// What every canvas asked for, as tensors. `hidden` are the wanted rows of all canvases, then the shadows from row
    /// number `shadow`; attention maps, which strategies read on the host, cross over.
    pub(super) fn resident_passes(
        &self,
        batch: &[Query<'_>],
        needs: &[Vec<usize>],
        placed: &[Placed],
        hidden: &Tensor,
        mut shadow: usize,
        maps: Vec<Option<Tensor>>,
    ) -> Result<Vec<Pass>> {
        let mut start = 0;
        let each = batch.iter().zip(needs).zip(placed).zip(maps);
        each.map(|(((query, need), placed), map)| {
            let at = |row: usize| (start + need.partition_point(|&r| r < row)) as u32;
            let gather = |rows: Vec<u32>| -> Result<Tensor> {
                if rows.is_empty() {
                    return Ok(Tensor::zeros((0, self.spec.hidden), hidden.dtype(), &self.device)?);
                }
                // Most often they are all wanted rows of the canvas in order: nothing to gather then.
                let run = rows.windows(2).all(|pair| pair[1] == pair[0] + 1);
                if run {
                    return Ok(hidden.narrow(0, rows[0] as usize, rows.len())?);
                }
                Ok(hidden.index_select(&Tensor::new(rows.as_slice(), &self.device)?, 0)?)
            };
            let predicting = query.predict.iter().map(|&p| at(query.predicting_row(&self.spec, p))).collect();
            let wanted =
                query.hidden.map(|(positions, which)| positions.iter().map(|&p| at(which.of(p))).collect());
            let verified = query.shadow.as_ref().map(|shadowed| {
                let first = shadow;
                shadow += shadowed.block.len();
                shadowed.verify.iter().map(|p| (first + p - shadowed.block.start) as u32).collect()
            });
            let resident = Resident {
                predicting: gather(predicting)?,
                hidden: wanted.map(gather).transpose()?,
                shadow: verified.map(gather).transpose()?,
            };
            start += need.len();
            Ok(Pass {
                attention: map.map(|map| self.to_rows(&map)).transpose()?,
                computed_rows: placed.fresh.len(),
                resident: Some(resident),
                ..Pass::default()
            })
        })
        .collect()
    }
}

impl KvCache {
    /// Writes fresh rows of a layer where they lie on the device; there is room for the whole canvas from the first pass
    /// on, so that growing moves nothing.
    pub(super) fn store_resident(
        &mut self,
        layer: usize,
        canvas: usize,
        rows: &[usize],
        fresh: [&Tensor; 2],
    ) -> Result<()> {
        let width = fresh[0].dim(1)?;
        let like = |x: &Tensor| Tensor::zeros((canvas, width), x.dtype(), x.device());
        let fits =
            |kept: &[Tensor; 2]| kept[0].dims() == [canvas, width] && kept[0].dtype() == fresh[0].dtype();
        if self.resident.get(layer).is_none_or(|kept| !fits(kept)) {
            let grown = [like(fresh[0])?, like(fresh[1])?];
            if let Some(kept) = self.resident.get(layer).filter(|kept| kept[0].dtype() == fresh[0].dtype()) {
                for (grown, kept) in grown.iter().zip(kept) {
                    let rows = kept.dim(0)?.min(canvas);
                    grown.slice_set(&kept.narrow(0, 0, rows)?.contiguous()?, 0, 0)?;
                }
            }
            // The layers behind keep what they have until it is their turn.
            match self.resident.get_mut(layer) {
                Some(kept) => *kept = grown,
                None => self.resident.push(grown),
            }
        }
        let runs: Vec<&[usize]> = rows.chunk_by(|a, b| *b == a + 1).collect();
        for (kept, fresh) in self.resident[layer].iter().zip(fresh) {
            if runs.len() > RUNS {
                let index: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
                let index = Tensor::from_vec(index, (rows.len(), 1), fresh.device())?;
                let index = index.broadcast_as((rows.len(), width))?.contiguous()?;
                kept.scatter_set(&index, &fresh.contiguous()?, 0)?;
                continue;
            }
            let mut from = 0;
            for run in &runs {
                kept.slice_set(&fresh.narrow(0, from, run.len())?.contiguous()?, 0, run[0])?;
                from += run.len();
            }
        }
        Ok(())
    }

    /// Keys and values of a layer on the device, of the first `extent` rows.
    pub(super) fn resident(&self, layer: usize, extent: usize) -> Result<[Tensor; 2]> {
        let [keys, values] = &self.resident[layer];
        Ok([keys.narrow(0, 0, extent)?, values.narrow(0, 0, extent)?])
    }
}
