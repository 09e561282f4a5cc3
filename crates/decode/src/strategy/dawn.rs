//! DAWN: attention of the last layers as a graph. An edge k → q stands for `A[q, k] ≥ edge`, after
//! attention sinks (keys that everybody attends to) and the diagonal are removed. Unmasked are
//!
//! - masks with confidence of at least `high`;
//! - masks induced by an anchor, a decided token the model is sure of (top-1 of at least `high` at its
//!   own position): an edge from an anchor and confidence of at least `induce`;
//! - of the other masks with confidence of at least `low`, a set without edges among them, the most
//!   confident first.
//!
//! Strictness: `≥`, but `>` for sinks. Fallback: the most confident mask; ties go left. Quirks of the
//! reference code: the third kind must not be adjacent to masks that are induced *and* high, nearly an
//! empty set, where *or* was probably meant (`shield=either`); kept as default. Its greedy loop goes on
//! after the last candidate and rewrites position 0; not kept. Attention rows are those of the
//! positions themselves, even in models that predict from the row before; kept.

use demask_model::Rows;

use crate::error::Result;
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, Seen, attention, independent, passing, top_k};
use crate::strategy::{Extent, Needs, Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "dawn",
    aliases: &[],
    summary: "unmask confident positions, those induced by sure tokens, and others without attention between them",
    source: "DAWN (2026)",
    cost: Cost::Attention,
    params: &[
        Param {
            key: "layers",
            default: "4",
            kind: Kind::Count,
            help: "last layers whose attention is averaged",
        },
        Param {
            key: "sink",
            default: "0.03",
            kind: Kind::Number(0.0, 1.0),
            help: "a key with more mean attention than this is a sink (>)",
        },
        Param {
            key: "edge",
            default: "0.1",
            kind: Kind::Number(0.0, 1.0),
            help: "attention that makes an edge (≥)",
        },
        Param {
            key: "high",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence that always passes (≥)",
        },
        Param {
            key: "induce",
            default: "0.75",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence of a mask with an edge from an anchor (≥)",
        },
        Param {
            key: "low",
            default: "0.8",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence of a mask without edges to others of its kind (≥)",
        },
        Param {
            key: "shield",
            default: "both",
            kind: Kind::Choice(&["both", "either"]),
            help: "others must not touch masks that are induced and high, or that are either",
        },
        SCORE,
    ],
    build: |values| {
        let number = |key: &str| values.number(key) as f32;
        Ok(Box::new(Dawn {
            layers: values.count("layers").unwrap_or(4),
            sink: number("sink"),
            edge: number("edge"),
            high: number("high"),
            induce: number("induce"),
            low: number("low"),
            either: values.text("shield") == "either",
            confidence: Confidence::of(values),
            seen: Seen::default(),
        }))
    },
};

struct Dawn {
    layers: usize,
    sink: f32,
    edge: f32,
    high: f32,
    induce: f32,
    low: f32,
    either: bool,
    confidence: Confidence,
    seen: Seen,
}

impl Strategy for Dawn {
    fn needs(&self) -> Needs {
        Needs { attention_layers: self.layers, decided: Extent::Canvas, ..Needs::default() }
    }

    fn on_logits(&mut self, _step: usize, rows: LogitRows<'_>) {
        self.seen.push(&rows);
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let (seen, attention) = (self.seen.latest(), attention(step, "dawn")?);
        let sinks = sinks(attention, self.sink);
        let edge =
            |key: usize, query: usize| key != query && !sinks[key] && attention.row(query)[key] >= self.edge;
        let sure = |&(position, top1): &(usize, f32)| {
            (top1 >= self.high && step.masked.binary_search(&position).is_err()).then_some(position)
        };
        let anchors: Vec<usize> = seen.iter().filter_map(sure).collect();
        let scores = self.confidence.all(step);
        let high: Vec<bool> = scores.iter().map(|&c| c >= self.high).collect();
        let induced: Vec<bool> = (0..scores.len())
            .map(|i| scores[i] >= self.induce && anchors.iter().any(|&a| edge(a, step.masked[i])))
            .collect();
        let touch = |i: usize, j: usize| {
            let (a, b) = (step.masked[i], step.masked[j]);
            edge(a, b) || edge(b, a)
        };
        let shield = |j: usize| if self.either { induced[j] || high[j] } else { induced[j] && high[j] };
        let candidate = |&i: &usize| {
            scores[i] >= self.low
                && !high[i]
                && !induced[i]
                && !(0..scores.len()).any(|j| shield(j) && touch(i, j))
        };
        let order: Vec<usize> = top_k(&scores, scores.len()).into_iter().filter(candidate).collect();
        let apart = independent(&order, touch);
        Ok(passing(&scores, |_| true, |i| high[i] || induced[i] || apart.contains(&i)))
    }
}

