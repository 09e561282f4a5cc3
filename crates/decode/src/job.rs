//! One canvas on its way to text: its strategy with state, randomness, block, and what it cost.

use std::ops::Range;

use demask_model::{Query, Reuse, Shadow, Spec};

use crate::cache::{CacheSpec, Moment, RowCache, ranges};
use crate::canvas::{Canvas, Cell, EosPolicy, Pick};
use crate::error::{Error, Result};
use crate::marginals::{Marginal, Suppression};
use crate::observer::Observer;
use crate::rng::Rng;
use crate::sampler::Sampling;
use crate::strategy::{BlockStep, Context, Extent, Needs, Selection, Strategy, StrategySpec, TokenRule};
use crate::trace::{Commit, DependencyRecord, Seconds, StepRecord};

/// How a canvas is decoded, apart from the strategy.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Token drawing.
    pub sampling: Sampling,
    /// What an end-of-sequence does.
    pub eos: EosPolicy,
    /// Decode left to right in blocks of this many positions; `None` decodes all at once.
    pub block_length: Option<usize>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Tells requests of one seed apart.
    pub stream: u64,
    /// Tokens that must not appear.
    pub suppression: Suppression,
    /// Classifier-free guidance: `z = z_un + (1 + guidance)·(z − z_un)`, where the unconditional pass
    /// sees masks in place of everything given. 0 is off; otherwise a step costs two passes.
    pub guidance: f32,
    /// Keys and values kept between steps.
    pub cache: CacheSpec,
}

/// What a decoding cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Steps of Algorithm 1.
    pub steps: usize,
    /// Forward passes, extra ones included (NFE).
    pub forwards: usize,
    /// Tokens written by steps (not by EOS filling), less those masked again.
    pub committed: usize,
    /// Seconds by phase.
    pub seconds: Seconds,
}

/// A canvas being decoded.
pub struct Job {
    pub(crate) canvas: Canvas,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) options: Options,
    pub(crate) rng: Rng,
    pub(crate) totals: Totals,
    place: BlockStep,
    pub(crate) cache: Option<RowCache>,
    spec: StrategySpec,
    observer: Box<dyn Observer>,
    stopped: bool,
    step_limit: usize,
    /// Blocks whose schedule is over, whether or not they still hold masks.
    passed: usize,
}

impl Job {
    /// A job with a fresh strategy.
    pub fn new(
        canvas: Canvas,
        spec: &StrategySpec,
        context: &Context,
        options: Options,
        observer: Box<dyn Observer>,
    ) -> Result<Self> {
        options.sampling.check()?;
        if !options.guidance.is_finite() || options.guidance < 0.0 {
            return Err(Error::BadValue {
                what: "cfg".into(),
                value: options.guidance.to_string(),
                why: "must be 0 or more".into(),
            });
        }
        if options.suppression.eos_penalty.is_nan() {
            return Err(Error::BadValue {
                what: "eos-penalty".into(),
                value: "NaN".into(),
                why: "must be a number".into(),
            });
        }
        if options.block_length == Some(0) {
            return Err(Error::BadValue {
                what: "block-length".into(),
                value: "0".into(),
                why: "must be at least 1".into(),
            });
        }
        let length = canvas.response().len();
        let count = options.block_length.map_or(1, |b| length.div_ceil(b));
        let asked =
            spec.given().iter().find(|(k, _)| *k == "steps").and_then(|(_, v)| v.parse().ok()).unwrap_or(0);
        Ok(Self {
            rng: Rng::new(options.seed, options.stream),
            strategy: spec.build(context)?,
            place: BlockStep { index: usize::MAX, count, step: 0, entered_with: 0 },
            cache: options.cache.policy().map(RowCache::new),
            spec: spec.clone(),
            canvas,
            options,
            totals: Totals::default(),
            observer,
            stopped: false,
            step_limit: 64 + 8 * length + asked,
            passed: 0,
        })
    }

    /// The canvas.
    pub fn canvas(&self) -> &Canvas {
        &self.canvas
    }

    /// The strategy's spelling.
    pub fn spec(&self) -> &StrategySpec {
        &self.spec
    }

    /// How it is decoded, apart from the strategy.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What it cost so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether no mask is left, or the observer ended it.
    pub fn is_done(&self) -> bool {
        self.stopped || self.canvas.is_done()
    }

