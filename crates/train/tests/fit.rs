//! Predictor training on a small cache: it learns, reports, resumes, and does without stored hidden rows.

mod support;

use std::ops::ControlFlow;
use std::path::Path;

use demask_decode::dependency::{Feature, Head, Measure, Parts, Predictor};
use demask_engine::Shard;
use demask_model::checkpoint::{Dtype, Store};
use demask_model::{Backbone as _, HiddenRow, LoadOptions, Rows, Transformer};
use demask_train::compute::Compute;
use demask_train::fit::{Config, Examples, Fit, FitProgress, Fitted, Split, Watcher, best};
use demask_train::predictor::Architecture;
use demask_train::tv_cache::{Cache, HiddenRows, Labelling, Stored, TvCacheSettings};
use support::{assert_same, generate, responses, settings};

fn cache(folder: &Path, hidden: HiddenRows) -> Cache {
    let settings = TvCacheSettings { hidden, hidden_dtype: Stored::F32, masks_per_response: 4, ..settings() };
    generate(&responses(48), &settings, folder, 8000, Shard::WHOLE);
    Cache::open(folder).unwrap()
}

fn config() -> Config {
    Config {
        epochs: 12,
        batch: 8,
        rate: 1e-2,
        validation: 0.2,
        window: 3,
        validations_per_epoch: 2,
        ..Config::default()
    }
}

fn fit<'a>(cache: &'a Cache, config: &'a Config, row: HiddenRow, folder: &'a Path) -> Fit<'a> {
    Fit { cache, config, row, backbone: None, folder, trained_on: "a test", compute: Compute::CPU }
}

/// Stops after some updates.
struct Until(u64);

