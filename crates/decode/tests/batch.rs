//! A canvas's tokens depend on its seed and stream, never on its company: alone and in a batch of eight
//! prompts of different lengths every strategy writes the same, and given tokens stay.

mod support;

use demask_decode::registry::Context;
use demask_decode::{Canvas, Decoder, EosPolicy, Job, Options, Sampling};
use demask_model::{Backbone, Error, Pass, Query, Result, Rows, Spec, Transformer};

const STRATEGIES: [&str; 11] = [
    "entropy:k=2",
    "top1:steps=7",
    "maskgit-plus:steps=9,alg_temp=0.4",
    "margin:k=3,dtype=bf16",
    "random:k=4",
    "origin:steps=8",
    "klass:conf=0.6,kl=0.05",
    "demask:tau=0.2,gamma=0.5",
    "demask:tau=0.3,gamma=0.3,start=confident,confidence=filtered",
    "mean-field:threshold=0.6",
    "top1:k=3,discount=40",
];

/// Eight prompts of different lengths, with responses of different lengths.
fn canvases(backbone: &Transformer) -> Vec<Canvas> {
    let expected = support::expected();
    let prompts = expected["prompts"].as_array().unwrap();
    (0..8)
        .map(|i| {
            let prompt = support::ids(&prompts[i % prompts.len()]);
            let prompt = &prompt[prompt.len() - (3 + 2 * i).min(prompt.len())..];
            Canvas::generate(prompt, 11 + 3 * (i % 4), &backbone.spec().ids).unwrap()
        })
        .collect()
}

fn job(canvas: &Canvas, strategy: &str, stream: u64, options: &Options, context: &Context) -> Job {
    let options = Options { stream, ..options.clone() };
    Job::new(canvas.clone(), &strategy.parse().unwrap(), context, options, Box::new(())).unwrap()
}

fn outcome(jobs: &[Job]) -> Vec<(Vec<u32>, usize, usize)> {
    jobs.iter().map(|j| (j.canvas().tokens().to_vec(), j.totals().steps, j.totals().forwards)).collect()
}

/// Settings that use randomness, filters, blocks and every way of ending.
fn settings() -> Vec<Options> {
    let hot = Sampling { temperature: 0.9, top_p: Some(0.95), top_k: None, ..Sampling::default() };
    let cool = Sampling { temperature: 0.1, top_p: Some(0.9), top_k: Some(20), ..Sampling::default() };
    vec![
        Options { seed: 1, ..Options::default() },
        Options { seed: 2, sampling: hot, eos: EosPolicy::None, ..Options::default() },
        Options {
            seed: 3,
            sampling: cool,
            block_length: Some(5),
            eos: EosPolicy::BlockFill,
            ..Options::default()
        },
        Options { seed: 4, sampling: hot, block_length: Some(8), eos: EosPolicy::Stop, ..Options::default() },
    ]
}

#[test]
fn company_changes_no_token() {
    let (backbone, context) = (support::backbone(), support::context());
    let (decoder, canvases) = (Decoder::new(&backbone), canvases(&backbone));
    let lengths: std::collections::BTreeSet<usize> = canvases.iter().map(|c| c.tokens().len()).collect();
    assert!(lengths.len() > 4, "{lengths:?}");
    for options in settings() {
        for strategy in STRATEGIES {
            let make = |i: usize| job(&canvases[i], strategy, i as u64, &options, &context);
            let mut together: Vec<Job> = (0..8).map(make).collect();
            decoder.run(&mut together).unwrap();
            for (i, together) in outcome(&together).into_iter().enumerate() {
                let mut alone = [make(i)];
                decoder.run(&mut alone).unwrap();
                assert_eq!(
                    together,
                    outcome(&alone).remove(0),
                    "{strategy}, seed {}, canvas {i}",
                    options.seed
                );
                assert!(alone[0].canvas().is_done());
            }
        }
    }
}

/// The toy model, every second forward pass of which fails.
struct Flaky(Transformer, std::sync::atomic::AtomicUsize);

impl Backbone for Flaky {
    fn spec(&self) -> &Spec {
        self.0.spec()
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        let number = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if number.is_multiple_of(2) {
            return Err(Error::Query("out of luck".into()));
        }
        self.0.forward(batch)
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        self.0.logits(rows, visit)
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }
}