    /// Whether the observer ended it before the last mask was gone.
    pub fn was_stopped(&self) -> bool {
        self.stopped && !self.canvas.is_done()
    }

    pub(crate) fn needs(&self) -> Needs {
        self.strategy.needs()
    }

    /// The left-most block that has masks and whose schedule is not over, the masks up to its end (its own, and any that
    /// an earlier block's schedule left behind), and where the next step stands.
    fn enter(&self) -> (Range<usize>, Vec<usize>, BlockStep) {
        let response = self.canvas.response();
        let length = self.options.block_length.unwrap_or(response.len());
        let first = self.canvas.masked(response.clone()).first().copied().unwrap_or(response.start);
        let index = ((first - response.start) / length).max(self.passed);
        let start = response.start + index * length;
        let block = start..(start + length).min(response.end);
        let masked = self.canvas.masked(response.start..block.end);
        let place = if self.place.index == index {
            BlockStep { step: self.place.step + 1, ..self.place }
        } else {
            let entered_with = self.canvas.masked(block.clone()).len();
            BlockStep { index, step: 0, entered_with, ..self.place }
        };
        (block, masked, place)
    }

    /// What the next step asks of the backbone. Only a step that was done moves the job, so a failed one may be
    /// tried again.
    pub(crate) fn ask(&self, spec: &Spec) -> Ask {
        let (block, masked, place) = self.enter();
        let needs = self.needs();
        let length = self.canvas.tokens().len();
        let rows = match &self.cache {
            None => (0..length).collect(),
            Some(cache) => {
                let predicting = masked.iter().map(|&p| spec.predicting_row(p));
                let hidden = needs.hidden.iter().flat_map(|row| masked.iter().map(move |&p| row.of(p)));
                let needed: Vec<usize> = predicting.chain(hidden).collect();
                let (canvas, step) = (&self.canvas, self.totals.steps);
                cache.plan(&Moment { canvas, block: &block, place, step }, &needed)
            }
        };
        // Of other positions there is an opinion only where their rows are computed.
        let cells = self.canvas.cells();
        let fresh = |&p: &usize| rows.len() == length || rows.binary_search(&spec.predicting_row(p)).is_ok();
        let ahead = if needs.ahead { block.end..self.canvas.response().end } else { 0..0 };
        let ahead = self.canvas.masked(ahead);
        let decided: Vec<usize> = match needs.decided {
            Extent::Nothing => Vec::new(),
            Extent::Block => {
                block.clone().filter(|&p| !matches!(cells[p], Cell::Masked | Cell::Fixed)).collect()
            }
            Extent::Canvas => (0..block.end).filter(|&p| cells[p] != Cell::Masked).collect(),
        };
        let committed = |&p: &usize| matches!(cells[p], Cell::Committed { .. });
        let verify = block.clone().filter(|p| needs.verify && committed(p)).collect();
        let others = ahead.into_iter().chain(decided).filter(fresh);
        let predict = masked.iter().copied().chain(others).collect();
        let unconditional = (self.options.guidance != 0.0).then(|| {
            let hide = |(&token, cell): (&u32, &Cell)| {
                if *cell == Cell::Fixed { self.canvas.ids().mask } else { token }
            };
            self.canvas.tokens().iter().zip(cells).map(hide).collect()
        });
        Ask { place, block, masked, predict, verify, rows, unconditional }
    }

    /// The queries of a step: the canvas, and the unconditional one where guidance asks for it.
    pub(crate) fn queries<'a>(&'a mut self, ask: &'a Ask) -> impl Iterator<Item = Query<'a>> {
        let needs = self.needs();
        let (own, guide) = match &mut self.cache {
            None => (None, None),
            Some(cache) => (Some(&mut cache.rows), Some(&mut cache.guide)),
        };
        let (own, guide) = (
            own.map(|cache| Reuse { cache, rows: &ask.rows }),
            guide.map(|cache| Reuse { cache, rows: &ask.rows }),
        );
        let query = Query {
            tokens: self.canvas.tokens(),
            predict: &ask.predict,
            hidden: needs.hidden.map(|row| (ask.masked.as_slice(), row)),
            attention_layers: needs.attention_layers,
            cache: own,
            shadow: (!ask.verify.is_empty())
                .then(|| Shadow { block: ask.block.clone(), verify: &ask.verify }),
        };
        let guided = ask.unconditional.as_ref().map(|tokens| Query {
            tokens,
            predict: &ask.predict,
            cache: guide,
            ..Query::default()
        });
        std::iter::once(query).chain(guided)
    }

