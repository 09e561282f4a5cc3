//! Strategies that rank masked positions by a score and take the best few: the paper's baselines
//! (entropy, top-1, token order) and Dream's `maskgit_plus` and `topk_margin`, each with k tokens
//! per step or with Dream's timestep schedule.

use crate::error::{Error, Result};
use crate::marginals::Marginal;
use crate::rng::Purpose;
use crate::sampler::ScoreDtype;
use crate::strategy::registry::{Cost, Entry, Kind, Param};
use crate::strategy::spec::Values;
use crate::strategy::{Needs, Schedule, Selection, Step, Stop, Strategy, top_k};

const K: Param =
    Param { key: "k", default: "", kind: Kind::Count, help: "tokens per step (1 if steps is not given)" };
const STEPS: Param = Param {
    key: "steps",
    default: "",
    kind: Kind::Count,
    help: "forward passes for the whole response (Dream's timestep schedule) instead of k",
};
const EVEN: Param = Param {
    key: "schedule",
    default: "timestep",
    kind: Kind::Choice(&["timestep", "even"]),
    help: "how steps are shared out: Dream's timestep or LLaDA's even",
};
const EPS: Param = Param {
    key: "eps",
    default: "0.001",
    kind: Kind::Number(0.0, 0.5),
    help: "end of the timestep schedule",
};
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

const SCORED: &[Param] = &[K, STEPS, EVEN, EPS, ALG_TEMP, SCORE, DTYPE];
const UNSCORED: &[Param] = &[K, STEPS, EVEN, EPS];
const PAPER: &str = "baseline of DEMASK section 5.1; Dream (Ye et al. 2025)";

/// Lowest entropy first.
pub(super) const ENTROPY: Entry = Entry {
    name: "entropy",
    aliases: &[],
    summary: "unmask the positions with the lowest entropy",
    source: PAPER,
    cost: Cost::Logits,
    params: SCORED,
    build: |values| ranked(values, Score::Entropy),
};

/// Highest top-1 probability first.
pub(super) const TOP1: Entry = Entry {
    name: "top1",
    aliases: &["confidence"],
    summary: "unmask the positions with the highest top-1 probability",
    source: "baseline of DEMASK section 5.1",
    cost: Cost::Logits,
    params: SCORED,
    build: |values| ranked(values, Score::Top1),
};

/// Highest probability of the sampled token first.
pub(super) const MASKGIT_PLUS: Entry = Entry {
    name: "maskgit-plus",
    aliases: &["maskgit_plus"],
    summary: "unmask the positions whose sampled token is most probable (Dream's maskgit_plus)",
    source: "Dream (Ye et al. 2025)",
    cost: Cost::Logits,
    params: SCORED,
    build: |values| ranked(values, Score::Sampled),
};

/// Largest gap between the two best tokens first.
pub(super) const MARGIN: Entry = Entry {
    name: "margin",
    aliases: &["topk-margin", "topk_margin"],
    summary: "unmask the positions with the largest gap between their two best tokens (Dream's topk_margin)",
    source: "Dream (Ye et al. 2025)",
    cost: Cost::Logits,
    params: SCORED,
    build: |values| ranked(values, Score::Margin),
};

/// Left to right.
pub(super) const TOKEN_ORDER: Entry = Entry {
    name: "token-order",
    aliases: &["token_order", "leftright", "sequential"],
    summary: "unmask left to right",
    source: "baseline of DEMASK section 5.1; APD (Israel et al. 2025)",
    cost: Cost::Logits,
    params: UNSCORED,
    build: |values| ranked(values, Score::Order),
};

/// Uniformly at random.
pub(super) const RANDOM: Entry = Entry {
    name: "random",
    aliases: &[],
    summary: "unmask positions drawn uniformly",
    source: "LLaDA (Nie et al. 2025), remasking=random",
    cost: Cost::Logits,
    params: UNSCORED,
    build: |values| ranked(values, Score::Random),
};

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
}

fn ranked(values: &Values<'_>, score: Score) -> Result<Box<dyn Strategy>> {
    Ok(Box::new(Ranked {
        score,
        schedule: schedule(values)?,
        raw: values.text("score") == "raw",
        alg_temp: values.text("alg_temp").parse().unwrap_or(0.0),
        dtype: if values.text("dtype") == "bf16" { ScoreDtype::Bf16 } else { ScoreDtype::F32 },
    }))
}

/// `k` tokens per step, or `steps` passes in all.
fn schedule(values: &Values<'_>) -> Result<Schedule> {
    match (values.count("k"), values.count("steps")) {
        (Some(k), Some(_)) => Err(Error::BadValue {
            what: format!("{}:k", values.name()),
            value: k.to_string(),
            why: "give k (tokens per step) or steps (passes in all), not both".into(),
        }),
        (k, None) => Ok(Schedule::Fixed(k.unwrap_or(1))),
        (None, Some(steps)) if values.text("schedule") == "even" => Ok(Schedule::Even { steps }),
        (None, Some(steps)) => Ok(Schedule::Timestep { steps, eps: values.number("eps") }),
    }
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
    fn needs(&self) -> Needs {
        Needs { dtype: self.dtype, ..Needs::default() }
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
        let chosen = top_k(&scores, self.schedule.count(step));
        let stop = if chosen.len() == step.masked.len() { Stop::AllTaken } else { Stop::Count };
        let last = self.schedule.is_last(step);
        Ok(Selection { chosen, stop: Some(stop), last, ..Selection::default() })
    }
}
