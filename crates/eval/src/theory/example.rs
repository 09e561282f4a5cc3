//! A prompt and a response as token ids, as measurements on a backbone take them.

/// One example of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Names the example; all its randomness comes from it.
    pub id: String,
    /// What is given.
    pub prompt: Vec<u32>,
    /// What is masked and measured.
    pub response: Vec<u32>,
}
