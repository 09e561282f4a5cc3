//! One cell (strategy × suite) in continuous batches: a canvas that is done makes room for the next, records leave in
//! the order of the items.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use demask_decode::trace::{self, TraceWriter};
use demask_decode::{Canvas, Decoder, Job, Observer, Options, StrategySpec};
use demask_model::checkpoint::write::replace;
use rayon::prelude::*;

use super::{Plan, Records, Sample, Spent, Subject, TRACES};
use crate::error::{Error, Result};
use crate::suite::{Item, Suite};

/// A strategy on a suite.
pub(super) struct Cell<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) suite: &'a dyn Suite,
    pub(super) strategy: &'a StrategySpec,
    pub(super) plan: &'a Plan,
}

/// A canvas in the batch.
struct Active {
    index: usize,
    item: Item,
    job: Job,
    wall: f64,
    trace: Option<Arc<Mutex<TraceWriter<Vec<u8>>>>>,
}

impl Active {
    fn rows(&self) -> usize {
        self.job.canvas().tokens().len()
    }
}

impl Cell<'_> {
    /// Decodes items and writes their records; `each` sees every record as it is written and may end the run.
    pub(super) fn decode(
        &self,
        items: &[usize],
        records: &mut Records,
        each: &mut dyn FnMut(&Sample) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let decoder = Decoder::new(self.subject.backbone);
        let (mut waiting, mut next) = (items.iter(), None);
        let mut unwritten: VecDeque<usize> = items.iter().copied().collect();
        let (mut active, mut finished): (Vec<Active>, BTreeMap<usize, Sample>) = Default::default();
        loop {
            let mut rows: usize = active.iter().map(Active::rows).sum();
            loop {
                if next.is_none() {
                    next = waiting.next().map(|&index| self.start(index)).transpose()?;
                }
                match next.take() {
                    Some(job) if active.is_empty() || rows + job.rows() <= self.plan.token_budget => {
                        rows += job.rows();
                        active.push(job);
                    }
                    later => {
                        next = later;
                        break;
                    }
                }
            }
            if active.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let start = Instant::now();
            decoder.step(&mut active.iter_mut().map(|a| &mut a.job).collect::<Vec<_>>())?;
            let share = start.elapsed().as_secs_f64() / active.len() as f64;
            active.iter_mut().for_each(|a| a.wall += share);
            let (done, rest): (Vec<Active>, Vec<Active>) = active.into_iter().partition(|a| a.job.is_done());
            active = rest;
            // Judging may mean running a program, so the finished ones are judged side by side.
            for sample in done.into_par_iter().map(|a| self.judge(a, records)).collect::<Vec<_>>() {
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
    }

    fn start(&self, index: usize) -> Result<Active> {
        let Subject { backbone, text, ids, context } = *self.subject;
        let item = self.suite.item(index, &text)?;
        let length = item.tokens.len() + item.max_new_tokens;
        let limit = backbone.spec().max_positions;
        if length > limit {
            return Err(Error::Data(format!(
                "item {} of {} takes {length} tokens with its response, more than the model's context of {limit}; \
                 lower --max-new-tokens",
                item.id,
                self.suite.name()
            )));
        }
        let canvas = Canvas::generate(&item.tokens, item.max_new_tokens, ids)?;
        let mut options =
            Options { stream: stream(self.suite.name(), &item.id), ..self.plan.options.clone() };
        options.suppression.no_eos_before += item.tokens.len();
        let trace = self.plan.traces.then(|| self.trace(&canvas, options.seed)).transpose()?;
        let observer: Box<dyn Observer> = match &trace {
            Some(trace) => Box::new(trace.clone()),
            None => Box::new(()),
        };
        let job = Job::new(canvas, self.strategy, context, options, observer)?;
        Ok(Active { index, item, job, wall: 0.0, trace })
    }

    fn trace(&self, canvas: &Canvas, seed: u64) -> Result<Arc<Mutex<TraceWriter<Vec<u8>>>>> {
        let header = trace::Header::new(canvas, self.strategy, &self.plan.options.cache, seed);
        let writer = TraceWriter::new(Vec::new(), &header, true).map_err(demask_decode::Error::Trace)?;
        Ok(Arc::new(Mutex::new(writer)))
    }

    fn judge(&self, active: Active, records: &Records) -> Result<Sample> {
        let Active { index, item, job, wall, trace } = active;
        let (canvas, totals) = (job.canvas(), job.totals());
        let ids = &canvas.tokens()[canvas.response()];
        let response = self.subject.text.response(ids, &canvas.ids().eos, &item.until)?;
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
            seconds: Spent {
                wall,
                forward: totals.seconds.forward,
                marginals: totals.seconds.marginals,
                select: totals.seconds.select,
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
fn stream(suite: &str, id: &str) -> u64 {
    let bytes = suite.bytes().chain([0]).chain(id.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
