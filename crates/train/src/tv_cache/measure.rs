//! Examples from canvases: one pass with everything masked, then every reveal, several canvases per forward pass.
//!
//! Memory is bounded by the token budget, and by the base logits of the examples that are measured together.

use std::borrow::Cow;
use std::ops::ControlFlow;

use demask_decode::batch::measured_together;
use demask_decode::dependency::{Dependency, Masked, Measure as Distance, Reveals};
use demask_decode::probe::BackboneProbe;
use demask_decode::rule::Before;
use demask_model::{Backbone, HiddenRow, Rows, Spec};

use super::format::{Example, Numbers, Stored};
use super::label::{self, Labels};
use super::mask::{self, Mask, randomness};
use super::settings::{Labelling, TvCacheSettings};
use super::source::Response;
use super::states::{Journey, Visited};
use crate::error::Result;

/// A canvas to measure.
pub(super) struct Masking<'a> {
    response: &'a Response,
    /// Prompt and response with its end; of a decoder's state what was decided, and what it finally wrote elsewhere.
    tokens: Cow<'a, [u32]>,
    /// The same with the mask applied.
    canvas: Vec<u32>,
    index: u32,
    mask: Mask,
    /// Hidden rows to keep, ascending.
    rows: Vec<usize>,
    /// The step before at the masks, of a decoder's state.
    before: Vec<Option<Before>>,
    /// Whether single tokens are revealed.
    reveals: bool,
    /// Whether it is labelled.
    labelled: bool,
}

impl Masking<'_> {
    /// The response it masks.
    pub(super) fn response(&self) -> &Response {
        self.response
    }

    /// The canvas with its masks.
    pub(super) fn canvas(&self) -> &[u32] {
        &self.canvas
    }

    /// Masked positions.
    pub(super) fn positions(&self) -> &[usize] {
        &self.mask.positions
    }

    /// Canvases that it puts through the backbone.
    pub(super) fn passes(&self) -> usize {
        let reveals = if self.reveals { self.mask.positions.len() * self.mask.draws as usize } else { 0 };
        1 + reveals + usize::from(self.labelled)
    }

    /// Tokens that it puts through the backbone.
    pub(super) fn tokens_through_backbone(&self) -> usize {
        self.passes() * self.tokens.len()
    }
}

/// All masks of a response; `tokens` are prompt and response with its end.
pub(super) fn tasks<'a>(
    settings: &TvCacheSettings,
    response: &'a Response,
    tokens: &'a [u32],
    spec: &Spec,
) -> Vec<Masking<'a>> {
    let rng = randomness(settings, &response.id);
    let whole = response.prompt.len()..tokens.len();
    let task = |index| {
        let place = mask::place(spec, rng, index, whole.clone());
        let mask = Mask::draw(settings, rng, index, place);
        let mut canvas = tokens.to_vec();
        mask.positions.iter().for_each(|&position| canvas[position] = spec.ids.mask);
        Masking::new(response, Cow::Borrowed(tokens), canvas, index, mask, settings)
    };
    (0..settings.masks_per_response).map(task).collect()
}

/// The states of a decoder's way to a response.
pub(super) fn visited<'a>(
    settings: &TvCacheSettings,
    response: &'a Response,
    Journey { states, text }: Journey,
    mask_id: u32,
) -> Vec<Masking<'a>> {
    let rng = randomness(settings, &response.id);
    let length = text.len() - response.prompt.len();
    let task = |(index, state): (usize, Visited)| {
        let Visited { canvas, masked, before } = state;
        let mut tokens = canvas.clone();
        for (token, &written) in tokens.iter_mut().zip(&text).filter(|(token, _)| **token == mask_id) {
            *token = written;
        }
        let ratio = masked.len() as f64 / length as f64;
        let mask = Mask::given(settings, rng, index as u32, ratio, masked);
        Masking { before, ..Masking::new(response, Cow::Owned(tokens), canvas, index as u32, mask, settings) }
    };
    states.into_iter().enumerate().map(task).collect()
}

impl<'a> Masking<'a> {
    fn new(
        response: &'a Response,
        tokens: Cow<'a, [u32]>,
        canvas: Vec<u32>,
        index: u32,
        mask: Mask,
        settings: &TvCacheSettings,
    ) -> Self {
        let mut rows = Vec::new();
        for row in [HiddenRow::I, HiddenRow::IMinusOne] {
            if settings.hidden.has(row) {
                rows.extend(mask.positions.iter().map(|&p| row.of(p)));
            }
        }
        rows.sort_unstable();
        rows.dedup();
        let (reveals, labelled) = (settings.measures_dependency(), settings.stability.is_some());
        Self { response, tokens, canvas, index, mask, rows, before: Vec::new(), reveals, labelled }
    }
}

/// How examples are measured.
pub(super) struct Measure<'a> {
    pub(super) backbone: &'a dyn Backbone,
    pub(super) settings: &'a TvCacheSettings,
    pub(super) token_budget: usize,
}

/// Gets the tasks that were measured together, those still to come, and the examples in order.
type Visit<'v, 'a> = dyn FnMut(&[Masking<'a>], &[Masking<'a>], Vec<Example>) -> Result<ControlFlow<()>> + 'v;