    /// Phase 3: writes the tokens of the selection, applies the EOS policy, tells the observer.
    pub(crate) fn commit(&mut self, step: Decided<'_>) -> Result<()> {
        let Decided { ask, marginals, selection, forwards, seconds } = step;
        let Ask { block, masked, rows, .. } = ask;
        self.place = ask.place;
        if let Some(cache) = &mut self.cache {
            cache.computed(rows, self.canvas.tokens());
        }
        let picks: Vec<Pick> =
            selection.chosen.iter().map(|&i| pick(masked[i], &marginals[i], selection.tokens)).collect();
        let commits: Vec<Commit> = selection
            .chosen
            .iter()
            .zip(&picks)
            .map(|(&i, p)| Commit {
                position: p.position,
                token: p.token,
                confidence: p.confidence,
                probability: match selection.tokens {
                    TokenRule::Argmax => marginals[i].raw.top1,
                    TokenRule::Sampled => marginals[i].candidate.raw,
                },
            })
            .collect();
        let mask = self.canvas.ids().mask;
        let commits: Vec<Commit> = commits.into_iter().filter(|c| c.token != mask).collect();
        let filled = self.canvas.commit(self.totals.steps, &picks, block, self.options.eos);
        // What an end of sequence has just filled is not undone.
        let remasked: Vec<usize> = selection.remask.into_iter().filter(|p| !filled.contains(p)).collect();
        self.canvas.remask(&remasked);
        if selection.last {
            self.passed = self.place.index + 1;
            if self.passed == self.place.count {
                self.canvas.abandon(self.canvas.response());
            }
        }
        let dependency = selection.dependency.filter(|_| self.observer.wants_dependency());
        let record = StepRecord {
            step: self.totals.steps,
            block: self.place.index,
            masked: masked.len(),
            commits,
            filled,
            remasked,
            stop: selection.stop,
            budget: selection.budget,
            dependency: dependency.map(|d| DependencyRecord {
                positions: masked.clone(),
                values: d.data().iter().map(|v| (v * 1e4).round() / 1e4).collect(),
            }),
            forwards,
            computed_rows: rows.len(),
            rows: ranges(rows),
            seconds,
        };
        self.totals.steps += 1;
        self.totals.forwards += forwards;
        self.totals.committed += record.commits.len();
        self.totals.committed -= record.remasked.len();
        self.totals.seconds += seconds;
        self.stopped |= self.observer.on_step(&record, &self.canvas).is_break();
        self.stalled().map_or(Ok(()), Err)
    }

    /// The error of a canvas that took more steps than any sensible decoding does and still has masks.
    pub fn stalled(&self) -> Option<Error> {
        (!self.is_done() && self.totals.steps >= self.step_limit).then(|| Error::Stalled {
            strategy: self.spec.to_string(),
            masked: self.canvas.masked(self.canvas.response()).len(),
            steps: self.totals.steps,
        })
    }
}

/// What a step asks of the backbone.
pub(crate) struct Ask {
    pub(crate) place: BlockStep,
    pub(crate) block: Range<usize>,
    /// The paper's `M`.
    pub(crate) masked: Vec<usize>,
    /// Positions to predict: the masks, then the decided ones that the strategy wants to see.
    pub(crate) predict: Vec<usize>,
    /// Committed positions of the block that the strategy wants to verify.
    pub(crate) verify: Vec<usize>,
    /// Rows computed afresh; all of them without a cache.
    pub(crate) rows: Vec<usize>,
    /// The canvas with everything that was given masked, where guidance asks for it.
    pub(crate) unconditional: Option<Vec<u32>>,
}

/// A step whose positions are chosen.
pub(crate) struct Decided<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) marginals: &'a [Marginal],
    pub(crate) selection: Selection,
    pub(crate) forwards: usize,
    pub(crate) seconds: Seconds,
}

fn pick(position: usize, marginal: &Marginal, rule: TokenRule) -> Pick {
    let token = match rule {
        TokenRule::Sampled => marginal.candidate.token,
        TokenRule::Argmax => marginal.raw.argmax as u32,
    };
    Pick { position, token, confidence: marginal.raw.top1 }
}
