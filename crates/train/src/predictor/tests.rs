//! The predictor in training against finite differences and a plain twin.

use demask_decode::dependency::Predictor;
use demask_model::HiddenRow;

use super::*;
use crate::compute::Compute;
use crate::optimizer::{AdamW, Moments};

fn noise(seed: u64, count: usize) -> Vec<f32> {
    let rng = Rng::new(seed, 7);
    (0..count).map(|i| (2.0 * rng.uniform(Purpose::Token, 1, i as u64) - 1.0) as f32).collect()
}

fn batch(d: usize, sizes: &[usize]) -> Batch {
    let mut batch = Batch::default();
    for (index, &size) in sizes.iter().enumerate() {
        let mut targets: Vec<f32> = noise(index as u64 + 50, size * size).iter().map(|v| v.abs()).collect();
        (0..size).for_each(|i| targets[i * (size + 1)] = 0.0);
        batch.push(&noise(index as u64, size * d), &targets, size);
    }
    batch
}

fn variants() -> Vec<Architecture> {
    let projection = |nonlinearity| Some(ProjectionShape { inner: 7, out: 4, nonlinearity });
    vec![
        Architecture::default(),
        Architecture { heads: 3, rank: 2, ..Architecture::default() },
        Architecture { heads: 2, mix: MixRule::Learned, ..Architecture::default() },
        Architecture { projection: projection(Nonlinearity::Silu), ..Architecture::default() },
        Architecture {
            heads: 2,
            mix: MixRule::Learned,
            rank: 3,
            projection: projection(Nonlinearity::Relu),
            marginals: false,
        },
    ]
}

/// Starting values with a lopsided mix.
fn start(model: &Model) -> Vec<f32> {
    let mut parameters: Vec<f32> = model.initial(3).iter().map(|v| v * 3.0).collect();
    for (index, logit) in parameters[model.mix()].iter_mut().enumerate() {
        *logit = 0.4 * index as f32 - 0.1;
    }
    parameters
}

#[test]
fn gradients_agree_with_finite_differences() {
    let batch = batch(6, &[5, 1, 3, 8]);
    let measures = [Measure::TotalVariation, Measure::Divergence];
    for (architecture, measure) in variants().into_iter().flat_map(|a| measures.map(|m| (a, m))) {
        let model = Model::new(6, architecture).unwrap().predicting(measure);
        let parameters = start(&model);
        let mut gradient = vec![0.0; model.len()];
        let error = model.gradient(&parameters, &batch, &mut gradient);
        assert_eq!(error, model.error(&parameters, &batch));
        assert_eq!(error.pairs, 20 + 6 + 56);
        let largest = gradient.iter().fold(0.0_f32, |m, g| m.max(g.abs()));
        for index in 0..model.len() {
            let at = |shift: f32| {
                let mut moved = parameters.clone();
                moved[index] += shift;
                (model.error(&moved, &batch).mean(), f64::from(moved[index]))
            };
            let ((above, high), (below, low)) = (at(4e-3), at(-4e-3));
            let numeric = (above - below) / (high - low);
            let off = (numeric - f64::from(gradient[index])).abs();
            assert!(
                off < 2e-3 * f64::from(largest) + 1e-6,
                "{architecture:?} {index}: {numeric} {}",
                gradient[index]
            );
        }
    }
}

#[test]
fn training_and_inference_predict_alike() {
    let batch = batch(6, &[5, 3]);
    for architecture in variants() {
        let model = Model::new(6, architecture).unwrap();
        let parameters = start(&model);
        let predictor = Predictor::new(model.parts(&parameters, Metadata::new(HiddenRow::I))).unwrap();
        let predicted = model.predict(&parameters, &batch);
        let rows = Rows { data: batch.hidden[..5 * 6].to_vec(), width: 6 };
        for (a, b) in predicted.iter().zip(predictor.predict(&rows, &[]).unwrap().data()) {
            assert!((a - b).abs() < 1e-5, "{architecture:?}: {a} {b}");
        }
    }
}

#[test]
fn a_planted_predictor_is_found() {
    let d = 8;
    let model = Model::new(d, Architecture::default()).unwrap();
    let planted: Vec<f32> = model.initial(9).iter().map(|v| v * 4.0).collect();
    let mut batch = batch(d, &[12; 40]);
    batch.targets = model.predict(&planted, &batch);
    let settings = AdamW { beta2: 0.999, weight_decay: 0.0, clip: 1e30, ..AdamW::default() };
    let mut moments = Moments::new(model.initial(1), &settings);
    let mut gradient = vec![0.0; model.len()];
    let before = model.error(&moments.parameters, &batch).mean();
    for _ in 0..400 {
        model.gradient(&moments.parameters, &batch, &mut gradient);
        moments.update(&settings, &gradient, &[], 0.02);
    }
    let after = model.error(&moments.parameters, &batch).mean();
    assert!(after < before / 1000.0, "{before} {after}");
}

#[test]
fn architectures_without_parameters_are_refused() {
    assert!(Model::new(4, Architecture { heads: 0, ..Architecture::default() }).is_err());
    let projection = Some(ProjectionShape { inner: 0, out: 2, nonlinearity: Nonlinearity::Relu });
    assert!(Model::new(4, Architecture { projection, ..Architecture::default() }).is_err());
}

#[test]
fn the_reference_device_computes_the_same() {
    let (batch, reference) = (batch(6, &[5, 1, 3, 8]), Compute::on(candle_core::Device::Cpu, true));
    let measures = [Measure::TotalVariation, Measure::Divergence];
    for (architecture, measure) in variants().into_iter().flat_map(|a| measures.map(|m| (a, m))) {
        let model = Model::new(6, architecture).unwrap().predicting(measure);
        let (parameters, computed) =
            (start(&model), Computed { model: model.clone(), compute: reference.clone() });
        let (mut ours, mut theirs) = (vec![7.0; model.len()], vec![0.0; model.len()]);
        let error = computed.gradient(&parameters, &batch, &mut ours).unwrap();
        let expected = model.gradient(&parameters, &batch, &mut theirs);
        assert_eq!((error.pairs, computed.error(&parameters, &batch).unwrap()), (expected.pairs, error));
        assert!(
            (error.sum - expected.sum).abs() < 1e-5 * expected.sum,
            "{architecture:?}: {error:?} {expected:?}"
        );
        let largest = theirs.iter().fold(0.0_f32, |m, g| m.max(g.abs()));
        let apart = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5 * largest, "{architecture:?}, {measure:?}: {apart} of {largest}");
        let predicted = computed.predict(&parameters, &batch).unwrap();
        for (a, b) in predicted.iter().zip(model.predict(&parameters, &batch)) {
            assert!((a - b).abs() < 1e-6, "{architecture:?}: {a} {b}");
        }
    }
}
