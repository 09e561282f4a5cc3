//! CLAD: candidates in clusters, and attention between clusters as conflict. Masks whose confidence reaches a threshold
//! are candidates (at least the best); neighbouring candidates form a run. Two runs conflict if each is the other's
//! closest by `S_ab = max_{i∈a} mean_{j∈b} max(A_ij, A_ji)`, taken in both directions, and that is at least the mean over
//! the others for both (three runs or more) or at least `conflict/L` (exactly two). Of two that conflict the longer is
//! unmasked; everything else is.
//!
//! Strictness: `≥` everywhere. Ties: the earlier run, and the closest with the lowest number. Attention rows are those of
//! the positions themselves, even in models that predict from the row before, as in DAWN.

use demask_model::Rows;

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, attention, passing};
use crate::strategy::{Needs, Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "clad",
    aliases: &[],
    summary: "unmask runs of confident neighbours, but of two runs that attend to each other most only the longer",
    source: "CLAD (Qi et al. 2026)",
    cost: Cost::Attention,
    params: &[
        Param {
            key: "threshold",
            default: "0.7",
            kind: Kind::Number(0.0, 1.0),
            help: "least confidence of a candidate (≥)",
        },
        Param {
            key: "layers",
            default: "4",
            kind: Kind::Count,
            help: "last layers whose attention is averaged",
        },
        Param {
            key: "conflict",
            default: "1.2",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "two runs conflict from this many times the mean attention (≥)",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Clad {
            threshold: values.number("threshold") as f32,
            layers: values.count("layers").unwrap_or(4),
            conflict: values.number("conflict") as f32,
            confidence: Confidence::of(values),
        }))
    },
};

struct Clad {
    threshold: f32,
    layers: usize,
    conflict: f32,
    confidence: Confidence,
}

impl Strategy for Clad {
    fn needs(&self) -> Needs {
        Needs { attention_layers: self.layers, ..Needs::default() }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores = self.confidence.all(step);
        let candidates = passing(&scores, |_| true, |i| scores[i] >= self.threshold);
        let mut positions: Vec<usize> = candidates.chosen.iter().map(|&i| step.masked[i]).collect();
        positions.sort_unstable();
        let kept = without_conflicts(attention(step, "clad")?, &positions, self.conflict);
        let is_kept = |&i: &usize| kept.binary_search(&step.masked[i]).is_ok();
        let chosen: Vec<usize> = candidates.chosen.into_iter().filter(is_kept).collect();
        let all = chosen.len() == scores.len();
        let stop = if all { Some(Stop::AllTaken) } else { candidates.stop.filter(|s| *s != Stop::AllTaken) };
        Ok(Selection { chosen, stop: stop.or(Some(Stop::NoCandidate)), ..Selection::default() })
    }
}

/// Maximal stretches of neighbouring candidates (ascending).
fn runs(candidates: &[usize]) -> Vec<&[usize]> {
    candidates.chunk_by(|a, b| a + 1 == *b).collect()
}

/// The candidates (ascending) of all runs that are not the shorter of two in conflict.
fn without_conflicts(attention: &Rows, candidates: &[usize], conflict: f32) -> Vec<usize> {
    let runs = runs(candidates);
    let count = runs.len();
    let mutual = |i: usize, j: usize| attention.row(i)[j].max(attention.row(j)[i]);
    let near = |a: &[usize], b: &[usize]| {
        let mean = |&i: &usize| b.iter().map(|&j| mutual(i, j)).sum::<f32>() / b.len() as f32;
        a.iter().map(mean).fold(0.0, f32::max)
    };
    let score = |a: usize, b: usize| near(runs[a], runs[b]).max(near(runs[b], runs[a]));
    let others = |a: usize| (0..count).filter(move |&b| b != a);
    let scores: Vec<Vec<f32>> =
        (0..count).map(|a| (0..count).map(|b| if a == b { 0.0 } else { score(a, b) }).collect()).collect();
    let closest = |a: usize| {
        others(a).fold(None, |best: Option<usize>, b| match best {
            Some(best) if scores[a][best] >= scores[a][b] => Some(best),
            _ => Some(b),
        })
    };
    let bar = |a: usize| match count {
        2 => conflict / attention.width as f32,
        _ => scores[a].iter().sum::<f32>() / (count - 1) as f32,
    };
    let loses = |a: usize| {
        let Some(b) = closest(a).filter(|&b| closest(b) == Some(a)) else { return false };
        let conflicts = scores[a][b] >= bar(a) && scores[a][b] >= bar(b);
        let (own, other) = (runs[a].len(), runs[b].len());
        conflicts && (own < other || (own == other && a > b))
    };
    (0..count).filter(|&a| !loses(a)).flat_map(|a| runs[a].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, build, fixture, indices, rows};

    #[test]
    fn kept_positions_are_those_of_the_reference() {
        let all = fixture("rivals-toy/clad.json");
        let conflict = all["conflict_abs_tau"].as_f64().unwrap() as f32;
        for case in all["cases"].as_array().unwrap() {
            let candidates = indices(&case["candidates"]);
            let ends: Vec<[usize; 2]> =
                runs(&candidates).iter().map(|run| [run[0], run[run.len() - 1]]).collect();
            assert_eq!(serde_json::json!(ends), case["clusters"]);
            let kept = without_conflicts(&rows(&case["attention"]), &candidates, conflict);
            assert_eq!(kept, indices(&case["kept"]));
        }
    }

    #[test]
    fn the_longer_of_two_runs_stays_and_equals_go_to_the_earlier() {
        // Positions 1, 2 and 4: runs {1, 2} and {4}; 4 attends to 1 by 0.5.
        let none: &[f32] = &[0.0; 5];
        let map = [none, none, none, none, &[0.0, 0.5, 0.0, 0.0, 0.0]];
        let run = |confidence: &[f32], text: &str| {
            let mut chosen = Scene::new(confidence).attending(&map).select(&mut *build(text)).chosen;
            chosen.sort_unstable();
            chosen
        };
        assert_eq!(run(&[0.8, 0.8, 0.1, 0.9], "clad:conflict=1"), [0, 1]);
        // The mean over the run is 0.25, the maximum over directions 0.5: 2.5/5 is reached, 2.6/5 is not.
        assert_eq!(run(&[0.8, 0.8, 0.1, 0.9], "clad:conflict=2.5"), [0, 1]);
        assert_eq!(run(&[0.8, 0.8, 0.1, 0.9], "clad:conflict=2.6"), [0, 1, 3]);
        // Runs {1} and {4}: equals, so the earlier.
        assert_eq!(run(&[0.8, 0.1, 0.1, 0.9], "clad:conflict=1"), [0]);
    }

    #[test]
    fn exactly_the_threshold_is_a_candidate_and_else_the_best_alone() {
        let map: Vec<&[f32]> = vec![&[0.0; 4]; 4];
        let run = |confidence: &[f32]| {
            Scene::new(confidence).attending(&map).select(&mut *build("clad:threshold=0.75"))
        };
        assert_eq!(run(&[0.75, 0.1, 0.74]).chosen, [0]);
        let none = run(&[0.3, 0.5, 0.5]);
        assert_eq!((none.chosen.as_slice(), none.stop), (&[1][..], Some(Stop::Fallback)));
    }
}
