//! A toy language, and the promise that a run is a function of its config.

use std::ops::ControlFlow;
use std::path::Path;

use candle_core::Device;
use demask_model::config::Shift;
use demask_model::{Spec, SpecialIds, Transformer};

use super::*;
use crate::compute::Compute;
use crate::distill::Distillation;

/// `a + b = c` with one token per number: prompt `[10+a, 10+b]`, response `[10+a+b, 10+a]`.
pub(crate) struct Sums;

impl ExampleSource for Sums {
    fn example(&mut self, index: u64, _: &Stage) -> Result<Example> {
        let (a, b) = ((index * 7 % 10) as u32, (index * 3 % 9) as u32);
        let mut response = vec![10 + a + b, 10 + a];
        response.resize(2 + (index % 4) as usize, 4);
        Ok(Example { prompt: vec![5, 10 + a, 10 + b], response })
    }
}

/// A backbone for the toy language.
pub(crate) fn spec() -> Spec {
    Spec {
        vocab: 32,
        hidden: 16,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 8,
        ffn: 24,
        rotary: 8,
        max_positions: 512,
        qkv_bias: true,
        shift: Shift::Global,
        ..Spec::plain("dream", SpecialIds { mask: 1, eos: vec![2], pad: Some(0), bos: Some(3) })
    }
}

/// Stops at a step, as a user's Ctrl-C would.
struct StopAt(u64, Vec<f64>);

impl Watcher for StopAt {
    fn on_step(&mut self, progress: &PretrainProgress) -> ControlFlow<()> {
        self.1.push(progress.loss);
        if progress.step == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn validate(&mut self, _: u64, _: &Transformer) -> std::result::Result<Vec<Score>, String> {
        Ok(vec![Score { name: "toy".into(), value: 0.5 }])
    }
}

fn train(folder: &Path, config: &Config, stop: u64) -> (Vec<f32>, Vec<f64>) {
    train_on(Compute::CPU, folder, config, stop)
}

fn train_on(compute: Compute, folder: &Path, config: &Config, stop: u64) -> (Vec<f32>, Vec<f64>) {
    let spec = spec();
    let run = Run { config, spec: &spec, folder, tokenizer: None, start: None, compute };
    let mut watcher = StopAt(stop, Vec::new());
    let outcome = run.train(&mut Sums, &mut watcher).unwrap();
    (outcome.parameters, watcher.1)
}

fn config() -> Config {
    let text = config::tests::SMALL.replace("batch_tokens = 160", "batch_tokens = 160\ntight = 0.6");
    let steps = text.replace("steps = 40", "steps = 180");
    Config::parse(&format!(
        "{steps}\n[report]\nlog_steps = 1\nsave_seconds = 0\nvalidate_steps = 50\n[optimizer]\nema = 0.99\n[muon]\nmomentum = 0.9"
    ))
    .unwrap()
}

#[test]
fn two_runs_of_200_steps_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = config();
    let (a, losses) = train(&folder.path().join("a"), &config, u64::MAX);
    let (b, _) = train(&folder.path().join("b"), &config, u64::MAX);
    assert_eq!(losses.len(), 200);
    assert!(a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits()));
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(
        mean(&losses[..5]) > 2.5 && mean(&losses[180..]) < 1.4,
        "{} {}",
        mean(&losses[..5]),
        mean(&losses[180..])
    );
}

#[test]
fn a_stopped_run_continues_as_if_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let config = config();
    let (whole, _) = train(&folder.path().join("a"), &config, u64::MAX);
    let parts = folder.path().join("b");
    train(&parts, &config, 13);
    train(&parts, &config, 77);
    let (resumed, losses) = train(&parts, &config, u64::MAX);
    assert_eq!(losses.len(), 200 - 77);
    assert!(whole.iter().zip(&resumed).all(|(a, b)| a.to_bits() == b.to_bits()));
    let (read, same) = (Curve::read(&parts, 200), Curve::read(&folder.path().join("a"), 200));
    let losses = |curve: &Curve| curve.points.iter().map(|p| (p.step, p.loss)).collect::<Vec<_>>();
    assert_eq!(losses(&read), losses(&same));
    assert_eq!(read.scores.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [50, 100, 150, 200]);
    // A finished run does nothing more.
    assert!(train(&parts, &config, u64::MAX).1.is_empty());
    assert_eq!(Spec::from_folder(&parts.join("export")).unwrap(), spec());
}

/// A model that learns from its own answers goes on from the weights it began with, not from whatever lies there now.
#[test]
fn own_answers_are_those_of_the_same_weights() {
    let folder = tempfile::tempdir().unwrap();
    let config = config();
    train(&folder.path().join("a"), &config, 25);
    let start = folder.path().join("a/causal");
    let own = Distillation {
        seed: 0,
        length: 8,
        steps: 6,
        rate: 1e-4,
        entropy: None,
        block: None,
        batch_tokens: 80,
    };
    let own = own.config(&spec());
    let go = |config: &Config, name: &str, stop: u64| {
        let (spec, folder) = (spec(), folder.path().join(name));
        let (start, compute) = (Some(start.as_path()), Compute::CPU);
        let run = Run { config, spec: &spec, folder: &folder, tokenizer: None, start, compute };
        run.train(&mut Sums, &mut StopAt(stop, Vec::new())).map(|outcome| outcome.step)
    };
    let change_a_bit = || {
        let path = start.join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    assert_eq!((go(&own, "own", 2).unwrap(), go(&config, "more", 2).unwrap()), (2, 2));
    change_a_bit();
    let refused = go(&own, "own", u64::MAX).unwrap_err().to_string();
    assert!(refused.contains("another config, tokenizer or start"), "{refused}");
    // Other trainings needed it for their first update only.
    assert_eq!(go(&config, "more", 4).unwrap(), 4);
    change_a_bit();
    assert_eq!(go(&own, "own", u64::MAX).unwrap(), 6);
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let config = config();
    let with = |threads: usize| {
        let folder = tempfile::tempdir().unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| train(folder.path(), &config, 40).0)
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn the_reference_device_trains_as_the_cpu() {
    let (config, reference) = (config(), Compute::on(Device::Cpu, true));
    let folder = tempfile::tempdir().unwrap();
    // Both stages, a validation and an export; beyond that rounding would be all that is measured.
    let (a, losses) = train(&folder.path().join("a"), &config, 50);
    let (b, others) = train_on(reference.clone(), &folder.path().join("b"), &config, 50);
    assert_eq!((losses.len(), others.len()), (50, 50));
    for (step, (ours, theirs)) in losses.iter().zip(&others).enumerate() {
        assert!((ours - theirs).abs() < 2e-3 * ours, "step {step}: {ours} {theirs}");
    }
    let apart = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
    let moved = a.iter().zip(&spec_start(&config)).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
    assert!(apart < 1e-2 * moved, "{apart} apart after moving {moved}");
    assert!(folder.path().join("b/causal").exists());
    // What the kernels alone can do is refused in a sentence.
    let bf16 = Config { precision: Precision::Bf16, ..config };
    let layout = Layout::new(&spec()).unwrap();
    let refused = step::gradient(&spec(), &layout, &reference, bf16.precision).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("precision is bf16, must be f32"), "{refused}");
}

fn spec_start(config: &Config) -> Vec<f32> {
    Layout::new(&spec()).unwrap().initial(config.seed)
}
