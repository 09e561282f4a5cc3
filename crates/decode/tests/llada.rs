//! LLaDA on the same engine: forward parity and every recorded run of the official generate loop
//! (blocks, fewer steps than tokens, classifier-free guidance), token for token. What was not recorded (suppressed ends,
//! Gumbel noise, KLASS's loop for LLaDA) is compared with the same loops written down plainly.

mod support;

use std::path::PathBuf;

use demask_decode::registry::Context;
use demask_decode::rng::{Purpose, Rng};
use demask_decode::sampler::Draw;
use demask_decode::{Canvas, Decoder, EosPolicy, Job, Options, Sampling, StrategySpec, Suppression, Totals};
use demask_model::{Backbone, HiddenRow, LoadOptions, Query, Transformer};
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/llada-toy")
}

fn backbone() -> Transformer {
    Transformer::load(&folder(), &LoadOptions::default()).unwrap()
}

fn close(ours: &[f32], official: &[f64], what: &str) {
    assert_eq!(ours.len(), official.len(), "{what}");
    let worst = ours.iter().zip(official).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    assert!(worst < 2e-4, "{what}: {worst}");
}

#[test]
fn forward_equals_the_official_code() {
    let (backbone, arrays) = (backbone(), support::Arrays::open_in(&folder(), "expected.safetensors"));
    for n in 0..3 {
        let ids = arrays.ids(&format!("forward.{n}.ids"));
        let all: Vec<usize> = (0..ids.len()).collect();
        let hidden = Some((all.as_slice(), HiddenRow::I));
        let mut batch = [Query { tokens: &ids, predict: &all, hidden, ..Query::default() }];
        let pass = backbone.forward(&mut batch).unwrap().remove(0);
        let mut logits = Vec::new();
        backbone.logits(&pass.predicting, &mut |_, rows| logits.extend_from_slice(rows)).unwrap();
        close(&pass.hidden.unwrap().data, &arrays.get(&format!("forward.{n}.hidden")), "hidden");
        close(&logits, &arrays.get(&format!("forward.{n}.logits")), "logits");
    }
}

/// How LLaDA's loop is called.
#[derive(Debug, Clone)]
struct Call {
    prompt: Vec<u32>,
    steps: usize,
    length: usize,
    block: usize,
    cfg: f32,
}

impl Call {
    fn recorded(run: &Value) -> Self {
        let number = |name: &str| run[name].as_f64().unwrap();
        Self {
            prompt: support::ids(&run["prompt"]),
            steps: number("steps") as usize,
            length: number("gen_length") as usize,
            block: number("block_length") as usize,
            cfg: number("cfg") as f32,
        }
    }

    fn options(&self) -> Options {
        Options {
            eos: EosPolicy::None,
            block_length: Some(self.block),
            guidance: self.cfg,
            ..Options::default()
        }
    }

    fn decode(&self, backbone: &Transformer, strategy: &str, options: Options) -> (Vec<u32>, Totals) {
        let spec: StrategySpec = strategy.parse().unwrap();
        let canvas = Canvas::generate(&self.prompt, self.length, &backbone.spec().ids).unwrap();
        let mut jobs = [Job::new(canvas, &spec, &Context::default(), options, Box::new(())).unwrap()];
        Decoder::new(backbone).run(&mut jobs).unwrap();
        let canvas = jobs[0].canvas();
        (canvas.tokens()[canvas.response()].to_vec(), jobs[0].totals())
    }
}

fn recorded() -> Vec<Value> {
    let expected: Value =
        serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap();
    expected["generate"].as_array().unwrap().clone()
}

#[test]
fn every_official_run_is_reproduced() {
    every_official_run(&backbone());
}

/// The same on the reference device, whose layers are those of a GPU.
#[test]
fn every_official_run_is_reproduced_on_the_reference_device() {
    let options = LoadOptions { composed: true, ..LoadOptions::default() };
    let device = Transformer::load(&folder(), &options).unwrap();
    // On one thread: candle's products of a few rows wake threads that have less to do than waking takes.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| every_official_run(&device));
}

fn every_official_run(backbone: &Transformer) {
    let runs = recorded();
    assert_eq!(runs.len(), 15);
    for run in &runs {
        let call = Call::recorded(run);
        for strategy in ["low-confidence:", "maskgit-plus:score=raw,schedule=even,"] {
            let strategy = format!("{strategy}steps={}", call.steps);
            let (response, totals) = call.decode(backbone, &strategy, call.options());
            assert_eq!(response, support::ids(&run["final"]), "{strategy}: {call:?}");
            let passes = if call.cfg > 0.0 { 2 } else { 1 };
            assert_eq!(totals.forwards, passes * call.steps, "{strategy}: {call:?}");
        }
    }
}

/// LLaDA's loop written down plainly, the whole canvas and vocabulary at every step.
struct Plain<'a> {
    backbone: &'a Transformer,
    call: &'a Call,
    /// Cannot be written.
    forbidden: Vec<u32>,
    /// Its confidence is zero.
    deferred: Vec<u32>,
    /// Temperature and draws.
    noise: Option<(f32, Rng)>,
}

