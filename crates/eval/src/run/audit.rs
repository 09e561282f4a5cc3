//! What decoding promises, checked on a model: every strategy under every cache, on the whole canvas and in blocks, ends
//! with no mask left and a trace that explains every token.

use std::sync::{Arc, Mutex, PoisonError};

use demask_decode::audit::Audit;
use demask_decode::{CacheSpec, Canvas, Decoder, Options, StrategySpec, cache};
use demask_engine::{Decoding, Model, counted};

use crate::error::Result;

/// Canvases that advance together.
const BATCH: usize = 32;

/// A way to decode.
#[derive(Debug, Clone)]
pub struct Combination {
    /// The strategy at its defaults.
    pub strategy: StrategySpec,
    /// The cache at its defaults.
    pub cache: CacheSpec,
    /// Length of blocks; `None` is the whole canvas.
    pub block: Option<usize>,
}

/// What came of one combination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audited {
    /// Steps of all canvases.
    pub steps: usize,
    /// Rows computed in them.
    pub rows: usize,
    /// A sentence for every canvas that is wrong.
    pub wrong: Vec<String>,
}

/// Every strategy with `only` in its name that this model can use, with every cache, with and without blocks.
pub fn combinations(model: &Model, only: Option<&str>, block: usize) -> Result<Vec<Combination>> {
    let mut all = Vec::new();
    for entry in model
        .context()
        .registry
        .entries()
        .iter()
        .filter(|entry| only.is_none_or(|word| entry.name.contains(word)))
    {
        let mut strategy = model.parse_strategy(entry.name)?;
        let context = model.context();
        if entry.name == "demask" && model.predictor().is_none() {
            strategy = strategy.with("dependency", "oracle")?;
        }
        if entry.name == "mi" && context.information.is_none() {
            strategy = strategy.with("information", "oracle")?;
        }
        // What needs a second model or a trained part that this one does not have cannot be tried.
        if !model.can_run(&strategy) {
            continue;
        }
        let built = strategy.build(context)?;
        for cache in cache::ALL {
            for block in [None, Some(block)] {
                let cache: CacheSpec = cache.name.parse()?;
                let options = Options { cache: cache.clone(), block_length: block, ..Options::default() };
                if built.check(&options).is_ok() {
                    all.push(Combination { strategy: strategy.clone(), cache, block });
                }
            }
        }
    }
    Ok(all)
}

/// Decodes the prompts one way and audits every trace; `progress` hears of every batch.
pub fn audit(
    model: &Model,
    prompts: &[Vec<u32>],
    way: &Combination,
    decoding: &Decoding,
    progress: &mut dyn FnMut(usize),
) -> Result<Audited> {
    let mut outcome = Audited::default();
    for (group, some) in prompts.chunks(BATCH).enumerate() {
        let (mut jobs, mut audits) = (Vec::new(), Vec::new());
        for (index, prompt) in some.iter().enumerate() {
            let decoding = Decoding {
                strategy: Some(way.strategy.clone()),
                block_length: way.block,
                cache: way.cache.clone(),
                stream: (group * BATCH + index) as u64,
                ..decoding.clone()
            };
            let canvas = model.canvas(prompt, &decoding)?;
            let audit = Arc::new(Mutex::new(Audit::new(&canvas, model.backbone().spec())));
            audits.push(audit.clone());
            jobs.push(model.job(canvas, &decoding, Box::new(audit))?);
        }
        let ended = Decoder::new(model.backbone()).run(&mut jobs);
        for (job, audit) in jobs.iter().zip(&audits) {
            let audit = audit.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.steps += audit.steps();
            outcome.rows += audit.rows();
            let left = left(job.canvas());
            match (audit.wrong(), &ended) {
                (Some(wrong), _) => outcome.wrong.push(wrong.to_owned()),
                (None, Err(error)) if left > 0 => outcome.wrong.push(error.to_string()),
                (None, _) if left > 0 => outcome.wrong.push(format!("left over: {}", counted(left, "mask"))),
                (None, _) => {}
            }
        }
        progress(some.len());
    }
    Ok(outcome)
}

fn left(canvas: &Canvas) -> usize {
    canvas.tokens().iter().filter(|&&t| t == canvas.ids().mask).count()
}