impl Measure<'_> {
    /// Measures tasks in order, as many at a time as the budget allows.
    pub(super) fn each<'a>(&self, tasks: &[Masking<'a>], visit: &mut Visit<'_, 'a>) -> Result<()> {
        let mut rest = tasks;
        while !rest.is_empty() {
            let (group, later) = rest.split_at(self.gather(rest));
            if visit(group, later, self.together(group)?)?.is_break() {
                return Ok(());
            }
            rest = later;
        }
        Ok(())
    }

    /// How many of the first tasks are measured together; at least one.
    fn gather(&self, tasks: &[Masking<'_>]) -> usize {
        let sizes = tasks.iter().map(|task| (task.tokens_through_backbone(), task.mask.positions.len()));
        measured_together(sizes, self.token_budget, self.backbone.spec().vocab)
    }

    /// One base pass for all tasks, then the reveals of all.
    fn together(&self, tasks: &[Masking<'_>]) -> Result<Vec<Example>> {
        let probe = BackboneProbe::new(self.backbone, self.token_budget);
        let canvases: Vec<Masked<'_>> = tasks.iter().map(masked).collect();
        let bases = Reveals::measure_each(&probe, &canvases)?;
        let mask_id = self.backbone.spec().ids.mask;
        let labels = match self.settings.stability {
            None => vec![Labels::default(); tasks.len()],
            Some(Labelling { gamma, .. }) => {
                let states = tasks.iter().zip(&bases);
                let states: Vec<_> = states.map(|(t, b)| (b, t.canvas.as_slice(), t.positions())).collect();
                label::label(&probe, &states, gamma, mask_id)?
            }
        };
        if !self.settings.measures_dependency() {
            let each = tasks.iter().zip(&bases).zip(&labels);
            return Ok(each
                .map(|((task, base), labels)| {
                    let example = example(task, 0, &[], &Dependency::default(), base.hidden(), self.settings);
                    with_labels(example, task, labels)
                })
                .collect());
        }
        let mut draws = Vec::new();
        for ((task, base), labels) in tasks.iter().zip(&bases).zip(&labels) {
            let rng = randomness(self.settings, &task.response.id);
            for draw in 0..task.mask.draws {
                let revealed =
                    base.draw_with(&probe, rng, u64::from(task.index), u64::from(draw), mask_id)?;
                draws.push((task, draw, base, revealed, labels));
            }
        }
        let reveals: Vec<(&Reveals<'_>, &[u32])> =
            draws.iter().map(|(_, _, base, y, _)| (*base, y.as_slice())).collect();
        let measured: Vec<(Dependency, Option<Dependency>)> = if self.settings.divergence {
            let both = [Distance::TotalVariation, Distance::Divergence];
            let all = Reveals::reveal_all(both, &probe, &reveals)?;
            all.into_iter().map(|[tv, kl]| (tv, Some(kl))).collect()
        } else {
            Reveals::reveal_each(&probe, &reveals)?.into_iter().map(|tv| (tv, None)).collect()
        };
        let examples = draws.iter().zip(&measured).map(|((task, draw, base, revealed, labels), (tv, kl))| {
            let divergence = kl.as_ref().map(|kl| Numbers::new(Stored::F16, kl.data()));
            let example = example(task, *draw, revealed, tv, base.hidden(), self.settings);
            with_labels(Example { divergence, ..example }, task, labels)
        });
        Ok(examples.collect())
    }
}

fn with_labels(example: Example, task: &Masking<'_>, labels: &Labels) -> Example {
    if !task.labelled {
        return example;
    }
    let opinions = Some(label::stored(&labels.opinions, &task.before));
    Example { opinions, changes: labels.changes.clone(), ..example }
}

fn masked<'t>(task: &'t Masking<'_>) -> Masked<'t> {
    let rows = (!task.rows.is_empty()).then_some(task.rows.as_slice());
    Masked { tokens: &task.canvas, masked: &task.mask.positions, rows }
}

fn example(
    task: &Masking<'_>,
    draw: u32,
    revealed: &[u32],
    dependency: &Dependency,
    hidden: Option<&Rows>,
    settings: &TvCacheSettings,
) -> Example {
    let gather = |which: HiddenRow| {
        let hidden = hidden?;
        let mut rows = Vec::with_capacity(task.mask.positions.len() * hidden.width);
        for &position in &task.mask.positions {
            let index = task.rows.partition_point(|&row| row < which.of(position));
            rows.extend_from_slice(hidden.row(index));
        }
        Some(Numbers::new(settings.hidden_dtype, &rows))
    };
    Example {
        id: task.response.id.clone(),
        mask: task.index,
        draw,
        ratio: task.mask.ratio as f32,
        prompt: task.response.prompt.len(),
        tokens: task.tokens.to_vec(),
        positions: task.mask.positions.clone(),
        revealed: revealed.to_vec(),
        dependency: Numbers::new(Stored::F16, dependency.data()),
        divergence: None,
        hidden_i: if settings.hidden.has(HiddenRow::I) { gather(HiddenRow::I) } else { None },
        hidden_i_minus_1: if settings.hidden.has(HiddenRow::IMinusOne) {
            gather(HiddenRow::IMinusOne)
        } else {
            None
        },
        opinions: None,
        changes: Vec::new(),
    }
}
