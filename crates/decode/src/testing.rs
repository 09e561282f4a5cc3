//! Steps written down by hand, for the unit tests of the strategies.

use demask_kernels::SoftmaxStats;
use demask_model::{Rows, SpecialIds};

use crate::canvas::{Canvas, Cell, EosPolicy, Pick};
use crate::error::Result;
use crate::marginals::{LogitRows, Marginal};
use crate::probe::{Probe, Question};
use crate::registry::{Context, StrategySpec};
use crate::rng::Rng;
use crate::sampler::{Candidate, Sampling};
use crate::strategy::{BlockStep, Selection, Step, Stop, Strategy};
use crate::trace::{Commit, Seconds, StepRecord};

/// The mask of every scene.
pub(crate) const MASK: u32 = 90;
/// The end of sequence of every scene.
pub(crate) const EOS: u32 = 91;

/// One step: a prompt token at position 0, then a response.
pub(crate) struct Scene {
    pub(crate) canvas: Canvas,
    /// Of the masked positions, in order.
    pub(crate) marginals: Vec<Marginal>,
    pub(crate) attention: Option<Rows>,
    /// Logits of the masks, where kept.
    pub(crate) rows: Option<Rows>,
    pub(crate) block: BlockStep,
    pub(crate) index: usize,
    pub(crate) seed: u64,
}

impl Scene {
    /// Masks at positions 1, 2, … with these top-1 probabilities; entropy is one minus that.
    pub(crate) fn new(confidence: &[f32]) -> Self {
        let ids = SpecialIds { mask: MASK, eos: vec![EOS], pad: None, bos: None };
        let canvas = Canvas::generate(&[5], confidence.len(), &ids).unwrap();
        Self::on(canvas, confidence)
    }

    /// As [`Self::new`], where `None` is a token that was given.
    pub(crate) fn gaps(cells: &[Option<f32>]) -> Self {
        let ids = SpecialIds { mask: MASK, eos: vec![EOS], pad: None, bos: None };
        let tokens = cells.iter().map(|c| if c.is_some() { MASK } else { 7 });
        let tokens: Vec<u32> = std::iter::once(5).chain(tokens).collect();
        let confidence: Vec<f32> = cells.iter().flatten().copied().collect();
        Self::on(Canvas::infill(&tokens, &ids).unwrap(), &confidence)
    }

    fn on(canvas: Canvas, confidence: &[f32]) -> Self {
        let marginals: Vec<Marginal> = confidence.iter().map(|&c| marginal(c, 1.0 - c)).collect();
        let block = BlockStep {
            count: 1,
            entered_with: marginals.len(),
            length: marginals.len(),
            ..BlockStep::default()
        };
        Self { canvas, marginals, attention: None, rows: None, block, index: 0, seed: 0 }
    }

    /// The same masks with these entropies.
    pub(crate) fn entropies(mut self, entropies: &[f32]) -> Self {
        for (marginal, &entropy) in self.marginals.iter_mut().zip(entropies) {
            marginal.raw.entropy = entropy;
        }
        self
    }

    /// Mean attention, one row per query of the whole canvas.
    pub(crate) fn attending(mut self, rows: &[&[f32]]) -> Self {
        self.attention = Some(Rows { data: rows.concat(), width: rows.len() });
        self
    }

    pub(crate) fn masked(&self) -> Vec<usize> {
        self.canvas.masked(self.canvas.response())
    }

    pub(crate) fn try_select(&self, strategy: &mut dyn Strategy, probe: &dyn Probe) -> Result<Selection> {
        strategy.select(&Step {
            index: self.index,
            block: self.block,
            canvas: &self.canvas,
            masked: &self.masked(),
            marginals: &self.marginals,
            rows: self.rows.as_ref(),
            sampling: &Sampling::default(),
            hidden: None,
            resident: None,
            attention: self.attention.as_ref(),
            rng: Rng::new(self.seed, 0),
            probe,
        })
    }

    pub(crate) fn select(&self, strategy: &mut dyn Strategy) -> Selection {
        self.try_select(strategy, &Silent).unwrap()
    }

    /// Selects, commits what was chosen (token 7 everywhere), masks again what is to be, and goes to
    /// the next step with these confidences of the masks that are left.
    pub(crate) fn advance(&mut self, strategy: &mut dyn Strategy, next: &[f32]) -> Selection {
        let selection = self.select(strategy);
        let masked = self.masked();
        let pick =
            |&i: &usize| Pick { position: masked[i], token: 7, confidence: self.marginals[i].raw.top1 };
        let picks: Vec<Pick> = selection.chosen.iter().map(pick).collect();
        let response = self.canvas.response();
        self.canvas.commit(self.index, &picks, &response, EosPolicy::None);
        self.canvas.remask(&selection.remask);
        self.marginals = next.iter().map(|&c| marginal(c, 1.0 - c)).collect();
        assert_eq!(self.masked().len(), next.len(), "confidences for the masks that are left");
        self.index += 1;
        self.block.step += 1;
        selection
    }

