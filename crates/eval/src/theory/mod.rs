//! The paper's theory measured on a model: its assumption (sub-additivity) and its bound.

pub mod bound;
pub mod example;
pub mod subadditivity;
