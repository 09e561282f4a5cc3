//! The door between candle tensors and `demask-kernels`: contiguous f32 slices of CPU tensors.
//!
//! On the CPU every layer is a candle custom op whose forward (and backward) calls a kernel, so the
//! same Transformer decodes and trains; on other devices layers are composed of candle's own ops.

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor};

/// The contiguous f32 content of a storage, as a custom op receives it.
pub(super) fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
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
