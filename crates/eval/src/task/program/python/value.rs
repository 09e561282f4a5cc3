//! Values of the Python subset and how they compare and print.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Error;

/// A value. Lists are values too: there is no mutation in place in the subset, so sharing cannot be seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `None`
    None,
    /// `True` or `False`, which count as 1 and 0.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A string.
    Str(String),
    /// A list.
    List(Vec<Self>),
}

impl Value {
    /// Python's truth value.
    pub(super) fn truth(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Str(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
        }
    }

    /// The number this is; an error if it is none.
    pub fn int(&self) -> Result<i64, Error> {
        match self {
            Self::Int(value) => Ok(*value),
            Self::Bool(value) => Ok(i64::from(*value)),
            other => Err(Error::Runtime(format!("a number was expected, not a {}", other.kind()))),
        }
    }

    /// The items of a list or the letters of a string.
    pub(super) fn items(self) -> Result<Vec<Self>, Error> {
        match self {
            Self::List(items) => Ok(items),
            Self::Str(text) => Ok(text.chars().map(|c| Self::Str(c.into())).collect()),
            other => Err(Error::Runtime(format!("a {} has no items", other.kind()))),
        }
    }

    /// Number of scalars and letters, the measure of a value's size.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Str(text) => 1 + text.len(),
            Self::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            _ => 1,
        }
    }

    /// Python's order, where there is one.
    pub(super) fn order(&self, other: &Self) -> Result<Ordering, Error> {
        match (self, other) {
            (Self::Str(a), Self::Str(b)) => Ok(a.cmp(b)),
            (Self::List(a), Self::List(b)) => {
                let differing = a.iter().zip(b).find(|(a, b)| a != b);
                differing.map_or(Ok(a.len().cmp(&b.len())), |(a, b)| a.order(b))
            }
            (Self::Int(_) | Self::Bool(_), Self::Int(_) | Self::Bool(_)) => {
                Ok(self.int()?.cmp(&other.int()?))
            }
            _ => Err(Error::Runtime(format!("a {} and a {} have no order", self.kind(), other.kind()))),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Str(_) => "str",
            Self::List(_) => "list",
        }
    }
}

impl PartialEq for Value {
    /// Python's `==`: `True == 1`, and values of other different kinds are unequal.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Int(_) | Self::Bool(_), Self::Int(_) | Self::Bool(_)) => self.int() == other.int(),
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
            Self::Int(value) => write!(f, "{value}"),
            Self::Str(text) => write!(f, "{text:?}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}
