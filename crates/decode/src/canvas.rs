//! The canvas: prompt, fixed tokens and masks, and the only place that writes tokens.
//!
//! Invariant: a fixed token never changes; every other position is masked, committed by a step, or
//! filled because an end of sequence stands before it.

use std::ops::Range;
use std::str::FromStr;

use demask_model::{Spec, SpecialIds};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What happens to the rest of a response once an end-of-sequence token is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EosPolicy {
    /// As the model's attention asks: [`Self::BlockFill`] where it goes block by block, else [`Self::FillAfter`].
    #[default]
    Auto,
    /// Every later position becomes EOS at once (section 5.1 of the paper; all methods alike).
    FillAfter,
    /// Nothing: masks after an EOS are decoded like any other (Dream's own loop).
    None,
    /// When a finished block holds an EOS, everything after the block becomes EOS.
    BlockFill,
    /// Decoding ends when no mask stands before the first EOS; later masks become EOS, tokens stay. Where attention goes
    /// block by block that is asked after a pass that committed an EOS and at the end of a block, as LLaDA2.0's loop asks.
    Stop,
}

impl EosPolicy {
    /// What it comes to on a model that attends block by block, or not.
    pub fn on(self, in_blocks: bool) -> Self {
        match self {
            Self::Auto if in_blocks => Self::BlockFill,
            Self::Auto => Self::FillAfter,
            other => other,
        }
    }
}

impl FromStr for EosPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "fill-after" => Ok(Self::FillAfter),
            "none" => Ok(Self::None),
            "block-fill" => Ok(Self::BlockFill),
            "stop" => Ok(Self::Stop),
            _ => Err(Error::BadValue {
                what: "eos".into(),
                value: text.into(),
                why: "must be auto, fill-after, none, block-fill or stop".into(),
            }),
        }
    }
}

/// A position's history.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    /// Given from outside; never changes.
    Fixed,
    /// Still to be decided.
    Masked,
    /// Decided in a step.
    Committed {
        /// The step.
        step: usize,
        /// Top-1 probability of the model at that moment.
        confidence: f32,
    },
    /// Set to EOS because of an EOS before it.
    Filled,
    /// Still a mask when the last schedule was over; only a model that predicts the mask itself,
    /// unsuppressed, gets there (LLaDA's own loop ends so).
    Abandoned,
}

/// A token to write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// Where.
    pub position: usize,
    /// What.
    pub token: u32,
    /// Top-1 probability of the model there.
    pub confidence: f32,
}

/// Tokens of one request while they are decided.
///
/// ```
/// use demask_decode::canvas::{Canvas, EosPolicy, Pick};
/// use demask_model::SpecialIds;
/// let ids = SpecialIds { mask: 9, eos: vec![8], pad: None, bos: None };
/// let mut canvas = Canvas::generate(&[1, 2], 3, &ids)?;
/// assert_eq!(canvas.tokens(), [1, 2, 9, 9, 9]);
/// let pick = |position, token| Pick { position, token, confidence: 1.0 };
/// let filled = canvas.commit(0, &[pick(2, 5), pick(3, 8)], &(2..5), EosPolicy::FillAfter);
/// assert_eq!((canvas.tokens(), filled), (&[1, 2, 5, 8, 8][..], vec![4]));
/// # Ok::<(), demask_decode::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Canvas {
    tokens: Vec<u32>,
    cells: Vec<Cell>,
    response: Range<usize>,
    /// How many positions of the response were asked for; what a last block holds beyond them is no answer.
    asked: usize,
    ids: SpecialIds,
}

impl Canvas {
    /// A prompt followed by `length` masks.
    pub fn generate(prompt: &[u32], length: usize, ids: &SpecialIds) -> Result<Self> {
        Self::with_room(prompt, length, length, ids)
    }

    /// A prompt followed by `length` masks, and by more up to the end of a block where the model attends block by block (in
    /// blocks of `block` positions, else of its own length): it knows only whole ones. The answer ends with `length`.
    pub fn in_blocks(
        prompt: &[u32],
        length: usize,
        block: Option<usize>,
        spec: &Spec,
        ids: &SpecialIds,
    ) -> Result<Self> {
        let grid = spec.grid(prompt.len(), block);
        let end = grid.map_or(0, |grid| grid.end((prompt.len() + length).saturating_sub(1)));
        let end = end.min(spec.max_positions).max(prompt.len() + length);
        Self::with_room(prompt, length, end - prompt.len(), ids)
    }

    fn with_room(prompt: &[u32], asked: usize, room: usize, ids: &SpecialIds) -> Result<Self> {
        let mut tokens = prompt.to_vec();
        tokens.resize(prompt.len() + room, ids.mask);
        let mut cells = vec![Cell::Fixed; prompt.len()];
        cells.resize(tokens.len(), Cell::Masked);
        Self::checked(Self { response: prompt.len()..tokens.len(), tokens, cells, asked, ids: ids.clone() })
    }