impl Plain<'_> {
    fn logits(&self, x: &[u32]) -> Vec<Vec<f32>> {
        let all: Vec<usize> = (0..x.len()).collect();
        let mut batch = [Query { tokens: x, predict: &all, ..Query::default() }];
        let pass = self.backbone.forward(&mut batch).unwrap().remove(0);
        let (mut rows, vocab) = (Vec::new(), self.backbone.spec().vocab);
        let mut visit = |_: usize, chunk: &mut [f32]| rows.extend(chunk.chunks(vocab).map(<[f32]>::to_vec));
        self.backbone.logits(&pass.predicting, &mut visit).unwrap();
        rows
    }

    fn guided(&self, x: &[u32]) -> Vec<Vec<f32>> {
        let mut z = self.logits(x);
        if self.call.cfg > 0.0 {
            let mut hidden = x.to_vec();
            hidden[..self.call.prompt.len()].fill(self.backbone.spec().ids.mask);
            for (row, un) in z.iter_mut().zip(self.logits(&hidden)) {
                row.iter_mut().zip(un).for_each(|(z, un)| *z = un + (self.call.cfg + 1.0) * (*z - un));
            }
        }
        for row in &mut z {
            self.forbidden.iter().for_each(|&id| row[id as usize] = f32::NEG_INFINITY);
        }
        z
    }

    /// Token and confidence of a position.
    fn propose(&self, step: usize, position: usize, z: &[f32]) -> (u32, f64) {
        let scores: Vec<f64> = match self.noise {
            None => z.iter().map(|&z| f64::from(z)).collect(),
            Some((temperature, rng)) => (0_u64..)
                .zip(z)
                .map(|(token, &z)| {
                    let u = rng.uniform(Purpose::Noise, step as u64, (position as u64) << 32 | token);
                    f64::from(z).exp() / (-u.ln()).powf(f64::from(temperature))
                })
                .collect(),
        };
        let token = first_largest(&scores);
        let kept = |id: usize| !self.deferred.contains(&(id as u32));
        let sum: f64 =
            z.iter().enumerate().filter(|(id, _)| kept(*id)).map(|(_, &z)| f64::from(z).exp()).sum();
        let confidence = if kept(token) { f64::from(z[token]).exp() / sum } else { 0.0 };
        (token as u32, confidence)
    }

    fn run(&self) -> Vec<u32> {
        let (mask, from) = (self.backbone.spec().ids.mask, self.call.prompt.len());
        let mut x = self.call.prompt.clone();
        x.resize(from + self.call.length, mask);
        let blocks = self.call.length / self.call.block;
        let per_block = self.call.steps / blocks;
        for block in 0..blocks {
            let (start, end) = (from + block * self.call.block, from + (block + 1) * self.call.block);
            let own = x[start..end].iter().filter(|&&t| t == mask).count();
            for step in 0..per_block {
                let z = self.guided(&x);
                let mut ranked: Vec<(usize, u32, f64)> = (0..end)
                    .filter(|&p| x[p] == mask)
                    .map(|p| {
                        let (token, confidence) = self.propose(block * per_block + step, p, &z[p]);
                        (p, token, confidence)
                    })
                    .collect();
                ranked.sort_by(|a, b| b.2.total_cmp(&a.2));
                let count = own / per_block + usize::from(step < own % per_block);
                ranked.iter().take(count).for_each(|&(p, token, _)| x[p] = token);
            }
        }
        x.split_off(from)
    }
}

