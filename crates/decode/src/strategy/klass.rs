//! KLASS (Kim et al. 2025): unmask every position that is both confident and stable, where stable
//! means that the last `history` divergences `KL(p_t ‖ p_{t-1})` lie below a threshold.
//!
//! Quirks of the reference code, kept: distributions are the model's own (no temperature, no
//! filter) and so are the committed tokens (argmax, unless `tokens=sampled`, as the DEMASK paper
//! draws them for all methods alike); the first two passes are never stable because
//! the history starts at zero probability; when nothing is ready, one position is taken: the most
//! confident by the sampler's candidate.
//!
//! The reference has a second loop for LLaDA, which is `klass:bar=above,follow=response,steps=N` in blocks: confidence
//! must exceed the threshold; distributions of later blocks are followed too, so that a block starts with a history
//! (but its first `history - 1` passes are never stable); when nothing is ready, as many positions are taken as an even
//! schedule says. Quirks of it, not kept: a schedule that is too short leaves masks in the answer (here the block goes
//! on, one token a step), and a step with fewer masks than scheduled overwrites the prompt.

use crate::error::Result;
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rng::Purpose;
use crate::rule::{History, Schedule, top_k};
use crate::strategy::{Needs, Selection, Step, Stop, Strategy, TokenRule};

pub(super) const ENTRY: Entry = Entry {
    name: "klass",
    aliases: &[],
    summary: "unmask all positions that are confident and whose distribution has stopped moving",
    source: "KLASS (Kim et al. 2025); thresholds re-tuned in DEMASK section 5.2",
    cost: Cost::Logits,
    params: &[
        Param { key: "conf", default: "0.9", kind: Kind::Number(0.0, 1.0), help: "least top-1 probability" },
        Param {
            key: "kl",
            default: "0.0003",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "greatest divergence from the previous pass (<)",
        },
        Param { key: "history", default: "2", kind: Kind::Count, help: "how many passes must be stable" },
        Param {
            key: "bar",
            default: "at-least",
            kind: Kind::Choice(&["at-least", "above"]),
            help: "whether conf must be reached or exceeded (LLaDA's loop)",
        },
        Param {
            key: "follow",
            default: "block",
            kind: Kind::Choice(&["block", "response"]),
            help: "whose distributions are remembered: the block's, or all masks' (LLaDA's loop)",
        },
        Param {
            key: "steps",
            default: "",
            kind: Kind::Count,
            help: "when nothing is ready, take what an even schedule of this many passes says (LLaDA's loop), not 1",
        },
        Param {
            key: "pick",
            default: "all",
            kind: Kind::Choice(&["all", "random", "max-conf", "min-kl"]),
            help: "of the ready positions take all, a random one, the most confident, or the most stable",
        },
        Param {
            key: "tokens",
            default: "argmax",
            kind: Kind::Choice(&["argmax", "sampled"]),
            help: "write the most probable token (the reference code), or the one drawn with temperature and top-p",
        },
    ],
    build: |values| {
        let length = values.count("history").unwrap_or(2);
        Ok(Box::new(Klass {
            conf: values.number("conf") as f32,
            above: values.text("bar") == "above",
            kl: values.number("kl"),
            ahead: values.text("follow") == "response",
            fallback: values.count("steps").map_or(Schedule::Fixed(1), |steps| Schedule::Even { steps }),
            settling: length - 1,
            pick: match values.text("pick") {
                "random" => Pick::Random,
                "max-conf" => Pick::MaxConf,
                "min-kl" => Pick::MinKl,
                _ => Pick::All,
            },
            history: History::new(length),
            sampled: values.text("tokens") == "sampled",
        }))
    },
};

