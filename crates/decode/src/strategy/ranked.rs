//! Strategies that rank masked positions by a score and take the best few: the paper's baselines
//! (entropy, top-1, token order) and Dream's `maskgit_plus` and `topk_margin`, each with k tokens
//! per step or with Dream's timestep schedule.

use crate::error::Result;
use crate::job::Options;
use crate::marginals::Marginal;
use crate::registry::{Cost, Entry, Kind, Param, Values};
use crate::rng::Purpose;
use crate::rule::{DISCOUNT, DISCOUNT_BY, Discount, EPS, SHARING, Schedule, TIMESTEPS, TOKENS_PER_STEP};
use crate::sampler::ScoreDtype;
use crate::strategy::apd::{Bounds, LOOKAHEAD, WINDOW};
use crate::strategy::{Needs, Selection, Step, Strategy};

const ALG_TEMP: Param = Param {
    key: "alg_temp",
    default: "0",
    kind: Kind::Number(0.0, f64::INFINITY),
    help: "randomises the ranking: positions are drawn from softmax(score / alg_temp)",
};
const SCORE: Param = Param {
    key: "score",
    default: "filtered",
    kind: Kind::Choice(&["raw", "filtered"]),
    help: "score from the model's distribution or from the one the sampler filtered",
};
const DTYPE: Param = Param {
    key: "dtype",
    default: "f32",
    kind: Kind::Choice(&["f32", "bf16"]),
    help: "precision of filtered scores; bf16 emulates the ties of Dream's published runs",
};

const SCORED: &[Param] = &[TOKENS_PER_STEP, TIMESTEPS, SHARING, EPS, ALG_TEMP, SCORE, DTYPE];
const DISCOUNTED: &[Param] =
    &[TOKENS_PER_STEP, TIMESTEPS, SHARING, EPS, ALG_TEMP, SCORE, DTYPE, DISCOUNT, DISCOUNT_BY];
const UNSCORED: &[Param] = &[TOKENS_PER_STEP, TIMESTEPS, SHARING, EPS];
const ORDERED: &[Param] = &[TOKENS_PER_STEP, TIMESTEPS, SHARING, EPS, LOOKAHEAD, WINDOW];

/// Lowest entropy first.
pub(super) const ENTROPY: Entry = Entry {
    source: "baseline of DEMASK section 5.1; Dream (Ye et al. 2025)",
    build: |values| ranked(values, Score::Entropy),
    ..entry("entropy", "unmask the positions with the lowest entropy")
};

/// Highest top-1 probability first.
pub(super) const TOP1: Entry = Entry {
    aliases: &["confidence"],
    params: DISCOUNTED,
    build: |values| ranked(values, Score::Top1),
    ..entry("top1", "unmask the positions with the highest top-1 probability")
};

/// Highest probability of the sampled token first.
pub(super) const MASKGIT_PLUS: Entry = Entry {
    aliases: &["maskgit_plus"],
    params: DISCOUNTED,
    source: "Dream (Ye et al. 2025)",
    build: |values| ranked(values, Score::Sampled),
    ..entry(
        "maskgit-plus",
        "unmask the positions whose sampled token is most probable (Dream's maskgit_plus)",
    )
};

/// Largest gap between the two best tokens first.
pub(super) const MARGIN: Entry = Entry {
    aliases: &["topk-margin", "topk_margin"],
    source: "Dream (Ye et al. 2025)",
    build: |values| ranked(values, Score::Margin),
    ..entry(
        "margin",
        "unmask the positions with the largest gap between their two best tokens (Dream's topk_margin)",
    )
};

/// Left to right.
pub(super) const TOKEN_ORDER: Entry = Entry {
    aliases: &["token_order", "leftright", "sequential"],
    source: "baseline of DEMASK section 5.1; APD (Israel et al. 2025)",
    params: ORDERED,
    build: |values| ranked(values, Score::Order),
    ..entry("token-order", "unmask left to right")
};

/// Uniformly at random.
pub(super) const RANDOM: Entry = Entry {
    source: "LLaDA (Nie et al. 2025), remasking=random",
    params: UNSCORED,
    build: |values| ranked(values, Score::Random),
    ..entry("random", "unmask positions drawn uniformly")
};

/// What the six have in common; each says its own score.
const fn entry(name: &'static str, summary: &'static str) -> Entry {
    Entry {
        name,
        aliases: &[],
        summary,
        source: "baseline of DEMASK section 5.1",
        cost: Cost::Logits,
        params: SCORED,
        build: |values| ranked(values, Score::Order),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Score {
    Entropy,
    Top1,
    Sampled,
    Margin,
    Order,
    Random,
}

struct Ranked {
    score: Score,
    schedule: Schedule,
    raw: bool,
    alg_temp: f64,
    dtype: ScoreDtype,
    discount: Discount,
    bounds: Bounds,
}

fn ranked(values: &Values<'_>, score: Score) -> Result<Box<dyn Strategy>> {
    Ok(Box::new(Ranked {
        score,
        schedule: Schedule::of(values)?,
        raw: values.text("score") == "raw",
        alg_temp: values.text("alg_temp").parse().unwrap_or(0.0),
        dtype: if values.text("dtype") == "bf16" { ScoreDtype::Bf16 } else { ScoreDtype::F32 },
        discount: Discount::of(values)?,
        bounds: Bounds::of(values),
    }))
}

impl Ranked {
    fn score(&self, step: &Step<'_>, position: usize, marginal: &Marginal) -> f32 {
        let (raw, filtered) = (&marginal.raw, &marginal.candidate);
        match (self.score, self.raw) {
            (Score::Entropy, true) => -raw.entropy,
            (Score::Entropy, false) => -filtered.entropy,
            (Score::Top1, true) => raw.top1,
            (Score::Top1, false) => filtered.top1,
            (Score::Sampled, true) => filtered.raw,
            (Score::Sampled, false) => filtered.probability,
            (Score::Margin, true) => raw.top1 - raw.top2,
            (Score::Margin, false) => filtered.margin,
            (Score::Order, _) => 0.0,
            (Score::Random, _) => {
                step.rng.uniform(Purpose::Position, step.index as u64, position as u64) as f32
            }
        }
    }
}

impl Strategy for Ranked {
    fn reads_logits(&self) -> bool {
        false
    }

    fn needs(&self) -> Needs {
        self.bounds.needs(self.discount.needs(Needs { dtype: self.dtype, ..Needs::default() }))
    }

    fn check(&self, options: &Options) -> Result<()> {
        // Only token-order offers bounds.
        self.bounds.check("token-order", options)
    }

    fn likeliness(&self, marginal: &Marginal) -> f32 {
        match self.score {
            Score::Entropy => -marginal.raw.entropy,
            Score::Margin => marginal.raw.top1 - marginal.raw.top2,
            Score::Top1 | Score::Sampled => marginal.raw.top1,
            Score::Order | Score::Random => 0.0,
        }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let mut scores: Vec<f32> =
            step.masked.iter().zip(step.marginals).map(|(&p, m)| self.score(step, p, m)).collect();
        if self.alg_temp > 0.0 {
            // Gumbel noise on score/temperature draws without replacement from the softmax.
            for (score, &position) in scores.iter_mut().zip(step.masked) {
                let noise = step.rng.gumbel(Purpose::Position, step.index as u64, position as u64);
                *score = (f64::from(*score) / self.alg_temp + noise) as f32;
            }
        }
        let last = self.schedule.is_last(step);
        let order = self.discount.order(step, &scores)?.into_iter().map(|(i, _)| i).collect();
        Ok(Selection { last, ..self.schedule.first(step, order) })
    }
}
