//! Whether a trace explains its canvas: the tokens are rebuilt from the records alone and compared after every step,
//! and every written token must come from a row that the step computed.

use std::ops::ControlFlow;

use demask_model::Spec;

use crate::canvas::{Canvas, Cell};
use crate::observer::Observer;
use crate::replay::Replay;
use crate::trace::StepRecord;

/// Watches a decoding and remembers the first thing its trace does not explain.
#[derive(Debug, Clone)]
pub struct Audit {
    replay: Replay,
    shift: bool,
    steps: usize,
    rows: usize,
    committed: usize,
    wrong: Option<String>,
}

impl Audit {
    /// Begins with the canvas before the first step, on a backbone of this shape.
    pub fn new(canvas: &Canvas, spec: &Spec) -> Self {
        let replay = Replay::of(canvas);
        Self { replay, shift: spec.shift.is_some(), steps: 0, rows: 0, committed: 0, wrong: None }
    }

    /// The first thing that the trace does not explain.
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// Steps seen.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Rows computed in them.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Tokens written and not masked again.
    pub fn committed(&self) -> usize {
        self.committed
    }

    fn apply(&mut self, record: &StepRecord, canvas: &Canvas) -> Result<(), String> {
        let computed: usize = record.rows.iter().map(|r| r.1 - r.0).sum();
        if computed != record.computed_rows {
            return Err(format!("{} rows are counted and {computed} are named", record.computed_rows));
        }
        self.replay.step(record)?;
        let edited = record.edits.iter().map(|e| e.position);
        for position in record.commits.iter().map(|c| c.position).chain(edited) {
            let shift = self.shift && record.own_row != Some(position);
            let row = if shift { position.saturating_sub(1) } else { position };
            if !record.rows.iter().any(|r| (r.0..r.1).contains(&row)) {
                return Err(format!("position {position} is written from a row that was not computed"));
            }
        }
        if let Some(p) = record.remasked.iter().find(|&&p| canvas.cells()[p] != Cell::Masked) {
            return Err(format!("position {p} is said to be masked again and is not"));
        }
        let (mask, eos) = (canvas.ids().mask, canvas.ids().eos.first().copied());
        let told = self.replay.places().iter().map(|place| place.token(mask, eos.unwrap_or(mask)));
        match told.zip(canvas.tokens()).enumerate().find(|(_, (told, held))| told != *held) {
            Some((p, (told, held))) => Err(format!("position {p} holds {held}, the trace says {told}")),
            None => Ok(()),
        }
    }
}

impl Observer for Audit {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        if let Err(wrong) = self.apply(record, canvas) {
            self.wrong.get_or_insert(format!("step {}: {wrong}", record.step));
        }
        self.steps += 1;
        self.rows += record.computed_rows;
        self.committed += record.commits.len();
        self.committed -= record.remasked.len();
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use demask_model::{Backbone, Tabular};

    use super::*;
    use crate::canvas::{EosPolicy, Pick};

    fn record(value: serde_json::Value) -> StepRecord {
        let mut whole = serde_json::json!({
            "step": 0, "block": 0, "masked": 3, "commits": [], "stop": null, "forwards": 1, "computed_rows": 2,
            "rows": [[0, 2]], "seconds": { "forward": 0.0, "marginals": 0.0, "select": 0.0 },
        });
        whole.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn a_trace_that_does_not_explain_its_canvas_is_found() {
        let table = Tabular::new(3, 2, vec![1.0; 8]).unwrap();
        let before = Canvas::generate(&[], 3, &table.spec().ids).unwrap();
        let mut after = before.clone();
        after.commit(0, &[Pick { position: 1, token: 0, confidence: 1.0 }], &(0..3), EosPolicy::None);
        let see = |value: serde_json::Value| {
            let mut audit = Audit::new(&before, table.spec());
            let _ = audit.on_step(&record(value), &after);
            audit.wrong().map(str::to_owned)
        };
        let commit = |position: usize, token: u32| serde_json::json!([{ "position": position, "token": token, "confidence": 1.0, "probability": 1.0 }]);
        let json = |commits: serde_json::Value| serde_json::json!({ "commits": commits });
        assert_eq!(see(json(commit(1, 0))), None);
        assert!(see(json(commit(1, 1))).unwrap().contains("position 1 holds 0, the trace says 1"));
        assert!(see(json(serde_json::json!([]))).unwrap().contains("position 1"));
        assert!(see(json(commit(2, 0))).unwrap().contains("a row that was not computed"));
        let counted = serde_json::json!({ "commits": commit(1, 0), "computed_rows": 3 });
        assert!(see(counted).unwrap().contains("3 rows are counted and 2 are named"));
        let remasked = serde_json::json!({ "commits": commit(1, 0), "remasked": [1] });
        assert!(see(remasked).unwrap().contains("masked again and is not"));
    }
}
