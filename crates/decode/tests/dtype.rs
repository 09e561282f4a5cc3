//! Half-precision weights: bf16 and f16 give what f32 arithmetic on the rounded weights gives, stay close to the full
//! model whether they are rounded at load or mapped from a file, and decode.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use demask_decode::registry::Context;
use demask_decode::{Canvas, Decoder, Job, Options, StrategySpec};
use demask_model::checkpoint::{Dtype, Mapped, Store, WEIGHTS, write};
use demask_model::{Backbone, LoadOptions, Precision, Query, Transformer};

fn load(folder: &Path, dtype: Option<Dtype>) -> Transformer {
    let dtype = dtype.map(Precision::Float);
    Transformer::load(folder, &LoadOptions { dtype, ..LoadOptions::default() }).unwrap()
}

/// The toy with its weights stored in another precision.
fn stored_as(dtype: Dtype) -> tempfile::TempDir {
    let (copy, store) = (tempfile::tempdir().unwrap(), Store::open(support::folder()).unwrap());
    let tensors: Vec<(String, Mapped)> =
        store.names().map(|name| (name.to_owned(), store.tensor(name).unwrap().to_dtype(dtype))).collect();
    write::file(&copy.path().join(WEIGHTS), &tensors, &BTreeMap::new()).unwrap();
    std::fs::copy(support::folder().join("config.json"), copy.path().join("config.json")).unwrap();
    copy
}

/// Probabilities `[positions, vocab]` of a sequence of the fixture.
fn probabilities(backbone: &Transformer, ids: &[u32]) -> Vec<Vec<f32>> {
    let (all, vocab): (Vec<usize>, usize) = ((1..ids.len()).collect(), backbone.spec().vocab);
    let mut batch = [Query { tokens: ids, predict: &all, ..Query::default() }];
    let pass = backbone.forward(&mut batch).unwrap().remove(0);
    let mut rows = Vec::new();
    let mut visit = |_: usize, logits: &mut [f32]| {
        for row in logits.chunks(vocab) {
            let sum: f32 = row.iter().map(|z| z.exp()).sum();
            rows.push(row.iter().map(|z| z.exp() / sum).collect());
        }
    };
    backbone.logits(&pass.predicting, &mut visit).unwrap();
    rows
}

fn mean_distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    let distance =
        |(a, b): (&Vec<f32>, &Vec<f32>)| a.iter().zip(b).map(|(p, q)| (p - q).abs()).sum::<f32>() / 2.0;
    a.iter().zip(b).map(distance).sum::<f32>() / a.len() as f32
}

fn answer(backbone: &Transformer, prompt: &[u32]) -> Vec<u32> {
    let canvas = Canvas::generate(prompt, 40, &backbone.spec().ids).unwrap();
    let spec: StrategySpec = "entropy".parse().unwrap();
    let job = Job::new(canvas, &spec, &Context::default(), Options::default(), Box::new(())).unwrap();
    let mut jobs = [job];
    Decoder::new(backbone).run(&mut jobs).unwrap();
    assert!(jobs[0].canvas().is_done());
    jobs[0].canvas().text_tokens().to_vec()
}

#[test]
fn half_precision_is_rounded_weights_and_nothing_else() {
    let arrays = support::Arrays::open("expected.safetensors");
    let full = load(&support::folder(), None);
    let prompts = &support::expected()["prompts"];
    let prompts: Vec<Vec<u32>> = prompts.as_array().unwrap().iter().map(support::ids).collect();
    // Relative rounding is 2^-9 and 2^-12; three layers and a softmax leave this much.
    for (dtype, bound) in [(Dtype::Bf16, 0.02), (Dtype::F16, 0.0025)] {
        let copy = stored_as(dtype);
        let (rounded, mapped) = (load(&support::folder(), Some(dtype)), load(copy.path(), None));
        let widened = load(copy.path(), Some(Dtype::F32));
        for n in 0..4 {
            let ids = arrays.ids(&format!("forward.{n}.ids"));
            let here = probabilities(&mapped, &ids);
            // Mapped halves are widened while they are multiplied: to the bit what widening them first gives.
            assert!(here == probabilities(&widened, &ids), "{dtype:?}: widened at load");
            let full = probabilities(&full, &ids);
            for (what, there) in [("stored", here), ("rounded at load", probabilities(&rounded, &ids))] {
                let off = mean_distance(&there, &full);
                assert!(off > 0.0 && off < bound, "{dtype:?}, {what}: mean total variation {off}");
            }
        }
        let same = prompts.iter().filter(|p| answer(&mapped, p) == answer(&full, p)).count();
        assert!(same * 3 >= prompts.len() * 2, "{dtype:?}: {same} of {} answers agree", prompts.len());
    }
}
