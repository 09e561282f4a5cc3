//! A recorded decoding as one HTML file that needs nothing else: what `trace view --html` writes and a notebook shows.
//!
//! Invariant: the page replays nothing by itself; it applies the changes of each step as [`Replay`] tells them.

use demask_decode::replay::{Place, Replay};
use demask_decode::trace::Trace;
use serde_json::{Value, json};

use crate::error::Result;
use crate::text::Text;

/// The page; `DATA` stands for the trace.
const PAGE: &str = include_str!("page/view.html");

impl Text {
    /// The animation of a trace.
    pub fn page(&self, trace: &Trace) -> Result<String> {
        let (header, tokenizer) = (&trace.header, self.tokenizer());
        let mut eos = self.ids().eos.clone();
        eos.extend(tokenizer.special("eos_token"));
        let piece = |token: u32| tokenizer.decode_verbatim(&[token]).unwrap_or_default();
        let (start, end) = header.response;
        let prompt = tokenizer.decode_verbatim(&header.tokens[..start])?;
        let mut replay = Replay::new(header);
        let cell = |place: &Place| match *place {
            Place::Given { token } => json!({"kind": "given", "text": piece(token)}),
            Place::Masked { .. } => json!({"kind": "mask"}),
            Place::Filled { .. } => json!({"kind": "end", "text": "·"}),
            Place::Committed { token, confidence, .. } if eos.contains(&token) => {
                json!({"kind": "end", "text": "·", "confidence": confidence})
            }
            Place::Committed { token, confidence, .. } => {
                json!({"kind": "token", "text": piece(token), "confidence": confidence})
            }
        };
        let given: Vec<Value> = replay.places()[start..end].iter().map(cell).collect();
        let mut steps = Vec::new();
        for r in &trace.steps {
            let changes = replay.step(r).map_err(demask_decode::Error::Canvas)?;
            let changes: Vec<Value> =
                changes.iter().map(|c| json!({"at": c.position, "cell": cell(&c.place)})).collect();
            let commits = r
                .commits
                .iter()
                .map(|c| json!({"at": c.position, "text": piece(c.token), "confidence": c.confidence}));
            steps.push(json!({"changes": changes, "commits": commits.collect::<Vec<_>>(), "filled": r.filled.len(),
                              "remasked": r.remasked.len(), "masked": r.masked, "stop": r.stop, "budget": r.budget,
                              "dependency": r.dependency, "forwards": r.forwards}));
        }
        let data = json!({"strategy": header.strategy, "seed": header.seed, "prompt": prompt, "start": start,
                          "given": given, "steps": steps});
        // A "</script>" inside a string would end the data.
        Ok(PAGE.replacen("DATA", &data.to_string().replace("</", "<\\/"), 1))
    }
}
