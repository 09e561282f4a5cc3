//! A range of bytes that keeps its owner alive: a mapped file, a buffer, or bytes compiled into the program.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::map::Mapping;
use crate::error::Result;

/// Shared read-only bytes; cloning and slicing are cheap and never copy.
#[derive(Clone)]
pub struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    File(Arc<Mapping>),
    Heap(Arc<Vec<u8>>),
    Program(&'static [u8]),
}

impl Owner {
    fn whole(&self) -> &[u8] {
        match self {
            Self::File(map) => map,
            Self::Heap(bytes) => bytes,
            Self::Program(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Whether these bytes are in a mapped file, i.e. memory the system can drop and read again.
    pub fn is_mapped(&self) -> bool {
        matches!(self.owner, Owner::File(_))
    }

    /// Lets the system take back the memory of a mapped file; it is read again if it is used again.
    pub fn release(&self) {
        if let Owner::File(map) = &self.owner {
            map.release(self.range.clone());
        }
    }

    /// Says whether these bytes will be read here and there instead of in order.
    pub(crate) fn expect_leaps(&self, leaps: bool) {
        if let Owner::File(map) = &self.owner {
            map.expect_leaps(self.range.clone(), leaps);
        }
    }

    /// Refuses bytes of a file that was changed since it was mapped, as far as that can be seen; cheap.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.owner {
            Owner::File(map) => map.check(),
            Owner::Heap(_) | Owner::Program(_) => Ok(()),
        }
    }

    /// A part of these bytes.
    ///
    /// # Panics
    /// If `range` is not inside them.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a slice must be inside its bytes");
        let start = self.range.start;
        Self { owner: self.owner.clone(), range: start + range.start..start + range.end }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.owner.whole()[self.range.clone()]
    }
}

impl From<Mapping> for Bytes {
    fn from(map: Mapping) -> Self {
        let range = 0..map.len();
        Self { owner: Owner::File(Arc::new(map)), range }
    }
}

impl From<Cow<'static, [u8]>> for Bytes {
    fn from(bytes: Cow<'static, [u8]>) -> Self {
        let range = 0..bytes.len();
        let owner = match bytes {
            Cow::Borrowed(bytes) => Owner::Program(bytes),
            Cow::Owned(bytes) => Owner::Heap(Arc::new(bytes)),
        };
        Self { owner, range }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self.owner {
            Owner::File(_) => "mapped",
            Owner::Heap(_) => "owned",
            Owner::Program(_) => "compiled in",
        };
        write!(f, "Bytes({} {owner})", self.range.len())
    }
}
