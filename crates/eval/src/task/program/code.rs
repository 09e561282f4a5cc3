//! Expressions as text that know how tightly they bind, so that brackets stand where they must and nowhere else.

/// How tightly an expression binds.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum Level {
    Choice,
    Comparison,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

#[derive(Clone)]
pub(super) struct Code {
    pub(super) text: String,
    level: Level,
}

impl Code {
    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), level: Level::Atom }
    }

    pub(super) fn new(level: Level, text: String) -> Self {
        Self { text, level }
    }

    /// The text, in brackets unless it binds at least as tightly as its place demands.
    pub(super) fn within(&self, level: Level) -> String {
        if self.level >= level { self.text.clone() } else { format!("({})", self.text) }
    }
}
