//! Discrete Copula Diffusion: the model's marginals with the dependence of a causal model (the assistant). A chunk is drawn
//! from left to right, each token from `softmax(v_AR(·|x_<i) + α·(ln p(·|x) − ln p_ref(·)))`, where `p` are the model's
//! marginals and `p_ref` those it has without what stands to the right; so the assistant's text is bent towards what the
//! right context asks for. Without any right context the second term is nearly zero and it is the assistant alone: use it
//! for infilling.
//!
//! `reference=causal` is the published choice: a second pass of the same canvas with causal attention, off a bidirectional
//! model's habits. `reference=suffix` is ours: a second full pass in which everything right of the chunk is masked; it is
//! left out where nothing is known there, because then it is the same. Neither is guided, so guidance is refused.
//!
//! Probabilities below 1e-16 count as that. A canvas's first position, with nothing before it, is drawn from the model alone.
//! Schedule of the published code: step k of n decodes up to `round((1 − 0.999·t)·N)`, t on a line from 1 to 1e-5.

use demask_kernels::softmax_stats;
use demask_model::Rows;

use crate::error::{Error, Result};
use crate::job::Options;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rng::Purpose;
use crate::rule::kept_rows;
use crate::sampler::ScoreDtype;
use crate::strategy::{Draft, Drawn, Keep, Needs, Selection, Step, Stop, Strategy, TokenRule};

pub(super) const ENTRY: Entry = Entry {
    name: "copula",
    aliases: &["dcd"],
    summary: "draw chunks from left to right with a causal model's dependence and the model's marginals",
    source: "Discrete Copula Diffusion (Liu et al. 2025)",
    cost: Cost::Assistant,
    params: &[
        Param {
            key: "chunk",
            default: "",
            kind: Kind::Count,
            help: "cells drawn in a step (8 if steps is not given)",
        },
        Param {
            key: "steps",
            default: "",
            kind: Kind::Count,
            help: "steps for the whole response instead of chunk",
        },
        Param {
            key: "alpha",
            default: "1",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "weight of what the right context adds",
        },
        Param {
            key: "reference",
            default: "causal",
            kind: Kind::Choice(&["causal", "suffix"]),
            help: "the model without its right context: causal attention, or masks in its place",
        },
    ],
    build: |values| {
        let chunks = match (values.count("chunk"), values.count("steps")) {
            (Some(chunk), Some(_)) => {
                return Err(Error::BadValue {
                    what: "copula:chunk".into(),
                    value: chunk.to_string(),
                    why: "give chunk (cells in a step) or steps (in all), not both".into(),
                });
            }
            (None, Some(steps)) => Chunks::Steps(steps),
            (chunk, None) => Chunks::Cells(chunk.unwrap_or(8)),
        };
        Ok(Box::new(Copula {
            chunks,
            alpha: values.number("alpha"),
            suffix: values.text("reference") == "suffix",
            drawing: None,
        }))
    },
};

/// Least probability.
const FLOOR: f64 = 1e-16;

#[derive(Debug, Clone, Copy)]
enum Chunks {
    Cells(usize),
    Steps(usize),
}

impl Chunks {
    /// Where the chunk that begins at offset `first` of a response ends.
    fn end(self, first: usize, length: usize) -> usize {
        match self {
            Self::Cells(cells) => (first + cells).min(length),
            Self::Steps(steps) => {
                let ends = (1..=steps).map(|k| chunk_end(k, steps, length));
                ends.into_iter().find(|&end| end > first).unwrap_or(length)
            }
        }
    }
}

/// `round((1 − 0.999·t)·N)` after step `k` of `steps`.
fn chunk_end(k: usize, steps: usize, length: usize) -> usize {
    let t = 1.0 + (1e-5 - 1.0) * k as f64 / steps as f64;
    ((1.0 - 0.999 * t) * length as f64).round() as usize
}

struct Copula {
    chunks: Chunks,
    alpha: f64,
    suffix: bool,
    drawing: Option<Drawing>,
}

