//! A backbone whose work can be ended from outside: between two passes, whoever computes what with it.
//!
//! Invariant: what it computes is what the backbone inside computes. Passes of large models, which may take minutes, are cut
//! into smaller ones first; a row's numbers do not depend on how many others are in its pass.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backbone::{Backbone, Pass, Query, Rows};
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::transformer::device::OnDevice;

/// Rows of a pass of a large model: as many as its products need to be at their full speed.
const ROWS: usize = 512;

/// Told how many canvases a pass had, before the first one of a batch 0; ends the work with `Break`.
pub type Gate = dyn Fn(usize) -> ControlFlow<()> + Send + Sync;

/// A backbone behind a gate.
pub struct Stoppable {
    inner: Arc<dyn Backbone>,
    gate: Arc<Gate>,
}

impl Stoppable {
    /// Passes fail with [`Error::Stopped`] once the gate says so.
    pub fn new(inner: Arc<dyn Backbone>, gate: Arc<Gate>) -> Self {
        Self { inner, gate }
    }

    fn pass(&self, canvases: usize) -> Result<()> {
        if (self.gate)(canvases).is_break() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// How many of these queries make one pass.
    fn together(&self, batch: &[Query<'_>]) -> usize {
        if self.inner.rows_per_thread().is_some() || self.inner.device().is_some() {
            return batch.len();
        }
        let mut rows = 0;
        let fits = |query: &&Query<'_>| {
            rows += query.cache.as_ref().map_or(query.tokens.len(), |reuse| reuse.rows.len());
            rows <= ROWS
        };
        batch.iter().take_while(fits).count().max(1)
    }
}

impl Backbone for Stoppable {
    fn spec(&self) -> &Spec {
        self.inner.spec()
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        self.pass(0)?;
        let (mut passes, mut rest) = (Vec::with_capacity(batch.len()), batch);
        while !rest.is_empty() {
            let (some, later) = rest.split_at_mut(self.together(rest));
            passes.extend(self.inner.forward(some)?);
            self.pass(some.len())?;
            rest = later;
        }
        Ok(passes)
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        self.inner.logits(rows, visit)
    }

    fn device(&self) -> Option<&dyn OnDevice> {
        self.inner.device()
    }

    fn rows_per_thread(&self) -> Option<usize> {
        self.inner.rows_per_thread()
    }

    fn embed(&self, tokens: &[u32]) -> Result<Rows> {
        self.inner.embed(tokens)
    }

    fn replicas(&self) -> usize {
        self.inner.replicas()
    }

    fn fingerprint(&self) -> String {
        self.inner.fingerprint()
    }

    fn answers_to(&self, fingerprint: &str) -> bool {
        self.inner.answers_to(fingerprint)
    }

    fn precision(&self) -> String {
        self.inner.precision()
    }
}