fn first_largest(scores: &[f64]) -> usize {
    (0..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
}

fn plain<'a>(backbone: &'a Transformer, call: &'a Call) -> Plain<'a> {
    Plain { backbone, call, forbidden: Vec::new(), deferred: Vec::new(), noise: None }
}

/// The plain loop is itself checked against the recorded runs before it judges what they do not cover.
#[test]
fn the_plain_loop_equals_the_recorded_runs() {
    let backbone = backbone();
    for run in recorded() {
        assert_eq!(plain(&backbone, &Call::recorded(&run)).run(), support::ids(&run["final"]), "{run}");
    }
}

#[test]
fn suppression_of_the_end_equals_the_plain_loop() {
    let backbone = backbone();
    let (mut forbade, mut deferred) = (0, 0);
    for run in recorded() {
        let call = Call::recorded(&run);
        let strategy = format!("low-confidence:steps={}", call.steps);
        // The toy says its end of sequence too rarely: its three most frequent tokens stand for EOS and EoT.
        let ends = vec![73, 14, 106];
        let twin = Plain { forbidden: ends.clone(), ..plain(&backbone, &call) };
        let suppression = Suppression { ids: ends.clone(), ..Suppression::default() };
        let (ours, _) = call.decode(&backbone, &strategy, Options { suppression, ..call.options() });
        assert_eq!(ours, twin.run(), "logits, {call:?}");
        assert!(!ours.iter().any(|t| ends.contains(t)));
        forbade += usize::from(ours != support::ids(&run["final"]));
        let twin = Plain { deferred: ends.clone(), ..plain(&backbone, &call) };
        let suppression = Suppression { deferred: ends, ..Suppression::default() };
        let (ours, _) = call.decode(&backbone, &strategy, Options { suppression, ..call.options() });
        assert_eq!(ours, twin.run(), "confidence, {call:?}");
        deferred += usize::from(ours != support::ids(&run["final"]));
    }
    assert!(forbade > 5 && deferred > 5, "{forbade} and {deferred} runs were changed");
}

#[test]
fn gumbel_noise_equals_the_plain_loop() {
    let backbone = backbone();
    let mut changed = 0;
    for (index, run) in recorded().into_iter().enumerate() {
        let call = Call::recorded(&run);
        // Without early ends: the plain loop counts passes after the last mask too.
        let (seed, temperature) = (index as u64, 0.3 + 0.1 * index as f32);
        let sampling = Sampling { temperature, draw: Draw::Gumbel, ..Sampling::default() };
        let options = Options { sampling, seed, ..call.options() };
        let (ours, _) = call.decode(&backbone, &format!("low-confidence:steps={}", call.steps), options);
        let twin = Plain { noise: Some((temperature, Rng::new(seed, 0))), ..plain(&backbone, &call) };
        assert_eq!(ours, twin.run(), "{call:?} at {temperature}");
        changed += usize::from(ours != support::ids(&run["final"]));
    }
    assert!(changed > 5, "{changed} runs were changed by noise");
}

/// KLASS's loop for LLaDA written down plainly: history of every position, strict confidence, even fallback.
fn klass(twin: &Plain<'_>, conf: f64, limit: f64, length: usize) -> (Vec<u32>, usize) {
    let (mask, from) = (twin.backbone.spec().ids.mask, twin.call.prompt.len());
    let mut x = twin.call.prompt.clone();
    x.resize(from + twin.call.length, mask);
    let mut previous = vec![vec![0.0; twin.backbone.spec().vocab]; x.len()];
    let mut moved = vec![vec![0.0; length]; x.len()];
    let blocks = twin.call.length / twin.call.block;
    let (per_block, mut used) = (twin.call.steps / blocks, 0);
    for block in 0..blocks {
        let (start, end) = (from + block * twin.call.block, from + (block + 1) * twin.call.block);
        for step in 0..per_block {
            let masked: Vec<usize> = (start..end).filter(|&p| x[p] == mask).collect();
            if masked.is_empty() {
                break;
            }
            let mut current = Vec::new();
            for (position, z) in twin.guided(&x).iter().enumerate() {
                let sum: f64 = z.iter().map(|&z| f64::from(z).exp()).sum();
                let p: Vec<f64> = z.iter().map(|&z| f64::from(z).exp() / sum).collect();
                let term = |(p, q): (&f64, &f64)| p * ((p + 1e-12).ln() - (q + 1e-12).ln());
                moved[position].remove(0);
                moved[position].push(p.iter().zip(&previous[position]).map(term).sum());
                current.push(p);
            }
            let confidence = |p: usize| current[p].iter().copied().fold(0.0, f64::max);
            let stable = |p: usize| step + 1 >= length && moved[p].iter().all(|&m| m < limit);
            let mut chosen: Vec<usize> =
                masked.iter().copied().filter(|&p| stable(p) && confidence(p) > conf).collect();
            if chosen.is_empty() {
                chosen = masked;
                chosen.sort_by(|&a, &b| confidence(b).total_cmp(&confidence(a)));
                let own = twin.call.block;
                chosen.truncate(own / per_block + usize::from(step < own % per_block));
            }
            chosen.iter().for_each(|&p| x[p] = first_largest(&current[p]) as u32);
            previous = current;
            used += 1;
        }
    }
    (x.split_off(from), used)
}

#[test]
fn klass_for_llada_equals_the_plain_loop() {
    let backbone = backbone();
    let forbidden = vec![backbone.spec().ids.mask];
    let mut saved = 0;
    for run in recorded() {
        let call = Call { cfg: 0.0, steps: 24, ..Call::recorded(&run) };
        for (conf, limit, history) in [(0.1, 0.5, 2), (0.3, 0.1, 2), (0.05, 2.0, 1), (0.2, 1.0, 3)] {
            let twin = Plain { forbidden: forbidden.clone(), ..plain(&backbone, &call) };
            let (theirs, steps) = klass(&twin, conf, limit, history);
            let strategy =
                format!("klass:conf={conf},kl={limit},history={history},bar=above,follow=response,steps=24");
            let suppression = Suppression { ids: forbidden.clone(), ..Suppression::default() };
            let (ours, totals) = call.decode(&backbone, &strategy, Options { suppression, ..call.options() });
            assert_eq!((ours, totals.steps), (theirs, steps), "{strategy}: {call:?}");
            saved += call.length - steps;
        }
    }
    assert!(saved > 20, "parallel steps happened: {saved} saved");
}