/// A chunk being drawn.
struct Drawing {
    /// Masks of the chunk.
    count: usize,
    /// `α·(ln p − ln p_ref)` of each mask; impossible tokens are −∞.
    context: Rows,
    drawn: Vec<u32>,
    /// The text up to the next mask.
    tokens: Vec<u32>,
    answer: Option<Rows>,
}

impl Strategy for Copula {
    fn needs(&self) -> Needs {
        Needs { keep: Keep::All, assistant: true, ..Needs::default() }
    }

    fn check(&self, options: &Options) -> Result<()> {
        if options.block_length.is_some() {
            let why = "draws chunks of its own from left to right; leave out the block length".into();
            return Err(Error::Refused { strategy: "copula".into(), why });
        }
        if options.guidance != 0.0 {
            let why =
                "would compare guided marginals with a reference that is not guided; leave out the guidance"
                    .into();
            return Err(Error::Refused { strategy: "copula".into(), why });
        }
        Ok(())
    }

    fn draft(&mut self, step: &Step<'_>) -> Result<Option<Draft>> {
        let mut drawing = match self.drawing.take() {
            Some(drawing) => drawing,
            None => self.begin(step)?,
        };
        if let Some(answer) = drawing.answer.take() {
            drawing.draw(step, &answer);
        }
        // Nothing stands before the first position of all: the model alone draws it.
        if drawing.drawn.is_empty() && step.masked[0] == 0 {
            drawing.draw_first(step)?;
        }
        let next = (drawing.drawn.len() < drawing.count).then(|| step.masked[drawing.drawn.len()]);
        let draft = next.map(|position| {
            let known = &step.canvas.tokens()[drawing.tokens.len()..position];
            drawing.tokens.extend_from_slice(known);
            Draft { tokens: drawing.tokens.clone(), from: position }
        });
        self.drawing = Some(drawing);
        Ok(draft)
    }

    fn on_answer(&mut self, rows: Rows) {
        if let Some(drawing) = &mut self.drawing {
            drawing.answer = Some(rows);
        }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let missing = || Error::NoAssistant { strategy: "copula".into() };
        let drawing = self.drawing.take().filter(|d| d.drawn.len() == d.count).ok_or_else(missing)?;
        let rows = kept_rows(step, "copula")?;
        let drawn = |(i, &token): (usize, &u32)| {
            let probability = (rows.row(i)[token as usize] - step.marginals[i].raw.logsumexp).exp();
            Drawn { token, probability }
        };
        let tokens = TokenRule::Given(drawing.drawn.iter().enumerate().map(drawn).collect());
        let stop = if drawing.count == step.masked.len() { Stop::AllTaken } else { Stop::Count };
        let chosen = (0..drawing.count).collect();
        Ok(Selection { chosen, tokens, stop: Some(stop), ..Selection::default() })
    }
}

impl Copula {
    fn begin(&self, step: &Step<'_>) -> Result<Drawing> {
        let response = step.canvas.response();
        let first = step.masked[0] - response.start;
        let end = response.start + self.chunks.end(first, response.len());
        let count = step.masked.partition_point(|&p| p < end);
        let rows = kept_rows(step, "copula")?;
        let vocab = rows.width;
        let own = Rows { data: rows.data[..count * vocab].to_vec(), width: vocab };
        let reference = self.reference(step, &step.masked[..count], end, vocab)?;
        let context = match reference {
            None => zeroed(&own),
            Some(reference) => context(&own, &reference, self.alpha),
        };
        Ok(Drawing { count, context, drawn: Vec::new(), tokens: Vec::new(), answer: None })
    }

    /// The model's logits without the right context; `None` where there is none.
    fn reference(&self, step: &Step<'_>, chunk: &[usize], end: usize, vocab: usize) -> Result<Option<Rows>> {
        let mut data = Vec::with_capacity(chunk.len() * vocab);
        let mut keep = |_: usize, logits: &mut [f32]| data.extend_from_slice(logits);
        let tokens = step.canvas.tokens();
        if self.suffix {
            let mask = step.canvas.ids().mask;
            let mut hidden = tokens.to_vec();
            hidden[end..].fill(mask);
            if hidden == tokens {
                return Ok(None);
            }
            step.probe.ask(&[hidden], chunk, &mut |_, first, logits| keep(first, logits))?;
        } else {
            step.probe.ask_causally(tokens, chunk, &mut keep)?;
        }
        Ok(Some(Rows { data, width: vocab }))
    }
}

