//! Problems to try, as whoever starts the server hands them in: this crate knows no task.

/// A source of problems and the judge of answers to them.
pub trait Tasks: Send + Sync {
    /// Names of the tasks, each with one line of meaning.
    fn list(&self) -> Vec<(String, String)>;
    /// Problem `index` of a task: the same whenever it is asked for. `None` if there is no such task.
    fn problem(&self, task: &str, index: u64) -> Option<Posed>;
    /// Problems that show a model well, best first: their tasks and numbers.
    fn examples(&self) -> Vec<(String, u64)>;
    /// Judges an answer to that problem. `None` if there is no such task.
    fn check(&self, task: &str, index: u64, response: &str) -> Option<Verdict>;
}

/// A problem as it is put to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posed {
    /// Kind within the task.
    pub kind: String,
    /// What the user says.
    pub prompt: String,
    /// One right answer.
    pub answer: String,
}

/// The judgement of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The final answer is right.
    pub correct: bool,
    /// The whole text is right too, where that is more than the answer.
    pub strict: Option<bool>,
    /// The answer found in the text, if any.
    pub extracted: Option<String>,
    /// What was looked at, such as "the number after “The answer is”".
    pub checked: String,
}
