//! What stays on the device between the passes of a decoding, and what crosses over.
//!
//! Keys, values, hidden rows and logits stay; a step brings back a few numbers per masked position and the dependency
//! matrix. Invariant: every number that reaches the host goes through [`OnDevice::fetch`], which counts it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};

use super::filter::{self, Drawn, Filter};
use super::{Transformer, reduce};
use crate::config::Spec;
use crate::error::Result;
use crate::layer::{Angles, Turn};
use crate::memory;

/// Positions of the first table of angles; longer canvases double it.
const FIRST_TABLE: usize = 512;

/// Rows of a pass that stay where they were computed.
#[derive(Debug, Clone)]
pub struct Resident {
    /// Rows that predict the positions of `Query::predict`, in that order.
    pub predicting: Tensor,
    /// Hidden rows of `Query::hidden`, in that order.
    pub hidden: Option<Tensor>,
    /// Rows of `Query::shadow`.
    pub shadow: Option<Tensor>,
}

/// What is added to logits before anything is read from them: the same for every row, or for some rows something else.
#[derive(Debug, Clone, Default)]
pub struct Bias {
    /// Ids and what is added to their logits.
    pub ids: Vec<(u32, f32)>,
    /// The same for rows that are marked.
    pub marked_ids: Vec<(u32, f32)>,
    /// Which rows are marked; empty where none is.
    pub marked: Vec<bool>,
}

/// Statistics of one row of logits: those of the softmax kernel.
pub type Statistics = demask_kernels::SoftmaxStats;

/// Guidance: rows of the unconditional pass and its strength.
pub type Guide<'a> = Option<(&'a Tensor, f32)>;

/// Work beside rows that stay on a device.
pub trait OnDevice: Send + Sync {
    /// Brings a tensor to the host as f32; the only way there.
    fn fetch(&self, tensor: &Tensor) -> Result<Vec<f32>>;

    /// Bytes brought to the host so far.
    fn fetched(&self) -> u64;

    /// Logits of rows in f32 on the device, a few rows at a time: number of the first, and the chunk `[rows, vocab]`.
    fn each_logits(&self, rows: &Tensor, visit: &mut dyn FnMut(usize, Tensor) -> Result<()>) -> Result<()>;

    /// Softmax statistics of the rows' logits, reduced on the device.
    fn statistics(&self, rows: &Tensor, guide: Guide<'_>, bias: &Bias) -> Result<Vec<Statistics>>;

    /// The same, and for each row a token of the filtered distribution by a uniform number.
    fn candidates(
        &self,
        rows: &Tensor,
        guide: Guide<'_>,
        bias: &Bias,
        filter: &Filter,
        uniform: &[f64],
    ) -> Result<Vec<(Statistics, Drawn)>>;

    /// `ln Σ e^z` of rows of logits.
    fn log_sums(&self, logits: &Tensor) -> Result<Vec<f32>>;

    /// Total variation of every row's distribution from that of row `against[i]` of `base`, both as logits.
    fn total_variation(&self, base: &Tensor, against: &[u32], rows: &Tensor) -> Result<Vec<f32>>;

    /// For every row of logits, the token at which the running sum of probabilities in the order of ids, without
    /// `except`, passes `uniform[row]` of their total.
    fn draw(&self, logits: &Tensor, except: u32, uniform: &[f64]) -> Result<Vec<u32>>;

    /// A matrix on the device of another tensor, in f32.
    fn upload(&self, data: &[f32], width: usize, beside: &Tensor) -> Result<Tensor>;
}

/// What a Transformer keeps on its device besides weights.
#[derive(Debug, Default)]
pub(super) struct State {
    angles: Mutex<Option<Angles>>,
    fetched: Arc<AtomicU64>,
}

impl State {
    /// The angles of rows at these positions, from a table that is made once.
    pub(super) fn turn(&self, spec: &Spec, positions: &Arc<[u32]>, device: &Device) -> Result<Turn> {
        let count = positions.iter().max().map_or(1, |&last| last as usize + 1);
        let mut table = self.angles.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match table.take().filter(|table| table.len() >= count) {
            Some(known) => known,
            None => {
                let size = count.next_power_of_two().max(FIRST_TABLE);
                Angles::table(size, spec.rotary, spec.rope_theta, device)?
            }
        };
        let angles = known.select(&Tensor::new(&**positions, device)?)?;
        *table = Some(known);
        Ok(Turn::on_device(positions, angles))
    }

