//! Checkpoints of any shape with random weights, for measuring speed and memory without the real ones.
//!
//! Every element is a function of the seed, its tensor's name and its place, so tensors are made in parallel, a chunk at a
//! time, and the folder is the same whatever the number of threads. Invariant: memory stays at a few chunks.

use std::io::{self, Write};
use std::path::Path;

use half::{bf16, f16};
use rayon::prelude::*;

use super::Dtype;
use super::write::{self, Declared, Options, Written};
use crate::error::Result;
use crate::hash::Hash;

/// Elements made by one task.
const CHUNK: usize = 1 << 16;
/// Chunks made before they are written.
const BATCH: usize = 64;

/// What a tensor is filled with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Zeros: biases.
    Zeros,
    /// Ones: norms.
    Ones,
    /// Bell-shaped around zero with this standard deviation: matrices.
    Normal(f32),
}

/// A tensor to be made up.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Its values.
    pub init: Init,
}

/// Writes a checkpoint folder's weights with made-up values.
pub fn folder(
    folder: &Path,
    tensors: &[Tensor],
    dtype: Dtype,
    seed: u64,
    options: &Options,
) -> Result<Written> {
    let declared: Vec<_> =
        tensors.iter().map(|tensor| Declared::new(&tensor.name, dtype, &tensor.shape)).collect();
    let inits: std::collections::HashMap<&str, Init> =
        tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.init)).collect();
    write::folder(folder, &declared, options, |tensor, out| {
        let elements = tensor.shape.iter().product();
        fill(out, dtype, elements, inits[tensor.name.as_str()], mix(seed ^ of(&tensor.name)))
    })
}

fn fill(out: &mut dyn Write, dtype: Dtype, elements: usize, init: Init, key: u64) -> io::Result<()> {
    for batch in (0..elements).step_by(CHUNK * BATCH) {
        let end = elements.min(batch + CHUNK * BATCH);
        let chunks: Vec<Vec<u8>> = (batch..end)
            .into_par_iter()
            .step_by(CHUNK)
            .map(|start| chunk(dtype, start..end.min(start + CHUNK), init, key))
            .collect();
        for chunk in chunks {
            out.write_all(&chunk)?;
        }
    }
    Ok(())
}

fn chunk(dtype: Dtype, range: std::ops::Range<usize>, init: Init, key: u64) -> Vec<u8> {
    let value = |place: usize| match init {
        Init::Zeros => 0.0,
        Init::Ones => 1.0,
        Init::Normal(deviation) => deviation * bell(mix(key.wrapping_add(place as u64))),
    };
    let mut bytes = vec![0; range.len() * dtype.size()];
    let elements = bytes.chunks_exact_mut(dtype.size()).zip(range);
    match dtype {
        Dtype::F32 => elements.for_each(|(out, place)| out.copy_from_slice(&value(place).to_le_bytes())),
        Dtype::Bf16 => {
            elements.for_each(|(out, place)| out.copy_from_slice(&bf16::from_f32(value(place)).to_le_bytes()))
        }
        Dtype::F16 => {
            elements.for_each(|(out, place)| out.copy_from_slice(&f16::from_f32(value(place)).to_le_bytes()));
        }
    }
    bytes
}

/// Fills a slice as a tensor of this name would be: bell-shaped, with this standard deviation.
pub(crate) fn normal(name: &str, seed: u64, deviation: f32, out: &mut [f32]) {
    let key = mix(seed ^ of(name));
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
        for (place, out) in out.iter_mut().enumerate() {
            *out = deviation * bell(mix(key.wrapping_add((chunk * CHUNK + place) as u64)));
        }
    });
}

/// Mean 0, variance 1: the sum of four uniform sixteenths of the bits, cheap enough for billions of elements.
fn bell(bits: u64) -> f32 {
    let sum: u32 = (0..4).map(|part| (bits >> (16 * part)) as u32 & 0xffff).sum();
    let centred = sum as f32 - 2.0 * 65535.0;
    // four uniform variables on 0..=65535 have the variance 4·(65536² − 1)/12
    centred / (65536.0 / 3.0_f32.sqrt())
}

/// The finaliser of splitmix64: a bijection whose output bits all depend on all input bits.
fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// The number of a tensor's name.
fn of(name: &str) -> u64 {
    Hash::new().bytes(name.as_bytes()).value()
}
