//! The TV cache, phase 1 of section 4.3: for random masks of real responses, the measured `D(y)` of every masked pair.
//!
//! A cache is a folder of parquet files of a fixed number of responses each, and a `manifest.json` that is written
//! last; `docs/tv-cache.md` describes the columns. Invariant: a row is a function of (seed, response id, mask index,
//! draw) and the model alone, and a file is complete or absent, so a killed run continues to the same bytes.

pub mod bench;
mod columns;
mod figure;
mod format;
mod generate;
mod info;
mod manifest;
mod mask;
mod measure;
mod profile;
mod progress;
mod read;
mod settings;
mod source;

pub use format::{Example, Numbers, Stored};
pub use generate::{Claim, Generator, Outcome};
pub use info::Info;
pub use manifest::{FileEntry, Manifest, TvCacheHeader};
pub use mask::Mask;
pub use profile::{Distances, Repeats};
pub use progress::{Observer, TvCacheProgress};
pub use read::{Cache, Columns, file_name};
pub use settings::{HiddenRows, TvCacheSettings};
pub use source::{Generated, Response, ResponseSource};