impl Watcher for Until {
    fn on_step(&mut self, progress: &FitProgress) -> ControlFlow<()> {
        if progress.step >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn weights(fitted: &Fitted) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("predictor.safetensors");
    fitted.parts.save(&path, Dtype::F32).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn it_learns_and_a_stopped_run_ends_in_the_same_bytes() {
    let data = tempfile::tempdir().unwrap();
    let (cache, config) = (cache(data.path(), HiddenRows::Both), config());
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = fit(&cache, &config, HiddenRow::IMinusOne, a.path()).run(&mut ()).unwrap().unwrap();
    let report = &whole.report;
    // Untrained, every pair is predicted 0.5, an error of about 0.2 here. A few dozen responses are too few
    // to beat the best constant on held-out ones; they do teach the scale.
    assert!(report.validation_mse < 0.1, "{report}");
    assert!(report.irreducible_mse.is_some(), "{report}");
    for stop in [1, 7, 30] {
        assert!(
            fit(&cache, &config, HiddenRow::IMinusOne, b.path()).run(&mut Until(stop)).unwrap().is_none()
        );
    }
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let resumed =
        one.install(|| fit(&cache, &config, HiddenRow::IMinusOne, b.path()).run(&mut ()).unwrap().unwrap());
    assert_same(a.path(), b.path());
    assert_eq!(weights(&whole), weights(&resumed));

    // What was trained is what decoding loads.
    let path = data.path().join("predictor.safetensors");
    whole.parts.save(&path, Dtype::F32).unwrap();
    let (predictor, _) = Predictor::load(&path).unwrap();
    let backbone = support::backbone();
    predictor.check_fit(&backbone).unwrap();
    let (parts, _) = Parts::load(&path).unwrap();
    assert_eq!(parts.heads, whole.parts.heads);
    assert_eq!(parts.metadata.hidden_row, HiddenRow::IMinusOne);

    let other = Config { rate: 2e-3, ..config.clone() };
    let error = fit(&cache, &other, HiddenRow::IMinusOne, a.path()).run(&mut ()).unwrap_err().to_string();
    assert!(error.contains("another"), "{error}");
}

/// The same loop on divergences, for a predictor of mutual information; its file says what it predicts and how well.
#[test]
fn a_stopped_run_on_divergences_ends_in_the_same_bytes() {
    let data = tempfile::tempdir().unwrap();
    let settings = TvCacheSettings {
        divergence: true,
        hidden: HiddenRows::IMinusOne,
        hidden_dtype: Stored::F32,
        ..settings()
    };
    generate(&responses(24), &settings, data.path(), 8000, Shard::WHOLE);
    let cache = Cache::open(data.path()).unwrap();
    let config = Config { epochs: 4, target: Measure::Divergence, ..config() };
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = fit(&cache, &config, HiddenRow::IMinusOne, a.path()).run(&mut ()).unwrap().unwrap();
    for stop in [2, 9] {
        let stopped = fit(&cache, &config, HiddenRow::IMinusOne, b.path()).run(&mut Until(stop));
        assert!(stopped.unwrap().is_none());
    }
    let resumed = fit(&cache, &config, HiddenRow::IMinusOne, b.path()).run(&mut ()).unwrap().unwrap();
    assert_same(a.path(), b.path());
    assert_eq!(weights(&whole), weights(&resumed));
    let error = fit(&cache, &self::config(), HiddenRow::IMinusOne, a.path()).run(&mut ()).unwrap_err();
    assert!(error.to_string().contains("another"), "{error}");

    let path = data.path().join("information.safetensors");
    whole.parts.save(&path, Dtype::F32).unwrap();
    let store = Store::open_file(&path).unwrap();
    let said = |key: &str| store.metadata()[key].clone();
    let report = &whole.report;
    assert_eq!((said("measure"), said("demask_part")), ("kl".into(), "predictor".into()));
    assert_eq!(said("validation_loss"), report.validation_mse.to_string());
    assert_eq!(said("baseline_loss"), report.constant_mse.to_string());
    assert_eq!(said("backbone"), support::backbone().fingerprint());
    let (predictor, understood) = Predictor::load(&path).unwrap();
    assert_eq!(predictor.metadata().baseline_mse, Some(report.constant_mse));
    assert!(understood.summary().contains("best constant"), "{}", understood.summary());
    let other = fixture("apd-toy/verifier");
    let refused = predictor.check_fit(&other).unwrap_err().to_string();
    assert!(refused.contains("belongs to another model"), "{refused}");
    // One of the same shape with other weights.
    let near = changed();
    let refused = predictor.check_fit(&near).unwrap_err().to_string();
    assert!(refused.contains("was trained on backbone"), "{refused}");
}

fn fixture(name: &str) -> Transformer {
    Transformer::load(&support::folder().join("..").join(name), &LoadOptions::default()).unwrap()
}

/// The toy backbone with one weight changed by a bit.
fn changed() -> Transformer {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(support::folder().join("config.json"), folder.path().join("config.json")).unwrap();
    let mut bytes = std::fs::read(support::folder().join("model.safetensors")).unwrap();
    let last = bytes.len() - 4;
    bytes[last] ^= 1;
    std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    Transformer::load(folder.path(), &LoadOptions::default()).unwrap()
}

/// Hears of every validation.
#[derive(Default)]
struct Validations(Vec<(f64, bool)>);

impl Watcher for Validations {
    fn on_validation(&mut self, _: u64, mse: f64, best: bool) {
        self.0.push((mse, best));
    }
}

/// A rate that overshoots: later weights are worse than earlier ones, and the earlier ones are kept.
#[test]
fn the_weights_with_the_lowest_validation_error_are_kept_not_the_last() {
    let data = tempfile::tempdir().unwrap();
    let cache = cache(data.path(), HiddenRows::I);
    let config = Config { epochs: 8, rate: 3e-2, validations_per_epoch: 3, warmup: 0.3, ..config() };
    let folder = tempfile::tempdir().unwrap();
    let mut heard = Validations::default();
    let fitted = fit(&cache, &config, HiddenRow::I, folder.path()).run(&mut heard).unwrap().unwrap();
    let lowest = heard.0.iter().map(|v| v.0).fold(f64::INFINITY, f64::min);
    let last = heard.0.last().unwrap().0;
    assert!(lowest < 0.999 * last, "the last weights are the best here, so nothing is shown: {:?}", heard.0);
    assert_eq!(fitted.report.validation_mse, lowest);
    // The weights themselves, asked again on the held-out examples.
    let split = Split::of(&cache, &config).unwrap();
    let held = Examples::new(&cache, HiddenRow::I, None, &config).unwrap();
    let held = held.read(&split.validation).unwrap();
    let predictor = Predictor::new(fitted.parts).unwrap();
    let (mut sum, mut pairs) = (0.0, 0);
    for example in &held {
        let (size, hidden) = (example.positions.len(), example.hidden_i.as_ref().unwrap().to_f32());
        let predicted = predictor.predict(&Rows { width: hidden.len() / size, data: hidden }, &[]).unwrap();
        for (at, measured) in
            example.dependency.to_f32().iter().enumerate().filter(|(at, _)| at / size != at % size)
        {
            sum += f64::from(predicted.data()[at] - measured).powi(2);
            pairs += 1;
        }
    }
    let again = sum / f64::from(pairs);
    assert!((again - lowest).abs() < 1e-4 * lowest, "{again} and {lowest}, the last was {last}");
}

/// What is trained on rows with features is what decodes with them: the same matrix from the stored rows and opinions.
#[test]
fn features_are_trained_as_they_are_used() {
    let data = tempfile::tempdir().unwrap();
    let labelled = TvCacheSettings {
        stability: Some(Labelling { gamma: 0.5, alone: false }),
        hidden: HiddenRows::I,
        hidden_dtype: Stored::F32,
        ..settings()
    };
    generate(&responses(24), &labelled, data.path(), 8000, Shard::WHOLE);
    let cache = Cache::open(data.path()).unwrap();
    let architecture = Architecture { marginals: true, ..Architecture::default() };
    let config = Config { epochs: 3, architecture, ..config() };
    let folder = tempfile::tempdir().unwrap();
    let fitted = fit(&cache, &config, HiddenRow::I, folder.path()).run(&mut ()).unwrap().unwrap();
    assert_eq!(fitted.parts.metadata.features, Feature::OF_MARGINALS);
    let split = Split::of(&cache, &config).unwrap();
    let held = Examples::new(&cache, HiddenRow::I, None, &config).unwrap().read(&split.validation).unwrap();
    let (mse, predictor) = (fitted.report.validation_mse, Predictor::new(fitted.parts).unwrap());
    let (mut sum, mut pairs) = (0.0, 0);
    for example in &held {
        let (size, hidden) = (example.positions.len(), example.hidden_i.as_ref().unwrap().to_f32());
        let rows = Rows { width: hidden.len() / size, data: hidden };
        let predicted = predictor.predict(&rows, &example.opinions()).unwrap();
        let measured = example.dependency.to_f32();
        for at in (0..size * size).filter(|at| at / size != at % size) {
            sum += f64::from(predicted.data()[at] - measured[at]).powi(2);
            pairs += 1;
        }
    }
    let again = sum / f64::from(pairs);
    assert!((again - mse).abs() < 1e-4 * mse, "{again} and {mse}");
    // A cache that does not store them is refused with a sentence.
    let plain = tempfile::tempdir().unwrap();
    let cache = self::cache(plain.path(), HiddenRows::I);
    let error = fit(&cache, &config, HiddenRow::I, folder.path()).run(&mut ()).unwrap_err().to_string();
    assert!(error.contains("how sure"), "{error}");
}

#[test]
fn the_frozen_backbone_stands_in_for_stored_rows() {
    let (with, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stored = cache(with.path(), HiddenRows::I);
    let bare = cache(without.path(), HiddenRows::None);
    let config = Config { epochs: 1, ..config() };
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let from_files = fit(&stored, &config, HiddenRow::I, a.path()).run(&mut ()).unwrap().unwrap();
    let error = fit(&bare, &config, HiddenRow::I, b.path()).run(&mut ()).unwrap_err().to_string();
    assert!(error.contains("hidden rows"), "{error}");
    let backbone = support::backbone();
    let recomputed = Fit { backbone: Some(&backbone), ..fit(&bare, &config, HiddenRow::I, b.path()) };
    assert_eq!(weights(&from_files), weights(&recomputed.run(&mut ()).unwrap().unwrap()));
}

#[test]
fn the_reference_device_trains_as_the_cpu() {
    let data = tempfile::tempdir().unwrap();
    let (cache, config) = (cache(data.path(), HiddenRows::I), Config { epochs: 3, ..config() });
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cpu = fit(&cache, &config, HiddenRow::I, a.path()).run(&mut ()).unwrap().unwrap();
    let compute = Compute::on(candle_core::Device::Cpu, true);
    let device = Fit { compute, ..fit(&cache, &config, HiddenRow::I, b.path()) };
    let device = device.run(&mut ()).unwrap().unwrap();
    let (ours, theirs) = (device.report.validation_mse, cpu.report.validation_mse);
    assert!((ours - theirs).abs() < 1e-3 * theirs, "{ours} {theirs}");
    let numbers = |fitted: &Fitted| -> Vec<f32> {
        let Head::Pair { query, key } = &fitted.parts.heads[0] else { panic!("trained heads are pairs") };
        [query.data.as_slice(), &key.data].concat()
    };
    let apart = numbers(&cpu).iter().zip(numbers(&device)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 1e-3, "{apart}");
}

#[test]
fn the_better_hidden_row_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let (cache, config) = (cache(data.path(), HiddenRows::Both), Config { epochs: 2, ..config() });
    let folder = tempfile::tempdir().unwrap();
    let both: Vec<Fitted> = [(HiddenRow::I, "i"), (HiddenRow::IMinusOne, "i-1")]
        .map(|(row, name)| {
            fit(&cache, &config, row, &folder.path().join(name)).run(&mut ()).unwrap().unwrap()
        })
        .into();
    let lowest = both.iter().map(|fitted| fitted.report.validation_mse).fold(f64::INFINITY, f64::min);
    assert_eq!(best(both).unwrap().report.validation_mse, lowest);
}
