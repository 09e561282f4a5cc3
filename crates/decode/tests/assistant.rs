//! A second model beside the backbone: APD and copulas against the numbers of their published code, and what an assistant
//! must not do.

mod support;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use demask_decode::audit::Audit;
use demask_decode::dependency::{Measure, Metadata, Parts, Predictor};
use demask_decode::observer::Recorder;
use demask_decode::strategy::ALL;
use demask_decode::{
    Assistant, Canvas, Context, Decoder, EosPolicy, Job, Observer, Options, Sampling, StepRecord,
    StrategySpec,
};
use demask_model::{Backbone, Grid, LoadOptions, Query, Spec, SpecialIds, Transformer};
use serde_json::Value;

const MASK: u32 = 1;
const EOS: u32 = 2;

fn fixture(name: &str) -> Value {
    let path = support::folder().join("..").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn prompt(index: &Value) -> Vec<u32> {
    support::ids(&support::expected()["prompts"][index.as_u64().unwrap() as usize])
}

fn run(
    backbone: &Transformer,
    context: &Context,
    canvas: Canvas,
    strategy: &str,
    options: Options,
) -> (Job, Vec<StepRecord>) {
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let job =
        Job::new(canvas, &strategy.parse().unwrap(), context, options, Box::new(recorder.clone())).unwrap();
    let mut jobs = [job];
    Decoder::new(backbone).run(&mut jobs).unwrap();
    let [job] = jobs;
    let records = std::mem::take(&mut recorder.lock().unwrap().records);
    (job, records)
}

/// Up to the first end of sequence, that included.
fn to_eos(tokens: &[u32]) -> &[u32] {
    let end = tokens.iter().position(|&t| t == EOS || t == MASK).map_or(tokens.len(), |e| e + 1);
    &tokens[..end.min(tokens.len())]
}

#[test]
fn the_verifier_is_the_causal_model_of_its_checkpoint() {
    let verifier = support::verifier();
    let arrays = support::Arrays::open_in(&support::folder().join("../apd-toy"), "expected.safetensors");
    for index in 0.. {
        let name = format!("verifier.{index}.ids");
        if !arrays.has(&name) {
            assert!(index > 0);
            break;
        }
        let ids = arrays.ids(&name);
        let want = arrays.f32(&format!("verifier.{index}.logits"));
        let predict: Vec<usize> = (1..ids.len()).collect();
        for blocks in [None, Some(Grid::new(0, 1))] {
            let mut batch = [Query { tokens: &ids, predict: &predict, blocks, ..Query::default() }];
            let passes = verifier.forward(&mut batch).unwrap();
            let vocab = verifier.spec().vocab;
            let mut worst = 0.0_f32;
            verifier
                .logits(&passes[0].predicting, &mut |first, logits| {
                    let want = &want[first * vocab..first * vocab + logits.len()];
                    logits.iter().zip(want).for_each(|(a, b)| worst = worst.max((a - b).abs()));
                })
                .unwrap();
            assert!(worst < 2e-4, "{index}: {worst}");
        }
    }
}

#[test]
fn apd_follows_every_greedy_trace_of_the_published_code() {
    let (backbone, context) = (support::backbone(), support::context());
    let mut count = 0;
    for trace in fixture("apd-toy/expected.json")["traces"].as_array().unwrap() {
        if trace["alg"] != "apd" || trace["temperature"].as_f64() != Some(0.0) {
            continue;
        }
        let mut strategy = format!("apd:r={}", trace["R"]);
        for (key, name) in [("W", "window"), ("M", "lookahead")] {
            if let Some(value) = trace[key].as_u64() {
                strategy += &format!(",{name}={value}");
            }
        }
        let canvas = Canvas::generate(&prompt(&trace["prompt"]), 40, &backbone.spec().ids).unwrap();
        let (job, records) = run(&backbone, &context, canvas, &strategy, Options::default());
        let start = job.canvas().response().start;
        let want = support::ids(&trace["response"]);
        let want = want.split(|&t| t == MASK).next().unwrap();
        assert_eq!(to_eos(&job.canvas().tokens()[start..]), to_eos(want), "{strategy} {}", trace["prompt"]);
        let accepted: Vec<u64> = records.iter().map(|r| r.commits.len() as u64).collect();
        let expected: Vec<u64> =
            trace["accepted"].as_array().unwrap().iter().map(|a| a.as_u64().unwrap()).collect();
        assert_eq!(accepted, expected, "{strategy} {}", trace["prompt"]);
        assert!(job.totals().assistant_rows > 0 || records.len() == 1);
        count += 1;
    }
    assert_eq!(count, 64);
}

#[test]
fn with_everything_or_nothing_of_the_assistant() {
    let (backbone, context) = (support::backbone(), support::context());
    let canvas = || Canvas::generate(&prompt(&serde_json::json!(0)), 24, &backbone.spec().ids).unwrap();
    let options = Options { eos: EosPolicy::None, ..Options::default() };
    // r = 1 keeps the whole draft: one pass.
    let (all, records) = run(&backbone, &context, canvas(), "apd:r=1", options.clone());
    let (order, _) = run(&backbone, &context, canvas(), "token-order:k=24", options.clone());
    assert_eq!((all.canvas().tokens(), records.len()), (order.canvas().tokens(), 1));
    // At temperature 0 the two rules are one.
    let (greedy, _) = run(&backbone, &context, canvas(), "apd:r=0.5", options.clone());
    let (coupled, _) = run(&backbone, &context, canvas(), "apd:r=0.5,rule=coupled", options);
    assert_eq!(greedy.canvas().tokens(), coupled.canvas().tokens());
}

#[test]
fn copulas_are_those_of_the_published_function() {
    let (backbone, context) = (support::backbone(), support::context());
    let cases = fixture("dcd-toy/expected.json");
    for case in cases["cases"].as_array().unwrap() {
        let mut tokens = prompt(&case["prompt"]);
        let start = tokens.len();
        tokens.resize(start + 40, MASK);
        for (offset, token) in case["known"].as_object().unwrap() {
            tokens[start + offset.parse::<usize>().unwrap()] = token.as_u64().unwrap() as u32;
        }
        let canvas = Canvas::infill(&tokens, &backbone.spec().ids).unwrap();
        assert_eq!(canvas.response(), start..start + 40);
        let options = Options { eos: EosPolicy::None, ..Options::default() };
        let strategy = format!("copula:steps={}", case["steps"]);
        let (job, records) = run(&backbone, &context, canvas, &strategy, options);
        let want = support::ids(&case["response_to_eos"]);
        assert_eq!(job.canvas().tokens()[start..start + want.len()], want, "{case}");
        let masks = |chunk: &Value| {
            let (from, to) = (chunk[0].as_u64().unwrap() as usize, chunk[1].as_u64().unwrap() as usize);
            (from..to).filter(|&p| tokens[p] == MASK).count()
        };
        let chunks: Vec<usize> = case["chunks"].as_array().unwrap().iter().map(masks).collect();
        assert_eq!(records.iter().map(|r| r.commits.len()).collect::<Vec<_>>(), chunks);
        assert!(records.iter().all(|r| r.forwards == 2 && r.assistant_rows > 0));
    }
}

#[test]
fn without_right_context_the_suffix_reference_is_skipped() {
    let (backbone, context) = (support::backbone(), support::context());
    let canvas = Canvas::generate(&prompt(&serde_json::json!(1)), 16, &backbone.spec().ids).unwrap();
    let options = Options { eos: EosPolicy::None, ..Options::default() };
    let (_, records) = run(&backbone, &context, canvas, "copula:chunk=4,reference=suffix", options);
    assert!(records.len() == 4 && records.iter().all(|r| r.forwards == 1), "{}", records.len());
}

#[test]
fn company_changes_no_token_of_an_assisted_canvas() {
    let (backbone, context) = (support::backbone(), support::context());
    let strategies =
        ["apd:r=0.4", "copula:chunk=5", "apd:r=0.6,window=4,lookahead=6", "entropy:k=2", "apd:rule=coupled"];
    let job = |i: usize| {
        let canvas =
            Canvas::generate(&prompt(&serde_json::json!(i)), 9 + 2 * i, &backbone.spec().ids).unwrap();
        let sampling = Sampling { temperature: 0.8, ..Sampling::default() };
        let options = Options { stream: i as u64, sampling, ..Options::default() };
        Job::new(canvas, &strategies[i % 5].parse().unwrap(), &context, options, Box::new(())).unwrap()
    };
    let mut together: Vec<Job> = (0..8).map(job).collect();
    Decoder::new(&backbone).run(&mut together).unwrap();
    for (i, together) in together.iter().enumerate() {
        let mut alone = [job(i)];
        Decoder::new(&backbone).run(&mut alone).unwrap();
        assert_eq!(alone[0].canvas().tokens(), together.canvas().tokens(), "canvas {i}");
        assert_eq!(alone[0].totals().assistant_rows, together.totals().assistant_rows, "canvas {i}");
    }
}

#[test]
fn an_assistant_that_nobody_asks_changes_nothing() {
    let (backbone, with) = (support::backbone(), support::context());
    let without = Context { assistant: None, ..with.clone() };
    let mut asking = Vec::new();
    for entry in ALL {
        let strategy = support::spelled(entry.name);
        let spec: StrategySpec = strategy.parse().unwrap();
        if spec.build(&with).unwrap().needs().assistant {
            asking.push(entry.name);
            continue;
        }
        for temperature in [0.0, 0.9] {
            let options = || {
                let sampling = Sampling { temperature, ..Sampling::default() };
                Options { sampling, seed: 5, ..Options::default() }
            };
            let canvas =
                || Canvas::generate(&prompt(&serde_json::json!(2)), 20, &backbone.spec().ids).unwrap();
            let (a, steps) = run(&backbone, &with, canvas(), &strategy, options());
            let (b, plain) = run(&backbone, &without, canvas(), &strategy, options());
            assert_eq!(a.canvas().tokens(), b.canvas().tokens(), "{strategy} at {temperature}");
            let commits =
                |records: Vec<StepRecord>| records.into_iter().map(|r| r.commits).collect::<Vec<_>>();
            assert_eq!(commits(steps), commits(plain), "{strategy} at {temperature}");
            assert_eq!((a.totals().assistant_rows, a.totals().forwards), (0, b.totals().forwards));
        }
    }
    assert_eq!(asking, ["apd", "copula"]);
}

/// Never called.
struct Nobody;

impl Observer for Nobody {
    fn on_step(&mut self, _: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        unreachable!()
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_a_sentence() {
    let (backbone, context) = (support::backbone(), support::context());
    let refused = |strategy: &str, context: &Context, options: Options| {
        let canvas = Canvas::generate(&[5], 8, &backbone.spec().ids).unwrap();
        let job = Job::new(canvas, &strategy.parse().unwrap(), context, options, Box::new(Nobody));
        job.err().unwrap_or_else(|| panic!("{strategy}")).to_string()
    };
    let blocks = || Options { block_length: Some(4), ..Options::default() };
    assert!(refused("apd", &context, blocks()).contains("left to right over the whole response"));
    assert!(refused("copula", &context, blocks()).contains("leave out the block length"));
    let cached = || Options { cache: "dual".parse().unwrap(), ..Options::default() };
    assert!(refused("apd:window=4", &context, cached()).contains("its own window"));
    assert!(refused("token-order:lookahead=4", &context, blocks()).contains("leave out the block length"));
    assert!(refused("token-order:window=4", &context, cached()).contains("its own window"));
    let guided = || Options { guidance: 0.5, ..Options::default() };
    for strategy in ["token-order:lookahead=4", "copula", "adjust"] {
        assert!(refused(strategy, &context, guided()).contains("guidance"), "{strategy}");
    }
    let alone = Context { assistant: None, ..context.clone() };
    assert!(refused("apd", &alone, Options::default()).contains("needs an assistant"));
    // LLaDA's rows predict their own position.
    let folder = support::folder().join("../llada-toy");
    let llada = Transformer::load(&folder, &LoadOptions::default()).unwrap();
    let error = Assistant::new(Arc::new(llada), backbone.spec()).err().unwrap().to_string();
    assert!(error.contains("predict their own position"), "{error}");
}

/// The ids that mean something to a decoder must mean the same to both; what one of them leaves open is no contradiction.
#[test]
fn an_assistant_has_the_models_special_ids() {
    let ids = support::backbone().spec().ids.clone();
    let with = |model: SpecialIds, assistant: Transformer| {
        let spec = Spec { ids: model, ..support::backbone().spec().clone() };
        Assistant::new(Arc::new(assistant), &spec).map_err(|error| error.to_string())
    };
    let ends = |ends: &[u32]| SpecialIds { eos: ends.to_vec(), ..ids.clone() };
    let ending = |more: &[u32]| {
        let mut verifier = support::verifier();
        verifier.add_eos(more);
        verifier
    };
    let refused = |model: SpecialIds, assistant: Transformer| with(model, assistant).err().unwrap();
    assert!(
        refused(ends(&[7]), ending(&[])).contains("end of sequence is Some(2) and the model's is Some(7)")
    );
    assert!(
        refused(ends(&[2, 7]), ending(&[8]))
            .contains("ends of sequence are [2, 8] and the model's are [2, 7]")
    );
    for (model, assistant) in [(&[2][..], &[][..]), (&[2, 7], &[]), (&[2], &[8]), (&[2, 8, 7], &[7, 8])] {
        assert!(with(ends(model), ending(assistant)).is_ok(), "{model:?} {assistant:?}");
    }
    // A diffusion model by its config has a mask, which must be the model's; it is told from a causal one.
    assert!(
        refused(SpecialIds { mask: 9, ..ids.clone() }, support::backbone())
            .contains("mask is 1 and the model's is 9")
    );
    assert!(with(ids.clone(), support::backbone()).unwrap().is_described_as_diffusion());
    assert!(!with(ids.clone(), support::verifier()).unwrap().is_described_as_diffusion());
}

/// The uniforms of the fixtures.
fn uniform(seed: u64, call: u64, k: u64) -> f64 {
    let mut x = (seed << 48).wrapping_add(call << 32).wrapping_add(k).wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (((x ^ (x >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

fn logits(backbone: &Transformer, tokens: &[u32], predict: &[usize]) -> Vec<Vec<f32>> {
    let mut batch = [Query { tokens, predict, ..Query::default() }];
    let passes = backbone.forward(&mut batch).unwrap();
    let mut rows = Vec::new();
    let mut keep = |_: usize, chunk: &mut [f32]| {
        rows.extend(chunk.chunks_exact(backbone.spec().vocab).map(<[f32]>::to_vec));
    };
    backbone.logits(&passes[0].predicting, &mut keep).unwrap();
    rows
}

fn best(scores: impl Iterator<Item = f64>) -> u32 {
    scores.enumerate().fold((0, f64::NEG_INFINITY), |a, (t, s)| if s > a.1 { (t, s) } else { a }).0 as u32
}

/// The published loop with its own drafting: temperature twice, a hidden top-k of 50.
#[test]
fn the_published_loop_with_its_draws_is_reproduced_by_these_models() {
    let (backbone, verifier) = (support::backbone(), support::verifier());
    let mut count = 0;
    for trace in fixture("apd-toy/expected.json")["traces"].as_array().unwrap() {
        let number = |key: &str| trace[key].as_f64();
        let temperature = number("temperature").unwrap();
        if trace["alg"] != "apd" || temperature == 0.0 {
            continue;
        }
        let (r, seed) = (number("R").unwrap(), trace["seed"].as_u64().unwrap());
        let mut tokens = prompt(&trace["prompt"]);
        let start = tokens.len();
        tokens.resize(start + 40, MASK);
        let (mut at, mut accepted) = (start, Vec::new());
        while at < tokens.len() && !tokens[start..].contains(&EOS) {
            let end = trace["M"].as_u64().map_or(tokens.len(), |m| (at + m as usize).min(tokens.len()));
            let predict: Vec<usize> = (at..end).collect();
            let z = logits(&backbone, &tokens[..end], &predict);
            let sampling = Sampling {
                temperature: temperature as f32,
                top_p: number("top_p").map(|p| p as f32),
                top_k: trace["top_k"].as_u64().map(|k| k as usize),
                ..Sampling::default()
            };
            let draft = |row: usize| {
                let max = z[row].iter().copied().fold(f32::MIN, f32::max);
                let kept = sampling.filter(&z[row], max, demask_decode::sampler::ScoreDtype::F32);
                let noised = |t: usize| match kept.iter().any(|k| k.0 == t as u32) {
                    true => {
                        let u = uniform(seed, accepted.len() as u64, (row * z[row].len() + t) as u64);
                        f64::from(z[row][t]) / temperature + temperature * -(-u.ln()).ln()
                    }
                    false => f64::NEG_INFINITY,
                };
                best((0..z[row].len()).map(noised))
            };
            let drafted: Vec<u32> = (0..z.len()).map(draft).collect();
            let mut text = tokens[..at].to_vec();
            text.extend_from_slice(&drafted);
            let v = logits(&verifier, &text, &predict);
            let agrees = |i: usize| {
                let mixed =
                    z[i].iter().zip(&v[i]).map(|(z, v)| r * f64::from(*z) + (1.0 - r) * f64::from(*v));
                best(mixed) == drafted[i]
            };
            let kept = 1 + (1..drafted.len()).take_while(|&i| agrees(i)).count();
            tokens[at..at + kept].copy_from_slice(&drafted[..kept]);
            at += kept;
            accepted.push(kept as u32);
        }
        assert_eq!(tokens[start..], support::ids(&trace["response"]), "prompt {}", trace["prompt"]);
        assert_eq!(accepted, support::ids(&trace["accepted"]), "prompt {}", trace["prompt"]);
        count += 1;
    }
    assert_eq!(count, 16);
}

#[test]
fn left_to_right_is_token_order_with_apds_bounds() {
    let (backbone, context) = (support::backbone(), support::context());
    let mut count = 0;
    for trace in fixture("apd-toy/expected.json")["traces"].as_array().unwrap() {
        if trace["alg"] != "leftright" {
            continue;
        }
        let mut strategy = format!("token-order:k={}", trace["tokens_per_step"]);
        for (key, name) in [("M", "lookahead"), ("W", "window")] {
            if let Some(value) = trace[key].as_u64() {
                strategy += &format!(",{name}={value}");
            }
        }
        let same = |strategy: &str, options: Options| {
            let canvas = Canvas::generate(&prompt(&trace["prompt"]), 40, &backbone.spec().ids).unwrap();
            let (job, records) = run(&backbone, &context, canvas, strategy, options);
            let start = job.canvas().response().start;
            let want = support::ids(&trace["response"]);
            let want = want.split(|&t| t == MASK).next().unwrap();
            assert_eq!(to_eos(&job.canvas().tokens()[start..]), to_eos(want), "{strategy}");
            assert_eq!(records.len(), trace["accepted"].as_array().unwrap().len(), "{strategy}");
        };
        same(&strategy, Options::default());
        // The window is the cache `trailing` by another name.
        if let (Some(window), None) = (trace["W"].as_u64(), trace["M"].as_u64()) {
            let cache = format!("trailing:window={window}").parse().unwrap();
            same(
                &format!("token-order:k={}", trace["tokens_per_step"]),
                Options { cache, ..Options::default() },
            );
        }
        count += 1;
    }
    assert_eq!(count, 11);
}

/// Two passes of one run of the published code with what both models said: this engine's models say the same, and accept the
/// same.
#[test]
fn acceptance_agrees_with_what_both_models_said() {
    let (backbone, verifier) = (support::backbone(), support::verifier());
    let arrays = support::Arrays::open_in(&support::folder().join("../apd-toy"), "expected.safetensors");
    let vocab = backbone.spec().vocab;
    let mut found = 0;
    let far = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    // The run is that of the prompt for which the model says the first pass's numbers.
    'prompts: for prompt in support::expected()["prompts"].as_array().unwrap() {
        let mut tokens = support::ids(prompt);
        for index in 0..2 {
            let get = |part: &str| format!("accept.{index}.{part}");
            let (diffusion, causal) =
                (arrays.f32(&get("diffusion_logits")), arrays.f32(&get("verifier_logits")));
            let (draft, accepted) = (arrays.ids(&get("draft")), arrays.ids(&get("accepted")));
            let agrees = |i: usize| {
                let (z, v) = (&diffusion[i * vocab..(i + 1) * vocab], &causal[i * vocab..(i + 1) * vocab]);
                best(z.iter().zip(v).map(|(z, v)| 0.5 * f64::from(*z) + 0.5 * f64::from(*v))) == draft[i]
            };
            let kept = 1 + (1..draft.len()).take_while(|&i| agrees(i)).count();
            assert_eq!(accepted.iter().filter(|&&a| a == 1).count(), kept, "pass {index}");
            let (start, mut canvas) = (tokens.len(), tokens.clone());
            canvas.resize(start + 16, MASK);
            let predict: Vec<usize> = (start..start + 16).collect();
            let apart = far(&logits(&backbone, &canvas, &predict).concat(), &diffusion);
            if index == 0 && apart > 5e-4 {
                continue 'prompts;
            }
            assert!(apart < 5e-4, "pass {index}: {apart}");
            canvas[start..].copy_from_slice(&draft);
            let apart = far(&logits(&verifier, &canvas, &predict).concat(), &causal);
            assert!(apart < 5e-4, "the verifier in pass {index}: {apart}");
            tokens.extend_from_slice(&draft[..kept]);
            found += 1;
        }
    }
    assert_eq!(found, 2);
}

/// The marginals with full and with causal attention, and what a copula draws from, cell by cell.
#[test]
fn copulas_draw_from_the_published_distributions() {
    let (backbone, verifier) = (support::backbone(), support::verifier());
    let arrays = support::Arrays::open_in(&support::folder().join("../dcd-toy"), "expected.safetensors");
    let vocab = backbone.spec().vocab;
    let softmax = |row: &[f32]| -> Vec<f64> {
        let max = row.iter().copied().fold(f32::MIN, f32::max);
        let all: Vec<f64> = row.iter().map(|z| f64::from(z - max).exp()).collect();
        let sum: f64 = all.iter().sum();
        all.iter().map(|p| p / sum).collect()
    };
    let near = |got: &[f64], want: &[f32], what: &str| {
        let worst = got.iter().zip(want).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
        assert!(worst < 2e-4, "{what}: {worst}");
    };
    let mut checked = 0;
    for (number, case) in fixture("dcd-toy/expected.json")["cases"].as_array().unwrap().iter().enumerate() {
        let Some(step) = (0..4).find(|step| arrays.has(&format!("case.{number}.step.{step}.p_nc"))) else {
            continue;
        };
        let mut tokens = prompt(&case["prompt"]);
        let start = tokens.len();
        tokens.resize(start + 40, MASK);
        for (offset, token) in case["known"].as_object().unwrap() {
            tokens[start + offset.parse::<usize>().unwrap()] = token.as_u64().unwrap() as u32;
        }
        let final_tokens = support::ids(&case["response"]);
        let chunk = &case["chunks"][step];
        let (from, to) = (chunk[0].as_u64().unwrap() as usize, chunk[1].as_u64().unwrap() as usize);
        tokens[start..from].copy_from_slice(&final_tokens[..from - start]);
        let get = |part: &str| arrays.f32(&format!("case.{number}.step.{step}.{part}"));
        let count = get("p_nc").len() / vocab;
        let predict: Vec<usize> = (from..to).take(count).collect();
        let full = logits(&backbone, &tokens, &predict);
        let mut batch =
            [Query { tokens: &tokens, predict: &predict, blocks: Some(Grid::new(0, 1)), ..Query::default() }];
        let pass = backbone.forward(&mut batch).unwrap().remove(0);
        let mut causal: Vec<Vec<f32>> = Vec::new();
        let mut keep =
            |_: usize, chunk: &mut [f32]| causal.extend(chunk.chunks_exact(vocab).map(<[f32]>::to_vec));
        backbone.logits(&pass.predicting, &mut keep).unwrap();
        let mut written = tokens.clone();
        written[start..].copy_from_slice(&final_tokens);
        let speech = logits(&verifier, &written, &predict);
        for (cell, &position) in predict.iter().enumerate() {
            let name = format!("case {number} cell {cell}");
            let (nc, c) = (softmax(&full[cell]), softmax(&causal[cell]));
            let slice = |part: &str| get(part)[cell * vocab..(cell + 1) * vocab].to_vec();
            if tokens[position] != MASK {
                continue;
            }
            near(&nc, &slice("p_nc"), &format!("{name} full"));
            near(&c, &slice("p_c"), &format!("{name} causal"));
            let log = |p: f64| p.max(1e-16).ln();
            let joint: Vec<f32> =
                (0..vocab).map(|t| (f64::from(speech[cell][t]) + log(nc[t]) - log(c[t])) as f32).collect();
            near(&softmax(&joint), &slice("p_sampled"), &format!("{name} joint"));
            // The formula alone, of the published marginals, holds as closely as its README says.
            let (nc, c) = (slice("p_nc"), slice("p_c"));
            let published =
                |t: usize| (f64::from(speech[cell][t]) + log(f64::from(nc[t])) - log(f64::from(c[t]))) as f32;
            let formula = softmax(&(0..vocab).map(published).collect::<Vec<_>>());
            let apart = |(a, b): (&f64, &f32)| (a - f64::from(*b)).abs();
            let worst = formula.iter().zip(&slice("p_sampled")).map(apart).fold(0.0, f64::max);
            assert!(worst < 2e-6, "{name} by the formula: {worst}");
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// Every strategy with a second model, a trained part or a rule of this family, under every cache it allows, in blocks and
/// without, alone and in company: it ends, no mask is left, the trace explains every token, and company changes none.
#[test]
fn the_audit_of_every_joint_decoder() {
    let (backbone, context) = (support::backbone(), support::context());
    let context = Context { information: Some(Arc::new(information())), ..context };
    let strategies = [
        "apd:r=0.5",
        "apd:r=0.3,rule=coupled",
        "apd:r=0.6,window=0,lookahead=6",
        "apd:r=0.6,window=3",
        "copula:chunk=4",
        "copula:steps=2,reference=suffix",
        "codd:k=2",
        "adjust:k=3",
        "policy",
        "policy:mode=plackett-luce,beta=2",
        "policy:mode=threshold,threshold=0.3",
        "mi:information=oracle,gamma=0.6",
        "mi:gamma=0.6",
        "mean-field",
        "clad",
        "dapd",
        "threshold:discount=10",
        "eb:discount=10,discount_by=predictor",
        "top1:k=2,discount=10",
        "maskgit-plus:k=2,discount=10,discount_by=predictor",
        "factor:discount=10",
        "token-order:k=2,window=3,lookahead=6",
        "token-order:k=3,lookahead=5",
    ];
    let (mut tried, mut refused) = (0, 0);
    for strategy in strategies {
        for cache in demask_decode::cache::ALL {
            for block_length in [None, Some(4)] {
                let options = |stream: u64| Options {
                    cache: cache.name.parse().unwrap(),
                    sampling: Sampling { temperature: 0.5, ..Sampling::default() },
                    block_length,
                    stream,
                    ..Options::default()
                };
                let name = format!("{strategy} with {}, blocks {block_length:?}", cache.name);
                let spec: demask_decode::StrategySpec = strategy.parse().unwrap();
                if let Err(why) = spec.build(&context).unwrap().check(&options(0)) {
                    // A sentence that names the strategy and what to leave out.
                    let why = why.to_string();
                    assert!(why.contains(spec.name()) && why.contains("leave out"), "{name}: {why}");
                    refused += 1;
                    continue;
                }
                let job = |index: usize, audit: &Arc<Mutex<Audit>>| {
                    let canvas = canvas(&backbone, index);
                    Job::new(canvas, &spec, &context, options(index as u64), Box::new(audit.clone())).unwrap()
                };
                let audits: Vec<Arc<Mutex<Audit>>> = (0..3)
                    .map(|i| Arc::new(Mutex::new(Audit::new(&canvas(&backbone, i), backbone.spec()))))
                    .collect();
                let mut jobs: Vec<Job> = audits.iter().enumerate().map(|(i, audit)| job(i, audit)).collect();
                Decoder::new(&backbone).run(&mut jobs).unwrap();
                for (job, audit) in jobs.iter().zip(&audits) {
                    let audit = audit.lock().unwrap();
                    assert_eq!(audit.wrong(), None, "{name}");
                    assert!(job.canvas().is_done() && !job.canvas().tokens().contains(&MASK), "{name}");
                    assert_eq!(audit.committed(), job.totals().committed, "{name}");
                }
                let alone = Arc::new(Mutex::new(Audit::new(&canvas(&backbone, 1), backbone.spec())));
                let mut one = [job(1, &alone)];
                Decoder::new(&backbone).run(&mut one).unwrap();
                assert_eq!(alone.lock().unwrap().wrong(), None, "{name} alone");
                assert_eq!(one[0].canvas().tokens(), jobs[1].canvas().tokens(), "{name}");
                tried += 1;
            }
        }
    }
    assert!(tried > 160 && refused > 60, "{tried} tried, {refused} refused");
}

/// The fixture's predictor as one of mutual information.
fn information() -> Predictor {
    let (parts, _) = Parts::load(&support::folder().join("predictor_row_i_minus_1.safetensors")).unwrap();
    let metadata = Metadata { measure: Measure::Divergence, ..parts.metadata.clone() };
    Predictor::new(Parts { metadata, ..parts }).unwrap()
}

fn canvas(backbone: &Transformer, index: usize) -> Canvas {
    Canvas::generate(&prompt(&serde_json::json!(index)), 9 + index, &backbone.spec().ids).unwrap()
}