/// One position of equals.
fn draw(step: &Step<'_>, index: usize) -> f32 {
    step.rng.uniform(Purpose::Position, step.index as u64, step.masked[index] as u64) as f32
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pick {
    All,
    Random,
    MaxConf,
    MinKl,
}

struct Klass {
    conf: f32,
    above: bool,
    kl: f64,
    ahead: bool,
    fallback: Schedule,
    /// Passes of a block that are never stable, whatever the history says.
    settling: usize,
    pick: Pick,
    history: History,
    sampled: bool,
}

impl Klass {
    fn is_ready(&self, step: &Step<'_>, index: usize) -> bool {
        let confidence = step.marginals[index].raw.top1;
        let confident = if self.above { confidence > self.conf } else { confidence >= self.conf };
        confident && step.block.step >= self.settling && self.history.is_stable(step.masked[index], self.kl)
    }
}

impl Strategy for Klass {
    fn needs(&self) -> Needs {
        Needs { ahead: self.ahead, ..Needs::default() }
    }

    fn on_logits(&mut self, _step: usize, rows: LogitRows<'_>) {
        self.history.push(rows);
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        self.history.retain(&step.canvas.masked(step.canvas.response()));
        let ready: Vec<usize> = (0..step.masked.len()).filter(|&i| self.is_ready(step, i)).collect();
        let best = |score: &dyn Fn(usize) -> f32| {
            let scores: Vec<f32> = ready.iter().map(|&i| score(i)).collect();
            top_k(&scores, 1).into_iter().map(|i| ready[i]).collect()
        };
        let (chosen, stop) = if ready.is_empty() {
            let scores: Vec<f32> = step.marginals.iter().map(|m| m.candidate.probability).collect();
            (top_k(&scores, self.fallback.count(step)), Stop::Fallback)
        } else {
            let chosen = match self.pick {
                Pick::All => ready.clone(),
                Pick::Random => best(&|i| draw(step, i)),
                Pick::MaxConf => best(&|i| step.marginals[i].raw.top1),
                Pick::MinKl => best(&|i| -self.history.latest(step.masked[i]) as f32),
            };
            (chosen, Stop::NoCandidate)
        };
        let tokens = if self.sampled { TokenRule::Sampled } else { TokenRule::Argmax };
        Ok(Selection { chosen, tokens, stop: Some(stop), ..Selection::default() })
    }
}

#[cfg(test)]
mod tests {
    use crate::strategy::{Selection, Stop, Strategy, TokenRule};
    use crate::testing::{Scene, build, feed, logs};

    /// Three passes in which nothing moves, so that the third finds every position stable.
    fn settle(text: &str, confidence: &[f32]) -> Selection {
        let (mut strategy, mut scene) = (build(text), Scene::new(confidence));
        pass(&mut *strategy, &scene);
        scene.block.step = 1;
        pass(&mut *strategy, &scene);
        scene.block.step = 2;
        pass(&mut *strategy, &scene)
    }

    fn pass(strategy: &mut dyn Strategy, scene: &Scene) -> Selection {
        let row = logs(&[0.5, 0.3, 0.2]);
        let rows: Vec<(usize, &[f32])> = scene.masked().into_iter().map(|p| (p, row.as_slice())).collect();
        feed(strategy, scene.index, &rows);
        scene.select(strategy)
    }

    #[test]
    fn tokens_are_the_most_probable_or_those_drawn() {
        assert_eq!(settle("klass", &[0.95]).tokens, TokenRule::Argmax);
        assert_eq!(settle("klass:tokens=sampled", &[0.95]).tokens, TokenRule::Sampled);
    }

    #[test]
    fn the_bar_is_reached_or_exceeded() {
        let confidence = [0.9, 0.95, 0.5, 0.9];
        assert_eq!(settle("klass:conf=0.9", &confidence).chosen, [0, 1, 3]);
        assert_eq!(settle("klass:conf=0.9,bar=above", &confidence).chosen, [1]);
    }

    #[test]
    fn of_the_ready_one_may_be_taken() {
        let confidence = [0.92, 0.5, 0.95, 0.91];
        assert_eq!(settle("klass:pick=max-conf", &confidence).chosen, [2]);
        assert_eq!(settle("klass:pick=min-kl", &confidence).chosen, [0], "ties go left");
        let random = settle("klass:pick=random", &confidence);
        assert!(random.chosen.len() == 1 && random.chosen != [1], "{:?}", random.chosen);
    }

    #[test]
    fn without_history_the_fallback_takes_one_or_what_the_schedule_says() {
        let scene = Scene::new(&[0.6, 0.99, 0.7, 0.8]);
        let first = |text: &str| pass(&mut *build(text), &scene);
        let one = first("klass");
        assert_eq!((one.chosen.as_slice(), one.stop), (&[1][..], Some(Stop::Fallback)));
        assert_eq!(first("klass:steps=2").chosen, [1, 3]);
    }

    #[test]
    fn a_block_that_begins_with_a_history_still_settles() {
        let (mut strategy, mut scene) = (build("klass:follow=response"), Scene::new(&[0.95, 0.96]));
        for _ in 0..3 {
            pass(&mut *strategy, &scene);
        }
        scene.block.step = 0;
        assert_eq!(pass(&mut *strategy, &scene).stop, Some(Stop::Fallback));
        scene.block.step = 1;
        assert_eq!(pass(&mut *strategy, &scene).chosen, [0, 1]);
    }
}
