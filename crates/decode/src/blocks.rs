//! The blocks of a canvas: the order in which decoding goes from left to right and, under block-causal attention, who sees
//! whom.
//!
//! Numbers count the blocks that hold positions of the response, from 0. Under block-causal attention the first of them may
//! begin inside the prompt, whose tail then shares it with masks.

use std::ops::Range;

use demask_model::{Grid, Spec};

use crate::canvas::Canvas;

/// The blocks of one canvas.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    grid: Grid,
    response: Range<usize>,
    /// The grid of attention; `None` where every row sees every row.
    pub(crate) attention: Option<Grid>,
}

impl Blocks {
    /// Blocks of this length, else of the model's own; without either the response is one.
    pub(crate) fn of(canvas: &Canvas, length: Option<usize>, spec: &Spec) -> Self {
        let response = canvas.response();
        let attention = spec.grid(response.start, length);
        let own = || Grid::new(response.start, length.unwrap_or(response.len()));
        Self { grid: attention.unwrap_or_else(own), response, attention }
    }

    /// Number of the block that holds a position of the response.
    pub(crate) fn index(&self, position: usize) -> usize {
        self.grid.index(position) - self.grid.index(self.response.start)
    }

    /// Positions of the response in a block.
    pub(crate) fn range(&self, index: usize) -> Range<usize> {
        let first = self.grid.end(self.response.start);
        let end = first + index * self.grid.length();
        let start = if index == 0 { self.response.start } else { end - self.grid.length() };
        start.min(self.response.end)..end.min(self.response.end)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.index(self.response.end.saturating_sub(1).max(self.response.start)) + 1
    }

    /// Positions of a whole block.
    pub(crate) fn length(&self) -> usize {
        self.grid.length()
    }
}

#[cfg(test)]
mod tests {
    use demask_model::SpecialIds;
    use demask_model::config::{Origin, Visibility};

    use super::*;

    fn blocks(attention: Visibility, origin: Origin, length: Option<usize>) -> Blocks {
        let ids = SpecialIds { mask: 9, eos: vec![8], pad: None, bos: None };
        let canvas = Canvas::generate(&[1, 2, 3, 4, 5], 10, &ids).unwrap();
        let spec = Spec { attention, origin, block: Some(4), ..Spec::plain("x", ids) };
        Blocks::of(&canvas, length, &spec)
    }

    #[test]
    fn full_attention_counts_from_the_response() {
        let whole = blocks(Visibility::Full, Origin::Prompt, None);
        assert_eq!((whole.count(), whole.range(0)), (1, 5..15));
        let some = blocks(Visibility::Full, Origin::Prompt, Some(4));
        assert_eq!((some.count(), some.range(0), some.range(2)), (3, 5..9, 13..15));
        assert_eq!((some.index(8), some.index(9), some.attention), (0, 1, None));
    }

    #[test]
    fn block_causal_attention_counts_from_where_the_family_does() {
        let prompt = blocks(Visibility::BlockCausal, Origin::Prompt, None);
        assert_eq!(
            (prompt.count(), prompt.range(0), prompt.range(1), prompt.range(2)),
            (3, 5..8, 8..12, 12..15)
        );
        assert_eq!(prompt.attention, Some(Grid::new(0, 4)));
        let response = blocks(Visibility::BlockCausal, Origin::Response, Some(8));
        assert_eq!((response.count(), response.range(0), response.range(1)), (2, 5..13, 13..15));
    }
}
