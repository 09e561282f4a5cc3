//! What tells one model's weights from another's: a digest over every tensor's name, number format, shape and content.
//!
//! Small tensors count with every byte, large ones with pieces spread over them, so that a checkpoint of 7B parameters
//! takes a fraction of a second while its weights stay on the disk. A training step changes nearly every element of a
//! tensor it changes at all, so any piece tells; what is not seen is an edit by hand between the pieces. Nothing is
//! stored: the digest is made anew from the bytes that are used.

use rayon::prelude::*;

use super::Bytes;
use crate::hash::WideHash;

/// Tensors up to this many bytes count whole.
const WHOLE: usize = 64 << 10;
/// Pieces of a larger one, and their length in bytes: a page of the disk each.
const PIECES: usize = 16;
const PIECE: usize = 1 << 10;

/// A tensor as a file has it.
pub(crate) struct Content<'a> {
    pub(crate) name: &'a str,
    pub(crate) format: String,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: Bytes,
}

/// The digest of a model: `about` is everything besides the weights that its numbers depend on.
pub(crate) fn digest(about: &str, tensors: &[Content<'_>]) -> String {
    let mut parts: Vec<(&str, u128)> =
        tensors.par_iter().map(|tensor| (tensor.name, of_tensor(tensor).value())).collect();
    parts.sort_unstable();
    let mut all = WideHash::new();
    all.text(about);
    for (name, part) in parts {
        all.text(name);
        all.bytes(&part.to_le_bytes());
    }
    all.to_string()
}

fn of_tensor(tensor: &Content<'_>) -> WideHash {
    let mut hash = WideHash::new();
    hash.text(&tensor.format);
    tensor.shape.iter().for_each(|&size| hash.number(size));
    hash.number(tensor.bytes.len());
    let length = tensor.bytes.len();
    if length <= WHOLE {
        hash.bytes(&tensor.bytes);
        return hash;
    }
    // The pages between the pieces are not wanted.
    tensor.bytes.expect_leaps(true);
    for piece in 0..PIECES {
        let start = (length - PIECE) / (PIECES - 1) * piece;
        hash.bytes(&tensor.bytes[start..start + PIECE]);
    }
    tensor.bytes.expect_leaps(false);
    // An expert that no row ever chooses should not stay in memory for this.
    tensor.bytes.release();
    hash
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn of(name: &str, format: &str, shape: &[usize], bytes: Vec<u8>) -> String {
        let bytes = Bytes::from(Cow::Owned(bytes));
        digest("about", &[Content { name, format: format.into(), shape, bytes }])
    }

    #[test]
    fn everything_about_a_tensor_counts() {
        let (small, large) = (vec![1; 100], vec![1; 1 << 20]);
        let same = of("a", "F32", &[25], small.clone());
        assert_eq!(same, of("a", "F32", &[25], small.clone()));
        assert_eq!(same.len(), 32);
        assert_ne!(same, of("b", "F32", &[25], small.clone()));
        assert_ne!(same, of("a", "BF16", &[25], small.clone()));
        assert_ne!(same, of("a", "F32", &[5, 5], small.clone()));
        let mut changed = small;
        changed[99] = 2;
        assert_ne!(same, of("a", "F32", &[25], changed));
        // A large one that is zeroed, or whose second half is another.
        let whole = of("a", "F32", &[1 << 18], large.clone());
        assert_ne!(whole, of("a", "F32", &[1 << 18], vec![0; 1 << 20]));
        let mut half = large;
        half[1 << 19..].fill(3);
        assert_ne!(whole, of("a", "F32", &[1 << 18], half));
    }
}
