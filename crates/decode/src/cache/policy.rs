//! The table of cache policies. Each is a value of [`CachePolicy`]; adding one that the fields can say is an
//! entry here.

use crate::error::Result;
use crate::spelling::{self, Family, Kind, Listed, Param, Spelled, Values};

/// Which rows are computed afresh, and when all of them are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePolicy {
    /// Rows recomputed in a step.
    pub reach: Reach,
    /// Entering a block recomputes everything.
    pub on_entry: bool,
    /// Everything is recomputed once in this many steps; 0 never.
    pub refresh: usize,
    /// The first steps of the canvas recompute everything.
    pub warmup: usize,
}

/// Rows recomputed between two passes over everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The block, and finished ones that were not yet computed with their final tokens: exact under block-causal attention.
    Blocks,
    /// What follows the first token that the last step decided, and this many rows up to it.
    Trailing {
        /// Rows, that of the token included.
        window: usize,
    },
    /// The block and all that follows it.
    Suffix,
    /// The block and this many rows around it.
    Window {
        /// Rows before the block.
        before: usize,
        /// Rows after it.
        after: usize,
    },
    /// Masks, and rows whose token changed since they were computed.
    Unsettled,
}

impl CachePolicy {
    /// Rows behind a window keep their keys and values for ever.
    pub fn trailing(window: usize) -> Self {
        Self { reach: Reach::Trailing { window }, on_entry: false, refresh: 0, warmup: 0 }
    }

    /// Whether it keeps only what is final, so that nothing it keeps differs from what would be computed.
    pub fn is_exact(&self) -> bool {
        self.reach == Reach::Blocks
    }
}

/// A policy's entry.
pub struct Entry {
    /// Canonical name.
    pub name: &'static str,
    /// Other spellings that are understood.
    pub aliases: &'static [&'static str],
    /// One line of meaning.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Rows a step computes.
    pub cost: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    build: fn(&Values<'_>) -> Option<CachePolicy>,
}

impl Listed for Entry {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn params(&self) -> &'static [Param] {
        self.params
    }
}

/// The family of caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caches;

impl Family for Caches {
    const KIND: &'static str = "cache";
    const OPEN: bool = false;
    type Entry = Entry;

    fn standard() -> &'static [Entry] {
        ALL
    }
}

/// A cache's name and the parameters that were given.
pub type CacheSpec = Spelled<Caches>;

impl CacheSpec {
    /// Its policy; `None` computes every row in every step.
    pub fn policy(&self) -> Option<CachePolicy> {
        let entry =
            find(self.name()).unwrap_or_else(|_| unreachable!("a spelling is only made of a known name"));
        (entry.build)(&self.values())
    }
}

impl Default for CacheSpec {
    fn default() -> Self {
        "auto".parse().unwrap_or_else(|_| unreachable!("a known name"))
    }
}

/// Looks a cache up by name or alias; an unknown one is answered with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry> {
    spelling::find::<Caches>(ALL, name)
}

const REFRESH: Param = Param {
    key: "refresh",
    default: "0",
    kind: Kind::Whole,
    help: "also recompute everything once in this many steps (1 is exact, 0 only on entering a block)",
};

fn whole(values: &Values<'_>, key: &str) -> usize {
    values.count(key).unwrap_or(0)
}

fn in_blocks(values: &Values<'_>, reach: Reach) -> Option<CachePolicy> {
    Some(CachePolicy {
        reach,
        on_entry: true,
        refresh: whole(values, "refresh"),
        warmup: whole(values, "warmup"),
    })
}

