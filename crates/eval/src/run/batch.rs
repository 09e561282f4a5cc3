//! One cell (strategy × suite) in continuous batches: a canvas that is done makes room for the next, records leave in
//! the order of the items.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use demask_decode::trace::{self, TraceWriter};
use demask_decode::{Canvas, Job, Observer, StrategySpec};
use demask_engine::batch::{Batch, Member};
use demask_engine::{Decoding, Model};
use demask_model::checkpoint::write::replace;
use demask_model::hash::Hash;
use rayon::prelude::*;

use super::{Plan, Records, Sample, Spent, TRACES};
use crate::error::{Error, Remedy, Result};
use crate::run::suite::{Item, Suite};

/// A strategy on a suite.
pub(super) struct Cell<'a> {
    pub(super) model: &'a Model,
    pub(super) suite: &'a dyn Suite,
    pub(super) strategy: &'a StrategySpec,
    pub(super) plan: &'a Plan,
}

/// An item whose canvas is in the batch.
struct InBatch {
    index: usize,
    item: Item,
    trace: Option<Arc<Mutex<TraceWriter<Vec<u8>>>>>,
}

impl Cell<'_> {
    /// Decodes items and writes their records; `each` sees every record as it is written and may end the run.
    pub(super) fn decode(
        &self,
        items: &[usize],
        records: &mut Records,
        each: &mut dyn FnMut(&Sample) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut waiting = items.iter().map(|&index| self.start(index));
        let mut batch = Batch::new(self.model.backbone(), self.plan.token_budget);
        let mut unwritten: VecDeque<usize> = items.iter().copied().collect();
        let mut finished: BTreeMap<usize, Sample> = BTreeMap::new();
        while let Some(done) = batch.advance(&mut waiting)? {
            // Judging may mean running a program, so the finished ones are judged side by side.
            for sample in done.into_par_iter().map(|m| self.judge(m, records)).collect::<Vec<_>>() {
                let sample = sample?;
                finished.insert(sample.index, sample);
            }
            while let Some(sample) = unwritten.front().and_then(|index| finished.remove(index)) {
                unwritten.pop_front();
                let flow = each(&sample);
                records.append(vec![sample])?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn start(&self, index: usize) -> Result<(InBatch, Job)> {
        let item = self.suite.item(index, self.model.text())?;
        let length = item.tokens.len() + item.max_new_tokens;
        let limit = self.model.backbone().spec().max_positions;
        if length > limit {
            let problem = format!(
                "item {} of {} takes {length} tokens with its response, more than the model's context of {limit}",
                item.id,
                self.suite.name()
            );
            return Err(Error::Choice { problem, remedy: Remedy::ShorterResponse });
        }
        let decoding = Decoding {
            strategy: Some(self.strategy.clone()),
            length: Some(item.max_new_tokens),
            stream: stream(self.suite.name(), &item.id),
            ..self.plan.decoding.clone()
        };
        let canvas = self.model.canvas(&item.tokens, &decoding)?;
        let trace = self.plan.traces.then(|| self.trace(&canvas)).transpose()?;
        let observer: Box<dyn Observer> = match &trace {
            Some(trace) => Box::new(trace.clone()),
            None => Box::new(()),
        };
        Ok((InBatch { index, item, trace }, self.model.job(canvas, &decoding, observer)?))
    }

    fn trace(&self, canvas: &Canvas) -> Result<Arc<Mutex<TraceWriter<Vec<u8>>>>> {
        let Decoding { cache, seed, .. } = &self.plan.decoding;
        let header = trace::TraceHeader::new(canvas, self.strategy, cache, *seed)
            .with_predictor(self.model.understanding());
        let writer = TraceWriter::new(Vec::new(), &header, true).map_err(demask_decode::Error::Trace)?;
        Ok(Arc::new(Mutex::new(writer)))
    }

    fn judge(&self, member: Member<InBatch>, records: &Records) -> Result<Sample> {
        let Member { owner: InBatch { index, item, trace }, job, seconds: wall } = member;
        let (canvas, totals) = (job.canvas(), job.totals());
        let ids = &canvas.tokens()[canvas.asked_response()];
        let response = self.model.text().response(ids, &item.until)?;
        let score = self.suite.score(index, &response)?;
        if let Some(trace) = trace {
            self.keep(&trace, index, records)?;
        }
        Ok(Sample {
            strategy: self.strategy.clone(),
            task: self.suite.name().into(),
            version: self.suite.version(),
            protocol: self.suite.protocol(),
            index,
            id: item.id,
            kind: item.kind,
            prompt: item.prompt,
            response,
            extracted: score.extracted,
            correct: score.correct,
            strict: score.strict,
            prompt_tokens: item.tokens.len(),
            canvas: item.max_new_tokens,
            tokens: canvas.text_tokens().len(),
            steps: totals.steps,
            forwards: totals.forwards,
            rounds: if self.plan.decoding.speculate > 0 { totals.rounds } else { 0 },
            assistant_rows: totals.assistant_rows,
            inner_calls: totals.inner_calls,
            seconds: Spent {
                wall,
                forward: totals.seconds.forward,
                marginals: totals.seconds.marginals,
                select: totals.seconds.select,
                extra: totals.seconds.extra,
            },
        })
    }

    /// Writes an item's trace beside the records, before its record says that it is done.
    fn keep(&self, trace: &Mutex<TraceWriter<Vec<u8>>>, index: usize, records: &Records) -> Result<()> {
        let folder: PathBuf = records.folder.join(TRACES).join(file_name(self.strategy));
        std::fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        let trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{}-{index}.jsonl", self.suite.name().replace('/', "-"));
        replace(&folder.join(name), |out| out.write_all(trace.written()))?;
        Ok(())
    }
}

/// A strategy's spelling as a name of a folder.
fn file_name(strategy: &StrategySpec) -> String {
    strategy.to_string().replace([':', ','], "-").replace('=', "")
}

/// The stream of an item's randomness: a hash of its names, so it depends on nothing else.
pub fn stream(suite: &str, id: &str) -> u64 {
    Hash::new().bytes(suite.as_bytes()).bytes(&[0]).bytes(id.as_bytes()).value()
}
