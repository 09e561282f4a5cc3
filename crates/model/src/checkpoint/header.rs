//! The header of a safetensors file: eight bytes of length, then JSON.
//!
//! Invariant: every range of a [`Header`] lies inside the file it was read from and is as long as its shape and dtype
//! say, so no later slice can fail whatever the file contained.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use crate::error::{Error, Result};

/// Bytes of the length field.
const LENGTH: usize = size_of::<u64>();

/// No real header comes near this; a longer one is a damaged length field.
const LONGEST: u64 = 100_000_000;

/// Where a tensor is in its file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// From the start of the file.
    pub(super) range: Range<usize>,
}

/// A checked header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Reads and checks the header of `file`, the whole contents of `path`.
pub(super) fn read(path: &Path, file: &[u8]) -> Result<Header> {
    let bad = |cause: String| Error::Safetensors { path: path.to_path_buf(), cause };
    let Some(length) = file.first_chunk::<LENGTH>() else {
        return Err(bad(format!("it is only {} bytes long", file.len())));
    };
    let length = u64::from_le_bytes(*length);
    let room = file.len() - LENGTH;
    if length > LONGEST || length > room as u64 {
        return Err(bad(format!(
            "its header claims {length} bytes, but {room} follow; the file is damaged or incomplete"
        )));
    }
    let start = LENGTH + length as usize;
    let header: Metadata =
        serde_json::from_slice(&file[LENGTH..start]).map_err(|cause| bad(format!("bad header: {cause}")))?;

    // The crate has checked that the ranges are gapless, in order and of the size dtype and shape ask for.
    let (promised, found) = (header.data_len(), file.len() - start);
    if promised != found {
        return Err(bad(format!(
            "its header promises {promised} bytes of tensors, but {found} follow; the file is damaged or incomplete"
        )));
    }
    let entries = header.tensors().into_iter().map(|(name, info)| {
        let (from, to) = info.data_offsets;
        let range = start + from..start + to;
        (name, Entry { dtype: info.dtype, shape: info.shape.clone(), range })
    });
    let entries = entries.collect();
    Ok(Header { entries, metadata: header.metadata().iter().flatten().map(owned).collect() })
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}