/// Which keys get more mean attention than `threshold`.
fn sinks(attention: &Rows, threshold: f32) -> Vec<bool> {
    let mut sums = vec![0.0_f32; attention.width];
    for row in attention.iter() {
        sums.iter_mut().zip(row).for_each(|(sum, a)| *sum += a);
    }
    sums.iter().map(|sum| sum / attention.len() as f32 > threshold).collect()
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::strategy::Stop;
    use crate::testing::{Scene, Silent, build, feed, logs};

    const TEXT: &str = "dawn:sink=1,edge=0.5,high=0.9,induce=0.7,low=0.8";

    /// Position 0 is the prompt, 1 to 3 are masks; the model's top-1 at position 0 is `anchor`.
    fn run(text: &str, anchor: f32, confidence: &[f32; 3], rows: &[&[f32]; 4]) -> (Vec<usize>, Stop) {
        let mut strategy = build(text);
        feed(&mut *strategy, 0, &[(0, &logs(&[anchor, 1.0 - anchor])), (1, &logs(&[0.95, 0.05]))]);
        let selection = Scene::new(confidence).attending(rows).select(&mut *strategy);
        (selection.chosen, selection.stop.unwrap())
    }

    const NONE: &[f32] = &[0.0; 4];

    #[test]
    fn an_anchor_induces_what_attends_to_it() {
        let rows = [NONE, NONE, &[0.5, 0.0, 0.0, 0.0], &[0.49, 0.0, 0.0, 0.0]];
        assert_eq!(run(TEXT, 0.95, &[0.2, 0.7, 0.7], &rows), (vec![1], Stop::NoCandidate));
        // The model is not sure of the token, or the mask not of its own.
        assert_eq!(run(TEXT, 0.85, &[0.2, 0.7, 0.7], &rows), (vec![1], Stop::Fallback));
        assert_eq!(run(TEXT, 0.95, &[0.8, 0.69, 0.1], &rows).0, [0]);
    }

    #[test]
    fn a_sink_makes_no_edge() {
        // Mean attention to position 0 is (0.5 + 0.5)/4 = 0.25: a sink above 0.24, not above 0.25.
        let rows = [NONE, NONE, &[0.5, 0.0, 0.0, 0.0], &[0.5, 0.0, 0.0, 0.0]];
        let text = |sink: &str| TEXT.replace("sink=1", &format!("sink={sink}"));
        assert_eq!(run(&text("0.25"), 0.95, &[0.75, 0.7, 0.7], &rows), (vec![1, 2], Stop::NoCandidate));
        assert_eq!(run(&text("0.24"), 0.95, &[0.75, 0.7, 0.7], &rows), (vec![0], Stop::Fallback));
    }

    #[test]
    fn high_confidence_passes_at_exactly_the_bar_and_others_stay_apart() {
        // 2 and 3 touch, in one direction only; the surer one stays.
        let rows = [NONE, NONE, NONE, &[0.0, 0.0, 0.6, 0.0]];
        assert_eq!(run(TEXT, 0.5, &[0.9, 0.8, 0.85], &rows), (vec![0, 2], Stop::NoCandidate));
        assert_eq!(run(TEXT, 0.5, &[0.9, 0.8, 0.8], &rows).0, [0, 1]);
        assert_eq!(run(TEXT, 0.5, &[0.9, 0.79, 0.8], &rows).0, [0, 2]);
    }

    #[test]
    fn the_shield_is_what_is_induced_and_high_or_either() {
        // Mask 1 is high, mask 2 attends to it.
        let rows = [NONE, NONE, &[0.0, 0.5, 0.0, 0.0], NONE];
        assert_eq!(run(TEXT, 0.95, &[0.95, 0.8, 0.1], &rows).0, [0, 1]);
        assert_eq!(run(&format!("{TEXT},shield=either"), 0.95, &[0.95, 0.8, 0.1], &rows).0, [0]);
        // Mask 1 is also induced by the prompt.
        let both = [NONE, &[0.5, 0.0, 0.0, 0.0], &[0.0, 0.5, 0.0, 0.0], NONE];
        assert_eq!(run(TEXT, 0.95, &[0.95, 0.8, 0.1], &both).0, [0]);
    }

    #[test]
    fn without_attention_it_says_so() {
        let error = Scene::new(&[0.5]).try_select(&mut *build("dawn"), &Silent).unwrap_err();
        assert!(matches!(error, Error::Missing { .. }), "{error}");
    }
}
