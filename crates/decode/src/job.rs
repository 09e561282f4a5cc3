//! One canvas on its way to text: its strategy with state, randomness, block, and what it cost.

use std::sync::Arc;

use crate::ahead::Ahead;
use crate::assistant::{Assistant, Assisted};
use crate::cache::{CachePolicy, CacheSpec, RowCache, ranges};
use crate::canvas::{Canvas, EosPolicy, Pick};
use crate::clock::StepCost;
use crate::editing::Editing;
use crate::error::{Error, Result};
use crate::marginals::Suppression;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::registry::{Context, StrategySpec};
use crate::rng::Rng;
use crate::sampler::{Sampled, Sampling};
use crate::strategy::{BlockStep, Selection, Strategy};
use crate::trace::{Commit, DependencyRecord, Edit, Seconds, StepRecord};

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
    /// Decided tokens may be replaced.
    pub editing: Option<Editing>,
    /// Self-speculation: so many canvases that may come next are run beside each pass. The text is the same.
    pub speculate: usize,
}

impl Options {
    /// Refuses values outside their range.
    pub fn check(&self) -> Result<()> {
        self.sampling.check()?;
        let bad = |what: &str, value: String, why: &str| {
            Err(Error::BadValue { what: what.into(), value, why: why.into() })
        };
        if !self.guidance.is_finite() || self.guidance < 0.0 {
            return bad("guidance", self.guidance.to_string(), "must be 0 or more");
        }
        if self.suppression.eos_penalty.is_nan() {
            return bad("penalty on the end of sequence", "NaN".into(), "must be a number");
        }
        if self.block_length == Some(0) {
            return bad("block length", "0".into(), "must be at least 1");
        }
        if self.speculate > 64 {
            return bad("speculation", self.speculate.to_string(), "must be at most 64");
        }
        let kept = self.cache.policy().is_some_and(|policy| !policy.is_exact());
        let alone =
            [(kept, "a cache"), (self.guidance != 0.0, "guidance"), (self.editing.is_some(), "editing")];
        if let Some((_, other)) = alone.iter().find(|(set, _)| *set && self.speculate > 0) {
            return bad(
                "speculation",
                self.speculate.to_string(),
                &format!("cannot be combined with {other}"),
            );
        }
        self.editing.map_or(Ok(()), |editing| editing.check())
    }
}

/// What a decoding cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Steps of Algorithm 1.
    pub steps: usize,
    /// Forward passes, extra ones included (NFE).
    pub forwards: usize,
    /// Passes that were waited for: canvases that speculation runs side by side are one.
    #[serde(default)]
    pub rounds: usize,
    /// Rows that a second model computed.
    #[serde(default)]
    pub assistant_rows: usize,
    /// Calls of a small trained part (layer, policy, prior), besides whole passes.
    #[serde(default)]
    pub inner_calls: usize,
    /// Tokens written by steps (not by EOS filling), less those masked again.
    pub committed: usize,
    /// Seconds by phase.
    pub seconds: Seconds,
}

impl Totals {
    /// Adds a step.
    fn add(&mut self, record: &StepRecord) {
        self.steps += 1;
        self.forwards += record.forwards;
        self.rounds += usize::from(record.forwards > 0);
        self.assistant_rows += record.assistant_rows;
        self.inner_calls += record.inner_calls;
        self.committed += record.commits.len();
        self.committed -= record.remasked.len();
        self.seconds += record.seconds;
    }
}

/// A canvas being decoded.
pub struct Job {
    pub(crate) canvas: Canvas,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) options: Options,
    pub(crate) rng: Rng,
    pub(crate) totals: Totals,
    pub(crate) place: BlockStep,
    pub(crate) cache: Option<RowCache>,
    pub(crate) assistant: Option<Assisted>,
    /// What speculation has run already.
    pub(crate) ahead: Ahead,
    /// Blocks whose schedule is over, whether or not they still hold masks.
    pub(crate) passed: usize,
    /// Whether the block of the last step is still edited, with or without masks.
    pub(crate) held: bool,
    /// Passes over the block since its last mask was decided.
    post: usize,
    spelling: String,
    observer: Box<dyn Observer>,
    stopped: bool,
    step_limit: usize,
}

