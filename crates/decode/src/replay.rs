//! A decoding told again from its records alone: what stands at every position after every step. The terminal, the HTML
//! view, the server's page and the audit all read this; nobody else applies a record.
//!
//! Invariant: a step that does not fit the canvas it claims to continue is refused and changes nothing.

use serde::Serialize;

use crate::canvas::Canvas;
use crate::trace::{StepRecord, TraceHeader};

/// What stands at a position.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Place {
    /// A token that was there before the first step.
    Given {
        /// The token.
        token: u32,
    },
    /// To be decided.
    Masked {
        /// The step that masked it again, if one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        again: Option<usize>,
    },
    /// A token that a step wrote.
    Committed {
        /// The token.
        token: u32,
        /// The step.
        step: usize,
        /// Top-1 probability of the model there.
        confidence: f32,
        /// Probability of the token.
        probability: f32,
        /// The token that an edit replaced, if this is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        was: Option<u32>,
    },
    /// An end of sequence that the policy put there.
    Filled {
        /// The step.
        step: usize,
    },
}

impl Place {
    /// Its token; a filled place holds the end of sequence.
    pub fn token(&self, mask: u32, eos: u32) -> u32 {
        match *self {
            Self::Given { token } | Self::Committed { token, .. } => token,
            Self::Masked { .. } => mask,
            Self::Filled { .. } => eos,
        }
    }

    /// Whether it is still to be decided.
    pub fn is_masked(&self) -> bool {
        matches!(self, Self::Masked { .. })
    }

    /// Whether this step wrote it.
    pub fn is_written_by(&self, number: usize) -> bool {
        matches!(self, Self::Committed { step, .. } if *step == number)
    }
}

/// A place that a step changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Where.
    pub position: usize,
    /// What stands there now.
    #[serde(flatten)]
    pub place: Place,
}

/// A canvas rebuilt from records.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    places: Vec<Place>,
}

impl Replay {
    /// The canvas that a trace begins with.
    pub fn new(header: &TraceHeader) -> Self {
        Self::begin(&header.tokens, header.mask)
    }

    /// A canvas that no step has touched.
    pub fn of(canvas: &Canvas) -> Self {
        Self::begin(canvas.tokens(), canvas.ids().mask)
    }

    fn begin(tokens: &[u32], mask: u32) -> Self {
        let place =
            |&token: &u32| if token == mask { Place::Masked { again: None } } else { Place::Given { token } };
        Self { places: tokens.iter().map(place).collect() }
    }

    /// What stands where.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Applies a step; returns what it changed, each position once. The error is a sentence about what does not fit.
    pub fn step(&mut self, record: &StepRecord) -> Result<Vec<Change>, String> {
        self.check(record)?;
        let step = record.step;
        let committed = record.commits.iter().map(|c| {
            let (token, confidence, probability) = (c.token, c.confidence, c.probability);
            let place = Place::Committed { token, step, confidence, probability, was: None };
            Change { position: c.position, place }
        });
        let edited = record.edits.iter().map(|e| {
            let (token, confidence, probability) = (e.token, e.confidence, e.confidence);
            let place = Place::Committed { token, step, confidence, probability, was: Some(e.was) };
            Change { position: e.position, place }
        });
        let filled = record.filled.iter().map(|&p| Change { position: p, place: Place::Filled { step } });
        let again = Place::Masked { again: Some(step) };
        let masked = record.remasked.iter().map(|&p| Change { position: p, place: again });
        let mut changed: Vec<usize> = Vec::new();
        for Change { position, place } in committed.chain(edited).chain(filled).chain(masked) {
            self.places[position] = place;
            changed.push(position);
        }
        // A token may be written and taken back at once, or be overwritten by the end of sequence before it.
        let mut seen = std::collections::BTreeSet::new();
        changed.retain(|p| seen.insert(*p));
        Ok(changed.into_iter().map(|position| Change { position, place: self.places[position] }).collect())
    }

    fn check(&self, record: &StepRecord) -> Result<(), String> {
        let commits = record.commits.iter().map(|c| c.position);
        let edits = record.edits.iter().map(|e| e.position);
        let others = record.filled.iter().chain(&record.remasked).copied();
        let mut all = commits.chain(edits).chain(others);
        if let Some(position) = all.find(|&p| p >= self.places.len()) {
            return Err(format!("position {position} is outside the canvas of {}", self.places.len()));
        }
        let stands =
            |p: usize| matches!(self.places[p], Place::Committed { .. }).then(|| self.places[p].token(0, 0));
        if let Some(edit) = record.edits.iter().find(|e| stands(e.position) != Some(e.was)) {
            return Err(format!(
                "position {} does not hold the token {} that is edited",
                edit.position, edit.was
            ));
        }
        match record.commits.iter().find(|c| !self.places[c.position].is_masked()) {
            Some(over) => {
                let token = self.places[over.position].token(0, 0);
                Err(format!("position {} is written over token {token}", over.position))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn begin() -> Replay {
        Replay::begin(&[5, 1, 1, 1], 1)
    }

    #[test]
    fn places_follow_commits_fills_and_remasks() {
        let mut replay = begin();
        let changes = replay.step(&record(0, &[(1, 7), (2, 8)], &[], &[2])).unwrap();
        assert_eq!(changes.iter().map(|c| c.position).collect::<Vec<_>>(), [1, 2]);
        assert!(replay.places()[1].is_written_by(0) && !replay.places()[1].is_written_by(1));
        assert_eq!(replay.places()[2], Place::Masked { again: Some(0) });
        replay.step(&record(1, &[(2, 9)], &[3], &[])).unwrap();
        let tokens: Vec<u32> = replay.places().iter().map(|p| p.token(1, 2)).collect();
        assert_eq!(tokens, [5, 7, 9, 2]);
        assert_eq!(replay.places()[0], Place::Given { token: 5 });
    }

    #[test]
    fn a_step_that_does_not_fit_changes_nothing() {
        let mut replay = begin();
        for bad in [record(0, &[(1, 7), (0, 7)], &[], &[]), record(0, &[(1, 7)], &[9], &[])] {
            assert!(replay.step(&bad).is_err());
            assert_eq!(replay, begin());
        }
    }

    #[test]
    fn an_edit_replaces_what_stands_there_and_nothing_else() {
        let edit = |was| StepRecord {
            edits: vec![crate::trace::Edit { position: 1, token: 9, was, confidence: 0.5 }],
            ..record(1, &[], &[], &[])
        };
        let mut replay = begin();
        assert!(replay.step(&edit(7)).is_err(), "a mask is not edited");
        replay.step(&record(0, &[(1, 7)], &[], &[])).unwrap();
        assert!(replay.step(&edit(8)).unwrap_err().contains("token 8"));
        let change = replay.step(&edit(7)).unwrap()[0];
        assert!(matches!(change.place, Place::Committed { token: 9, step: 1, was: Some(7), .. }));
    }

    #[test]
    fn a_page_reads_flat_changes() {
        let changes = begin().step(&record(3, &[(1, 7)], &[2], &[])).unwrap();
        let json = serde_json::to_value(changes).unwrap();
        assert_eq!(json[1], serde_json::json!({ "position": 2, "kind": "filled", "step": 3 }));
        assert_eq!((json[0]["kind"].as_str(), json[0]["token"].as_u64()), (Some("committed"), Some(7)));
    }
}