impl Drawing {
    /// Draws the next token of the chunk, given what the assistant says of it.
    fn draw(&mut self, step: &Step<'_>, answer: &Rows) {
        let index = self.drawn.len();
        let last = answer.row(answer.len() - 1);
        let mut logits = self.context.row(index).to_vec();
        for (token, z) in logits.iter_mut().enumerate() {
            *z += last.get(token).copied().unwrap_or(f32::NEG_INFINITY);
        }
        self.take(step, index, &logits);
    }

    fn draw_first(&mut self, step: &Step<'_>) -> Result<()> {
        let rows = kept_rows(step, "copula")?;
        self.take(step, 0, rows.row(0));
        Ok(())
    }

    fn take(&mut self, step: &Step<'_>, index: usize, logits: &[f32]) {
        let stats = softmax_stats(logits);
        let uniform = step.rng.uniform(Purpose::Token, step.index as u64, step.masked[index] as u64);
        let token = step.sampling.candidate(logits, &stats, ScoreDtype::F32, uniform).token;
        self.drawn.push(token);
        self.tokens.push(token);
    }
}

/// `α·(ln p − ln p_ref)`, −∞ where the model cannot write the token.
fn context(own: &Rows, reference: &Rows, alpha: f64) -> Rows {
    let mut out = Vec::with_capacity(own.data.len());
    for (own, reference) in own.iter().zip(reference.iter()) {
        let (a, b) = (softmax_stats(own).logsumexp, softmax_stats(reference).logsumexp);
        let log = |z: f32, lse: f32| f64::from(z - lse).max(FLOOR.ln());
        out.extend(own.iter().zip(reference).map(|(&p, &q)| match p {
            f32::NEG_INFINITY => p,
            _ => (alpha * (log(p, a) - log(q, b))) as f32,
        }));
    }
    Rows { data: out, width: own.width }
}

/// No context: only what is impossible stays so.
fn zeroed(own: &Rows) -> Rows {
    let data = own.data.iter().map(|&z| if z == f32::NEG_INFINITY { z } else { 0.0 }).collect();
    Rows { data, width: own.width }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, indices};

    #[test]
    fn chunks_end_where_the_published_schedule_says() {
        let ends = fixture("dcd-toy/expected.json")["chunk_ends"].clone();
        for (steps, want) in ends.as_object().unwrap() {
            let steps: usize = steps.parse().unwrap();
            let got: Vec<usize> = (1..=steps).map(|k| chunk_end(k, steps, 40)).collect();
            assert_eq!(got, indices(want), "{steps} steps");
        }
        assert_eq!((Chunks::Steps(3).end(0, 40), Chunks::Steps(3).end(13, 40)), (13, 27));
        assert_eq!(Chunks::Cells(8).end(36, 40), 40);
    }

    /// By hand: copula table (.4, .1; .1, .4), marginals P(X₀=1) = .8; one sweep of row 0 keeps the odds ratio of 16.
    #[test]
    fn a_sweep_of_one_row_keeps_the_odds_ratio() {
        let rows = |p: [f32; 2]| Rows { data: p.iter().map(|p| p.ln()).collect(), width: 2 };
        let v = context(&rows([0.2, 0.8]), &rows([0.5, 0.5]), 1.0);
        let table = [[0.4_f32, 0.1], [0.1, 0.4]];
        let mut joint: Vec<f32> = (0..4).map(|at| table[at / 2][at % 2] * v.data[at / 2].exp()).collect();
        let sum: f32 = joint.iter().sum();
        joint.iter_mut().for_each(|p| *p /= sum);
        for (got, want) in joint.iter().zip([0.16, 0.04, 0.16, 0.64]) {
            assert!((got - want).abs() < 1e-6, "{joint:?}");
        }
        assert!((joint[0] * joint[3] / (joint[1] * joint[2]) - 16.0).abs() < 1e-3);
    }
}
