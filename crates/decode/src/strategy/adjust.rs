//! ADJUST: several tokens per pass, drawn one after the other. The surest mask is drawn; one trained layer then moves the
//! hidden rows of all others to what the model would now think; the surest of the rest is drawn from those, and so on. Order
//! is decided anew after every token, by the entropy after temperature and filters; ties go left.
//!
//! A step costs one pass and a layer and a head product for every token but the last (the reference runs it for the last
//! too). Quirk of the reference, not kept: after the first token it may draw the mask itself; what the sampler must not
//! write is barred throughout. It needs the hidden rows of all positions, so no cache fits it, and guidance would reach the
//! first token of a step only.

use std::sync::Arc;
use std::time::Instant;

use demask_kernels::softmax_stats;
use demask_model::Rows;

use crate::error::{Error, Result};
use crate::job::Options;
use crate::registry::{Cost, Entry};
use crate::rng::Purpose;
use crate::rule::{EPS, SHARING, Schedule, TIMESTEPS, TOKENS_PER_STEP, kept_rows};
use crate::sampler::{Candidate, ScoreDtype};
use crate::strategy::{Drawn, Keep, Needs, Selection, Step, Stop, Strategy, TokenRule};
use crate::trained::Adjust;

pub(super) const ENTRY: Entry = Entry {
    name: "adjust",
    aliases: &["joint-sampling"],
    summary: "draw several tokens a pass one after the other, a small trained layer telling each of those before it",
    source: "ADJUST (Bansal, Sanghavi 2025)",
    cost: Cost::Part,
    params: &[TOKENS_PER_STEP, TIMESTEPS, SHARING, EPS],
    build: |values| {
        let missing = || Error::Missing {
            strategy: "adjust".into(),
            what: "a trained sampler: put sampler.safetensors into the checkpoint's folder, or train one"
                .into(),
        };
        let layer = values.context.sampler.clone().ok_or_else(missing)?;
        Ok(Box::new(Adjusted { layer, schedule: Schedule::of(values)? }))
    },
};

struct Adjusted {
    layer: Arc<Adjust>,
    schedule: Schedule,
}

impl Strategy for Adjusted {
    fn needs(&self) -> Needs {
        let hidden = Some(self.layer.hidden_row);
        Needs { hidden, everywhere: true, keep: Keep::All, ..Needs::default() }
    }

    fn check(&self, options: &Options) -> Result<()> {
        if !["none", "auto"].contains(&options.cache.name()) {
            let why = "needs the hidden rows of all positions in every step; leave out the cache".into();
            return Err(Error::Refused { strategy: "adjust".into(), why });
        }
        if options.guidance != 0.0 {
            let why = "draws all but the first token of a step from rows that guidance does not reach; leave out the \
                       guidance"
                .into();
            return Err(Error::Refused { strategy: "adjust".into(), why });
        }
        Ok(())
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let missing =
            || Error::Missing { strategy: "adjust".into(), what: "hidden rows of all positions".into() };
        let first = kept_rows(step, "adjust")?;
        let mut hidden =
            step.hidden.filter(|h| h.len() == step.canvas.tokens().len()).ok_or_else(missing)?.clone();
        let mut tokens = step.canvas.tokens().to_vec();
        let mut rows = first.clone();
        let (count, mut inner_seconds) = (self.schedule.count(step), 0.0);
        let (mut chosen, mut drawn): (Vec<usize>, Vec<Drawn>) = (Vec::new(), Vec::new());
        while chosen.len() < count {
            let left: Vec<usize> = (0..step.masked.len()).filter(|i| !chosen.contains(i)).collect();
            let (index, candidate) = surest(step, &left, &rows);
            let token = candidate.token;
            let lse = step.marginals[index].raw.logsumexp;
            drawn.push(Drawn { token, probability: (first.row(index)[token as usize] - lse).exp() });
            chosen.push(index);
            tokens[step.masked[index]] = token;
            if chosen.len() < count {
                let begun = Instant::now();
                hidden = self.layer.forward(&step.probe.embed(&tokens)?, &hidden);
                rows = barred(step.probe.head(&masked(step, &hidden))?, first);
                inner_seconds += begun.elapsed().as_secs_f64();
            }
        }
        let stop = if count == step.masked.len() { Stop::AllTaken } else { Stop::Count };
        let inner_calls = count.saturating_sub(1);
        let (tokens, last) = (TokenRule::Given(drawn), self.schedule.is_last(step));
        let stop = Some(stop);
        Ok(Selection { chosen, tokens, stop, inner_calls, inner_seconds, last, ..Selection::default() })
    }
}

/// The mask of least entropy and what is drawn there.
fn surest(step: &Step<'_>, left: &[usize], rows: &Rows) -> (usize, Candidate) {
    let candidate = |&index: &usize| {
        let uniform = step.rng.uniform(Purpose::Token, step.index as u64, step.masked[index] as u64);
        let row = rows.row(index);
        (index, step.sampling.candidate(row, &softmax_stats(row), ScoreDtype::F32, uniform))
    };
    let all = left.iter().map(candidate);
    let best = all.reduce(|best, next| if next.1.entropy < best.1.entropy { next } else { best });
    best.unwrap_or_else(|| unreachable!("a mask is left"))
}

/// The rows that stand for the masks.
fn masked(step: &Step<'_>, hidden: &Rows) -> Rows {
    let data = step.masked.iter().flat_map(|&p| hidden.row(p)).copied().collect();
    Rows { data, width: hidden.width }
}

/// What could not be written before still cannot.
fn barred(mut rows: Rows, first: &Rows) -> Rows {
    let pairs = rows.data.iter_mut().zip(&first.data);
    pairs.filter(|(_, was)| **was == f32::NEG_INFINITY).for_each(|(now, _)| *now = f32::NEG_INFINITY);
    rows
}
