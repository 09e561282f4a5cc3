//! The reference device: what runs on a GPU, composed of candle's operations on the CPU. Golden numbers and traces,
//! every strategy under every cache, the TV fixtures, bfloat16, replicas, and what crosses over to the host.

mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use demask_decode::audit::Audit;
use demask_decode::dependency::{Predictor, Reveals};
use demask_decode::observer::Recorder;
use demask_decode::probe::BackboneProbe;
use demask_decode::registry::Context;
use demask_decode::rng::Rng;
use demask_decode::{
    Canvas, Decoder, EosPolicy, Job, Observers, Options, Sampling, StepRecord, Suppression, cache, strategy,
};
use demask_model::checkpoint::Dtype;
use demask_model::{Backbone, HiddenRow, LoadOptions, Precision, Query, Replicas, Transformer};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn on_device(folder: &Path, dtype: Option<Dtype>) -> Transformer {
    let dtype = dtype.map(Precision::Float);
    Transformer::load(folder, &LoadOptions { composed: true, dtype, ..LoadOptions::default() }).unwrap()
}

fn on_cpu(folder: &Path) -> Transformer {
    Transformer::load(folder, &LoadOptions::default()).unwrap()
}

fn context(name: &str) -> Context {
    let path = support::folder().join(name);
    Context { predictor: Some(Arc::new(Predictor::load(&path).unwrap().0)), ..Context::default() }
}

fn run(
    backbone: &dyn Backbone,
    context: &Context,
    canvas: &Canvas,
    strategy: &str,
    options: &Options,
) -> Vec<StepRecord> {
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let audit = Arc::new(Mutex::new(Audit::new(canvas, backbone.spec())));
    let observer = Box::new(Observers(vec![Box::new(recorder.clone()), Box::new(audit.clone())]));
    let job =
        Job::new(canvas.clone(), &strategy.parse().unwrap(), context, options.clone(), observer).unwrap();
    Decoder::new(backbone).run(&mut [job]).unwrap_or_else(|e| panic!("{strategy}, {}: {e}", options.cache));
    assert_eq!(audit.lock().unwrap().wrong(), None, "{strategy}, {}", options.cache);
    std::mem::take(&mut recorder.lock().unwrap().records)
}

/// Tokens written, positions masked again and passes of a step.
type Deed = (Vec<(usize, u32)>, Vec<usize>, usize);

/// What every step did to the canvas: positions with tokens, in order of position.
fn deeds(records: &[StepRecord]) -> Vec<Deed> {
    let deed = |record: &StepRecord| {
        let mut commits: Vec<(usize, u32)> = record.commits.iter().map(|c| (c.position, c.token)).collect();
        commits.sort_unstable();
        (commits, record.remasked.clone(), record.computed_rows)
    };
    records.iter().map(deed).collect()
}

/// Runs a test on one thread: candle's products of a few rows wake threads that have less to do than waking takes.
fn on_one_thread(test: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(test);
}

