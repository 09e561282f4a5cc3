//! Where responses come from: anything that can tell the tokens of response number `i`.

use std::ops::Range;

use crate::data::Refused;
use crate::error::Result;

/// A prompt and its response as token ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Names the response; equal ids get equal masks.
    pub id: String,
    /// The prompt, never masked.
    pub prompt: Vec<u32>,
    /// The response.
    pub response: Vec<u32>,
}

/// Responses by number.
pub trait ResponseSource {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells this content from any other.
    fn identity(&self) -> String;

    /// The responses of a range; a row that cannot be used says why.
    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Response, Refused>>>;
}

/// Responses made by a function of their number: a list in memory, or a generator of problems.
pub struct Generated<F> {
    /// Tells the function from any other.
    pub identity: String,
    /// How many to make.
    pub len: usize,
    /// Makes one; the error says why not, as the end of a sentence.
    pub make: F,
}

impl<F: Fn(usize) -> Result<Response, String>> ResponseSource for Generated<F> {
    fn len(&self) -> usize {
        self.len
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Response, Refused>>> {
        let make = |row| (self.make)(row).map_err(|why| Refused { row: row as u64, why });
        Ok(range.map(make).collect())
    }
}