    /// Commits a token by hand.
    pub(crate) fn commit(&mut self, position: usize, token: u32, confidence: f32) {
        let masked = self.masked();
        let index = masked.iter().position(|&p| p == position).unwrap();
        let response = self.canvas.response();
        self.canvas.commit(0, &[Pick { position, token, confidence }], &response, EosPolicy::None);
        assert!(matches!(self.canvas.cells()[position], Cell::Committed { .. }));
        self.marginals.remove(index);
    }
}

/// Top-1 probability and entropy; the best token is 7 and is the sampler's candidate.
pub(crate) fn marginal(top1: f32, entropy: f32) -> Marginal {
    let raw = SoftmaxStats { max: 0.0, logsumexp: 0.0, argmax: 7, top1, top2: 0.0, entropy };
    let candidate = Candidate { token: 7, probability: top1, raw: top1, top1, margin: top1, entropy };
    Marginal { raw, candidate }
}

/// A strategy from its spelling.
pub(crate) fn build(text: &str) -> Box<dyn Strategy> {
    text.parse::<StrategySpec>().unwrap().build(&Context::default()).unwrap()
}

/// What a fresh strategy chooses among masks of these confidences, and why no more.
pub(crate) fn chosen(text: &str, confidence: &[f32]) -> (Vec<usize>, Stop) {
    let selection = Scene::new(confidence).select(&mut *build(text));
    (selection.chosen, selection.stop.unwrap())
}

/// Shows a strategy the logits of positions, one row each; returns what it made of them.
pub(crate) fn feed(strategy: &mut dyn Strategy, step: usize, rows: &[(usize, &[f32])]) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = rows.iter().map(|r| r.0).collect();
    let mut logits: Vec<f32> = rows.iter().flat_map(|r| r.1.iter().copied()).collect();
    let vocab = logits.len() / rows.len();
    strategy.on_logits(step, LogitRows { positions: &positions, logits: &mut logits });
    logits.chunks(vocab).map(<[f32]>::to_vec).collect()
}

/// Shows a strategy what the model would say at a committed position without its token.
pub(crate) fn verify(strategy: &mut dyn Strategy, canvas: &Canvas, position: usize, row: &[f32]) {
    strategy.on_verify(canvas, LogitRows { positions: &[position], logits: &mut row.to_vec() });
}

/// Logits of these probabilities.
pub(crate) fn logs(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

/// A probe that must not be asked; its vocabulary has 100 words.
pub(crate) struct Silent;

impl Probe for Silent {
    fn ask_each(
        &self,
        _: &[Question<'_>],
        _: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<Vec<Option<Rows>>> {
        unreachable!("this strategy asks nothing")
    }

    fn vocab(&self) -> usize {
        100
    }
}

/// A record of these commits, fills and remasks.
pub(crate) fn record(
    step: usize,
    commits: &[(usize, u32)],
    filled: &[usize],
    remasked: &[usize],
) -> StepRecord {
    let commit =
        |&(position, token): &(usize, u32)| Commit { position, token, confidence: 0.9, probability: 0.9 };
    StepRecord {
        step,
        block: 0,
        masked: 3,
        commits: commits.iter().map(commit).collect(),
        filled: filled.to_vec(),
        remasked: remasked.to_vec(),
        edits: Vec::new(),
        stop: None,
        budget: None,
        dependency: None,
        forwards: 1,
        assistant_rows: 0,
        inner_calls: 0,
        own_row: None,
        computed_rows: 2,
        rows: vec![(0, 2)],
        seconds: Seconds::default(),
    }
}

/// A golden file of the repository.
pub(crate) fn fixture(name: &str) -> serde_json::Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A matrix of a golden file.
pub(crate) fn rows(value: &serde_json::Value) -> Rows {
    let lists = value.as_array().unwrap();
    let data: Vec<f32> = lists.iter().flat_map(numbers).collect();
    Rows { width: data.len() / lists.len(), data }
}

/// Numbers of a golden file.
pub(crate) fn numbers(value: &serde_json::Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

/// Whole numbers of a golden file.
pub(crate) fn indices(value: &serde_json::Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect()
}
