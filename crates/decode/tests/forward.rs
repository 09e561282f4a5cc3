//! Hidden rows and logits equal those of Dream's own modelling code on the toy.

mod support;

use demask_model::{Backbone, HiddenRow, Query};

const TOLERANCE: f64 = 2e-4;

fn close(ours: &[f32], official: &[f64], what: &str) {
    assert_eq!(ours.len(), official.len(), "{what}");
    let worst = ours.iter().zip(official).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    assert!(worst < TOLERANCE, "{what}: {worst}");
}

/// Logits as the model outputs them: row r is what predicts position r + 1.
fn unshifted(backbone: &dyn Backbone, ids: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let all: Vec<usize> = (0..ids.len()).collect();
    let mut batch =
        [Query { tokens: ids, predict: &all[1..], hidden: Some((&all, HiddenRow::I)), ..Query::default() }];
    let pass = backbone.forward(&mut batch).unwrap().remove(0);
    let mut logits = Vec::new();
    backbone.logits(&pass.predicting, &mut |_, rows| logits.extend_from_slice(rows)).unwrap();
    (pass.hidden.unwrap().data, logits)
}

#[test]
fn single_sequences() {
    let (backbone, arrays) = (support::backbone(), support::Arrays::open("expected.safetensors"));
    for n in 0..4 {
        let ids = arrays.ids(&format!("forward.{n}.ids"));
        let (hidden, logits) = unshifted(&backbone, &ids);
        close(&hidden, &arrays.get(&format!("forward.{n}.hidden")), "hidden");
        let official = arrays.get(&format!("forward.{n}.logits_unshifted"));
        close(&logits, &official[..logits.len()], "logits");
    }
}

#[test]
fn the_left_padded_batch() {
    let (backbone, arrays) = (support::backbone(), support::Arrays::open("expected.safetensors"));
    let vocab = backbone.spec().vocab;
    let (ids, real) = (arrays.ids("batch.ids"), arrays.get("batch.attention_mask"));
    let official = arrays.get("batch.logits_unshifted");
    let width = ids.len() / 3;
    let canvases: Vec<&[u32]> = (0..3)
        .map(|b| {
            let pad = real[b * width..(b + 1) * width].iter().take_while(|&&m| m == 0.0).count();
            &ids[b * width + pad..(b + 1) * width]
        })
        .collect();
    assert!(canvases.iter().any(|c| c.len() < width), "the fixture has padding");
    let positions: Vec<Vec<usize>> = canvases.iter().map(|c| (1..c.len()).collect()).collect();
    let mut batch: Vec<Query<'_>> = canvases
        .iter()
        .zip(&positions)
        .map(|(tokens, predict)| Query { tokens, predict, ..Query::default() })
        .collect();
    for (b, pass) in backbone.forward(&mut batch).unwrap().iter().enumerate() {
        let mut logits = Vec::new();
        backbone.logits(&pass.predicting, &mut |_, rows| logits.extend_from_slice(rows)).unwrap();
        let pad = width - canvases[b].len();
        let official = &official[(b * width + pad) * vocab..((b + 1) * width - 1) * vocab];
        close(&logits, official, "batch");
        // Padding, or rather its absence, changes no bit.
        assert_eq!(logits, unshifted(&backbone, canvases[b]).1, "canvas {b} alone");
    }
}