/// Every policy.
pub const ALL: &[Entry] = &[
    Entry {
        name: "none",
        aliases: &["exact"],
        summary: "compute every row in every step; exact",
        source: "Dream (Ye et al. 2025), LLaDA (Nie et al. 2025)",
        cost: "all rows",
        params: &[],
        build: |_| None,
    },
    Entry {
        name: "auto",
        aliases: &["blocks", "block-causal"],
        summary: "keep keys and values of finished blocks where attention is block-causal, nothing elsewhere; exact",
        source: "LLaDA2.0, SDAR (2025)",
        cost: "the block, and the finished one before it once",
        params: &[],
        build: |_| Some(CachePolicy { reach: Reach::Blocks, on_entry: false, refresh: 0, warmup: 0 }),
    },
    Entry {
        name: "prefix",
        aliases: &["fast-dllm-prefix"],
        summary: "keep keys and values of everything before the block from the step that entered it",
        source: "Fast-dLLM (Wu et al. 2025), prefix cache",
        cost: "the block and what follows it",
        params: &[REFRESH],
        build: |values| in_blocks(values, Reach::Suffix),
    },
    Entry {
        name: "dual",
        aliases: &["fast-dllm-dual"],
        summary: "keep keys and values of everything around the block from the step that entered it",
        source: "Fast-dLLM (Wu et al. 2025), dual cache",
        cost: "the block",
        params: &[REFRESH],
        build: |values| in_blocks(values, Reach::Window { before: 0, after: 0 }),
    },
    Entry {
        name: "vicinity",
        aliases: &[],
        summary: "keep keys and values of everything but the block and a few rows around it",
        source: "dInfer (2025), vicinity KV-cache refresh",
        cost: "the block and the rows around it",
        params: &[
            Param {
                key: "before",
                default: "16",
                kind: Kind::Whole,
                help: "rows recomputed before the block",
            },
            Param { key: "after", default: "16", kind: Kind::Whole, help: "rows recomputed after it" },
            Param {
                key: "warmup",
                default: "4",
                kind: Kind::Whole,
                help: "first steps of the canvas that recompute everything",
            },
            REFRESH,
        ],
        build: |values| {
            let window = Reach::Window { before: whole(values, "before"), after: whole(values, "after") };
            in_blocks(values, window)
        },
    },
    Entry {
        name: "trailing",
        aliases: &["apd-window"],
        summary: "keep keys and values of everything more than a window before what the last step decided; for decoding \
                  from left to right",
        source: "APD (Israel et al. 2025), kv_window",
        cost: "the window and what follows it",
        params: &[Param {
            key: "window",
            default: "16",
            kind: Kind::Count,
            help: "rows recomputed up to the first token of the last step",
        }],
        build: |values| Some(CachePolicy::trailing(values.count("window").unwrap_or(16))),
    },
    Entry {
        name: "delayed",
        aliases: &["dkv", "dkv-cache-decode"],
        summary: "keep keys and values of a decided token one step after it was decided; needs no blocks",
        source: "dKV-Cache-Decode (Ma et al. 2025)",
        cost: "the masks and what the last step decided",
        params: &[Param {
            key: "refresh",
            default: "4",
            kind: Kind::Whole,
            help: "recompute everything once in this many steps (1 is exact, 0 never)",
        }],
        build: |values| {
            Some(CachePolicy {
                reach: Reach::Unsettled,
                on_entry: false,
                refresh: whole(values, "refresh"),
                warmup: 0,
            })
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_are_in_range() {
        let mut names = Vec::new();
        for entry in ALL {
            names.extend(std::iter::once(entry.name).chain(entry.aliases.iter().copied()));
            for param in entry.params {
                param.check(entry.name, param.default).unwrap();
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_cache_is_spelled_like_a_strategy() {
        for text in ["none", "dual:refresh=8", "vicinity:before=4,after=0"] {
            assert_eq!(text.parse::<CacheSpec>().unwrap().to_string(), text);
        }
        assert_eq!("none".parse::<CacheSpec>().unwrap().policy(), None);
        let dual = "dual".parse::<CacheSpec>().unwrap().policy().unwrap();
        assert_eq!(
            (dual.reach, dual.on_entry, dual.refresh),
            (Reach::Window { before: 0, after: 0 }, true, 0)
        );
        for (text, hint) in [
            ("duel", "there is no cache \"duel\"; did you mean dual?"),
            ("dual:refrsh=1", "cache dual has no parameter \"refrsh\"; did you mean refresh?"),
            ("dual:refresh=-1", "must be a whole number"),
            ("none:refresh=1", "cache none has no parameter"),
        ] {
            let error = text.parse::<CacheSpec>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
