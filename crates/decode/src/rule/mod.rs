//! What rules are made of: rankings, thresholds, histories, schedules, graphs and Algorithm 2. The strategies of this
//! crate lean on nothing else, and a strategy of another crate may lean on the same.
//!
//! Invariant: ties go to the lowest position in every one of them.

mod confidence;
mod discount;
mod graph;
mod greedy;
mod history;
mod rank;
mod revision;
mod schedule;
mod seen;
mod stable;
mod transfer;

pub use confidence::{Confidence, SCORE};
pub use discount::{DISCOUNT, DISCOUNT_BY, Discount};
pub use graph::{attention, independent};
pub use greedy::{Limit, Start, Subset, Thresholds, greedy_subset, limited_subset, subset_from};
pub use history::History;
pub use rank::{kept_rows, passing, prefix, top_k};
pub use revision::Revision;
pub use schedule::{EPS, EVEN_STEPS, SHARING, Schedule, TIMESTEPS, TOKENS_PER_STEP, timestep_ratio};
pub use seen::Seen;
pub use stable::{Before, Last, stable_start};
pub use transfer::{above_or_best, planned};
