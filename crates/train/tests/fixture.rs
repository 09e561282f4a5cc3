//! Phase 2 against the golden fixture: loss, gradients and three AdamW steps of eq. 6, and the sampled D through the
//! primitive that makes the cache.

mod support;

use demask_decode::dependency::{Head, Masked, Parts, Reveals};
use demask_decode::probe::BackboneProbe;
use demask_model::{Backbone, HiddenRow, Query};
use demask_train::optimizer::{AdamW, Moments};
use demask_train::predictor::{Architecture, Batch, Model};
use support::{array, ids};

const D: usize = 64;

/// The two `dependency.N` examples: canvas, masked positions, revealed tokens.
fn examples() -> Vec<(Vec<u32>, Vec<usize>, Vec<u32>)> {
    let example = |n: usize| {
        let positions = ids(&format!("dependency.{n}.positions")).into_iter().map(|p| p as usize).collect();
        (ids(&format!("dependency.{n}.ids")), positions, ids(&format!("dependency.{n}.sampled_tokens")))
    };
    (0..2).map(example).collect()
}

fn sampled(n: usize) -> Vec<f32> {
    array(&format!("dependency.{n}.sampled")).into_iter().map(|v| v as f32).collect()
}

fn batch() -> Batch {
    let backbone = support::backbone();
    let mut batch = Batch::default();
    for (n, (tokens, positions, _)) in examples().iter().enumerate() {
        let mut queries =
            [Query { tokens, hidden: Some((positions, HiddenRow::IMinusOne)), ..Query::default() }];
        let hidden = backbone.forward(&mut queries).unwrap().remove(0).hidden.unwrap();
        batch.push(&hidden.data, &sampled(n), positions.len());
    }
    batch
}

/// `W_Q` and `W_K` of the fixture as one flat vector.
fn start() -> Vec<f32> {
    let (parts, _) = Parts::load(&support::folder().join("predictor_row_i_minus_1.safetensors")).unwrap();
    match &parts.heads[0] {
        Head::Pair { query, key } => [query.data.as_slice(), &key.data].concat(),
        Head::Merged(_) => panic!("the fixture keeps both matrices"),
    }
}

fn pair(a: &str, b: &str) -> Vec<f64> {
    [array(a), array(b)].concat()
}

/// Largest difference, as a share of the largest entry.
fn off(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    found.iter().zip(expected).map(|(f, e)| (f64::from(*f) - e).abs()).fold(0.0, f64::max) / largest
}

#[test]
fn loss_gradient_and_three_steps_are_those_of_the_fixture() {
    let expected = support::expected();
    let numbers = &expected["train"];
    let number = |name: &str| numbers[name].as_f64().unwrap();
    let losses: Vec<f64> =
        numbers["losses"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let (batch, model) = (batch(), Model::new(D, Architecture::default()).unwrap());
    let optimizer = AdamW {
        beta1: numbers["betas"][0].as_f64().unwrap(),
        beta2: numbers["betas"][1].as_f64().unwrap(),
        eps: number("eps"),
        weight_decay: number("weight_decay"),
        clip: 1e30,
        ema: 0.0,
    };
    let mut moments = Moments::new(start(), &optimizer);
    let mut gradient = vec![0.0; model.len()];
    for (step, loss) in losses[..3].iter().enumerate() {
        let error = model.gradient(&moments.parameters, &batch, &mut gradient).mean();
        assert!((error - loss).abs() < 1e-4 * loss, "step {step}: {error} {loss}");
        if step == 0 {
            let off = off(&gradient, &pair("train.grad_q", "train.grad_k"));
            assert!(off < 1e-4, "gradient: {off}");
        }
        moments.update(&optimizer, &gradient, &[model.matrices()], number("lr"));
    }
    let last = model.error(&moments.parameters, &batch).mean();
    assert!((last - losses[3]).abs() < 1e-4 * losses[3], "{last} {}", losses[3]);
    let off = off(&moments.parameters, &pair("train.w_q_after", "train.w_k_after"));
    assert!(off < 1e-4, "weights: {off}");
}

#[test]
fn the_sampled_dependency_is_measured_in_common_forward_passes() {
    let backbone = support::backbone();
    let examples = examples();
    for budget in [1, 100, 100_000] {
        let probe = BackboneProbe::new(&backbone, budget);
        let canvases: Vec<Masked<'_>> =
            examples.iter().map(|(tokens, masked, _)| Masked { tokens, masked, rows: None }).collect();
        let bases = Reveals::measure_each(&probe, &canvases).unwrap();
        let reveals: Vec<(&Reveals<'_>, &[u32])> =
            bases.iter().zip(&examples).map(|(base, (_, _, revealed))| (base, revealed.as_slice())).collect();
        for (n, found) in Reveals::reveal_each(&probe, &reveals).unwrap().iter().enumerate() {
            let worst = found.data().iter().zip(sampled(n)).map(|(f, e)| (f - e).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "budget {budget}, example {n}: {worst}");
            let alone = bases[n].reveal(&probe, &examples[n].2).unwrap();
            assert_eq!(alone.data(), found.data());
        }
    }
}
