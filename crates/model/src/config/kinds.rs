//! What a [`Spec`](super::Spec) says about a layer beyond its sizes: who sees whom, which row predicts a position,
//! where norms stand, and how a block's feed-forward half is made.

use demask_kernels::Pointwise;

/// Who sees whom in attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Every row sees every row.
    Full,
    /// A row sees its own block and all blocks before it, so keys and values of a finished block are final.
    BlockCausal,
}

/// Where the blocks of a canvas are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The first token of the prompt: the prompt's tail may share a block with masks.
    Prompt,
    /// The first token of the response: the short block is the first of the prompt.
    Response,
}

/// Which row predicts a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shift {
    /// Row `i` predicts position `i`.
    None,
    /// Row `i-1` predicts position `i`, as in the autoregressive parent.
    Global,
    /// The same, and the first position of a block is decided alone, from the last row of the finished block before
    /// (Fast-dLLM v2).
    Block,
}

impl Shift {
    /// Whether a position is predicted by the row before it.
    pub fn is_some(self) -> bool {
        self != Self::None
    }
}

/// The boundaries of blocks on a canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Where the first whole block begins; a shorter one lies before it unless this is 0.
    first: usize,
    /// Rows of a block.
    length: usize,
}

impl Grid {
    /// Blocks of `length` rows (at least one), one of which begins at `start`.
    pub fn new(start: usize, length: usize) -> Self {
        let length = length.max(1);
        Self { first: start % length, length }
    }

    /// Rows of a block.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of the block that holds `row`.
    pub fn index(&self, row: usize) -> usize {
        match row.checked_sub(self.first) {
            Some(after) => after / self.length + usize::from(self.first > 0),
            None => 0,
        }
    }

    /// First row of the block that holds `row`.
    pub fn start(&self, row: usize) -> usize {
        row.checked_sub(self.first).map_or(0, |after| self.first + after / self.length * self.length)
    }

    /// One past the last row of the block that holds `row`.
    pub fn end(&self, row: usize) -> usize {
        row.checked_sub(self.first)
            .map_or(self.first, |after| self.first + (after / self.length + 1).saturating_mul(self.length))
    }
}

/// How rows are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// RMSNorm.
    Rms,
    /// LayerNorm, with a bias.
    Layer,
}

/// Where the norms of a block stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormPlace {
    /// Before each half, and once more behind the last block.
    Before,
    /// Behind each residual sum.
    Behind,
}

/// How a row knows its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Positions {
    /// Queries and keys are rotated by it.
    Rotary,
    /// A learned row is added to the token's.
    Learned,
}

/// The function inside a feed-forward half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `silu(gate(x)) · up(x)`.
    SiluGate,
    /// GELU with the error function.
    Gelu,
    /// GELU with a hyperbolic tangent.
    GeluTanh,
    /// The rectifier.
    Relu,
}

impl Activation {
    /// As a function of one number; a gated unit is none.
    pub(crate) fn pointwise(self) -> Option<Pointwise> {
        match self {
            Self::SiluGate => None,
            Self::Gelu => Some(Pointwise::Gelu),
            Self::GeluTanh => Some(Pointwise::GeluTanh),
            Self::Relu => Some(Pointwise::Relu),
        }
    }
}

/// The feed-forward half of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FeedForward<'a> {
    /// A gated MLP of this inner width, run by every row.
    Dense(usize),
    /// The same without a gate.
    Plain(usize),
    /// Many small ones, of which a row runs a few.
    Experts(&'a Experts),
}

/// A mixture of experts.
#[derive(Debug, Clone, PartialEq)]
pub struct Experts {
    /// Which layers have it; the others are dense.
    pub layers: Vec<bool>,
    /// Experts of a layer.
    pub count: usize,
    /// Experts a row runs.
    pub chosen: usize,
    /// Inner width of one.
    pub width: usize,
    /// Inner width of the expert that every row runs besides; 0 if there is none.
    pub shared: usize,
    /// How a row scores experts.
    pub scoring: Scoring,
    /// Consecutive experts form this many groups, of which only the best take part; 1 is no limit.
    pub groups: usize,
    /// Groups that take part.
    pub groups_chosen: usize,
    /// A learned number per expert is added to its score for the choice alone.
    pub bias: bool,
    /// The weights of the chosen experts are normalised to sum to 1.
    pub normalise: bool,
    /// What the weights are multiplied by then.
    pub scale: f32,
}

/// How scores come from the router's logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scoring {
    /// Each by itself.
    Sigmoid,
    /// All together.
    Softmax,
}

impl Experts {
    /// What contradicts itself, as (field, problem).
    pub(super) fn problem(&self, layers: usize) -> Option<(&'static str, String)> {
        let Self { count, chosen, groups, groups_chosen, .. } = *self;
        let sizes = [
            ("number of experts", count, 1 << 14),
            ("expert width", self.width, 1 << 20),
            ("number of expert groups", groups, 1 << 14),
        ];
        if let Some((what, value, limit)) = sizes.into_iter().find(|&(_, v, limit)| v == 0 || v > limit) {
            return Some((what, format!("{value} is not between 1 and {limit}")));
        }
        if self.shared > 1 << 20 {
            return Some(("shared expert width", format!("{} is too large", self.shared)));
        }
        if !count.is_multiple_of(groups) {
            return Some((
                "number of expert groups",
                format!("{groups} does not divide the {count} experts"),
            ));
        }
        if groups_chosen == 0 || groups_chosen > groups {
            let problem = format!("{groups_chosen} is not between 1 and the {groups} groups");
            return Some(("number of chosen groups", problem));
        }
        if groups > 1 && count / groups < 2 {
            return Some((
                "number of expert groups",
                format!("{groups} leaves fewer than 2 experts in each"),
            ));
        }
        let admitted = count / groups * groups_chosen;
        if chosen == 0 || chosen > admitted {
            let problem = format!("{chosen} is not between 1 and the {admitted} that may be chosen from");
            return Some(("number of chosen experts", problem));
        }
        if self.layers.len() != layers {
            let problem = format!("speaks of {} layers, the model has {layers}", self.layers.len());
            return Some(("moe_layer_freq", problem));
        }
        (!(self.scale.is_finite() && self.scale > 0.0))
            .then(|| ("routed_scaling_factor", format!("{} is not a positive number", self.scale)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_from_their_start() {
        let whole = Grid::new(0, 8);
        assert_eq!(
            [0, 7, 8, 23].map(|r| (whole.index(r), whole.start(r), whole.end(r))),
            [(0, 0, 8), (0, 0, 8), (1, 8, 16), (2, 16, 24)]
        );
        // A response that begins at 19 puts a short block of 3 first.
        let short = Grid::new(19, 8);
        assert_eq!(
            [0, 2, 3, 10, 11, 19].map(|r| (short.index(r), short.start(r), short.end(r))),
            [(0, 0, 3), (0, 0, 3), (1, 3, 11), (1, 3, 11), (2, 11, 19), (3, 19, 27)]
        );
    }
}
