//! What an open problem asks for: one variant per family, each drawing, answering and checking for itself.

use serde::{Deserialize, Serialize};

use super::letters::Letters;
use super::list::List;
use super::numbers::{Compare, Order, Pairs, Rule, Share};
use super::records::Records;
use super::sequence::Count;
use super::square::Square;
use super::sums::{Results, Sums};
use crate::task::{Rng, Wording};

/// One family of open problems.
pub(super) trait Family: Sized {
    /// Draws the content and tells it.
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String);
    /// The content as one line, the same in every wording.
    fn key(&self) -> String;
    /// The parts of an answer drawn uniformly among the valid ones.
    fn answer(&self, rng: &mut Rng, wording: Wording) -> Vec<String>;
    /// The answer in `response`, whose parts are `parts`, if it is valid.
    fn read(&self, response: &str, parts: &[&str]) -> Option<String>;
}

macro_rules! demands {
    ($($(#[$meaning:meta])* $variant:ident($kind:literal),)*) => {
        /// What an open problem asks for.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Demand { $($(#[$meaning])* $variant($variant),)* }

        impl Demand {
            /// Draws a demand of a kind, and the prompt that makes it.
            pub(super) fn draw(rng: &mut Rng, wording: Wording, kind: &str) -> (Self, String) {
                match kind {
                    $($kind => {
                        let (demand, prompt) = $variant::draw(rng, wording);
                        (Self::$variant(demand), prompt)
                    })*
                    other => panic!("no open problem is of the kind {other}"),
                }
            }

            pub(super) fn key(&self) -> String {
                match self { $(Self::$variant(demand) => demand.key(),)* }
            }

            pub(super) fn answer(&self, rng: &mut Rng, wording: Wording) -> Vec<String> {
                match self { $(Self::$variant(demand) => demand.answer(rng, wording),)* }
            }

            pub(super) fn read(&self, response: &str, parts: &[&str]) -> Option<String> {
                match self { $(Self::$variant(demand) => demand.read(response, parts),)* }
            }
        }
    };
}

demands! {
    /// Sums, differences or products with a given result.
    Sums("open/sums"),
    /// True equations.
    Results("open/results"),
    /// Pairs of numbers with a given sum.
    Pairs("open/pairs"),
    /// Numbers, each with its double or the like.
    Rule("open/rule"),
    /// Counting up or down.
    Count("open/count"),
    /// Numbers of a range, in order or not.
    Order("open/order"),
    /// True comparisons.
    Compare("open/compare"),
    /// A number shared among people.
    Share("open/share"),
    /// Words, each with its first letter or the like.
    Letters("open/letters"),
    /// Different words, or given ones in any order.
    List("open/list"),
    /// JSON whose fields follow from one another.
    Records("open/records"),
    /// Latin squares.
    Square("open/square"),
}

impl Demand {
    /// Whether the answer has parts that may stand on one line or on several.
    pub(super) fn has_parts(&self) -> bool {
        !matches!(self, Self::Records(_) | Self::Square(_))
    }
}
