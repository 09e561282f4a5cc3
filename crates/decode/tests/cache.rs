//! Caches on the toy checkpoint: recomputing everything in every step is the exact decoding token for token;
//! every strategy ends under every cache, alone as in company; the trace says which rows were computed.

mod support;

use std::sync::{Arc, Mutex};

use demask_decode::audit::Audit;
use demask_decode::observer::Recorder;
use demask_decode::registry::Context;
use demask_decode::strategy;
use demask_decode::{
    CacheSpec, Canvas, Decoder, EosPolicy, Job, Observers, Options, Sampling, StepRecord, StrategySpec, cache,
};
use demask_model::{Backbone, Transformer};

fn canvas(backbone: &Transformer, index: usize, length: usize) -> Canvas {
    let expected = support::expected();
    let prompts = expected["prompts"].as_array().unwrap();
    let prompt = support::ids(&prompts[index % prompts.len()]);
    let prompt = &prompt[prompt.len() - (4 + index).min(prompt.len())..];
    Canvas::generate(prompt, length, &backbone.spec().ids).unwrap()
}

struct Run {
    tokens: Vec<u32>,
    forwards: usize,
    records: Vec<StepRecord>,
}

fn options(block: Option<usize>, cache: &str) -> Options {
    Options {
        seed: 5,
        block_length: block,
        eos: EosPolicy::None,
        cache: cache.parse().unwrap(),
        ..Options::default()
    }
}

fn run(backbone: &Transformer, context: &Context, canvas: &Canvas, strategy: &str, options: &Options) -> Run {
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let audit = Arc::new(Mutex::new(Audit::new(canvas, backbone.spec())));
    let observer = Box::new(Observers(vec![Box::new(recorder.clone()), Box::new(audit.clone())]));
    let job =
        Job::new(canvas.clone(), &strategy.parse().unwrap(), context, options.clone(), observer).unwrap();
    let mut jobs = [job];
    Decoder::new(backbone).run(&mut jobs).unwrap_or_else(|e| panic!("{strategy}, {}: {e}", options.cache));
    assert!(jobs[0].canvas().is_done());
    assert_eq!(audit.lock().unwrap().wrong(), None, "{strategy}, {}", options.cache);
    let records = std::mem::take(&mut recorder.lock().unwrap().records);
    Run { tokens: jobs[0].canvas().tokens().to_vec(), forwards: jobs[0].totals().forwards, records }
}

/// Whether a strategy says that it cannot be decoded so.
fn is_refused(context: &Context, strategy: &str, options: &Options) -> bool {
    strategy.parse::<StrategySpec>().unwrap().build(context).unwrap().check(options).is_err()
}

/// Spelling of every cache with a refresh in every step.
fn refreshed() -> Vec<CacheSpec> {
    let caches = cache::ALL.iter().filter(|c| c.params.iter().any(|p| p.key == "refresh"));
    caches.map(|c| c.name.parse::<CacheSpec>().unwrap().with("refresh", 1).unwrap()).collect()
}

#[test]
fn a_refresh_in_every_step_is_the_exact_decoding() {
    let (backbone, context) = (support::backbone(), support::context());
    let canvas = canvas(&backbone, 3, 14);
    assert_eq!(refreshed().len(), 4);
    for entry in strategy::ALL {
        for block in [None, Some(5)] {
            let name = support::spelled(entry.name);
            if is_refused(&context, &name, &options(block, "none")) {
                continue;
            }
            let exact = run(&backbone, &context, &canvas, &name, &options(block, "none"));
            for cache in refreshed() {
                let cached = options(block, &cache.to_string());
                if is_refused(&context, &name, &cached) {
                    continue;
                }
                let cached = run(&backbone, &context, &canvas, &name, &cached);
                assert_eq!(cached.tokens, exact.tokens, "{} {cache} {block:?}", entry.name);
                let order = |run: &Run| run.records.iter().map(|r| r.commits.clone()).collect::<Vec<_>>();
                assert_eq!(order(&cached), order(&exact), "{} {cache} {block:?}", entry.name);
            }
        }
    }
}