impl Job {
    /// A job with a fresh strategy, found by its name in the context's registry.
    pub fn new(
        canvas: Canvas,
        spec: &StrategySpec,
        context: &Context,
        options: Options,
        observer: Box<dyn Observer>,
    ) -> Result<Self> {
        let asked = spec.given().iter().find(|(k, _)| k == "steps").and_then(|(_, v)| v.parse().ok());
        let strategy = spec.build(context)?;
        let mut job = Self::with_strategy(canvas, &spec.to_string(), strategy, options, observer)?;
        job.step_limit = job.step_limit.saturating_add(asked.unwrap_or(0));
        if job.strategy.needs().assistant {
            let missing = || Error::NoAssistant { strategy: spec.name().into() };
            job = job.with_assistant(context.assistant.clone().ok_or_else(missing)?);
        }
        Ok(job)
    }

    /// With a second model that the strategy may ask.
    pub fn with_assistant(mut self, assistant: Arc<Assistant>) -> Self {
        self.assistant = Some(Assisted::new(assistant));
        self
    }

    /// A job with a strategy that was made elsewhere; `name` stands for it in traces and messages.
    pub fn with_strategy(
        canvas: Canvas,
        name: &str,
        strategy: Box<dyn Strategy>,
        options: Options,
        observer: Box<dyn Observer>,
    ) -> Result<Self> {
        options.check()?;
        strategy.check(&options)?;
        let window = strategy.needs().window;
        if window.is_some() && options.speculate > 0 {
            let why = format!("{name} keeps keys and values, which speculation cannot");
            return Err(Error::BadValue {
                what: "speculation".into(),
                value: options.speculate.to_string(),
                why,
            });
        }
        let kept = || options.cache.policy().filter(|_| options.speculate == 0);
        let policy = window.map(CachePolicy::trailing).or_else(kept);
        let length = canvas.response().len();
        // A block that is edited may be looked at again so often, whatever its length.
        let again = options.editing.map_or(0, |editing| editing.post_steps.saturating_mul(length));
        Ok(Self {
            rng: Rng::new(options.seed, options.stream),
            strategy,
            place: BlockStep { index: usize::MAX, ..BlockStep::default() },
            cache: policy.map(RowCache::new),
            assistant: None,
            ahead: Ahead::default(),
            spelling: name.to_owned(),
            canvas,
            options,
            totals: Totals::default(),
            observer,
            stopped: false,
            step_limit: (64 + 8 * length).saturating_add(again),
            passed: 0,
            held: false,
            post: 0,
        })
    }

    /// The canvas.
    pub fn canvas(&self) -> &Canvas {
        &self.canvas
    }

    /// The strategy as it is spelled.
    pub fn spelling(&self) -> &str {
        &self.spelling
    }

    /// How it is decoded, apart from the strategy.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What it cost so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether no mask is left and nothing is to be edited, or the observer ended it.
    pub fn is_done(&self) -> bool {
        self.stopped || (self.canvas.is_done() && !self.held)
    }

    /// Whether the observer ended it before the last mask was gone.
    pub fn was_stopped(&self) -> bool {
        self.stopped && !self.canvas.is_done()
    }