#[test]
fn a_failed_pass_costs_no_step() {
    let (backbone, context) = (support::backbone(), support::context());
    let canvases = canvases(&backbone);
    let flaky = Flaky(support::backbone(), Default::default());
    for options in settings() {
        for strategy in STRATEGIES {
            let make = || job(&canvases[3], strategy, 0, &options, &context);
            let mut smooth = [make()];
            Decoder::new(&backbone).run(&mut smooth).unwrap();
            let (mut rough, decoder, mut failures) = ([make()], Decoder::new(&flaky), 0);
            while decoder.run(&mut rough).is_err() {
                failures += 1;
            }
            assert!(failures >= smooth[0].totals().steps, "{failures} failures");
            assert_eq!(outcome(&rough), outcome(&smooth), "{strategy}, seed {}", options.seed);
        }
    }
}

#[test]
fn strategies_share_a_batch() {
    let (backbone, context) = (support::backbone(), support::context());
    let (decoder, canvases, options) = (Decoder::new(&backbone), canvases(&backbone), settings().remove(1));
    let make = |i: usize| job(&canvases[i], STRATEGIES[i], i as u64, &options, &context);
    let mut together: Vec<Job> = (0..8).map(make).collect();
    decoder.run(&mut together).unwrap();
    for (i, together) in outcome(&together).into_iter().enumerate() {
        let mut alone = [make(i)];
        decoder.run(&mut alone).unwrap();
        assert_eq!(together, outcome(&alone).remove(0), "{}", STRATEGIES[i]);
    }
}

#[test]
fn the_oracle_decodes_the_same_in_company() {
    let (backbone, context) = (support::backbone(), support::context());
    let (decoder, canvases, options) = (Decoder::new(&backbone), canvases(&backbone), settings().remove(1));
    let strategy = "demask:tau=0.3,gamma=0.5,dependency=oracle,draws=2";
    let make = |i: usize| job(&canvases[i], strategy, i as u64, &options, &context);
    let mut together: Vec<Job> = (0..4).map(make).collect();
    decoder.run(&mut together).unwrap();
    for (i, together) in outcome(&together).into_iter().enumerate() {
        let mut alone = [make(i)];
        decoder.run(&mut alone).unwrap();
        assert_eq!(together, outcome(&alone).remove(0), "canvas {i}");
        // Per step: the pass itself, the all-masked pass of the oracle, and two reveals of every mask.
        assert!(together.2 > 3 * together.1);
    }
}

#[test]
fn randomness_is_the_seed_and_the_stream() {
    let (backbone, context) = (support::backbone(), support::context());
    let (decoder, canvases, options) = (Decoder::new(&backbone), canvases(&backbone), settings().remove(1));
    let run = |seed: u64, stream: u64| {
        let options = Options { seed, ..options.clone() };
        let mut jobs = [job(&canvases[7], "random:k=1", stream, &options, &context)];
        decoder.run(&mut jobs).unwrap();
        jobs[0].canvas().tokens().to_vec()
    };
    assert_eq!(run(5, 0), run(5, 0));
    assert_ne!(run(5, 0), run(6, 0));
    assert_ne!(run(5, 0), run(5, 1));
}

#[test]
fn infilling_keeps_what_was_given() {
    let (backbone, context) = (support::backbone(), support::context());
    let mask = backbone.spec().ids.mask;
    let expected = support::expected();
    let whole: Vec<u32> = support::ids(&expected["demask"][0]["final"]);
    let text: Vec<u32> = support::ids(&expected["prompts"][0]).into_iter().chain(whole).collect();
    // Every third token and a run in the middle are to be found again.
    let holed: Vec<u32> = text
        .iter()
        .enumerate()
        .map(|(i, &t)| if (i > 4 && i % 3 == 0) || (22..29).contains(&i) { mask } else { t })
        .collect();
    for options in settings() {
        for strategy in STRATEGIES {
            let canvas = Canvas::infill(&holed, &backbone.spec().ids).unwrap();
            let mut jobs = [job(&canvas, strategy, 0, &options, &context)];
            Decoder::new(&backbone).run(&mut jobs).unwrap();
            let tokens = jobs[0].canvas().tokens();
            assert!(tokens.iter().all(|&t| t != mask), "{strategy}");
            let changed =
                tokens.iter().zip(&holed).filter(|(ours, given)| **given != mask && ours != given).count();
            assert_eq!(changed, 0, "{strategy}, seed {}", options.seed);
        }
    }
}
