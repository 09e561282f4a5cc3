//! An interpreter of a small, pure subset of Python, made to run untrusted answers.
//!
//! Functions over integers, booleans, strings and lists: assignments, `if`, `for`, `while`, `return`,
//! comprehensions, slices, a few built-ins and methods. There is nothing to import and nothing to mutate in place.
//! Invariant: every run ends soon. Source size, nesting, steps and the size of values are bounded, and whatever
//! breaks a bound is an [`Error`], never a panic.

mod builtin;
mod lexer;
mod parser;
mod run;
mod syntax;
mod value;

pub use value::Value;

use syntax::Function;

/// Why a program did not give a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not in the subset.
    #[error("line {line}: {what}")]
    Syntax {
        /// Line in the source, from 1.
        line: usize,
        /// What was found or missed.
        what: String,
    },
    /// The program asked for something undefined, such as an unknown name or the sum of a string and a number.
    #[error("{0}")]
    Runtime(String),
    /// A bound on steps, depth or size was reached.
    #[error("the program exceeds the limit of {0}")]
    Limit(&'static str),
}

/// A parsed program: its functions.
#[derive(Clone, Debug)]
pub struct Module {
    functions: Vec<Function>,
}

impl Module {
    /// Parses function definitions.
    pub fn parse(source: &str) -> Result<Self, Error> {
        parser::parse(&lexer::lex(source)?).map(|functions| Self { functions })
    }

    /// The names of its functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|function| function.name.as_str())
    }

    /// Calls the function `name`.
    pub fn call(&self, name: &str, args: Vec<Value>) -> Result<Value, Error> {
        run::call(&self.functions, name, args)
    }
}

#[cfg(test)]
mod tests;