    /// Writes the tokens of a step, applies the EOS policy, masks again what is to be, tells the observer.
    pub(crate) fn commit(&mut self, step: Decided<'_>) -> Result<()> {
        let Decided { plan, picks, edits, selection, cost } = step;
        self.place = plan.place;
        if let Some(cache) = self.cache.as_mut().filter(|_| plan.cached) {
            cache.computed(&plan.rows, self.canvas.tokens());
        }
        let mask = self.canvas.ids().mask;
        let commits: Vec<Commit> =
            picks.iter().filter(|p| p.pick.token != mask).map(Sampled::commit).collect();
        let picks: Vec<_> = picks.iter().map(|p| p.pick).collect();
        // While a block is edited, an end of sequence in it is not final.
        let policy = self.options.eos.on(plan.grid.is_some());
        let waits = policy == EosPolicy::Stop && plan.grid.is_some() && !self.ends(plan, &picks);
        let eos = if waits || self.options.editing.is_some() { EosPolicy::None } else { policy };
        let mut filled = self.canvas.commit(self.totals.steps, &picks, &plan.block, eos);
        let was: Vec<u32> = edits.iter().map(|e| self.canvas.tokens()[e.position]).collect();
        self.canvas.edit(self.totals.steps, &edits);
        if let Some(editing) = self.options.editing {
            self.held = !self.leaves(plan, editing, edits.is_empty(), selection.last);
            if !self.held {
                self.passed = self.place.index + 1;
                filled = self.canvas.fill(&plan.block, policy);
            }
        }
        // What an end of sequence has just filled is not undone.
        let remasked: Vec<usize> = selection.remask.iter().copied().filter(|p| !filled.contains(p)).collect();
        self.canvas.remask(&remasked);
        if selection.last {
            self.passed = self.place.index + 1;
            if self.passed == self.place.count {
                self.canvas.abandon(self.canvas.response());
            }
        }
        let edit = |(e, was): (&Pick, u32)| Edit {
            position: e.position,
            token: e.token,
            was,
            confidence: e.confidence,
        };
        let edits = edits.iter().zip(was).map(edit).collect();
        let written = Written { commits, edits, filled, remasked };
        let record = self.record(plan, &selection, cost, written);
        self.totals.add(&record);
        self.stopped |= self.observer.on_step(&record, &self.canvas).is_break();
        self.stalled().map_or(Ok(()), Err)
    }

    /// Whether a pass commits an end of sequence, or the last masks of its block.
    fn ends(&self, plan: &Plan, picks: &[Pick]) -> bool {
        let left = self.canvas.masked(plan.block.clone());
        picks.iter().any(|pick| self.canvas.is_eos(pick.token))
            || left.iter().all(|&p| picks.iter().any(|pick| pick.position == p))
    }

    /// Whether a block that may be edited is over: a pass without masks changed nothing, or there were enough of them.
    fn leaves(&mut self, plan: &Plan, editing: Editing, quiet: bool, scheduled: bool) -> bool {
        if plan.place.step == 0 {
            self.post = 0;
        }
        let left = !self.canvas.masked(plan.block.clone()).is_empty();
        self.post += usize::from(!left);
        let nothing = plan.masked().is_empty() && quiet;
        scheduled || nothing || (!left && self.post > editing.post_steps)
    }

    fn record(&self, plan: &Plan, selection: &Selection, cost: StepCost, written: Written) -> StepRecord {
        let Written { commits, edits, filled, remasked } = written;
        let dependency = selection.dependency.as_ref().filter(|_| self.observer.wants_dependency());
        StepRecord {
            step: self.totals.steps,
            block: self.place.index,
            masked: plan.masked().len(),
            commits,
            filled,
            remasked,
            edits,
            stop: selection.stop,
            budget: selection.budget,
            dependency: dependency.map(|d| DependencyRecord {
                positions: plan.masked().to_vec(),
                values: d.data().iter().map(|v| (v * 1e4).round() / 1e4).collect(),
            }),
            forwards: cost.forwards,
            assistant_rows: cost.assistant_rows,
            inner_calls: selection.inner_calls,
            own_row: plan.own_row,
            computed_rows: plan.rows.len(),
            rows: ranges(&plan.rows),
            seconds: cost.seconds,
        }
    }

    /// The error of a canvas that took more steps than any sensible decoding does and still has masks.
    pub fn stalled(&self) -> Option<Error> {
        (!self.is_done() && self.totals.steps >= self.step_limit).then(|| Error::Stalled {
            strategy: self.spelling.clone(),
            masked: self.canvas.masked(self.canvas.response()).len(),
            steps: self.totals.steps,
        })
    }
}

/// A step whose tokens are drawn.
pub(crate) struct Decided<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) picks: Vec<Sampled>,
    /// Decided tokens that are replaced.
    pub(crate) edits: Vec<Pick>,
    pub(crate) selection: Selection,
    pub(crate) cost: StepCost,
}

/// What a step did to the canvas.
struct Written {
    commits: Vec<Commit>,
    edits: Vec<Edit>,
    filled: Vec<usize>,
    remasked: Vec<usize>,
}