    pub(super) fn fetch(&self, tensor: &Tensor) -> Result<Vec<f32>> {
        let bytes = tensor.elem_count() * size_of::<f32>();
        self.fetched.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }
}

impl Transformer {
    /// Logits of rows with guidance and bias.
    fn each_biased(
        &self,
        rows: &Tensor,
        guide: Guide<'_>,
        bias: &Bias,
        visit: &mut dyn FnMut(usize, Tensor) -> Result<()>,
    ) -> Result<()> {
        let bias = reduce::Bias::new(bias, self.spec.vocab, &self.device)?;
        self.each_logits(rows, &mut |start, logits| {
            let logits = match guide {
                None => logits,
                Some((guide, scale)) => {
                    let plain = self.head(&guide.narrow(0, start, logits.dim(0)?)?)?.to_dtype(DType::F32)?;
                    (&plain + ((logits - &plain)? * f64::from(scale + 1.0))?)?
                }
            };
            visit(start, bias.add(&logits, start)?)
        })
    }
}

impl OnDevice for Transformer {
    fn fetch(&self, tensor: &Tensor) -> Result<Vec<f32>> {
        Ok(self.to_rows(&tensor.reshape((1, tensor.elem_count()))?)?.data)
    }

    fn fetched(&self) -> u64 {
        self.on_device.as_ref().map_or(0, |state| state.fetched.load(Ordering::Relaxed))
    }

    fn each_logits(&self, rows: &Tensor, visit: &mut dyn FnMut(usize, Tensor) -> Result<()>) -> Result<()> {
        let count = rows.dim(0)?;
        let chunk = (memory::LOGIT_CHUNK / self.spec.vocab).max(16);
        for start in (0..count).step_by(chunk) {
            let part = rows.narrow(0, start, chunk.min(count - start))?;
            visit(start, self.head(&part)?.to_dtype(DType::F32)?)?;
        }
        Ok(())
    }

    fn statistics(&self, rows: &Tensor, guide: Guide<'_>, bias: &Bias) -> Result<Vec<Statistics>> {
        let mut all = Vec::with_capacity(rows.dim(0)?);
        self.each_biased(rows, guide, bias, &mut |_, logits| {
            all.extend(reduce::read(&self.fetch(&reduce::statistics(&logits)?)?));
            Ok(())
        })?;
        Ok(all)
    }

    fn candidates(
        &self,
        rows: &Tensor,
        guide: Guide<'_>,
        bias: &Bias,
        filter: &Filter,
        uniform: &[f64],
    ) -> Result<Vec<(Statistics, Drawn)>> {
        let mut all = Vec::with_capacity(rows.dim(0)?);
        self.each_biased(rows, guide, bias, &mut |start, logits| {
            let uniform = &uniform[start..start + logits.dim(0)?];
            let both = [&reduce::statistics(&logits)?, &filter::drawn(&logits, filter, uniform)?];
            let numbers = self.fetch(&Tensor::cat(&both, 1)?)?;
            for row in numbers.chunks_exact(reduce::NUMBERS + Drawn::NUMBERS) {
                let (statistics, drawn) = row.split_at(reduce::NUMBERS);
                all.extend(reduce::read(statistics).map(|statistics| (statistics, Drawn::read(drawn))));
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn log_sums(&self, logits: &Tensor) -> Result<Vec<f32>> {
        self.fetch(&reduce::log_sum(logits)?)
    }

    fn total_variation(&self, base: &Tensor, against: &[u32], rows: &Tensor) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(against.len());
        self.each_logits(rows, &mut |start, logits| {
            let against = &against[start..start + logits.dim(0)?];
            let base = base.index_select(&Tensor::new(against, &self.device)?, 0)?;
            all.extend(self.fetch(&reduce::total_variation(&base, &logits)?)?);
            Ok(())
        })?;
        Ok(all)
    }

    fn draw(&self, logits: &Tensor, except: u32, uniform: &[f64]) -> Result<Vec<u32>> {
        reduce::draw(self, logits, except, uniform)
    }

    fn upload(&self, data: &[f32], width: usize, beside: &Tensor) -> Result<Tensor> {
        Ok(Tensor::from_slice(data, (data.len() / width.max(1), width), beside.device())?)
    }
}
