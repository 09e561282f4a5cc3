//! APD, adaptive parallel decoding, from left to right: the model drafts all masks, a small causal model (the assistant)
//! scores the draft, and the draft's beginning is kept for as long as it agrees with the mixture of both,
//! `p_T ∝ p_D^r · p_AR^(1−r)`. The first token is always kept. r = 1 keeps everything, r = 0 what the small model would
//! have said.
//!
//! Two rules. `greedy` is the published code: a drafted token must be the arg-max of the mixture, whatever the temperature
//! (the code ignores its noise there). `coupled` is the paper: draft and target are drawn with the same Gumbel noise and
//! must agree; at temperature 0 both are the same. Ties go to the lowest token.
//!
//! `lookahead` cuts the canvas off behind so many cells, as the published code does, and `window` keeps keys and values of
//! everything more than so many rows before what the last pass decided. Quirks of the code, kept: with a window of 0 the
//! first token of each pass keeps the keys of its mask for ever, and after a pass that kept one token the next position is
//! predicted by its own row. Not kept: temperature is applied twice to the draft. Known cells between masks (infilling) go to
//! the assistant as they are and stop nothing. Tokens that only one model knows pass as first token only.

use demask_model::Rows;

use crate::error::{Error, Result};
use crate::job::Options;
use crate::registry::{Cost, Entry, Kind, Param, Values};
use crate::rng::Purpose;
use crate::rule::kept_rows;
use crate::strategy::{Draft, Drawn, Keep, Needs, Selection, Step, Stop, Strategy, TokenRule};

/// Cells that take part.
pub(super) const LOOKAHEAD: Param = Param {
    key: "lookahead",
    default: "",
    kind: Kind::Count,
    help: "cells from the first mask on; the canvas is cut off behind them (all if not given)",
};
/// Rows computed afresh.
pub(super) const WINDOW: Param = Param {
    key: "window",
    default: "",
    kind: Kind::Whole,
    help: "rows recomputed up to the first token of the last pass; earlier ones keep keys and values (all if not given); \
           with 0, as in the published code, each pass's first token keeps the keys of its mask for ever",
};

pub(super) const ENTRY: Entry = Entry {
    name: "apd",
    aliases: &["adaptive-parallel"],
    summary: "draft everything, keep from the left what a small causal model agrees with",
    source: "APD (Israel, Van den Broeck, Grover 2025)",
    cost: Cost::Assistant,
    params: &[
        Param {
            key: "r",
            default: "0.7",
            kind: Kind::Number(0.0, 1.0),
            help: "weight of the model beside its assistant",
        },
        LOOKAHEAD,
        WINDOW,
        Param {
            key: "rule",
            default: "greedy",
            kind: Kind::Choice(&["greedy", "coupled"]),
            help: "a token is kept if it is the mixture's best (the published code), or if the same noise draws it (the paper)",
        },
    ],
    build: |values| {
        Ok(Box::new(Apd {
            r: values.number("r"),
            bounds: Bounds::of(values),
            coupled: values.text("rule") == "coupled",
            drafted: Vec::new(),
            answer: None,
        }))
    },
};

/// What of the canvas takes part in a pass, as in the published loop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    lookahead: Option<usize>,
    window: Option<usize>,
}

impl Bounds {
    /// As a caller chose; nothing of a strategy that does not offer them.
    pub(super) fn of(values: &Values<'_>) -> Self {
        Self { lookahead: values.count("lookahead"), window: values.count("window") }
    }

    /// Asks for them.
    pub(super) fn needs(self, needs: Needs) -> Needs {
        Needs { lookahead: self.lookahead, window: self.window, ..needs }
    }

    /// Refuses what cannot be had beside them.
    pub(super) fn check(self, strategy: &str, options: &Options) -> Result<()> {
        let refuse = |why: &str| Err(Error::Refused { strategy: strategy.into(), why: why.into() });
        let own = self.lookahead.is_some() || self.window.is_some();
        if own && options.block_length.is_some() {
            return refuse(
                "goes from left to right over the whole response with lookahead or window; leave out the block length",
            );
        }
        if own && !["none", "auto"].contains(&options.cache.name()) {
            return refuse(
                "keeps its own window of keys and values; leave out the cache, lookahead or window",
            );
        }
        if self.lookahead.is_some() && options.guidance != 0.0 {
            return refuse(
                "cuts the canvas off with lookahead, which guidance does not know; leave out one of them",
            );
        }
        Ok(())
    }
}