#[test]
fn every_strategy_ends_under_every_cache() {
    let (backbone, context) = (support::backbone(), support::context());
    let mask = backbone.spec().ids.mask;
    for (index, entry) in strategy::ALL.iter().enumerate() {
        let canvas = canvas(&backbone, index, 12);
        for cache in cache::ALL {
            for block in [None, Some(5)] {
                let (name, options) = (support::spelled(entry.name), options(block, cache.name));
                if is_refused(&context, &name, &options) {
                    let blocks = ["apd", "copula"].contains(&entry.name) && block.is_some();
                    assert!(blocks || (entry.name == "adjust" && cache.name != "none"), "{}", entry.name);
                    continue;
                }
                let run = run(&backbone, &context, &canvas, &name, &options);
                assert!(!run.tokens.contains(&mask), "{} {}", entry.name, cache.name);
            }
        }
    }
}

#[test]
fn demask_in_blocks_with_a_dual_cache_computes_the_block() {
    let (backbone, context) = (support::backbone(), support::context());
    let canvas = canvas(&backbone, 6, 16);
    let (start, length) = (canvas.response().start, canvas.tokens().len());
    let run = run(&backbone, &context, &canvas, "demask:tau=0.05,gamma=0.5", &options(Some(8), "dual"));
    let mut previous = usize::MAX;
    for record in &run.records {
        let begin = start + 8 * record.block;
        let everything = vec![(0, length)];
        if record.block == previous {
            // The row before the block predicts its first token in a shifted model, while that is a mask.
            let allowed = [vec![(begin, begin + 8)], vec![(begin - 1, begin + 8)]];
            assert!(allowed.contains(&record.rows), "{:?}", record.rows);
        } else {
            assert_eq!(record.rows, everything);
        }
        previous = record.block;
    }
    assert_eq!(previous, 1);
}

#[test]
fn company_changes_no_token_with_caches_either() {
    let (backbone, context) = (support::backbone(), support::context());
    let strategies =
        ["demask:tau=0.1,gamma=0.4,revise=0.1", "wino:threshold=0.2", "dawn", "saber", "entropy:k=2"];
    let caches = ["dual", "prefix:refresh=3", "vicinity:before=2,after=3,warmup=1", "delayed", "none"];
    for guidance in [0.0, 0.7] {
        let job = |i: usize| {
            let sampling = Sampling { temperature: 0.7, ..Sampling::default() };
            let options = options(i.is_multiple_of(2).then_some(6), caches[i % 5]);
            let options = Options { stream: i as u64, sampling, guidance, ..options };
            let strategy = strategies[(i * 2) % 5].parse().unwrap();
            Job::new(canvas(&backbone, i, 10 + i), &strategy, &context, options, Box::new(())).unwrap()
        };
        let mut together: Vec<Job> = (0..10).map(job).collect();
        Decoder::new(&backbone).run(&mut together).unwrap();
        for (i, together) in together.iter().enumerate() {
            let mut alone = [job(i)];
            Decoder::new(&backbone).run(&mut alone).unwrap();
            assert_eq!(alone[0].canvas().tokens(), together.canvas().tokens(), "canvas {i}");
            assert_eq!(alone[0].totals().steps, together.totals().steps, "canvas {i}");
        }
    }
}

#[test]
fn guidance_with_a_refresh_in_every_step_is_exact() {
    let (backbone, context) = (support::backbone(), support::context());
    let canvas = canvas(&backbone, 2, 12);
    let with = |cache: &str| Options { guidance: 0.5, ..options(Some(6), cache) };
    let exact = run(&backbone, &context, &canvas, "entropy", &with("none"));
    let cached = run(&backbone, &context, &canvas, "entropy", &with("dual:refresh=1"));
    assert_eq!((&cached.tokens, cached.forwards), (&exact.tokens, exact.forwards));
    assert_eq!(exact.forwards, 2 * exact.records.len());
}
