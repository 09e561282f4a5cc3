//! The HTTP service as its clients see it, on the toy checkpoint.

mod answers;
mod blocks;
mod document;
mod limits;
mod load;
mod refusals;
mod support;