struct Apd {
    r: f64,
    bounds: Bounds,
    coupled: bool,
    /// A token for each mask of the step.
    drafted: Vec<u32>,
    /// The assistant's logits from the first mask on.
    answer: Option<Rows>,
}

impl Strategy for Apd {
    fn needs(&self) -> Needs {
        self.bounds.needs(Needs { keep: Keep::All, assistant: true, ..Needs::default() })
    }

    fn check(&self, options: &Options) -> Result<()> {
        if options.block_length.is_some() {
            let why = "goes from left to right over the whole response; leave out the block length";
            return Err(Error::Refused { strategy: "apd".into(), why: why.into() });
        }
        self.bounds.check("apd", options)
    }

    fn draft(&mut self, step: &Step<'_>) -> Result<Option<Draft>> {
        if self.answer.is_some() {
            return Ok(None);
        }
        self.drafted = if self.is_coupled(step) {
            let rows = kept_rows(step, "apd")?;
            let temperature = f64::from(step.sampling.temperature);
            (0..rows.len()).map(|i| best(&noised(rows.row(i), temperature, noise(step, i)))).collect()
        } else {
            step.marginals.iter().map(|m| m.candidate.token).collect()
        };
        let last = step.masked[step.masked.len() - 1];
        let mut tokens = step.canvas.tokens()[..last].to_vec();
        for (&position, &token) in step.masked.iter().zip(&self.drafted) {
            if position < last {
                tokens[position] = token;
            }
        }
        // The first token is kept unseen, and nothing stands before the first position of all.
        let from = step.masked.get(1).copied().unwrap_or(last);
        if step.masked.len() < 2 {
            self.answer = Some(Rows::default());
            return Ok(None);
        }
        Ok(Some(Draft { tokens, from }))
    }

    fn on_answer(&mut self, rows: Rows) {
        self.answer = Some(rows);
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let missing = || Error::NoAssistant { strategy: "apd".into() };
        let answer = self.answer.take().ok_or_else(missing)?;
        let rows = kept_rows(step, "apd")?;
        let from = step.masked.get(1).copied().unwrap_or(0);
        let coupled = self.is_coupled(step);
        let agrees = |i: usize| {
            let verifier = answer.row(step.masked[i] - from);
            let target = if coupled {
                let temperature = f64::from(step.sampling.temperature);
                let target = mixture(rows.row(i), verifier, self.r, temperature);
                best(&target.iter().enumerate().map(|(t, p)| p + noise(step, i)(t)).collect::<Vec<_>>())
            } else {
                greedy_target(rows.row(i), verifier, self.r)
            };
            target == self.drafted[i]
        };
        let count = 1 + (1..step.masked.len()).take_while(|&i| agrees(i)).count();
        let stop = if count == step.masked.len() { Stop::AllTaken } else { Stop::NoCandidate };
        let tokens = if coupled {
            let drawn = |i: usize| {
                let raw = step.marginals[i].raw;
                let token = self.drafted[i];
                Drawn { token, probability: (rows.row(i)[token as usize] - raw.logsumexp).exp() }
            };
            TokenRule::Given((0..count).map(drawn).collect())
        } else {
            TokenRule::Sampled
        };
        Ok(Selection { chosen: (0..count).collect(), tokens, stop: Some(stop), ..Selection::default() })
    }
}

impl Apd {
    fn is_coupled(&self, step: &Step<'_>) -> bool {
        self.coupled && step.sampling.temperature > 0.0
    }
}

/// The Gumbel noise of every token at masked position number `index`.
fn noise<'s>(step: &'s Step<'_>, index: usize) -> impl Fn(usize) -> f64 + 's {
    let position = step.masked[index] as u64;
    move |token| step.rng.gumbel(Purpose::Noise, step.index as u64, position << 32 | token as u64)
}

/// `ln p + G` of logits at a temperature; the arg-max does not need the constant.
fn noised(logits: &[f32], temperature: f64, noise: impl Fn(usize) -> f64) -> Vec<f64> {
    logits.iter().enumerate().map(|(t, &z)| f64::from(z) / temperature + noise(t)).collect()
}