    /// Any text with masks anywhere: every mask token is to be decided, all else is fixed.
    pub fn infill(tokens: &[u32], ids: &SpecialIds) -> Result<Self> {
        let cells: Vec<_> =
            tokens.iter().map(|&t| if t == ids.mask { Cell::Masked } else { Cell::Fixed }).collect();
        let first = cells.iter().position(|c| *c == Cell::Masked).unwrap_or(0);
        let last = cells.iter().rposition(|c| *c == Cell::Masked).map_or(0, |p| p + 1);
        let asked = last - first;
        Self::checked(Self { tokens: tokens.to_vec(), cells, response: first..last, asked, ids: ids.clone() })
    }

    fn checked(canvas: Self) -> Result<Self> {
        if !canvas.ids.has_mask() {
            return Err(Error::Canvas(
                "this model has no mask token, so it cannot be decoded by diffusion; it can assist one that does".into(),
            ));
        }
        if canvas.is_done() {
            return Err(Error::Canvas("there is nothing to decode: the canvas has no mask".into()));
        }
        Ok(canvas)
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// History of every position.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// From the first to the last position that was masked at the start.
    pub fn response(&self) -> Range<usize> {
        self.response.clone()
    }

    /// Positions of the response that were asked for; the rest fills its last block.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// Where the response that was asked for lies: the canvas may go on to the end of its last block.
    pub fn asked_response(&self) -> Range<usize> {
        self.response.start..self.response.start + self.asked
    }

    /// The response that was asked for, up to and with its first EOS.
    pub fn answer(&self) -> &[u32] {
        let end = self.text_tokens().len();
        let ended = end < self.asked;
        &self.tokens[self.response.start..self.response.start + end + usize::from(ended)]
    }

    /// Special ids of the model.
    pub fn ids(&self) -> &SpecialIds {
        &self.ids
    }

    /// Whether a token ends the response.
    pub fn is_eos(&self, token: u32) -> bool {
        self.ids.eos.contains(&token)
    }

    /// Whether no mask is left.
    pub fn is_done(&self) -> bool {
        !self.cells.contains(&Cell::Masked)
    }

    /// Masked positions inside `range`, ascending: the paper's `M`.
    pub fn masked(&self, range: Range<usize>) -> Vec<usize> {
        range.filter(|&p| self.cells[p] == Cell::Masked).collect()
    }

    /// The response up to and without its first EOS.
    pub fn text_tokens(&self) -> &[u32] {
        let response = &self.tokens[self.asked_response()];
        let end = response.iter().position(|&t| self.is_eos(t)).unwrap_or(response.len());
        &response[..end]
    }

    /// Tokens of the text that steps have written: before its first end, given ones and masks left out. What is told as
    /// tokens per forward pass is this number over the passes, everywhere.
    pub fn written(&self) -> usize {
        let response = self.asked_response();
        let text = response.start..response.start + self.text_tokens().len();
        text.filter(|&position| matches!(self.cells[position], Cell::Committed { .. })).count()
    }

    /// Writes the picks of a step; `block` is the range being decoded. Returns positions that the
    /// EOS policy filled.
    pub fn commit(
        &mut self,
        step: usize,
        picks: &[Pick],
        block: &Range<usize>,
        eos: EosPolicy,
    ) -> Vec<usize> {
        for pick in picks {
            debug_assert!(self.cells[pick.position] != Cell::Fixed, "a fixed token was picked");
            if pick.token == self.ids.mask {
                continue;
            }
            self.tokens[pick.position] = pick.token;
            self.cells[pick.position] = Cell::Committed { step, confidence: pick.confidence };
        }
        self.fill(block, eos)
    }

    /// Replaces decided tokens.
    pub(crate) fn edit(&mut self, step: usize, picks: &[Pick]) {
        for pick in picks {
            debug_assert!(matches!(self.cells[pick.position], Cell::Committed { .. }), "nothing to edit");
            self.tokens[pick.position] = pick.token;
            self.cells[pick.position] = Cell::Committed { step, confidence: pick.confidence };
        }
    }

    /// Gives up the masks that are left in `range`.
    pub fn abandon(&mut self, range: Range<usize>) {
        for position in self.masked(range) {
            self.cells[position] = Cell::Abandoned;
        }
    }

    /// Masks committed positions again.
    pub fn remask(&mut self, positions: &[usize]) {
        for &position in positions {
            debug_assert!(self.cells[position] != Cell::Fixed, "a fixed token was masked");
            self.tokens[position] = self.ids.mask;
            self.cells[position] = Cell::Masked;
        }
    }

    /// Applies the EOS policy; `block` is the range being decoded. Returns the positions it filled.
    pub(crate) fn fill(&mut self, block: &Range<usize>, eos: EosPolicy) -> Vec<usize> {
        let decided = |c: &Cell| matches!(c, Cell::Committed { .. });
        let ends = |p: &usize| decided(&self.cells[*p]) && self.is_eos(self.tokens[*p]);
        let Some(first) = self.response.clone().find(ends) else { return Vec::new() };
        let (from, overwrite) = match eos {
            EosPolicy::None => return Vec::new(),
            EosPolicy::Auto | EosPolicy::FillAfter => (first + 1, true),
            EosPolicy::Stop if self.masked(self.response.start..first).is_empty() => (first + 1, false),
            EosPolicy::Stop => return Vec::new(),
            EosPolicy::BlockFill if first < block.end && self.masked(block.clone()).is_empty() => {
                (block.end, true)
            }
            EosPolicy::BlockFill => return Vec::new(),
        };
        self.fill_from(from, overwrite)
    }

    /// Sets what follows to EOS, up to the next token that was given from outside: text behind an
    /// infilled gap is not part of the answer that ended.
    fn fill_from(&mut self, from: usize, overwrite: bool) -> Vec<usize> {
        let mut filled = Vec::new();
        for position in from..self.response.end {
            match self.cells[position] {
                Cell::Fixed => break,
                Cell::Filled | Cell::Abandoned => {}
                Cell::Committed { .. } if !overwrite => {}
                Cell::Committed { .. } if self.is_eos(self.tokens[position]) => {}
                Cell::Committed { .. } | Cell::Masked => {
                    self.tokens[position] = self.ids.eos[0];
                    self.cells[position] = Cell::Filled;
                    filled.push(position);
                }
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> SpecialIds {
        SpecialIds { mask: 1, eos: vec![2, 9], pad: None, bos: None }
    }

    fn pick(position: usize, token: u32) -> Pick {
        Pick { position, token, confidence: 0.5 }
    }

    #[test]
    fn fill_after_overwrites_what_follows_and_keeps_masks_before() {
        let mut canvas = Canvas::generate(&[5, 6], 5, &ids()).unwrap();
        let whole = canvas.response();
        canvas.commit(0, &[pick(6, 7)], &whole, EosPolicy::FillAfter);
        let filled = canvas.commit(1, &[pick(4, 9)], &whole, EosPolicy::FillAfter);
        assert_eq!(filled, [5, 6]);
        assert_eq!(canvas.tokens(), [5, 6, 1, 1, 9, 2, 2]);
        assert_eq!(canvas.masked(whole), [2, 3]);
    }

    #[test]
    fn none_leaves_everything() {
        let mut canvas = Canvas::generate(&[5], 3, &ids()).unwrap();
        assert!(canvas.commit(0, &[pick(1, 2)], &(1..4), EosPolicy::None).is_empty());
        assert_eq!(canvas.masked(1..4), [2, 3]);
    }

    #[test]
    fn block_fill_waits_for_the_block() {
        let mut canvas = Canvas::generate(&[5], 4, &ids()).unwrap();
        assert!(canvas.commit(0, &[pick(1, 2)], &(1..3), EosPolicy::BlockFill).is_empty());
        assert_eq!(canvas.commit(1, &[pick(2, 7)], &(1..3), EosPolicy::BlockFill), [3, 4]);
        assert!(canvas.is_done());
        assert_eq!(canvas.tokens(), [5, 2, 7, 2, 2]);
    }

    #[test]
    fn stop_waits_for_masks_before_and_keeps_tokens_after() {
        let mut canvas = Canvas::generate(&[5], 4, &ids()).unwrap();
        assert!(canvas.commit(0, &[pick(2, 2), pick(4, 8)], &(1..5), EosPolicy::Stop).is_empty());
        assert_eq!(canvas.commit(1, &[pick(1, 7)], &(1..5), EosPolicy::Stop), [3]);
        assert_eq!(canvas.tokens(), [5, 7, 2, 2, 8]);
    }

    #[test]
    fn infill_never_touches_given_tokens() {
        let mut canvas = Canvas::infill(&[5, 1, 1, 6, 1, 7], &ids()).unwrap();
        assert_eq!(canvas.response(), 1..5);
        assert_eq!(canvas.commit(0, &[pick(1, 2)], &(1..5), EosPolicy::FillAfter), [2]);
        assert_eq!(canvas.tokens(), [5, 2, 2, 6, 1, 7]);
        assert!(Canvas::infill(&[5, 6], &ids()).unwrap_err().to_string().contains("no mask"));
    }
}
