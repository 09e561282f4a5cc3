//! The one hash: FNV-1a, of 64 bits for names and of 128 for a model's weights, because the standard hasher's values may
//! change from one Rust to the next.
//!
//! It tells files, names and weights apart; it guards against nobody.

/// A hash of what it was fed.
///
/// ```
/// use demask_model::hash::Hash;
/// assert_eq!(Hash::new().bytes(b"a").bytes(b"b").value(), Hash::new().bytes(b"ab").value());
/// assert_eq!(Hash::new().bytes(b"a").to_string(), "af63dc4c8601ec8c");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Hash(u64);

impl Hash {
    /// Of nothing.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// With these bytes too.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |hash, &byte| hash.word(byte.into()))
    }

    /// With this word in one go, where speed counts more than spreading its bits.
    pub fn word(self, word: u64) -> Self {
        Self((self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// The hash so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The same of 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WideHash(u128);

impl WideHash {
    /// Of nothing.
    pub(crate) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Takes these bytes in.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// Takes a number in.
    pub(crate) fn number(&mut self, number: usize) {
        self.bytes(&(number as u64).to_le_bytes());
    }

    /// Takes a text in with its length, so that two texts in a row cannot be cut elsewhere.
    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes(text.as_bytes());
    }

    /// The hash so far.
    pub(crate) fn value(self) -> u128 {
        self.0
    }
}

impl std::fmt::Display for WideHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
