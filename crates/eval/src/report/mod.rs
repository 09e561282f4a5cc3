//! What is made of records: summaries, tables, frontiers and pictures. Nothing here decodes.

pub mod frontier;
mod labels;
pub mod paired;
pub mod paper;
mod share;
pub mod summary;
pub mod table;
pub mod tradeoff;
pub mod variety;