fn worst(ours: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(ours.len(), expected.len());
    ours.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

fn logits_of(model: &Transformer, tokens: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let all: Vec<usize> = (0..tokens.len()).collect();
    let query = Query { tokens, hidden: Some((&all, HiddenRow::I)), ..Query::default() };
    let hidden = model.forward(&mut [query]).unwrap().remove(0).hidden.unwrap();
    let mut logits = Vec::new();
    model.logits(&hidden, &mut |_, rows| logits.extend_from_slice(rows)).unwrap();
    (hidden.data, logits)
}

#[test]
fn forward_of_every_family_is_golden() {
    on_one_thread(|| {
        for name in ["dream-toy", "llada-toy"] {
            let (model, arrays) = (
                on_device(&fixture(name), None),
                support::Arrays::open_in(&fixture(name), "expected.safetensors"),
            );
            for n in 0..2 {
                let (hidden, logits) = logits_of(&model, &arrays.ids(&format!("forward.{n}.ids")));
                let key = if name == "dream-toy" { "logits_unshifted" } else { "logits" };
                assert!(worst(&hidden, &arrays.get(&format!("forward.{n}.hidden"))) < 1e-4, "{name} {n}");
                assert!(worst(&logits, &arrays.get(&format!("forward.{n}.{key}"))) < 5e-4, "{name} {n}");
            }
        }
        // The others' recordings are held against the CPU path elsewhere; here the two paths are held together.
        for name in ["llada2-toy", "lladamoe-toy", "sdar-toy", "bert-toy", "albert-toy"] {
            let tokens: Vec<u32> = (0..24).map(|i| 5 + i * 7 % 40).collect();
            let ((a, x), (b, y)) = (
                logits_of(&on_device(&fixture(name), None), &tokens),
                logits_of(&on_cpu(&fixture(name)), &tokens),
            );
            let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            assert!(worst(&a, &wide(&b)) < 1e-4 && worst(&x, &wide(&y)) < 5e-4, "{name}");
        }
    });
}

#[test]
fn golden_traces() {
    on_one_thread(|| {
        let (device, cpu, expected) =
            (on_device(&support::folder(), None), support::backbone(), support::expected());
        let length = expected["gen_length"].as_u64().unwrap() as usize;
        let rows = ["predictor_row_i.safetensors", "predictor_row_i_minus_1.safetensors"].map(context);
        let mut settings = Vec::new();
        for trace in expected["official_dream"].as_array().unwrap() {
            settings.push((
                trace["prompt"].as_u64().unwrap(),
                format!("{}:steps={},eps=0.001", trace["alg"].as_str().unwrap(), trace["steps"]),
                (&rows[0], EosPolicy::None),
            ));
        }
        for trace in expected["klass"].as_array().unwrap() {
            settings.push((
                trace["prompt"].as_u64().unwrap(),
                format!("klass:conf={},kl={},history=2", trace["conf"], trace["kl"]),
                (&rows[0], EosPolicy::None),
            ));
        }
        for trace in expected["demask"].as_array().unwrap() {
            settings.push((
                trace["prompt"].as_u64().unwrap(),
                format!("demask:tau={},gamma={}", trace["tau"], trace["gamma"]),
                (&rows[usize::from(trace["hidden_row"] != "i")], EosPolicy::FillAfter),
            ));
        }
        let demask = |row: &str| {
            expected["demask"].as_array().unwrap().iter().filter(|t| t["hidden_row"] == row).count()
        };
        assert_eq!((settings.len(), demask("i"), demask("i-1")), (106, 24, 24));
        for (prompt, strategy, (context, eos)) in settings {
            let options = Options { eos, ..Options::default() };
            let prompt = support::ids(&expected["prompts"][prompt as usize]);
            let canvas = Canvas::generate(&prompt, length, &cpu.spec().ids).unwrap();
            let (ours, theirs) = (
                run(&device, context, &canvas, &strategy, &options),
                run(&cpu, context, &canvas, &strategy, &options),
            );
            assert_eq!(deeds(&ours), deeds(&theirs), "{strategy}");
        }
    });
}

#[test]
fn every_strategy_under_every_cache() {
    on_one_thread(|| {
        let (device, cpu, expected) =
            (on_device(&support::folder(), None), support::backbone(), support::expected());
        let context = support::context();
        let prompt = support::ids(&expected["prompts"][0]);
        let canvas = Canvas::generate(&prompt[prompt.len() - 9..], 20, &cpu.spec().ids).unwrap();
        let mut count = 0;
        for entry in strategy::ALL {
            for cache in cache::ALL {
                let options = Options {
                    seed: 5,
                    block_length: Some(10),
                    eos: EosPolicy::None,
                    cache: cache.name.parse().unwrap(),
                    ..Options::default()
                };
                let (name, mut options) = (support::spelled(entry.name), options);
                let built = name.parse::<demask_decode::StrategySpec>().unwrap().build(&context).unwrap();
                if ["apd", "copula"].contains(&entry.name) {
                    options.block_length = None;
                }
                if built.check(&options).is_err() {
                    assert!(entry.name == "adjust" && cache.name != "none", "{}, {}", entry.name, cache.name);
                    continue;
                }
                let both = [&device, &cpu].map(|model| run(model, &context, &canvas, &name, &options));
                assert_eq!(deeds(&both[0]), deeds(&both[1]), "{name}, {}", cache.name);
                count += 1;
            }
        }
        assert!(count >= 27 * 6, "{count}");
    });
}

#[test]
fn families_in_blocks_with_their_cache() {
    on_one_thread(|| {
        for (name, strategy, block) in [("llada2-toy", "llada2", 8), ("sdar-toy", "sdar", 4)] {
            let (device, cpu) = (on_device(&fixture(name), None), on_cpu(&fixture(name)));
            let prompt: Vec<u32> = (0..7).map(|i| 5 + i * 3).collect();
            let canvas = Canvas::in_blocks(&prompt, 16, Some(block), cpu.spec(), &cpu.spec().ids).unwrap();
            for cache in ["none", "auto"] {
                let options = Options {
                    block_length: Some(block),
                    cache: cache.parse().unwrap(),
                    suppression: Suppression { ids: vec![cpu.spec().ids.mask], ..Suppression::default() },
                    ..Options::default()
                };
                let both =
                    [&device, &cpu].map(|model| run(model, &Context::default(), &canvas, strategy, &options));
                assert_eq!(deeds(&both[0]), deeds(&both[1]), "{name}, {cache}");
            }
        }
    });
}

/// Norms behind the sums, learned positions, one block for all layers, a transform before the head.
#[test]
fn bert_and_albert_decode_as_on_the_cpu() {
    on_one_thread(|| {
        for name in ["bert-toy", "albert-toy"] {
            let (device, cpu) = (on_device(&fixture(name), None), on_cpu(&fixture(name)));
            let prompt: Vec<u32> = (0..7).map(|i| 5 + i * 3).collect();
            let canvas = Canvas::generate(&prompt, 20, &cpu.spec().ids).unwrap();
            for (strategy, cache) in [("entropy", "none"), ("threshold", "dual"), ("klass", "delayed")] {
                let options = Options {
                    block_length: Some(10),
                    cache: cache.parse().unwrap(),
                    eos: EosPolicy::None,
                    ..Options::default()
                };
                let both =
                    [&device, &cpu].map(|model| run(model, &Context::default(), &canvas, strategy, &options));
                assert_eq!(deeds(&both[0]), deeds(&both[1]), "{name}, {strategy}, {cache}");
            }
        }
    });
}

/// Filters and draws on the device are the sampler's.
#[test]
fn sampling_draws_what_the_cpu_draws() {
    on_one_thread(|| {
        let (device, cpu, expected) =
            (on_device(&support::folder(), None), support::backbone(), support::expected());
        let context = context("predictor_row_i_minus_1.safetensors");
        let canvas = Canvas::generate(&support::ids(&expected["prompts"][2]), 32, &cpu.spec().ids).unwrap();
        for (temperature, top_p, top_k) in [
            (1.0, None, None),
            (0.7, Some(0.9), None),
            (1.3, Some(0.95), Some(5)),
            (0.0, Some(0.8), None),
            (1.0, None, Some(3)),
        ] {
            for strategy in ["demask", "threshold", "entropy:k=2"] {
                let sampling = Sampling { temperature, top_p, top_k, ..Sampling::default() };
                let suppression = Suppression {
                    ids: vec![cpu.spec().ids.mask],
                    eos: cpu.spec().ids.eos.clone(),
                    no_eos_before: canvas.response().start + 4,
                    eos_penalty: 0.5,
                    ..Suppression::default()
                };
                let options =
                    Options { seed: 11, sampling, suppression, eos: EosPolicy::None, ..Options::default() };
                let before = device.device().unwrap().fetched();
                let both = [&device, &cpu].map(|model| run(model, &context, &canvas, strategy, &options));
                assert_eq!(deeds(&both[0]), deeds(&both[1]), "{strategy} at {sampling:?}");
                let (crossed, vocab) = (device.device().unwrap().fetched() - before, cpu.spec().vocab as u64);
                let rows: u64 = both[0].iter().map(|r| r.masked as u64).sum();
                let square: u64 = both[0].iter().map(|r| (r.masked * r.masked * 4) as u64).sum();
                assert!(
                    crossed <= rows * 64 + square,
                    "{strategy}: {crossed} bytes for {rows} rows of {vocab}"
                );
            }
        }
    });
}

#[test]
fn tv_fixtures_and_draws() {
    on_one_thread(|| {
        let (device, cpu, arrays) = (
            on_device(&support::folder(), None),
            support::backbone(),
            support::Arrays::open("expected.safetensors"),
        );
        for n in 0..2 {
            let ids = arrays.ids(&format!("dependency.{n}.ids"));
            let masked: Vec<usize> = (0..ids.len()).filter(|&p| ids[p] == cpu.spec().ids.mask).collect();
            let tokens = arrays.ids(&format!("dependency.{n}.sampled_tokens"));
            let probe = BackboneProbe::new(&device, 512);
            let reveals = Reveals::measure(&probe, &ids, &masked).unwrap();
            let ours = reveals.reveal(&probe, &tokens).unwrap();
            assert!(worst(ours.data(), &arrays.get(&format!("dependency.{n}.sampled"))) < 2e-5, "{n}");
            let plain = BackboneProbe::new(&cpu, 512);
            let base = Reveals::measure(&plain, &ids, &masked).unwrap();
            for draw in 0..8 {
                let mask = cpu.spec().ids.mask;
                let drawn = reveals.draw_with(&probe, Rng::new(3, 4), 0, draw, mask).unwrap();
                assert_eq!(
                    drawn,
                    base.draw_with(&plain, Rng::new(3, 4), 0, draw, mask).unwrap(),
                    "{n} {draw}"
                );
            }
        }
    });
}

#[test]
fn what_crosses_over_in_a_step_is_small() {
    on_one_thread(|| {
        let (device, expected) = (on_device(&support::folder(), None), support::expected());
        let context = context("predictor_row_i_minus_1.safetensors");
        let prompt = support::ids(&expected["prompts"][1]);
        for (strategy, cache, square) in [
            ("demask", "none", true),
            ("demask", "dual", true),
            ("threshold", "none", false),
            ("entropy:k=2", "delayed", false),
        ] {
            let canvas = Canvas::generate(&prompt, 40, &device.spec().ids).unwrap();
            let recorder = Arc::new(Mutex::new(Recorder::default()));
            let options =
                Options { block_length: Some(20), cache: cache.parse().unwrap(), ..Options::default() };
            let mut job =
                Job::new(canvas, &strategy.parse().unwrap(), &context, options, Box::new(recorder.clone()))
                    .unwrap();
            let (decoder, counter) = (Decoder::new(&device), device.device().unwrap());
            while !job.is_done() {
                let before = counter.fetched();
                decoder.step(&mut [&mut job]).unwrap();
                let (crossed, m) = (
                    counter.fetched() - before,
                    recorder.lock().unwrap().records.last().unwrap().masked as u64,
                );
                let allowed = m * 64 + if square { m * m * 4 } else { 0 } + 64;
                assert!(
                    crossed <= allowed,
                    "{strategy}, {cache}: {crossed} bytes of {allowed} for {m} masks"
                );
                assert!(crossed >= m * 4, "the counter counts");
            }
        }
    });
}

#[test]
fn bfloat16_stays_close() {
    on_one_thread(|| {
        let (device, cpu, arrays) = (
            on_device(&support::folder(), Some(Dtype::Bf16)),
            support::backbone(),
            support::Arrays::open("expected.safetensors"),
        );
        for n in 0..2 {
            let ids = arrays.ids(&format!("forward.{n}.ids"));
            let ((_, ours), (_, exact)) = (logits_of(&device, &ids), logits_of(&cpu, &ids));
            let vocab = cpu.spec().vocab;
            let softmax = |row: &[f32]| -> Vec<f32> {
                let max = row.iter().copied().fold(f32::MIN, f32::max);
                let weights: Vec<f32> = row.iter().map(|z| (z - max).exp()).collect();
                let sum: f32 = weights.iter().sum();
                weights.iter().map(|w| w / sum).collect()
            };
            let tv = |a: &[f32], b: &[f32]| -> f32 {
                softmax(a).iter().zip(softmax(b)).map(|(a, b)| (a - b).abs()).sum::<f32>() / 2.0
            };
            let all: Vec<f32> =
                ours.chunks_exact(vocab).zip(exact.chunks_exact(vocab)).map(|(a, b)| tv(a, b)).collect();
            let mean = all.iter().sum::<f32>() / all.len() as f32;
            assert!(mean < 0.01, "mean total variation {mean}");
        }
        // Total variation between tokens that interact, of bfloat16 weights and activations, against the golden f32.
        for n in 0..2 {
            let ids = arrays.ids(&format!("dependency.{n}.ids"));
            let masked: Vec<usize> = (0..ids.len()).filter(|&p| ids[p] == cpu.spec().ids.mask).collect();
            let tokens = arrays.ids(&format!("dependency.{n}.sampled_tokens"));
            let probe = BackboneProbe::new(&device, 512);
            let ours = Reveals::measure(&probe, &ids, &masked).unwrap().reveal(&probe, &tokens).unwrap();
            let golden = arrays.get(&format!("dependency.{n}.sampled"));
            let apart: Vec<f64> =
                ours.data().iter().zip(&golden).map(|(a, b)| (f64::from(*a) - b).abs()).collect();
            let mean = apart.iter().sum::<f64>() / apart.len() as f64;
            let most = apart.iter().copied().fold(0.0, f64::max);
            assert!(mean < 0.005 && most < 0.05, "{n}: mean {mean}, largest {most}");
        }
        // The whole loop runs: rows, head, predictor in f32, caches.
        let expected = support::expected();
        let context = context("predictor_row_i_minus_1.safetensors");
        for (strategy, cache) in
            [("demask", "none"), ("demask", "dual"), ("klass", "delayed"), ("wino", "none")]
        {
            let canvas =
                Canvas::generate(&support::ids(&expected["prompts"][0]), 24, &device.spec().ids).unwrap();
            let options =
                Options { block_length: Some(12), cache: cache.parse().unwrap(), ..Options::default() };
            assert!(!run(&device, &context, &canvas, strategy, &options).is_empty());
        }
    });
}

#[test]
fn replicas_share_a_batch_without_a_trace() {
    let folder = support::folder();
    let one = on_device(&folder, None);
    let two = Replicas::new(vec![on_device(&folder, None), on_device(&folder, None)]).unwrap();
    let (expected, context) = (support::expected(), context("predictor_row_i.safetensors"));
    let prompts: Vec<Vec<u32>> =
        expected["prompts"].as_array().unwrap().iter().take(3).map(support::ids).collect();
    for (strategy, cache) in [("demask", "none"), ("demask", "dual"), ("demask:dependency=oracle", "none")] {
        let decoded = |backbone: &dyn Backbone| {
            let job = |prompt: &Vec<u32>| {
                let canvas = Canvas::generate(prompt, 8, &one.spec().ids).unwrap();
                let options =
                    Options { block_length: Some(4), cache: cache.parse().unwrap(), ..Options::default() };
                Job::new(canvas, &strategy.parse().unwrap(), &context, options, Box::new(())).unwrap()
            };
            let mut jobs: Vec<Job> = prompts.iter().map(job).collect();
            Decoder::new(backbone).run(&mut jobs).unwrap();
            jobs.iter().map(|job| (job.canvas().tokens().to_vec(), job.totals().steps)).collect::<Vec<_>>()
        };
        let before = two.rows();
        assert_eq!(decoded(&one), decoded(&two), "{strategy}, {cache}");
        let took: Vec<u64> = two.rows().iter().zip(before).map(|(now, before)| now - before).collect();
        let (least, most) = (took.iter().min().unwrap(), took.iter().max().unwrap());
        assert!(*least > 0 && most <= &(3 * least), "both take part: {took:?} rows, {strategy}, {cache}");
        // Strategies ask for passes from the workers of the pool: one that waited for the replicas would be missing to them.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(pool.install(|| decoded(&two)), decoded(&one), "{strategy}, {cache}, on one thread");
    }
}
