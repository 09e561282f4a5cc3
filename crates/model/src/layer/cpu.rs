//! The door between candle tensors and `demask-kernels`: contiguous f32 slices of CPU tensors.
//!
//! On the CPU every layer is a candle custom op whose forward (and backward) calls a kernel, so the
//! same Transformer decodes and trains; on other devices layers are composed of candle's own ops.

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor};

/// The contiguous f32 content of a storage, as a custom op receives it.
pub(super) fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    note();
    let data = storage.as_slice::<f32>()?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&data[start..end]),
        None => {
            candle_core::bail!("a kernel was given a tensor that is not contiguous: {:?}", layout.shape())
        }
    }
}

/// Runs `f` on the f32 content of a CPU tensor, making it contiguous first if it is not.
pub(crate) fn with<T>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(f(slice(storage, layout)?)),
        _ => candle_core::bail!("a kernel was given a tensor that is not on the CPU"),
    }
}

/// Whether the kernels can take this tensor as it is.
pub(crate) fn takes(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == candle_core::DType::F32
}

/// What a test counts.
#[cfg(not(test))]
fn note() {}

#[cfg(test)]
fn note() {
    tests::OPENED.with(|opened| opened.set(opened.get() + 1));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use crate::checkpoint::Dtype;
    use crate::{Backbone, Bias, KvCache, LoadOptions, Precision, Query, Reuse, Transformer};

    thread_local! {
        /// How often the kernels were given a tensor's numbers on this thread.
        pub(super) static OPENED: Cell<usize> = const { Cell::new(0) };
    }

    /// A pass that fills a cache, one over some rows, one with a map of attention, and what is read from their logits; how
    /// often the kernels had to do with it.
    fn opened(model: &Transformer) -> usize {
        let before = OPENED.get();
        let tokens: Vec<u32> = (0..24).map(|i| 5 + i * 7 % 40).collect();
        let all: Vec<usize> = (0..tokens.len()).collect();
        let mut cache = KvCache::new();
        let resident = model.device().is_some();
        for (rows, kept, attention_layers) in
            [(&all[..], true, 0), (&all[7..16], true, 0), (&all[..], false, 1)]
        {
            // The row before a position predicts it in some families.
            let predict = &rows[1..];
            let reuse = kept.then_some(Reuse { cache: &mut cache, rows });
            let query = Query {
                tokens: &tokens,
                predict,
                cache: reuse,
                attention_layers,
                resident,
                ..Query::default()
            };
            let pass = model.forward(&mut [query]).unwrap().remove(0);
            match (model.device(), pass.resident) {
                (Some(device), Some(resident)) => {
                    let read = device.statistics(&resident.predicting, None, &Bias::default()).unwrap();
                    assert_eq!(read.len(), predict.len());
                }
                _ => model.logits(&pass.predicting, &mut |_, _| ()).unwrap(),
            }
        }
        OPENED.get() - before
    }

    /// A kernel would give the right numbers here and could not run on a GPU.
    #[test]
    fn the_reference_device_needs_no_kernel() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        let toys =
            ["dream-toy", "llada-toy", "llada2-toy", "lladamoe-toy", "sdar-toy", "bert-toy", "albert-toy"];
        for toy in toys {
            let load = |composed, dtype: Option<Dtype>| {
                let dtype = dtype.map(Precision::Float);
                let options = LoadOptions { composed, dtype, ..LoadOptions::default() };
                opened(&Transformer::load(&fixtures.join(toy), &options).unwrap())
            };
            assert!(load(false, None) > 0, "{toy}: the counter counts");
            for dtype in [None, Some(Dtype::Bf16), Some(Dtype::F16)] {
                assert_eq!(load(true, dtype), 0, "{toy}, {dtype:?}");
            }
        }
    }
}