/// `r·ln p_D + (1 − r)·ln p_AR` at a temperature over the tokens both know, up to a constant. What may not be written is
/// impossible whatever `r` is; a model without weight has no say, not even that a token is impossible (`0·(−∞)` is none).
fn mixture(diffusion: &[f32], verifier: &[f32], r: f64, temperature: f64) -> Vec<f64> {
    let say = |weight: f64, logit: f32| if weight == 0.0 { 0.0 } else { weight * f64::from(logit) };
    let mixed = |(&z, &v): (&f32, &f32)| match z {
        f32::NEG_INFINITY => f64::NEG_INFINITY,
        _ => (say(r, z) + say(1.0 - r, v)) / temperature,
    };
    diffusion.iter().zip(verifier).map(mixed).collect()
}

/// The mixture's best token, of those both models know.
fn greedy_target(diffusion: &[f32], verifier: &[f32], r: f64) -> u32 {
    best(&mixture(diffusion, verifier, r, 1.0))
}

/// The first of the largest.
fn best(scores: &[f64]) -> u32 {
    let mut best = 0;
    for (token, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = token;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, indices, rows};

    #[test]
    fn acceptance_is_that_of_the_published_code() {
        for case in fixture("apd-toy/expected.json")["criterion"].as_array().unwrap() {
            let (diffusion, verifier) = (rows(&case["diffusion"]), rows(&case["verifier"]));
            let draft = indices(&case["draft"]);
            let r = case["R"].as_f64().unwrap();
            let agrees =
                |i: usize| i == 0 || greedy_target(diffusion.row(i), verifier.row(i), r) == draft[i] as u32;
            let count = (0..draft.len()).take_while(|&i| agrees(i)).count();
            let want = indices(&case["accepted"]).iter().take_while(|&&a| a == 1).count();
            assert_eq!(count, want, "R = {r}");
        }
    }

    #[test]
    fn what_may_not_be_written_is_never_the_target() {
        let none = f32::NEG_INFINITY;
        for r in [0.0, 0.5, 1.0] {
            // The assistant's favourite is barred, at the first token and at another.
            assert_eq!(greedy_target(&[none, 1.0, 3.0], &[9.0, 1.0, 2.0], r), 2, "R = {r}");
            assert_eq!(greedy_target(&[1.0, none, 3.0], &[0.0, 9.0, 1.0], r), 2, "R = {r}");
        }
        // What the assistant calls impossible is so as far as it has a say.
        for (r, want) in [(0.0, 2), (0.5, 2), (1.0, 1)] {
            assert_eq!(greedy_target(&[3.0, 5.0, 4.0], &[none, none, 0.0], r), want, "R = {r}");
        }
        assert!(mixture(&[none, 1.0], &[none, none], 1.0, 0.5) == [none.into(), 2.0]);
    }

    /// The uniforms of the fixtures.
    fn uniform(seed: u64, call: u64, k: u64) -> f64 {
        let mut x = (seed << 48).wrapping_add(call << 32).wrapping_add(k).wrapping_add(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((x ^ (x >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    #[test]
    fn the_papers_rule_shares_its_noise() {
        assert!((uniform(1, 0, 0) - 0.634_855_728_799_004).abs() < 1e-15);
        for case in fixture("apd-toy/expected.json")["paper_rule"].as_array().unwrap() {
            let (diffusion, verifier) = (rows(&case["diffusion"]), rows(&case["verifier"]));
            let number = |key: &str| case[key].as_f64().unwrap();
            let (r, temperature, seed) = (number("R"), number("temperature"), case["seed"].as_u64().unwrap());
            let gumbel = |row: usize| {
                let width = diffusion.width;
                move |t: usize| -(-uniform(seed, 0, (row * width + t) as u64).ln()).ln()
            };
            let drawn = |i: usize| best(&noised(diffusion.row(i), temperature, gumbel(i))) as usize;
            let target = |i: usize| {
                let target = mixture(diffusion.row(i), verifier.row(i), r, temperature);
                best(&target.iter().enumerate().map(|(t, p)| p + gumbel(i)(t)).collect::<Vec<_>>()) as usize
            };
            let count = diffusion.len();
            assert_eq!((0..count).map(drawn).collect::<Vec<_>>(), indices(&case["draft"]));
            assert_eq!((0..count).map(target).collect::<Vec<_>>(), indices(&case["target"]));
            let accepted = 1 + (1..count).take_while(|&i| drawn(i) == target(i)).count();
            assert_eq!(accepted as u64, case["accepted"].as_u64().unwrap());
        }
    }
}
