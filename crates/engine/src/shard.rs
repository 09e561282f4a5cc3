//! A share of work for one of several machines: `i/n`, counted from 0.

use std::fmt;
use std::str::FromStr;

/// One of `count` equal shares of numbered things.
///
/// ```
/// use demask_engine::Shard;
/// let shard: Shard = "1/4".parse()?;
/// assert!(shard.has(5) && !shard.has(6));
/// assert!("4/4".parse::<Shard>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which share, from 0.
    pub index: usize,
    /// How many shares there are.
    pub count: usize,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Whether the thing of this number belongs to the share.
    pub fn has(&self, number: usize) -> bool {
        number % self.count == self.index
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => Err(format!("{text:?} is not a shard; write i/n with i from 0 to n-1, for example 0/4")),
        }
    }
}
